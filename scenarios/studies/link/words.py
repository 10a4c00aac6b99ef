"""Results of a point in words, for the terminal and the report page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenarios.report.settings import plain
from scenarios.report.tables.intervals import with_interval
from scenarios.studies.link.level import MEANINGS, PLAIN_LABELS

if TYPE_CHECKING:
    from phy.measure.monte_carlo import RateEstimate, Stop, StopReason
    from scenarios.studies.link.plan import Curve, LinkPlan
    from scenarios.studies.link.results import PointResult

REASONS: dict[StopReason, str] = {
    "bit_errors": "bit errors",
    "packet_errors": "packet errors",
    "relative_width": "interval width",
    "max_bits": "max_bits",
    "time": "time*",
}

TIME_NOTE = (
    "* ended by max_seconds: how far such a point came depends on the machine; more time continues it where it stopped."
)
UNBIASED_NOTE = (
    "A rate that stopped on its target of errors is the unbiased estimate for that stop, so it differs a little from "
    "errors over what was observed."
)
WIDTHS = (10, 14, 9, 36, 9, 9, 36, 9, 0)
"""Columns on the terminal; the last is aligned to the left."""
BER, PER = "bit error rate", "packet error rate"


def heads(plan: LinkPlan) -> tuple[str, ...]:
    """Column heads of a point's row."""
    percent = f"{100 * plan.measure.confidence:g} %"
    x = PLAIN_LABELS[plan.measure.over]
    return (x, "bits", "errors", f"{BER} [{percent}]", "packets", "errors", f"{PER} [{percent}]", "time", "stopped on")


def cells(result: PointResult) -> tuple[str, ...]:
    """The row of a point over all devices."""
    bits, packets = result.measured.tally.bits, result.measured.tally.packets
    return (
        f"{result.point.value_db:g}",
        f"{bits.observations:,}",
        f"{bits.errors:,}",
        rate(result.rates.bits),
        f"{packets.observations:,}",
        f"{packets.errors:,}",
        rate(result.rates.packets),
        seconds(result.measured.seconds),
        reason(result.stop),
    )


def curve_rows(plan: LinkPlan, curve: Curve) -> tuple[str, str]:
    """Heading and column heads of a curve on the terminal."""
    devices = f"{curve.num_devices} device{'s' if curve.num_devices > 1 else ''}"
    bits = f"{curve.shape.transmissions * curve.shape.num_bits:,} bits a batch"
    number = f"curve {curve.point.index + 1} of {len(plan.curves)}"
    return f"\n{plain(curve.label)}  ({number}, {devices}, {bits})", _aligned(heads(plan))


def point_row(result: PointResult, *, stored: bool) -> str:
    """Row of a point on the terminal."""
    row = _aligned(cells(result))
    return f"{row}, stored" if stored else row


def in_hand(result: PointResult, *, limit_s: float) -> str:
    """Counts of a point that is being measured."""
    tally, spent = result.measured.tally, seconds(result.measured.seconds)
    return (
        f"{plain(result.curve.label)}, {result.point.value_db:g} dB: "
        f"{tally.bits.observations:,} bits, {tally.bits.errors:,} wrong; "
        f"{tally.packets.observations:,} packets, {tally.packets.errors:,} wrong; {spent} of {limit_s:g} s"
    )


def _aligned(texts: tuple[str, ...]) -> str:
    aligned = (text.rjust(width) for text, width in zip(texts[:-1], WIDTHS, strict=False))
    return "  ".join((*aligned, texts[-1]))


def rate(estimate: RateEstimate | None) -> str:
    """`rate [low, high]`, `< high` without an error, a dash where nothing was observed."""
    if estimate is None:
        return "-"
    if estimate.rate is None:
        return f"< {estimate.high:.2g}"
    return with_interval(estimate.rate, low=estimate.low, high=estimate.high)


def reason(stop: Stop | None) -> str:
    """Reason why a point ended, with the number that was asked for."""
    if stop is None:
        return "not finished"
    return f"{stop.target} {REASONS[stop.reason]}" if stop.target is not None else REASONS[stop.reason]


def seconds(value: float) -> str:
    """A duration in three digits [s]."""
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def axis_sentence(plan: LinkPlan) -> str:
    """Meaning of the x axis."""
    name = PLAIN_LABELS[plan.measure.over].removesuffix(" [dB]")
    uncharged = "pilots, prefixes, check sums and retransmissions are not charged"
    text = f"{name} is the {MEANINGS[plan.measure.over]}; {uncharged}."
    links = [curve.link for curve in plan.curves]
    if any(not link.power.control.constant for link in links):
        text += " Under power control other than fixed it is the value that fixed power would give."
    if any(link.access == "noma" for link in links):
        text += " Under NOMA the power of a group counts as one."
    if any(link.channel.cell is not None for link in links):
        text += " In a cell it is the value at the reference distance."
    return text


def stop_sentence(plan: LinkPlan) -> str:
    """Rule that ends a point."""
    rule = plan.measure.rule()
    targets = [
        f"{count} {word}"
        for count, word in ((rule.bit_errors, "bit errors"), (rule.packet_errors, "packet errors"))
        if count is not None
    ]
    if rule.relative_width is not None:
        targets.append(f"an interval of {rule.relative_width:g} of the bit error rate")
    return f"a point stops on {' and '.join(targets)}, or at {rule.max_bits:.3g} bits, or after {rule.max_seconds:g} s"
