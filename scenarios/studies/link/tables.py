"""Results of a link study as text: rows for the terminal, the report page and the exported table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from fl.base.words import plural
from scenarios.report.html import PAGE
from scenarios.report.settings import columns_of_settings
from scenarios.report.tables.summaries import rate_text
from scenarios.schema.consistency.link_axes import THROUGHPUT
from scenarios.schema.schema import Axis
from scenarios.studies.link.level import AMOUNTS, COUNTS, MEANINGS, PLAIN_LABELS, axis_name, theory

if TYPE_CHECKING:
    from phy.measure.monte_carlo import RateEstimate, StopReason
    from scenarios.studies.link.plan import LinkCurve, LinkPlan, LinkPoint
    from scenarios.studies.link.results import PointResult, Results

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
WIDTHS = (10, 29, 29, 6)
"""Columns on a terminal of 80 characters: value, the two rates, time."""

_FEW_DEVICES = 8
"""Devices that have rows of their own on the terminal."""

_ON_SCREEN = (0, 3, 6)
"""Columns of `heads` among them."""

_RATES = ("bit_error_rate", "packet_error_rate")


def heads(plan: LinkPlan) -> tuple[str, ...]:
    """Column heads of a point's row."""
    x, percent = f"{axis_name(plan.curves)} [dB]", f"{100 * plan.measure.confidence:g} %"
    rates = (f"bit error rate [{percent}]", f"packet error rate [{percent}]")
    return (x, "bits", "bit errors", rates[0], "packets", "packet errors", rates[1], "time", "stopped on")


def cells(result: PointResult) -> tuple[str, ...]:
    """The row of a point over all devices."""
    tally, stop = result.measured.tally, result.stop
    bits, packets = map(rate, result.rates())
    reason = "not finished" if stop is None else REASONS[stop.reason]
    return (
        f"{result.point.value_db:g}",
        *(f"{tally.bits.observations:,}", f"{tally.bits.errors:,}", bits),
        *(f"{tally.packets.observations:,}", f"{tally.packets.errors:,}", packets),
        seconds(result.measured.seconds),
        reason if stop is None or stop.target is None else f"{stop.target} {reason}",
    )


def curve_rows(plan: LinkPlan, curve: LinkCurve) -> tuple[str, str]:
    """Heading and column heads of a curve on the terminal."""
    # Eighty characters have no room for the rate that Eb/N0 charges.
    columns = PLAIN_LABELS[plan.measure.over], *(heads(plan)[column] for column in _ON_SCREEN[1:]), "[s]"
    return f"\ncurve {curve.point.index + 1} of {len(plan.curves)}: {curve.label}", aligned(columns)


def screen_row(result: PointResult, *, stored: bool) -> str:
    """Row of a point on the terminal: rates, and time, with a star where time ended the point."""
    star = "*" if result.stop is not None and result.stop.reason == "time" else ""
    time = "stored" if stored else f"{seconds(result.measured.seconds).removesuffix(' s')}{star}"
    return aligned((*(cells(result)[column] for column in _ON_SCREEN), time))


def device_rows(result: PointResult) -> Iterator[str]:
    """Rows of the devices of a point on the terminal, as the page counts them; none where there are one or many."""
    number = result.curve.num_devices
    for device in range(number) if 1 < number <= _FEW_DEVICES else ():
        yield aligned((f"device {device}", *map(rate, result.rates(device)), "")).rstrip()


def in_hand(result: PointResult, *, limit_s: float) -> str:
    """Counts of a point that is being measured."""
    tally = result.measured.tally
    return (
        f"{result.curve.label}, {result.point.value_db:g} dB: {tally.bits.errors:,} bit and "
        f"{plural(tally.packets.errors, 'packet error')}, {result.measured.seconds:.2g} of {limit_s:g} s"
    )


def aligned(texts: tuple[str, ...]) -> str:
    """A row on the terminal."""
    return "  ".join(text.rjust(width) for text, width in zip(texts, WIDTHS, strict=True))


def rate(estimate: RateEstimate | None) -> str:
    """`rate [low, high]`, `0 of 4,096, < high` without an error, a dash where nothing was observed."""
    if estimate is None:
        return "-"
    text = rate_text(estimate.rate, low=estimate.low, high=estimate.high)
    return text if estimate.rate is not None else f"0 of {estimate.observations:,}, {text}"


def seconds(value: float) -> str:
    """A duration in three digits [s]."""
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def axis_sentence(plan: LinkPlan) -> str:
    """Meaning of the x axis."""
    name, rate = axis_name(plan.curves), ""
    if plan.measure.over == "ebno_db" and plan.measure.ebno == "sent":
        rate = " The rate is payload bits over bits on the air, with check sums, tails, filler and padding."
    elif plan.measure.over == "ebno_db":
        rate = " The rate is the nominal one of the code: check sums, tails, filler and padding are not charged."
    text = f"{name} is the {MEANINGS[plan.measure.over]}; pilots, prefixes and retransmissions are not charged.{rate}"
    links = [curve.link for curve in plan.curves]
    if any(not link.control.constant for link in links):
        text += " Under power control other than fixed it is the value that fixed power would give."
    if any(link.access == "noma" for link in links):
        text += " Under NOMA the power of a group counts as one."
    if any(isinstance(link.power.snr_max_db, tuple) for link in links):
        text += " Devices keep the differences of link.power.snr_max_db, and the value is the mean of their powers."
    if any(link.channel.cell is not None for link in links):
        text += " In a cell it is the value at the reference distance."
    return text


def stop_sentence(plan: LinkPlan) -> str:
    """Rule that ends a point."""
    rule = plan.measure.rule()
    targets = []
    if rule.bit_errors is not None:
        targets.append(plural(rule.bit_errors, "bit error"))
    if rule.packet_errors is not None:
        targets.append(plural(rule.packet_errors, "packet error"))
    if rule.relative_width is not None:
        targets.append(f"an interval of {rule.relative_width:g} of the bit error rate")
    return f"a point stops at {' and '.join(targets)}, or at {rule.max_bits:.3g} bits, or after {rule.max_seconds:g} s"


# --- table of all points --------------------------------------------------------------------------


def columns_of(plan: LinkPlan) -> list[str]:
    """Columns of the table of all points.

    The swept settings, `curve` (its label), the level on all three axes [dB], `device` (from 0, or `all`), counts,
    energies and airtime as in `LinkCounts`, `throughput` [payload bits of packets without an error per channel use],
    and for bits and packets rate, interval and design effect as drawn,
    `measured_esno_db` from the energies observed, the closed form where there is one, seconds, batches, and why the
    point ended. The airtime of `all` is that of the devices one after another; of those at once, the longest.
    A rate that stopped on its target of errors is the unbiased estimate, not errors over observations:
    `..._is_unbiased` is 1 there, else 0. An empty cell is a value that does not exist.
    """
    parts = ("", "_is_unbiased", "_low", "_high", "_design_effect", "_theory")
    rates = [f"{rate}{part}" for rate in _RATES for part in parts]
    last = ("measured_esno_db", "transmissions", "batches", "seconds", "stop", "stop_target")
    carried = [f"{THROUGHPUT}{part}" for part in ("", "_low", "_high")]
    return [*plan.swept_paths, "curve", *get_args(Axis), "device", *COUNTS, *rates, *carried, *AMOUNTS, *last]


def point_rows(plan: LinkPlan, results: Results) -> Iterator[dict[str, Any]]:
    """Rows of the points that hold a batch, in the columns of `columns_of`: all devices together, then each of them."""
    settings = columns_of_settings([curve.point for curve in plan.curves], plan.swept_paths)
    for number, (curve, points) in enumerate(zip(plan.curves, results, strict=True)):
        devices = [None, *range(curve.num_devices)] if curve.num_devices > 1 else [None]
        head: dict[str, Any] = {path: values[number] for path, values in settings.items()}
        for point in points:
            for device in devices:
                yield {**head, **_row(point, device)}


def _airtime_s(result: PointResult) -> float:
    """Time on the air of all devices; of those that send at once, under NOMA or OFDMA, the longest."""
    link, num_devices = result.curve.link, result.curve.num_devices
    at_once = link.noma.group_size if link.access == "noma" else num_devices if link.multiplexing == "ofdma" else 1
    each = [result.measured.of_device(device)["airtime_s"] for device in range(num_devices)]
    return float(sum(max(each[first : first + at_once]) for first in range(0, num_devices, at_once)))


def _row(result: PointResult, device: int | None) -> dict[str, Any]:
    curve, measured, stop, esno_db = result.curve, result.measured, result.stop, result.point.esno_db
    row = measured.of_device(device)
    signal, noise = row["signal_energy"], row["noise_energy"]
    if device is None:
        row["airtime_s"] = _airtime_s(result)
    row |= {axis: round(curve.budget.value_db(esno_db, axis), 9) for axis in get_args(Axis)}
    row |= {
        "curve": curve.label,
        "device": "all" if device is None else device,
        "measured_esno_db": float(10.0 * np.log10(signal / noise)) if signal > 0 and noise > 0 else None,
        "transmissions": measured.tally_of(device).packets.clusters,
        "batches": measured.tally.batches,
        "seconds": measured.seconds,
        "stop": stop and stop.reason,
        "stop_target": stop and stop.target,
    }
    if (carried := result.throughput(device)) is not None:
        row |= zip((THROUGHPUT, f"{THROUGHPUT}_low", f"{THROUGHPUT}_high"), carried, strict=True)
    for name, estimate in zip(_RATES, result.rates(device), strict=True):
        closed = theory(curve, name, esno_db, device=device)
        row[f"{name}_theory"] = None if closed is None else float(closed)
        if estimate is not None:
            row |= {f"{name}_{part}": getattr(estimate, part) for part in ("low", "high", "design_effect")}
            row[name] = estimate.rate
            row[f"{name}_is_unbiased"] = int(estimate.rate not in (None, estimate.errors / estimate.observations))
    return row


# --- pages of inspected points -----------------------------------------------------------------------


def in_words(curve: LinkCurve, point: LinkPoint) -> str:
    """Return curve and value on the axis."""
    return f"{curve.label}, {axis_name([curve])} = {point.value_db:g} dB"


def place(curve: LinkCurve, point: LinkPoint) -> Path:
    """Return where the figures and the page of a point lie in the folder of its study."""
    return Path("inspect", f"curve-{curve.point.index + 1}-{point.value_db:g}dB")


def inspections(folder: Path, plan: LinkPlan) -> list[tuple[str, Path]]:
    """Return the points that were inspected, in words, and their pages within the folder of the study."""
    pages = ((in_words(curve, one), place(curve, one) / PAGE) for curve in plan.curves for one in curve.points)
    return [(words, page) for words, page in pages if (folder / page).is_file()]
