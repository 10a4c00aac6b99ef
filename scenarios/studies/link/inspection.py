"""`phyloop link --inspect`: a few packets of one point of a link study, sent again, as figures and a page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from fl.base.words import plural
from phy.config.conflict import listing
from scenarios.engine.start import prepare_tensorflow
from scenarios.files.plain_files import RESULTS
from scenarios.files.replacement import replace_text, writing
from scenarios.plan.points import is_set, value_of
from scenarios.report.figures.curves import applies
from scenarios.report.figures.draw import write_figures
from scenarios.report.figures.drawing import Curve as DrawnCurve
from scenarios.report.figures.drawing import Drawing, Spot
from scenarios.report.figures.style import FigureFiles
from scenarios.report.html import PAGE, Head, Part, counted, pictures, render_page
from scenarios.report.rows import geometric_shares
from scenarios.report.settings import computed_by, said
from scenarios.report.tables.table import Table
from scenarios.schema.errors import ScenarioError
from scenarios.schema.schema import Axis, FigureConfig
from scenarios.schema.yaml_marks import parse_yaml
from scenarios.studies.link.plan import LinkCurve, LinkPlan, LinkPoint
from scenarios.studies.link.results import LinkStore, PointResult, draw_payload, read_results
from scenarios.studies.link.tables import in_words, place, rate

if TYPE_CHECKING:
    from phy.inspection import Inspection
    from phy.measure.monte_carlo import RateEstimate

AT = "--at"
TELLING = 1e-2
"""Bit error rate at which packets show most: some errors, and not in every symbol."""
THEORY = "independent flips at the same rate"
PACKETS = 32
"""Packets of each device that are inspected unless asked otherwise."""


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """Packets of one point, the most telling of those `fitting` what was asked for.

    `rates`: bit and packet error rate of these packets alone; `measured`: the point as the study has it.
    """

    curve: LinkCurve
    point: LinkPoint
    packets: Inspection
    rates: tuple[RateEstimate | None, RateEstimate | None]
    measured: PointResult | None
    fitting: int = 1

    @property
    def setting(self) -> str:
        """Curve and value on the axis in words."""
        return in_words(self.curve, self.point)


# --- choice of the point --------------------------------------------------------------------------


def parse_at(texts: Sequence[str]) -> dict[str, Any]:
    """Key and value of each `KEY=VALUE`; ScenarioError for other text."""
    found = {}
    for text in texts:
        key, sign, value = text.partition("=")
        marked = parse_yaml(value, file=AT) if sign else None
        if marked is None:
            problem, remedy = "is no key with a value", f"write for example {AT} snr_db=6"
            raise ScenarioError(file=AT, key=text, problem=problem, remedy=remedy)
        found[key.strip()] = marked.data
    return found


def choose(
    plan: LinkPlan, measured: Mapping[str, PointResult], *, at: Mapping[str, Any]
) -> tuple[LinkCurve, LinkPoint, int]:
    """Return the point of the given settings and values on the axes [dB], and how many points these fit.

    Of several it is the one whose measured bit error rate is nearest to `TELLING`, or the middle one where none has
    measured an error. ScenarioError for an unknown key, and where no point fits.
    """
    known = (*plan.swept_paths, *get_args(Axis))
    for key in at:
        if key not in known:
            problem = "is neither swept in this study nor one of its axes"
            raise ScenarioError(file=AT, key=key, problem=problem, remedy=f"use {listing(known)}")
    fitting = [(curve, point) for curve in plan.curves for point in curve.points]
    for key, wanted in at.items():
        kept = [one for one in fitting if _fits(*one, key, wanted)]
        if not kept:
            values = dict.fromkeys(_value_text(*one, key) for one in fitting)
            problem, remedy = "no point of the study has this value", f"use {listing(list(values))}"
            raise ScenarioError(file=AT, key=key, value=wanted, problem=problem, remedy=remedy)
        fitting = kept
    if len(fitting) == 1:
        return *fitting[0], 1

    def distance(one: tuple[LinkCurve, LinkPoint]) -> float:
        found = measured.get(one[1].point_id)
        bits = None if found is None else found.rates()[0]
        return float("inf") if bits is None or not bits.rate else abs(log10(bits.rate / TELLING))

    best = min(fitting, key=distance)
    if distance(best) == float("inf"):
        best = fitting[len(fitting) // 2]
    return *best, len(fitting)


def _fits(curve: LinkCurve, point: LinkPoint, key: str, wanted: Any) -> bool:
    if key in get_args(Axis):
        value_db = curve.budget.value_db(point.esno_db, cast(Axis, key))
        return isinstance(wanted, int | float) and abs(value_db - wanted) < 1e-6
    if not applies(key, curve.point):  # such as a detector of NOMA without NOMA
        return False
    values = (value_of(curve.point, key), curve.point.settings.get(key))
    return any(is_set(value, wanted) for value in values) or wanted == said(curve.point, key)


def _value_text(curve: LinkCurve, point: LinkPoint, key: str) -> str:
    if key in get_args(Axis):
        return f"{curve.budget.value_db(point.esno_db, cast(Axis, key)):.6g}"
    value = value_of(curve.point, key)
    return said(curve.point, key) if isinstance(value, dict | list) else str(value)


# --- packets --------------------------------------------------------------------------------------


def inspect_point(folder: Path, plan: LinkPlan, *, at: Mapping[str, Any], num_packets: int = PACKETS) -> Inspected:
    """Send the first packets of a point again: those of the first batch of the study, bit by bit.

    The study in `folder`, if there is one, says which point is most telling, see `choose`; nothing is stored. Raises
    ScenarioError for more packets than the batch has.
    """
    measured = _measured(folder, plan)
    curve, point, fitting = choose(plan, measured, at=at)
    prepare_tensorflow()
    from phy.compile import flat_chain, packet_chain
    from phy.inspection import Chains, inspect_packets

    of_transmission = curve.shape.num_bits // (8 * point.link.packet_size_bytes)
    transmissions = -(-num_packets // of_transmission)
    if transmissions > curve.shape.transmissions:
        most = of_transmission * curve.shape.transmissions
        raise ScenarioError(
            key="--packets",
            value=num_packets,
            problem=f"the first batch of this sweep point has {plural(most, 'packet')} of each device",
            remedy=f"write --packets {most} or less",
        )
    payload, context = draw_payload(curve, range(transmissions))
    found = inspect_packets(
        point.link,
        chains=Chains(flat=flat_chain, packets=packet_chain),
        num_bits=curve.shape.num_bits,
        num_packets=num_packets,
        payload=payload,
        context=context,
    )
    return Inspected(
        curve=curve,
        point=point,
        packets=found,
        rates=_rates(curve, found, wrong=found.wrong.sum(axis=-1), bits=found.kept * found.wrong.shape[-1]),
        measured=measured.get(point.point_id),
        fitting=fitting,
    )


def _measured(folder: Path, plan: LinkPlan) -> dict[str, PointResult]:
    if not (folder / RESULTS).exists():
        return {}
    with LinkStore.open_existing(folder) as store:
        return {one.point.point_id: one for points in read_results(store, plan) for one in points}


def _rates(
    curve: LinkCurve, found: Inspection, *, wrong: NDArray[np.int64], bits: NDArray[np.int64]
) -> tuple[RateEstimate | None, RateEstimate | None]:
    """Bit and packet error rate of `wrong` among `bits` of every packet, both `[num_devices, num_packets]`.

    A packet without bits is in error. Intervals are from the spread between packets, or between transmissions where
    packets err together.
    """
    from phy.measure.monte_carlo import ClusteredCounts, LinkTally, estimate_rates

    together = curve.independent == "transmissions"
    cluster = found.transmission if together else np.arange(len(found.transmission))

    def counts(errors: Any, observed: Any) -> ClusteredCounts:
        sums = (np.bincount(cluster, weights=one.sum(axis=0)).astype(np.int64) for one in (errors, observed))
        return ClusteredCounts.of(*sums)

    packets = counts((wrong > 0) | (bits == 0), np.ones_like(bits))
    tally = LinkTally(bits=counts(wrong, bits), packets=packets, batches=1)
    confidence, kind, unit = curve.measure.confidence, curve.independent, curve.unit
    return estimate_rates(tally, last=tally, stop=None, confidence=confidence, independent=kind, unit=unit)


# --- figures and page -----------------------------------------------------------------------------


def write_inspection(folder: Path, found: Inspected) -> tuple[Path, tuple[FigureFiles, ...]]:
    """Write figures and a page into a folder of this point below `folder`; returns the page and the figures."""
    from scenarios.report.figures.radio import draw_radio

    own = folder / place(found.curve, found.point)
    packets, scenario = found.packets, found.curve.point.scenario
    figures = (*draw_radio(own, packets, setting=found.setting), *write_figures(own, _runs(found)))
    errors, constellation, *channel = figures
    runs = [channel.pop()] if packets.wrong.any() else []
    devices, _, packet_bits = packets.wrong.shape
    head = Head(
        name=f"{scenario.name}: {found.setting}",
        facts=(
            f"{counted(packets.kept.size, 'packet')} of **{packet_bits:,}** bits",
            counted(devices, "device"),
            f"seed **{scenario.seed}**",
        ),
        about=(
            "The first packets of the study, sent again: the same payload, fades and noise. Wrong bits are those that "
            f"the engine of the link counts ({computed_by([found.point.link])}). Symbols and channel come from "
            "Sionna's blocks, which take the same random numbers and differ by rounding alone."
        ),
    )
    back = [("The page of the study", Path("..", "..", PAGE))] if (folder / PAGE).is_file() else []
    sections = {
        "In short": [Part(items=list(sentences(found))), Part(links=back)],
        "Error positions": pictures([errors, *runs]),
        "Constellation": pictures([constellation]),
        "Channel": pictures(channel),
        "Packet by packet": [Part(table=packet_table(found))],
        "Command to write this page again": [Part(code=shlex.join(["phyloop", *sys.argv[1:]]))],
    }
    with writing(own, "the page"):
        page = replace_text(own / PAGE, render_page(head, head, sections))
    return page, figures


def _runs(found: Inspected) -> Iterator[Drawing]:
    """Yield the histogram of runs of wrong bits beside that of independent flips, where a bit is wrong."""
    counts = found.packets.bursts
    runs = counts.run_counts.sum(axis=0)
    if not runs.sum():
        return
    spots = (Spot(x=k, y=float(n / runs.sum()), n=int(n)) for k, n in enumerate(runs, start=1) if n)
    theory = (Spot(x=k, y=float(share)) for k, share in enumerate(geometric_shares(counts), start=1))
    curve = DrawnCurve(label="as received", series=0, spots=tuple(spots), theory=tuple(theory))
    config = FigureConfig(x="run_length", y="share_of_runs", y_scale="log", title="Runs of wrong bits")
    seed = found.curve.point.scenario.seed
    caption = (
        f"Marks: {plural(runs.sum(), 'run')} by their length, as received. Dashed: independent flips at the same rate."
    )
    yield Drawing(config=config, panels=(("", (curve,)),), caption=caption, seed=seed, theory=THEORY)


def sentences(found: Inspected) -> Iterator[tuple[str, str]]:
    """Yield what the packets show: wrong bits, how they lie, EVM, channel, estimate."""
    from phy.measure.independence import verdict
    from scenarios.report.figures.radio import estimated, evm_text, fades, power

    packets = found.packets
    wrong = packets.wrong.sum(axis=-1)
    bad = int(((wrong > 0) | ~packets.kept).sum())
    lost = f", {int((~packets.kept).sum()):,} of them not held by the receiver" if not packets.kept.all() else ""
    held = int(packets.kept.sum()) * packets.wrong.shape[-1]
    rates = f"bit error rate {rate(found.rates[0])}, packet error rate {rate(found.rates[1])}"
    yield "wrong bits", f"{wrong.sum():,} of {held:,}, in {bad:,} of {plural(wrong.size, 'packet')}{lost}: {rates}."
    if found.measured is not None:
        study = map(rate, found.measured.rates())
        yield "the study at this point", "bit error rate {}, packet error rate {}.".format(*study)
    if found.point.link.coding != "none":
        raw, made = _hard_decisions(packets)
        before = rate(_rates(found.curve, packets, wrong=raw, bits=made)[0])
        yield (
            "before the decoder",
            f"{raw.sum():,} of {plural(made.sum(), 'hard decision')} are wrong: bit error rate {before}.",
        )
    yield "error positions", verdict(packets.bursts, bad_packets=bad)
    of_packet = packets.per_packet(packets.squared_error)
    for device, error in enumerate(packets.squared_error):
        which = f" of device {device}" if len(wrong) > 1 else ""
        if np.isnan(error).all():
            yield f"EVM{which}", "none, for the device sent no packet."
            continue
        median = 100.0 * np.nanmedian(of_packet[device]) ** 0.5
        yield f"EVM{which}", f"{evm_text(error)}, {median:.3g} % in the median packet."
    if fades(packets):
        of_packet = 10.0 * np.log10(packets.per_packet(power(packets.channel)))
        low, high = np.nanmin(of_packet), np.nanmax(of_packet)
        mean = 10.0 * np.log10(np.nanmean(power(packets.channel)))
        yield "channel", f"mean |h|² {mean:.2f} dB, from {low:.1f} to {high:.1f} dB in a packet."
    if estimated(packets):
        error = np.abs(packets.estimate - packets.channel) ** 2
        share = 10.0 * np.log10(np.nanmean(error) / np.nanmean(np.abs(packets.channel) ** 2))
        yield "channel estimate", f"mean square error {share:.1f} dB relative to the mean of |h|²."


def _hard_decisions(packets: Inspection) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(wrong, all) hard decisions before the decoder of each coded packet, `[num_devices, num_packets]`.

    Of a silent device there are none.
    """
    shape = (*packets.kept.shape, -1)
    made = (~np.isnan(packets.equalised)).reshape(shape).sum(axis=-1) * packets.bits_per_symbol
    return packets.raw_wrong.reshape(shape).sum(axis=-1), made


def packet_table(found: Inspected) -> Table:
    """A row per packet and device: |h|^2, EVM, wrong decisions before the decoder, wrong bits.

    A packet that was not sent has none of these.
    """
    from scenarios.report.figures.radio import power

    packets, coded = found.packets, found.point.link.coding != "none"
    gain, error = packets.per_packet(power(packets.channel)), packets.per_packet(packets.squared_error)
    # Without a code, packets may begin inside a symbol.
    before_decoder = [_hard_decisions(packets)[0]] if coded else []

    def cells(at: tuple[int, int]) -> tuple[str, ...]:
        if np.isnan(error[at]):
            return ("",) * (2 + coded) + ("not sent",)
        return (
            f"{round(10.0 * np.log10(gain[at]), 1) + 0.0:.1f}",  # no sign of what is rounded to 0
            f"{100.0 * error[at] ** 0.5:.3g}",
            *(str(raw[at]) for raw in before_decoder),
            str(packets.wrong[at].sum()) if packets.kept[at] else "not held",
        )

    devices, number = packets.kept.shape
    rows = tuple((str(one), str(device), *cells((device, one))) for one in range(number) for device in range(devices))
    before = ("wrong before the decoder",) if coded else ()
    return Table(columns=("packet", "device", "mean |h|² [dB]", "EVM [%]", *before, "wrong bits"), rows=rows)
