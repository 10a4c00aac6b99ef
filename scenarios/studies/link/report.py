"""The report page of a link study, and the scenario that its folder keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from phy.measure.independence import FEWEST_ERRORS, FEWEST_PACKETS_IN_ERROR, assess, verdict
from scenarios.report.bursts import BURST_HEADS, INDEPENDENT, burst_cells
from scenarios.report.figures.draw import write_figures
from scenarios.report.html import FIGURES, Page, Part, counted, pictures, write_page
from scenarios.report.settings import plain
from scenarios.report.tables.table import Table
from scenarios.studies.link.figures import arrange, figures_of, logarithmic
from scenarios.studies.link.level import PLAIN_LABELS
from scenarios.studies.link.results import CurveResult, PointResult, read_results
from scenarios.studies.link.words import TIME_NOTE, axis_sentence, cells, heads, rate, stop_sentence

if TYPE_CHECKING:
    from scenarios.engine.study import ReportPaths
    from scenarios.schema.loader import LoadedScenario
    from scenarios.store.store import Store
    from scenarios.studies.link.plan import LinkPlan

AS_COUNTED = "As counted: when to stop was decided on all devices together."
_NOT_LINK = ("learning", "privacy", "trials")


def resolved_study(loaded: LoadedScenario) -> tuple[str, dict[str, Any]]:
    """The scenario with every default as YAML text, and as plain values; without learning where the file has none.

    Measuring it gives the same points.
    """
    unused = {name for name in _NOT_LINK if name not in loaded.document}
    report = loaded.scenario.report
    figures = tuple(map(logarithmic, report.figures))
    resolved = report.model_copy(update={"figures": figures})
    scenario = loaded.scenario.model_copy(update={"report": resolved})
    root = scenario.model_dump(mode="json", exclude_none=True, exclude=unused)
    return yaml.safe_dump(root, sort_keys=False, allow_unicode=True), root


def write_study_report(folder: Path, plan: LinkPlan, *, store: Store) -> ReportPaths:
    """Draw the figures of a study and write `report.html` into `folder`, at any moment of a study."""
    results = read_results(store, plan)
    scenario = plan.curves[0].point.scenario
    drawings = (arrange(config, plan, results) for config in figures_of(plan, scenario.report.figures))
    figures = write_figures(folder / FIGURES, drawings)
    points = [point for result in results for point in result.points]
    finished = sum(point.stop is not None for point in points)
    skipped = sum(_skipped(plan, result) for result in results)
    missing = plan.num_points - finished - skipped
    lead = (
        f"Rate [{100 * plan.measure.confidence:g} % interval, from the spread between independent transmissions]; "
        "without an error only its one-sided upper limit, from the number of bits, packets or transmissions that err "
        "independently. Where a point stopped on a number of errors its rate is corrected for that, and so not quite "
        f"errors over observations. As asked: {stop_sentence(plan)}."
    )
    measured = [Part(soft=lead), Part(text="No point has been measured yet.")]
    if points:
        timed = any(point.stop is not None and point.stop.reason == "time" for point in points)
        measured = [Part(soft=lead, table=_points_table(plan, results)), *([Part(soft=TIME_NOTE)] if timed else [])]
    devices, bursts = _devices_table(plan, results), _bursts_table(plan, results)
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
            "Figures": pictures(figures, numbered=True),
            "Results per point": measured,
            "Device by device": [Part(soft=AS_COUNTED, table=devices)] if devices.rows else [],
            "How errors lie together": errors if bursts.rows else [],
        },
        command="link",
        same="the same seed and number of batches give the same counts on the same versions.",
        links=[curve.link for curve in plan.curves],
    )
    return write_page(folder, page, store=store, figures=figures)


def _skipped(plan: LinkPlan, result: CurveResult) -> int:
    """Points not needed: above one that saw no error among enough."""
    silent = [p.point.value_db for p in result.points if p.silent]
    if not silent or not plan.measure.stop.skip_after_zero:
        return 0
    seen = {p.point.value_db for p in result.points}
    return sum(p.value_db > min(silent) and p.value_db not in seen for p in result.curve.points)


def _points_table(plan: LinkPlan, results: Sequence[CurveResult]) -> Table:
    names = heads(plan)
    return Table(
        columns=("curve", *names),
        rows=tuple((plain(result.curve.label), *cells(point)) for result in results for point in result.points),
        left=("curve", names[-1]),
    )


def _devices_table(plan: LinkPlan, results: Sequence[CurveResult]) -> Table:
    """A row per point and device, where there are several."""
    names = heads(plan)
    return Table(
        columns=("curve", "device", names[0], names[3], names[6]),
        left=("curve",),
        rows=tuple(
            (
                plain(result.curve.label),
                str(device),
                f"{point.point.value_db:g}",
                rate(point.devices[device].bits),
                rate(point.devices[device].packets),
            )
            for result in results
            if result.curve.num_devices > 1
            for device in range(result.curve.num_devices)
            for point in result.points
        ),
    )


def _bursts_table(plan: LinkPlan, results: Sequence[CurveResult]) -> Table:
    """A row for every point that saw an error."""
    rows: list[tuple[str | None, ...]] = []
    for result in results:
        for point in result.points:
            counts = point.measured.bursts
            if counts is not None and counts.bit_errors.sum():
                found = assess(counts, bad_packets=_bad_packets(point))
                rows.append((plain(result.curve.label), f"{point.point.value_db:g}", *burst_cells(found)))
    return Table(columns=("curve", PLAIN_LABELS[plan.measure.over], *BURST_HEADS), rows=tuple(rows), left=("curve",))


def _bad_packets(point: PointResult) -> int:
    return int(point.measured.count("packet_errors").sum())


def _verdicts(plan: LinkPlan, results: Sequence[CurveResult]) -> Iterator[tuple[str, str]]:
    """A sentence per curve, at the highest value that saw enough errors to tell."""
    for result in results:
        telling = [
            point
            for point in result.points
            if point.measured.bursts is not None
            and point.measured.bursts.bit_errors.sum() >= FEWEST_ERRORS
            and _bad_packets(point) >= FEWEST_PACKETS_IN_ERROR
        ]
        if telling:
            counts = telling[-1].measured.bursts
            assert counts is not None  # chosen so; for the type checker
            at = f"{PLAIN_LABELS[plan.measure.over].removesuffix(' [dB]')} = {telling[-1].point.value_db:g} dB"
            yield f"{plain(result.curve.label)}, {at}", verdict(counts, bad_packets=_bad_packets(telling[-1]))
