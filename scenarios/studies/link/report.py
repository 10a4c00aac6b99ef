"""The figures and the report page of a link study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

import numpy as np

from fl.base.measured import LINK_RATES
from fl.base.words import plural
from phy.measure.independence import FEWEST_ERRORS, FEWEST_PACKETS_IN_ERROR, assess, verdict
from scenarios.report.figures.curves import Shown, looks_of, sort_into_panels
from scenarios.report.figures.draw import write_figures
from scenarios.report.figures.drawing import Drawing, Spot
from scenarios.report.figures.learning import MOST_CURVES
from scenarios.report.html import FIGURES, Page, Part, counted, pictures, write_page
from scenarios.report.paths import ReportPaths
from scenarios.report.rows import BURST_HEADS, INDEPENDENT, burst_cells
from scenarios.report.tables.table import Table
from scenarios.schema.consistency.link_axes import THROUGHPUT
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.schema import Axis, FigureConfig
from scenarios.store.store import Store
from scenarios.studies.link.gaps import gap_sentences
from scenarios.studies.link.level import axis_name, charged, theory
from scenarios.studies.link.plan import LinkCurve, LinkPlan
from scenarios.studies.link.results import PointResult, Results, read_results
from scenarios.studies.link.tables import TIME_NOTE, axis_sentence, cells, heads, inspections, rate, stop_sentence

AS_COUNTED = "Rates as counted. A point stops for all devices together."
DENSE = 201
"""Points of a drawn closed form."""
BESIDE_DB = 1.0
"""To both sides of the only value of a curve, the closed form is drawn so far [dB]."""


# --- figures --------------------------------------------------------------------------------------


def figures_of(plan: LinkPlan, configured: Sequence[FigureConfig]) -> tuple[FigureConfig, ...]:
    """The figures of a study: those the scenario names that are about rates over an axis, or bits and packets.

    Unasked, devices that share resources have a curve each: those of NOMA differ by their power.
    """
    own = tuple(config for config in configured if config.x in get_args(Axis))
    apart = any(
        curve.point.scenario.link.access == "noma" and curve.num_devices <= MOST_CURVES for curve in plan.curves
    )
    series = (*plan.swept_paths, "device") if apart else ()
    return own or tuple(FigureConfig(x=plan.measure.over, y=y, series=series) for y in LINK_RATES[:2])


def drawings(plan: LinkPlan, results: Results) -> Iterator[Drawing]:
    """Yield the figures of a study."""
    for config in figures_of(plan, plan.curves[0].point.scenario.report.figures):
        yield arrange(config, plan, results)


def arrange(config: FigureConfig, plan: LinkPlan, results: Results) -> Drawing:
    """Sort measured points and closed forms into panels and curves."""
    shown: list[Shown] = []
    for curve, points in zip(plan.curves, results, strict=True):
        for word, device in _devices(config, curve):
            spots = (_spot(config, one, device) for one in points)
            shown += [(curve.point, word, spot) for spot in spots if spot is not None]
    stops = [point.stop for points in results for point in points]
    notes = []
    if any(stop is not None and stop.reason == "time" for stop in stops):
        notes.append("Some points were ended by max_seconds: how far they came depends on the machine.")
    if None in stops:
        notes.append("Some points are not finished.")
    drawing = compose(config, plan, shown, notes=notes)
    return drawing if stops else replace(drawing, caption="No point has been measured yet.")


def compose(config: FigureConfig, plan: LinkPlan, shown: Sequence[Shown], *, notes: Sequence[str] = ()) -> Drawing:
    """Sort spots and the closed forms of all curves into panels; `notes` go into the caption."""
    closed = [
        (curve.point, word, spot)
        for curve in plan.curves
        for word, device in _devices(config, curve)
        for spot in _closed_form(config, curve, device)
    ]
    swept = [curve.point for curve in plan.curves]
    looks = looks_of(swept[0].scenario.report.figures or (config,), plan.swept_paths, swept)
    panels = sort_into_panels(config, plan.swept_paths, shown, theory=closed, looks=looks)
    caption = _caption(plan, config, notes, limits=any(spot.y is None for *_, spot in shown), theory=bool(closed))
    rate = charged(plan.curves, config.x)
    return Drawing(config=config, panels=panels, caption=caption, seed=plan.seed, charged=rate)


def _devices(config: FigureConfig, curve: LinkCurve) -> list[tuple[str, int | None]]:
    """Name and index of each device with a curve of its own; of all devices together no name and None."""
    if "device" not in config.series_paths:
        return [("", None)]
    return [(f"device {device}", device) for device in range(curve.num_devices)]


def _spot(config: FigureConfig, found: PointResult, device: int | None) -> Spot | None:
    x = found.curve.budget.value_db(found.point.esno_db, cast(Axis, config.x))
    if config.y == "raw_bit_error_rate":  # hard decisions before any decoder; without an error nothing is drawn
        counts = found.measured.of_device(device)
        errors, bits = counts["raw_bit_errors"], counts["raw_bits"]
        return Spot(x=x, y=errors / bits, n=bits, errors=errors, total=bits) if errors else None
    if config.y == THROUGHPUT:
        found_ratio = found.throughput(device)
        if found_ratio is None:
            return None
        y, low, high = found_ratio
        return Spot(x=x, y=y, low=low, high=high, n=found.measured.tally_of(device).packets.observations)
    estimate = found.rates(device)[config.y == "packet_error_rate"]
    if estimate is None:
        return None
    counts = {"n": estimate.observations, "errors": estimate.errors, "total": estimate.observations}
    return Spot(x=x, y=estimate.rate, low=estimate.low, high=estimate.high, **counts)


def _closed_form(config: FigureConfig, curve: LinkCurve, device: int | None) -> Iterator[Spot]:
    first_db, last_db = curve.points[0].esno_db, curve.points[-1].esno_db
    wider_db = BESIDE_DB if first_db == last_db else 0.0  # one value has no line through it
    esno_db = np.linspace(first_db - wider_db, last_db + wider_db, DENSE)
    own = config.y in ("raw_bit_error_rate", THROUGHPUT)
    rates = None if own else theory(curve, config.y, esno_db, device=device)
    if rates is not None:
        values_db = esno_db + curve.budget.value_db(0.0, cast(Axis, config.x))
        for x, y in zip(values_db.tolist(), rates.tolist(), strict=True):
            yield Spot(x=x, y=y)


def _caption(plan: LinkPlan, config: FigureConfig, notes: Sequence[str], *, limits: bool, theory: bool) -> str:
    text = "Hard decisions before any decoder."
    if config.y == THROUGHPUT:
        text = (
            "Payload bits of packets without an error over channel uses of all attempts, pilots and prefixes included. "
            f"Bars: {100 * plan.measure.confidence:g} % interval, from the spread between independent transmissions."
        )
    elif config.y != "raw_bit_error_rate":
        text = (
            f"Bars: {100 * plan.measure.confidence:g} % interval of each point (Korn and Graubard), from the spread "
            "between independent transmissions, so that errors in bursts widen it."
        )
    if limits:
        text += f" Arrows: one-sided upper limit where no error was seen{_limits_from(plan, config.y)}."
    if theory:
        text += " Dashed: closed form."
    last = f"Points share random numbers, so neighbours err alike. Seed {plan.seed}."
    return " ".join([text, *notes, last])


def _limits_from(plan: LinkPlan, quantity: str) -> str:
    """What the upper limits take as independent."""
    kinds = {curve.independent for curve in plan.curves}
    units = "transmissions" if "transmissions" in kinds else "packets"
    if quantity == "packet_error_rate":
        return f", from the number of independent {units}"
    if kinds == {"bits"}:
        apart = "of different symbols " if any(curve.unit != (1, 1) for curve in plan.curves) else ""
        return f"; bits {apart}of this link err independently"
    besides = " (independent bits where nothing else joins them)" if "bits" in kinds else ""
    return f", from the number of independent {units}, half of whose bits may be wrong{besides}"


# --- answer ---------------------------------------------------------------------------------------

GOOD_ENOUGH = 0.1
"""Packet error rate at which links are compared, the usual target of link adaptation."""


def gaps(plan: LinkPlan, results: Results) -> list[tuple[str, str]]:
    """Return how many dB lie between the curves, see `gap_sentences`."""
    return [*gap_sentences(plan, results, figures_of(plan, plan.curves[0].point.scenario.report.figures))]


def answers(plan: LinkPlan, results: Results) -> Iterator[tuple[str, str]]:
    """Yield measured against closed form, and the value from which on each curve loses few packets, in sentences."""
    for quantity, which in (("bit_error_rate", 0), ("packet_error_rate", 1)):
        inside = []
        for curve, points in zip(plan.curves, results, strict=True):
            closed = theory(curve, quantity, [one.point.esno_db for one in points])
            found = [one.rates(None)[which] for one in points]
            for one, value in zip(found, () if closed is None else closed.tolist(), strict=False):
                inside += [] if one is None else [one.low <= value <= one.high]
        if inside:
            expected = f"{100 * plan.measure.confidence:g} % are expected"
            held = f"the closed form lies in the interval of {sum(inside)} of {plural(len(inside), 'point')}"
            yield axis_label(quantity), f"{held}; {expected}."
    name, below = axis_name(plan.curves), f"below {100 * GOOD_ENOUGH:g} %"
    never = []
    for curve, points in zip(plan.curves, results, strict=True):
        good = [one for one in points if (some := one.rates(None)[1]) is not None and some.high <= GOOD_ENOUGH]
        if good:
            least = min(one.point.value_db for one in good)
            yield curve.label, f"packet error rate {below}, by its upper limit, from {name} = {least:g} dB on."
        elif any(one.rates(None)[1] is not None for one in points):
            never.append(curve.label)
    if never:
        yield "; ".join(never), f"packet error rate not {below}, by its upper limit, at any {name} measured."


# --- page -----------------------------------------------------------------------------------------


def write_study_report(folder: Path, plan: LinkPlan, *, store: Store) -> ReportPaths:
    """Draw the figures of a study and write `report.html` into `folder`, at any moment of a study."""
    results = read_results(store, plan)
    scenario = plan.curves[0].point.scenario
    figures = write_figures(folder / FIGURES, drawings(plan, results))
    points = [point for some in results for point in some]
    finished = sum(point.stop is not None for point in points)
    skipped = sum(_skipped(plan, curve, some) for curve, some in zip(plan.curves, results, strict=True))
    missing = plan.num_points - finished - skipped
    lead = (
        f"Rate [{100 * plan.measure.confidence:g} % interval, from the spread between independent transmissions]; "
        "without an error only its one-sided upper limit, from the number of bits, packets or transmissions that err "
        "independently. The rate of a point that stopped at a number of errors is corrected for that, and so differs "
        f"slightly from errors over observations. By its settings, {stop_sentence(plan)}."
    )
    measured = [Part(soft=lead), Part(text="No point has been measured yet.")]
    if points:
        timed = any(point.stop is not None and point.stop.reason == "time" for point in points)
        rows = tuple((one.curve.label, *cells(one)) for one in points)
        table = Table(columns=("curve", *heads(plan)), rows=rows, left=("curve", heads(plan)[-1]))
        measured = [Part(soft=lead, table=table), *([Part(soft=TIME_NOTE)] if timed else [])]
    devices, bursts = _devices_table(plan, results), _bursts_table(plan, points)
    flips = f"Against independent flips at each device's mean rate. {INDEPENDENT}"
    errors = [Part(soft=flips, items=list(_verdicts(plan, results))), Part(table=bursts, fold="Point by point")]
    page = Page(
        scenario=scenario,
        facts=(
            f"**{finished}** of **{plan.num_points}** points finished" + (f", **{skipped}** skipped" * bool(skipped)),
            counted(len(plan.curves), "curve"),
            f"seed **{plan.seed}**",
        ),
        about=axis_sentence(plan),
        warnings=[f"{counted(missing, 'point')} missing or not finished: this study is not complete."][: bool(missing)],
        sections={
            "In short": [Part(items=[*gaps(plan, results), *answers(plan, results)])],
            "Figures": pictures(figures, numbered=True),
            "Packets looked at": [Part(links=inspections(folder, plan))],
            "Results per point": measured,
            "Device by device": [Part(soft=AS_COUNTED, table=devices)],
            "Bursts of errors": errors if bursts.rows else [],
        },
        command="link",
        same="the same seed and number of batches give the same counts on the same versions.",
        links=[curve.link for curve in plan.curves],
    )
    return write_page(folder, page, store=store, figures=figures)


def _skipped(plan: LinkPlan, curve: LinkCurve, points: Sequence[PointResult]) -> int:
    """Points not needed: above one that saw no error among enough."""
    silent = [one.point.value_db for one in points if one.silent]
    if not silent or not plan.measure.stop.skip_after_zero:
        return 0
    seen = {one.point.value_db for one in points}
    return sum(one.value_db > min(silent) and one.value_db not in seen for one in curve.points)


def _devices_table(plan: LinkPlan, results: Results) -> Table:
    """A row per point and device, where there are several."""
    rows, names = [], heads(plan)
    for curve, points in zip(plan.curves, results, strict=True):
        for device in range(curve.num_devices) if curve.num_devices > 1 else ():
            for one in points:
                label, value = curve.label, f"{one.point.value_db:g}"
                rows.append((label, str(device), value, *map(rate, one.rates(device))))
    return Table(columns=("curve", "device", names[0], names[3], names[6]), rows=tuple(rows), left=("curve",))


def _bursts_table(plan: LinkPlan, points: Sequence[PointResult]) -> Table:
    """A row for every point that saw an error."""
    rows: list[tuple[str | None, ...]] = []
    for one in points:
        counts = one.measured.bursts
        if counts is not None and counts.bit_errors.sum():
            found = assess(counts, bad_packets=one.measured.tally.packets.errors)
            rows.append((one.curve.label, f"{one.point.value_db:g}", *burst_cells(found)))
    return Table(columns=("curve", f"{axis_name(plan.curves)} [dB]", *BURST_HEADS), rows=tuple(rows), left=("curve",))


def _verdicts(plan: LinkPlan, results: Results) -> Iterator[tuple[str, str]]:
    """A sentence per curve, at the highest value that saw enough errors to tell."""
    axis = axis_name(plan.curves)
    for points in results:
        for one in reversed(points):
            counts, bad = one.measured.bursts, one.measured.tally.packets.errors
            if counts is not None and counts.bit_errors.sum() >= FEWEST_ERRORS and bad >= FEWEST_PACKETS_IN_ERROR:
                at = f"{one.curve.label}, {axis} = {one.point.value_db:g} dB"
                yield at, verdict(counts, bad_packets=bad)
                break
