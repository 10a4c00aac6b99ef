"""The report page of a link study, and the scenario that its folder keeps."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from phy.measure.independence import FEWEST_ERRORS, FEWEST_PACKETS_IN_ERROR, assess, verdict
from scenarios.report.bursts import BURST_HEADS, PointBursts, burst_cells
from scenarios.report.html import FIGURES, data_uri, provenance_rows, reflow, template, write_page
from scenarios.report.settings import plain
from scenarios.report.tables.text import Table
from scenarios.studies.link.check import figures_of, logarithmic, without_overridden
from scenarios.studies.link.figures import write_study_figures
from scenarios.studies.link.level import PLAIN_LABELS
from scenarios.studies.link.results import CurveResult, PointResult, is_silent, read_results
from scenarios.studies.link.words import TIME_NOTE, axis_sentence, cells, heads, rate, stop_sentence

if TYPE_CHECKING:
    from scenarios.engine.study import ReportPaths
    from scenarios.report.figures.style import FigureFiles
    from scenarios.schema.loader import LoadedScenario
    from scenarios.store.store import Store
    from scenarios.studies.link.plan import LinkPlan

_NOT_LINK = ("learning", "privacy", "trials")


def resolved_study(loaded: LoadedScenario) -> tuple[str, dict[str, Any]]:
    """The scenario with every default as YAML text, and as plain values; without learning where the file has none.

    Measuring it gives the same points.
    """
    unused = {name for name in _NOT_LINK if name not in loaded.document}
    report = loaded.scenario.report
    figures = tuple(logarithmic(without_overridden(loaded, figure)) for figure in report.figures)
    resolved = report.model_copy(update={"figures": figures})
    scenario = loaded.scenario.model_copy(update={"report": resolved})
    root = scenario.model_dump(mode="json", exclude_none=True, exclude=unused)
    return yaml.safe_dump(root, sort_keys=False, allow_unicode=True), root


def write_study_report(folder: Path, plan: LinkPlan, *, store: Store) -> ReportPaths:
    """Draw the figures of a study and write `report.html` into `folder`, at any moment of a study."""
    results = read_results(store, plan)
    configured = plan.curves[0].point.scenario.report.figures
    figures = write_study_figures(folder / FIGURES, plan, results=results, figures=figures_of(plan, configured))
    return write_page(folder, _render(folder, plan, store, results, figures), figures=figures)


def _render(
    folder: Path,
    plan: LinkPlan,
    store: Store,
    results: Sequence[CurveResult],
    figures: Sequence[FigureFiles],
) -> str:
    scenario = plan.curves[0].point.scenario
    runs = store.read_runs()
    points = [point for result in results for point in result.points]
    finished = sum(point.stop is not None for point in points)
    skipped = sum(_skipped(plan, result) for result in results)
    bursts = list(_bursts(results))
    return template("link.html.j2").render(
        name=scenario.name,
        description=reflow(scenario.description),
        notes=reflow(scenario.report.notes),
        seed=plan.seed,
        num_curves=len(plan.curves),
        planned=plan.num_points,
        finished=finished,
        skipped=skipped,
        missing=plan.num_points - finished - skipped,
        axis=axis_sentence(plan),
        stopping=stop_sentence(plan),
        percent=f"{100 * plan.measure.confidence:g} %",
        figures=[(figure, data_uri(figure.svg.read_bytes())) for figure in figures],
        points=_points_table(plan, results),
        timed=TIME_NOTE if any(p.stop is not None and p.stop.reason == "time" for p in points) else "",
        devices=_devices_table(plan, results),
        bursts=Table(
            columns=("curve", PLAIN_LABELS[plan.measure.over], *BURST_HEADS),
            numeric=(False, *(True for _ in range(1 + len(BURST_HEADS)))),
            rows=tuple(bursts),
        ),
        verdicts=list(_verdicts(plan, results)),
        yaml=store.read_scenario().yaml,
        run=provenance_rows(runs[-1], links=[curve.link for curve in plan.curves]) if runs else (),
        runs=runs,
        folder=shlex.quote(str(folder)),
    )


def _skipped(plan: LinkPlan, result: CurveResult) -> int:
    """Points not needed: above one that saw no error among enough."""
    silent = [
        p.point.value_db for p in result.points if is_silent(p.measured, p.stop, independent=result.curve.independent)
    ]
    if not silent or not plan.measure.stop.skip_after_zero:
        return 0
    seen = {p.point.value_db for p in result.points}
    return sum(p.value_db > min(silent) and p.value_db not in seen for p in result.curve.points)


def _points_table(plan: LinkPlan, results: Sequence[CurveResult]) -> Table:
    names = heads(plan)
    return Table(
        columns=("curve", *names),
        numeric=(False, *(True for _ in names[:-1]), False),
        rows=tuple((plain(result.curve.label), *cells(point)) for result in results for point in result.points),
    )


def _devices_table(plan: LinkPlan, results: Sequence[CurveResult]) -> Table:
    """A row per point and device, where there are several."""
    names = heads(plan)
    return Table(
        columns=("curve", "device", names[0], names[3], names[6]),
        numeric=(False, *(True for _ in range(4))),
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


def _bursts(results: Sequence[CurveResult]) -> Iterator[tuple[str | None, ...]]:
    """A row for every point that saw an error."""
    for result in results:
        for point in result.points:
            counts = point.measured.bursts
            if counts is None or not counts.bit_errors.sum():
                continue
            one = PointBursts(
                point=result.curve.point,
                counts=counts,
                found=assess(counts, bad_packets=_bad_packets(point)),
                sentence="",
            )
            yield (plain(result.curve.label), f"{point.point.value_db:g}", *burst_cells(one))


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
