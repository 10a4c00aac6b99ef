"""What the report page says: everything is computed here, the template only lays it out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from scenarios.files.replacement import writing
from scenarios.report.bursts import draw_runs, read_bursts
from scenarios.report.claims.section import claim_section
from scenarios.report.classification import draw_partitions, read_privacy
from scenarios.report.computed_by import links_on_air
from scenarios.report.figures.draw import write_figures
from scenarios.report.figures.round_curves import over_rounds
from scenarios.report.html import FIGURES, data_uri, provenance_rows, reflow, template, write_page
from scenarios.report.published import PublishedTable, read_published, shown, write_published
from scenarios.report.reconstructions import draw_attacks
from scenarios.report.rows import bursts_rows, metrics_rows, privacy_table, rates_rows
from scenarios.report.settings import setting_in_words, settings_cells
from scenarios.report.silence import silent_trials
from scenarios.report.tables.tables import PointSummary, TaskIds, summarise

if TYPE_CHECKING:
    from scenarios.engine.study import ReportPaths
    from scenarios.plan.points import Plan
    from scenarios.report.figures.style import FigureFiles
    from scenarios.store.store import Store

TABLES = "tables"
FAILURES_SHOWN = 50


def write_report(folder: Path, plan: Plan, *, task_ids: TaskIds, store: Store) -> ReportPaths:
    """Draw figures, write tables of published numbers and `report.html` into `folder`, each file whole or not.

    Works at any moment of a run; the page says how complete it is. ScenarioError if the folder
    cannot be written or holds no scenario.
    """
    summaries = summarise(store, plan, task_ids=task_ids)
    scenario = plan.points[0].scenario
    figures = write_figures(
        folder / FIGURES,
        plan,
        summaries=summaries,
        figures=scenario.report.figures,
        along=lambda config: over_rounds(store, plan, task_ids=task_ids, config=config),
    )
    with writing(folder / FIGURES, "figures"):
        partitions = draw_partitions(folder / FIGURES, plan)
        attacks = draw_attacks(folder / FIGURES, plan, task_ids=task_ids, store=store)
    published = read_published(plan, summaries)
    tables = write_published(folder / TABLES, published)
    html = render_page(
        folder,
        plan,
        task_ids=task_ids,
        store=store,
        summaries=summaries,
        figures=figures,
        partitions=partitions,
        attacks=attacks,
        published=published,
    )
    return replace(write_page(folder, html, figures=(*figures, *partitions, *attacks)), tables=tables)


def render_page(
    folder: Path,
    plan: Plan,
    *,
    task_ids: TaskIds,
    store: Store,
    summaries: Sequence[PointSummary],
    figures: Sequence[FigureFiles],
    partitions: Sequence[FigureFiles] = (),
    attacks: Sequence[FigureFiles] = (),
    published: Sequence[PublishedTable] = (),
) -> str:
    """The page as HTML."""
    scenario = plan.points[0].scenario
    planned = len(plan.points) * plan.trials
    done, failed = sum(s.done for s in summaries), sum(s.failed for s in summaries)
    runs = store.read_runs()
    bursts = read_bursts(store, plan, task_ids=task_ids)
    run_lengths = draw_runs(plan, bursts)
    return template("page.html.j2").render(
        name=scenario.name,
        description=reflow(scenario.description),
        notes=reflow(scenario.report.notes),
        seed=plan.seed,
        trials=plan.trials,
        num_points=len(plan.points),
        planned=planned,
        done=done,
        failed=failed,
        missing=planned - done - failed,
        figures=[(figure, data_uri(figure.svg.read_bytes())) for figure in figures],
        partitions=[(figure, data_uri(figure.svg.read_bytes())) for figure in partitions],
        attacks=[(figure, data_uri(figure.svg.read_bytes())) for figure in attacks],
        published=[shown(one) for one in published],
        metrics=metrics_rows(plan, summaries),
        privacy=privacy_table(plan, summaries, tuple(read_privacy(store, plan, task_ids=task_ids))),
        claims=claim_section(store, plan, task_ids=task_ids),
        rates=rates_rows(plan, summaries),
        bursts=bursts_rows(plan, bursts),
        verdicts=[(setting_in_words(plan, one.point), one.sentence) for one in bursts],
        run_lengths=None if run_lengths is None else data_uri(run_lengths),
        failures=_failures(plan, task_ids=task_ids, store=store, summaries=summaries),
        failures_shown=FAILURES_SHOWN,
        silent=silent_trials(store, plan, task_ids=task_ids),
        yaml=store.read_scenario().yaml,
        run=provenance_rows(runs[-1], links=links_on_air(point.scenario for point in plan.points)) if runs else (),
        runs=runs,
        folder=shlex.quote(str(folder)),
    )


# --- failures and provenance ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failed trial: where, which, why."""

    setting: str
    trial: int
    reason: str


def _failures(plan: Plan, *, task_ids: TaskIds, store: Store, summaries: Sequence[PointSummary]) -> tuple[Failure, ...]:
    """The failed trials, at most `FAILURES_SHOWN` of them."""
    found: list[Failure] = []
    for summary in summaries:
        if summary.failed and len(found) < FAILURES_SHOWN:
            cells = zip(plan.swept_paths, settings_cells(plan, summary.point), strict=True)
            setting = ", ".join(f"{path}: {cell}" for path, cell in cells if cell is not None)
            records = store.read_tasks(task_ids[plan.points.index(summary.point)]).values()
            found += [
                Failure(setting=setting, trial=record.trial, reason=record.failure or "")
                for record in records
                if record.status == "failed"
            ]
    return tuple(found[:FAILURES_SHOWN])
