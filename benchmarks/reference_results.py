"""Store results of runs of library scenarios as reference results: `python benchmarks/reference_results.py RUN ..`.

Writes `scenarios/library/reference/<scenario>.csv`: a row per sweep point and metric that the scenario shows.
A run of fewer trials may be stored; the file holds their number.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from scenarios.plan.points import Plan, value_of
from scenarios.report.library import difference
from scenarios.report.published import COLUMNS, REFERENCE
from scenarios.report.settings import cells_of
from scenarios.report.tables.quantities import ROUND_AXES
from scenarios.report.tables.summaries import budget_names, summarise
from scenarios.schema.loader import load_scenario
from scenarios.schema.schema import ReportConfig
from scenarios.store.store import Store
from scenarios.studies.learning import LearningStudy


def write(folder: Path, *, into: Path = REFERENCE) -> Path:
    """Write the results of a run folder into the reference file of its scenario; returns the file."""
    with Store.open_existing(folder) as store:
        study, run = LearningStudy.reload(store), tuple(store.runs.values())[-1]
        root, library = store.read_scenario().root, load_scenario(study.name).scenario
        if differs := difference({**root, "trials": max(root["trials"], library.trials)}):
            raise SystemExit(f"{folder}: {differs}; only runs of a library scenario as it is can be stored.")
        summaries = summarise(store, study.plan)
    paths = telling_paths(study.plan)
    metrics = metrics_of(study.loaded.scenario.report)
    commit = run.provenance["commit"]
    version = run.provenance["versions"]["phyloop"] + (f" ({commit[:7]})" if commit else "")
    origin = (str(study.plan.seed), version, run.started_at[:10], f"phyloop run {study.name}")
    path = into / f"{study.name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([*paths, *COLUMNS])
        for one in summaries:
            for metric in (metric for metric in metrics if metric in one.metrics):
                mean = one.metrics[metric].within(metric)
                numbers = ("" if value is None else f"{value:.5g}" for value in (mean.mean, mean.low, mean.high))
                rows.writerow([*cells_of(one.point, paths), metric, *numbers, mean.trials, *origin])
    return path


def telling_paths(plan: Plan) -> list[str]:
    """Return the fewest swept paths that tell the sweep points apart; the label goes before others, mappings last."""

    def rank(path: str) -> tuple[bool, bool, int]:
        mapping = any(isinstance(value_of(point, path), dict) for point in plan.points)
        return path == "label", not mapping, -plan.swept_paths.index(path)

    paths = sorted(plan.swept_paths, key=rank)
    for path in tuple(paths):
        fewer = [one for one in paths if one != path]
        if len({cells_of(point, fewer) for point in plan.points}) == len(plan.points):
            paths = fewer
    return paths[::-1]


def metrics_of(report: ReportConfig) -> dict[str, None]:
    """Return the metrics of the tables and figures, without those over rounds if there are others."""
    shown = [*(one.metric for one in report.tables), *(one.y for one in report.figures if one.x not in ROUND_AXES)]
    shown += [name for one in report.figures for name in budget_names(one)]
    return dict.fromkeys(shown or [one.y for one in report.figures])


if __name__ == "__main__":
    for run_folder in sys.argv[1:]:
        print(write(Path(run_folder)))
