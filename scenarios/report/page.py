"""The report page of a learning run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from scenarios.files.replacement import writing
from scenarios.plan.points import Plan, Point
from scenarios.report import rows
from scenarios.report.answers.answer import answer
from scenarios.report.claims import MOST_ROWS, claim_parts, claimed_and_proved, proved_epsilons, strongest_claims
from scenarios.report.figures.curves import arrange
from scenarios.report.figures.draw import write_figures
from scenarios.report.figures.drawing import Drawing
from scenarios.report.figures.images import draw_attacks, draw_partitions
from scenarios.report.figures.learning import figures_of, over_rounds
from scenarios.report.findings import read_findings, silent_points
from scenarios.report.html import FIGURES, Page, Part, counted, data_uri, pictures, write_page
from scenarios.report.paths import ReportPaths
from scenarios.report.published import COLUMNS, agreeing, number_of, read_published, read_reference, write_published
from scenarios.report.settings import cells_of, links_on_air, point_table, setting_in_words
from scenarios.report.stopping import TrialRule, num_spared
from scenarios.report.tables.summaries import INTERVALS, UPPER_LIMIT, PointSummary, summarise
from scenarios.report.tables.table import Table
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.schema import Scenario
from scenarios.store.store import Store

TABLES = "tables"
MOST_LINES = 50
"""Failures and silent trials that the page names."""
OF_METRICS = (
    "Mean over whole trials [95 % t interval of the mean]; without brackets, of fewer than three trials. Empty: not "
    "measured."
)
OF_RATES = (
    f"Counts over all devices, rounds and whole trials; rate [{INTERVALS}]; without an error only its {UPPER_LIMIT}."
)
OF_PRIVACY = "Per device, over all rounds of a trial."
OF_FLIPS = (
    " Every ε stands beside the accountant it comes from: Theorem 1 of Li et "
    "al. 2025 weighs bits by their significance and averages over neighbours, which is no worst case. κ measured by "
    "(26) stands beside a given one."
)
MISSING = "missing: this run is not complete."
FAILED = "failed: they count in no mean, rate or interval."
MOST_VERDICTS = 8
"""Sentences on bursts that are not folded."""


def write_report(folder: Path, plan: Plan, *, store: Store) -> ReportPaths:
    """Draw figures, write tables of published numbers and `report.html` into `folder`, each file whole or not.

    Works at any moment of a run; the page says how complete it is. ScenarioError if the folder
    cannot be written or holds no scenario.
    """
    summaries = summarise(store, plan)
    scenario = plan.points[0].scenario
    figures = write_figures(folder / FIGURES, drawings(store, plan, summaries))
    with writing(folder / FIGURES, "figures"):
        partitions = draw_partitions(folder / FIGURES, plan)
        attacks = draw_attacks(folder / FIGURES, plan, store=store)
    same = agreeing(plan)
    compared = summaries if same is None else [one for one in summaries if one.point.index in same]
    published = () if same == {} else read_published(plan, compared)
    tables = write_published(folder / TABLES, published)
    spared = num_spared(store, plan)
    planned = len(plan.points) * plan.trials - spared
    done, failed = sum(s.done for s in summaries), sum(s.failed for s in summaries)
    missing = planned - done - failed
    silent = silent_points(store, plan)
    more = f"The first {MOST_LINES} of {len(silent)} sweep points." if len(silent) > MOST_LINES else ""
    uploads = "One simple attack. Where it fails, a better one may not: a failure is no proof of privacy."
    wrong = read_findings(store, plan, summaries)
    flips = any(one.protects == "bits" for point in plan.points if (one := point.scenario.mechanism) is not None)
    claims, why = strongest_claims(store, plan)
    first, *best = answer(plan, summaries, proved=proved_epsilons(claims)).parts()
    private = claimed_and_proved(claims, plan)
    sections: dict[str, Sequence[Part]] = {
        "In short": [replace(first, items=[*first.items, *private]), *best],
        "Findings and remedies": [Part(items=[("", f"{one}.") for one in wrong])],
        "Rounds without an update": [
            Part(items=[("", f"{one}.") for one in silent[:MOST_LINES]]),
            Part(soft=more),
        ],
        "Figures": pictures(figures, numbered=True),
        "Attacks on uploads": [Part(soft=uploads), *pictures(attacks)] if attacks else [],
        "Published numbers beside ours": [
            part
            for one in published
            for part in (Part(head=one.title, table=one.table), Part(soft=one.caption), Part(soft=one.config.note))
        ],
        "Stored results beside ours": _stored(scenario.name, summaries, same or {}),
        "Samples of each device": pictures(partitions),
        "Results per point": [
            Part(soft=OF_METRICS, table=rows.metrics_rows(plan, summaries)),
            Part(text="" if summaries else "No trial is finished yet."),
        ],
        "Measured error rates": [Part(soft=OF_RATES, table=rows.rates_rows(plan, summaries))],
        "Requested privacy": [
            Part(soft=OF_PRIVACY + (OF_FLIPS if flips else ""), table=rows.privacy_table(store, plan, summaries))
        ],
        "Privacy: published and proved claims": claim_parts(claims, why, plan, folder=folder),
        "Bursts of errors": list(_bursts(store, plan)),
        "Failed trials": list(_failures(store, plan, summaries)),
    }
    page = Page(
        scenario=scenario,
        facts=(
            f"**{done}** of **{planned}** trials finished",
            f"{counted(len(plan.points), 'point')} × {counted(plan.trials, 'trial')}{_spared(scenario, spared)}",
            f"seed **{plan.seed}**",
        ),
        warnings=[
            f"{counted(number, 'trial')} {words}" for number, words in ((missing, MISSING), (failed, FAILED)) if number
        ],
        sections=sections,
        command="run",
        same="the same seed gives the same numbers on the same versions.",
        links=links_on_air(point.scenario for point in plan.points),
    )
    return replace(write_page(folder, page, store=store, figures=(*figures, *partitions, *attacks)), tables=tables)


def _spared(scenario: Scenario, number: int) -> str:
    """Return the words on trials that were not needed."""
    rule = TrialRule.of(scenario)
    if rule is None or not number:
        return ""
    return (
        f" at most: **{number}** not needed, as the 95 % interval of {axis_label(rule.metric)} is within "
        f"±{rule.half_width:g}"
    )


def drawings(store: Store, plan: Plan, summaries: Sequence[PointSummary]) -> Iterator[Drawing]:
    """Yield the figures of a learning run."""
    along = partial(over_rounds, store, plan)
    for config in figures_of(plan, {name for summary in summaries for name in summary.metrics}):
        yield arrange(config, plan, summaries, along=along)


def _bursts(store: Store, plan: Plan) -> Iterator[Part]:
    bursts = rows.read_bursts(store, plan)
    verdicts = [(setting_in_words(plan, one.point), one.sentence) for one in bursts]
    against = "Against independent flips at each device's mean rate over all rounds and trials."
    yield Part(soft=f"{against} {rows.INDEPENDENT}" if bursts else "")
    yield Part(items=verdicts, fold="In words, point by point" if len(verdicts) > MOST_VERDICTS else "")
    yield Part(table=point_table(plan, rows.BURST_HEADS, ((b.point, rows.burst_cells(b.found)) for b in bursts)))
    if (svg := rows.draw_runs(plan, bursts)) is not None:
        soft = (
            "Marks: share of runs by their length, as measured. Dashed: independent flips at the same rates. At most "
            "six points, those whose runs exceed independent ones most."
        )
        yield Part(head="Wrong bits in a row", soft=soft, image=data_uri(svg))


def _failures(store: Store, plan: Plan, summaries: Sequence[PointSummary]) -> Iterator[Part]:
    """The failed trials: where, which, why."""
    lines: list[tuple[str, ...]] = []
    for summary in summaries:
        if summary.failed and len(lines) < MOST_LINES:
            cells = zip(plan.swept_paths, cells_of(summary.point, plan.swept_paths), strict=True)
            setting = ", ".join(f"{path}: {cell}" for path, cell in cells if cell)
            records = store.read_tasks(plan.task_ids[plan.points.index(summary.point)]).values()
            lines += [(setting, str(one.trial), one.failure or "") for one in records if one.status == "failed"]
    failed = sum(summary.failed for summary in summaries)
    yield Part(soft=f"The first {MOST_LINES} of {failed}." if failed > MOST_LINES else "")
    heads, words = ("setting", "trial", "reason"), ("setting", "reason")
    yield Part(table=Table(columns=heads, rows=tuple(lines[:MOST_LINES]), left=words, wrapped=words))


def _stored(name: str, summaries: Sequence[PointSummary], same: Mapping[int, Point]) -> list[Part]:
    """Return the stored results of the sweep points `same` beside those of the run; nothing without any."""
    stored = read_reference(name)
    paths = tuple(path for path in (stored[0] if stored else ()) if path not in COLUMNS)
    ours = {cells_of(same[one.point.index], paths): one for one in summaries if one.point.index in same}
    rows, origins = [], {}
    for row in stored:
        settings, metric = tuple(row[path] for path in paths), row["metric"]
        if (summary := ours.get(settings)) is None:
            continue
        if metric in summary.metrics:
            mean = summary.metrics[metric].within(metric)
            now = (str(mean), str(mean.trials))
        elif metric in summary.rates:
            now = (str(summary.rates[metric]), str(summary.done))
        else:
            continue
        beside = (str(number_of(row)), row["trials"], *now)
        rows.append((*settings, axis_label(metric), *beside))
        origins[f"{row['source']}, phyloop {row['version']}, seed {row['seed']}, {row['date']}"] = True
    words = (*map(axis_label, paths), "quantity")
    table = Table(columns=(*words, "stored", "stored trials", "ours", "trials"), rows=tuple(rows), left=words)
    lead = (
        "Mean over trials [95 % t interval of the mean], or rate [95 % interval]. The same seed gives the same numbers "
        "on the same versions."
    )
    fold = f"{len(rows)} results" if len(rows) > MOST_ROWS else ""
    return [Part(soft=f"{lead} Stored: {'; '.join(origins)}." if rows else ""), Part(table=table, fold=fold)]
