"""Store results of runs of library scenarios as reference results: `python benchmarks/reference_results.py RUN ..`.

Writes `scenarios/library/reference/<scenario>.csv`: a row per sweep point and metric that the scenario shows, or per
sweep point and error rate of a link study. Values over the rounds of figures go to `reference/curves/<scenario>.csv`,
the best candidates of each choice of a search by `phyloop tune` to `reference/tune/<scenario>.csv`. A run of fewer
trials may be stored; the file holds their number.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from fl.base.measured import LINK_RATES
from scenarios.engine.study import Study
from scenarios.plan.points import Plan, Point, is_shown, value_of
from scenarios.report.figures.curves import Shown
from scenarios.report.figures.learning import over_rounds
from scenarios.report.library import difference
from scenarios.report.published import COLUMNS, REFERENCE
from scenarios.report.settings import cells_of
from scenarios.report.tables.quantities import ROUND_AXES
from scenarios.report.tables.summaries import budget_names, summarise
from scenarios.schema.loader import load_scenario
from scenarios.schema.schema import ReportConfig
from scenarios.store.store import Store
from scenarios.studies.folders import study_in
from scenarios.studies.learning import LearningStudy
from scenarios.studies.link.results import read_results
from scenarios.studies.link.study import LinkStudy
from scenarios.studies.tune.report import CANDIDATES

Row = dict[str, Any]

MOST_ROUNDS = 25
"""Values stored of a longer curve, evenly spread with both ends."""

MOST_CANDIDATES = 7
"""Candidates stored of each choice of a search, the best: the others lie far from the optimum."""


def write(folder: Path, *, into: Path = REFERENCE) -> Path:
    """Write the results of a run folder into the reference file of its scenario; returns the file."""
    study = study_in(folder)
    if (candidates := folder / CANDIDATES).is_file():
        return _write_search(candidates, into, study)
    with study.store.open_existing(folder) as store:
        root, source = store.read_scenario().root, f"phyloop {study.store.study} {study.name}"
        if isinstance(study, LearningStudy) and root["trials"] < (usual := load_scenario(study.name).scenario.trials):
            root, source = {**root, "trials": usual}, f"{source} --trials {study.plan.trials}"
        if differs := difference(root):
            raise SystemExit(f"{folder}: {differs}; only runs of a library scenario as it is can be stored.")
        if isinstance(study, LinkStudy):
            paths, rows, curves = (*link_paths(study), study.plan.measure.over), [*link_rows(study, store)], list[Row]()
        elif isinstance(study, LearningStudy):
            paths = tuple(telling_paths(study.plan.points, study.plan.swept_paths))
            rows, curves = [*learning_rows(study.plan, store, paths)], [*curve_rows(study.plan, store, paths)]
        else:
            raise SystemExit(f"{folder}: results of phyloop {study.store.study} are not stored.")
        origin = _origin(store, study.plan.seed, source)
    if curves:
        (into / "curves").mkdir(exist_ok=True)
        _write(into / "curves" / f"{study.name}.csv", (*paths, "axis", "x"), curves, {})
    return _write(into / f"{study.name}.csv", paths, rows, origin)


def _write_search(candidates: Path, into: Path, study: Study) -> Path:
    """Write the best candidates of each choice of a finished search."""
    name = study.name.removesuffix("-tune")
    with study.store.open_existing(candidates.parent) as store:
        origin = _origin(store, store.read_scenario().root["seed"], f"phyloop tune {name}")
    with candidates.open(encoding="utf-8", newline="") as file:
        found: list[list[Row]] = []
        for row in csv.DictReader(file):
            if row["chosen"] == str(True):  # the first of its choice, the best come first
                found.append([])
            found[-1].append({key: _short(text) for key, text in row.items()})
    rows = [row for choice in found for row in choice[:MOST_CANDIDATES]]
    (into / "tune").mkdir(exist_ok=True)
    return _write(into / "tune" / f"{name}.csv", [one for one in rows[0] if one not in COLUMNS], rows, origin)


def _short(text: str) -> str:
    """A number with five digits, any other text as it is; without the mark against formulas of spreadsheets."""
    number = text.removeprefix("'")
    try:
        return f"{float(number):.5g}"
    except ValueError:
        return text


def _origin(store: Store, seed: int, source: str) -> Row:
    """Seed, version, date and command of the last run in a store."""
    run = tuple(store.runs.values())[-1]
    commit = run.provenance.commit
    version = f"{run.provenance.versions['phyloop']}" + (f" ({commit[:7]})" if commit else "")
    return {"seed": seed, "version": version, "date": run.started_at[:10], "source": source}


def learning_rows(plan: Plan, store: Store, paths: Sequence[str]) -> Iterator[Row]:
    """Yield a row per sweep point and metric or rate that the scenario shows; every metric if it shows none."""
    summaries = summarise(store, plan)
    stored = {name for one in summaries for name in (*one.metrics, *one.rates)}
    shown = [name for name in metrics_of(plan.points[0].scenario.report) if name in stored]
    for one in summaries:
        for metric in shown or sorted(one.metrics):
            row = {**_settings(one.point, paths), "metric": metric}
            if metric in one.metrics:
                mean = one.metrics[metric].within(metric)
                yield {**row, **_interval(mean.mean, mean.low, mean.high), "trials": mean.trials}
            elif metric in one.rates:
                rate = one.rates[metric]
                counts = {"trials": one.done, "errors": rate.errors, "total": rate.total}
                yield {**row, **_interval(rate.value if rate.errors else None, rate.low, rate.high), **counts}


def curve_rows(plan: Plan, store: Store, paths: Sequence[str]) -> Iterator[Row]:
    """Yield a row per sweep point and value along the run of each figure that goes along it."""
    for config in plan.points[0].scenario.report.figures:
        if config.x not in ROUND_AXES or "device" in config.series_paths:
            continue
        for quantity in filter(None, (config.y, config.beside)):
            curves: dict[int, list[Shown]] = {}
            for shown in over_rounds(store, plan, config.model_copy(update={"y": quantity})):
                if is_shown(config, shown[0]):
                    curves.setdefault(shown[0].index, []).append(shown)
            for point, _, spot in chain.from_iterable(map(thinned, curves.values())):
                along = {"axis": config.x, "x": f"{spot.x:.6g}", "metric": quantity, "trials": spot.n}
                counts = {"errors": spot.errors, "total": spot.total}
                yield {**_settings(point, paths), **along, **_interval(spot.y, spot.low, spot.high), **counts}


def thinned(spots: Sequence[Shown]) -> list[Shown]:
    """Return at most `MOST_ROUNDS` of the spots of a curve."""
    last, few = len(spots) - 1, min(len(spots), MOST_ROUNDS)
    return [spots[round(last * number / max(few - 1, 1))] for number in range(few)]


def link_rows(study: LinkStudy, store: Store) -> Iterator[Row]:
    """Yield two rows per measured point, of the bit and of the packet error rate over all devices."""
    paths, over = link_paths(study), study.plan.measure.over
    for points in read_results(store, study.plan):
        for one in points:
            if one.stop is None or one.stop.reason == "time":
                raise SystemExit(
                    f"{store.folder}: {one.curve.label} at {one.point.value_db:g} dB is not finished, or ended by its "
                    "time limit; run phyloop link again with a larger --max-seconds."
                )
            for metric, estimate in zip(LINK_RATES, one.rates(), strict=False):
                if estimate is not None:
                    value = {over: f"{one.point.value_db:g}", "metric": metric}
                    counts = {"errors": estimate.errors, "total": estimate.observations}
                    interval = _interval(estimate.rate, estimate.low, estimate.high)
                    yield {**_settings(one.curve.point, paths), **value, **interval, **counts}


def link_paths(study: LinkStudy) -> tuple[str, ...]:
    """Return the fewest swept paths that tell the curves of a link study apart."""
    return tuple(telling_paths([curve.point for curve in study.plan.curves], study.plan.swept_paths))


def _settings(point: Point, paths: Sequence[str]) -> Row:
    return dict(zip(paths, cells_of(point, paths), strict=True))


def _interval(mean: float | None, low: float | None, high: float | None) -> Row:
    numbers = {"mean": mean, "low": low, "high": high}
    return {name: "" if value is None else f"{value:.5g}" for name, value in numbers.items()}


def _write(path: Path, first: Sequence[str], rows: Sequence[Row], origin: Row) -> Path:
    """Write rows as CSV: the columns `first`, then those of `COLUMNS` that a row has."""
    columns = [*first, *(name for name in COLUMNS if any(row.get(name) is not None for row in (*rows, origin)))]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns, lineterminator="\n", extrasaction="ignore")
        table.writeheader()
        table.writerows(row | origin for row in rows)
    return path


def telling_paths(points: Sequence[Point], swept_paths: Sequence[str]) -> list[str]:
    """Return the fewest swept paths that tell the sweep points apart; the label goes before others, mappings last."""

    def rank(path: str) -> tuple[bool, bool, int]:
        mapping = any(isinstance(value_of(point, path), dict) for point in points)
        return path == "label", not mapping, -swept_paths.index(path)

    paths = sorted(swept_paths, key=rank)
    for path in tuple(paths):
        fewer = [one for one in paths if one != path]
        if len({cells_of(point, fewer) for point in points}) == len(points):
            paths = fewer
    return paths[::-1]


def metrics_of(report: ReportConfig) -> dict[str, None]:
    """Return the metrics of the tables and figures, without those over rounds if there are others."""
    tables = [one.metric for one in report.tables]
    shown = [name for one in report.figures if one.x not in ROUND_AXES for name in (one.y, one.beside) if name]
    budgets = [name for one in report.figures for name in budget_names(one)]
    return dict.fromkeys([*tables, *shown, *budgets] or [one.y for one in report.figures])


if __name__ == "__main__":
    for run_folder in sys.argv[1:]:
        print(write(Path(run_folder)))
