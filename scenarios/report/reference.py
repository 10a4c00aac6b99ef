"""Results that phyloop stores of its library scenarios, and the sweep points of a run that they belong to."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache

from scenarios.plan.identity import canonical_json, physics
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan, Point
from scenarios.report.html import Part
from scenarios.report.library import library_scenario
from scenarios.report.settings import cells_of
from scenarios.report.tables.quantities import Mean
from scenarios.report.tables.table import Table
from scenarios.report.tables.tables import PointSummary
from scenarios.schema.labels.labels import plain_label
from scenarios.schema.loader import LIBRARY

REFERENCE = LIBRARY / "reference"

COLUMNS = ("metric", "mean", "low", "high", "trials", "seed", "version", "date", "source")
"""Columns of a file behind its settings; `low` and `high` are empty for one trial."""

FEW_ROWS = 40
"""Rows of a table that is not folded."""


@cache
def library_plan(name: str) -> Plan | None:
    """Return the sweep points of the learning scenario of the library with this name, None without one."""
    loaded = library_scenario(name)
    return None if loaded is None or loaded.scenario.measure is not None else expand(loaded)


def agreeing(plan: Plan) -> dict[int, Point] | None:
    """Index of each sweep point -> the library's point with the same settings, whatever its seed, label and trials.

    None where the library has no learning scenario of this name.
    """
    library = library_plan(plan.points[0].scenario.name)
    if library is None:
        return None
    points = {_settings_of(point): point for point in library.points}
    return {one.index: points[key] for one in plan.points if (key := _settings_of(one)) in points}


def _settings_of(point: Point) -> str:
    return canonical_json({name: part for name, part in physics(point.scenario).items() if name != "seed"})


def read_reference(name: str) -> list[dict[str, str]]:
    """Return the stored results of a library scenario, a row per sweep point and metric; none without a file."""
    file = REFERENCE / f"{name}.csv"
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def reference_parts(name: str, summaries: Sequence[PointSummary], same: Mapping[int, Point]) -> list[Part]:
    """Return the stored results of the sweep points `same` beside those of the run; nothing without any."""
    stored = read_reference(name)
    paths = tuple(path for path in (stored[0] if stored else ()) if path not in COLUMNS)
    ours = {cells_of(same[one.point.index], paths): one for one in summaries if one.point.index in same}
    rows, origins = [], {}
    for row in stored:
        settings, metric = tuple(row[path] for path in paths), row["metric"]
        if (summary := ours.get(settings)) is None or metric not in summary.metrics:
            continue
        mean = summary.metrics[metric]
        beside = (str(mean_of(row)), row["trials"], str(mean.within(metric)), str(mean.trials))
        rows.append((*settings, plain_label(metric), *beside))
        origins[f"{row['source']}, phyloop {row['version']}, seed {row['seed']}, {row['date']}"] = True
    if not rows:
        return []
    words = (*map(plain_label, paths), "quantity")
    table = Table(columns=(*words, "stored", "stored trials", "ours", "trials"), rows=tuple(rows), left=words)
    lead = "Mean over trials [95 % t interval of the mean]. The same seed gives the same numbers on the same versions."
    fold = f"{len(rows)} results" if len(rows) > FEW_ROWS else ""
    return [Part(soft=f"{lead} Stored: {'; '.join(origins)}."), Part(table=table, fold=fold)]


def mean_of(row: Mapping[str, str]) -> Mean:
    """Return the mean of a row with its interval."""
    low, high = (float(row[key]) if row[key] else None for key in ("low", "high"))
    return Mean(mean=float(row["mean"]), low=low, high=high, trials=int(row["trials"]))
