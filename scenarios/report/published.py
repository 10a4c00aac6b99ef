"""Published numbers and stored results beside ours: each finds its sweep point by its settings."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from scenarios.files.replacement import file_name, replace_text, writing
from scenarios.plan.identity import canonical_json, physics
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan, Point, is_set, value_of
from scenarios.report.library import library_scenario
from scenarios.report.tables.summaries import Mean, PointSummary, Rate
from scenarios.report.tables.table import Table, csv_text, escape_markdown
from scenarios.schema.labels.labels import axis_label, setting_cell, setting_label
from scenarios.schema.loader import LIBRARY
from scenarios.schema.schema import PublishedConfig, Scenario, TableConfig

Verdict = Literal["in our interval", "within its rounding", "outside"]

Absent = Literal["not simulated", "every trial failed", "not measured"]

_EXACT = 1e-9
"""Relative: 0.57 in percent is 56.99999999999999."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """One number of a paper, its settings, its row in `published`, and ours in the unit of the table or why not."""

    at: Mapping[str, Any]
    value: float
    row: int
    ours: Mean | None = None
    absent: Absent | None = None

    @property
    def difference(self) -> float | None:
        """Ours less the published number."""
        return None if self.ours is None else self.ours.mean - self.value


def lists_in(at: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The settings along which the numbers of a row walk."""
    return {path: value for path, value in at.items() if isinstance(value, list)}


def numbers(config: TableConfig) -> Iterator[Published]:
    """Every published number of a table with its own settings; ValueError for lists that do not walk together."""
    for number, row in enumerate(config.published):
        at = {**row.at, **{path: value for path, value in config.at.items() if path not in row.at}}
        walking, values = lists_in(at), row.numbers
        for value, *steps in zip(values, *walking.values(), strict=True):
            yield Published(at={**at, **dict(zip(walking, steps, strict=True))}, value=value, row=number)


def of_plan(config: TableConfig, plan: Plan) -> Iterator[Published]:
    """The numbers whose words are all known to the plan: those of a rival that it leaves out are another sweep's."""
    for published in numbers(config):
        if all(not isinstance(value, str) or value in words_at(plan, path) for path, value in published.at.items()):
            yield published


def words_at(plan: Plan, path: str) -> tuple[str, ...]:
    """The words that the points of a plan have at a path, each once."""
    return tuple(dict.fromkeys(word for p in plan.points if isinstance(word := value_of(p, path), str)))


def without_others(scenario: Scenario, plan: Plan) -> Scenario:
    """The scenario with the numbers of its own plan only, to be read again without the file of the others."""
    tables = []
    for config in scenario.report.tables:
        kept = tuple(of_plan(config, plan))
        if len(kept) == sum(1 for _ in numbers(config)):
            tables.append(config)
        elif kept:
            rows = tuple(PublishedConfig(at=dict(one.at), values=one.value) for one in kept)
            tables.append(config.model_copy(update={"published": rows, "at": {}}))
    return scenario.model_copy(update={"report": scenario.report.model_copy(update={"tables": tuple(tables)})})


def points_at(plan: Plan, at: Mapping[str, Any]) -> tuple[Point, ...]:
    """The points of a plan that have all of these settings."""
    return tuple(p for p in plan.points if all(is_set(value_of(p, path), value) for path, value in at.items()))


def compare(config: TableConfig, plan: Plan, summaries: Sequence[PointSummary]) -> tuple[Published, ...]:
    """A row per published number of this plan, in order; one without a whole trial says so."""
    found = {summary.point.index: summary for summary in summaries}
    rows: list[Published] = []
    for published in of_plan(config, plan):
        known = [found[point.index] for point in points_at(plan, published.at) if point.index in found]
        done = [summary.metrics.get(config.metric) for summary in known if summary.done]
        for ours in done:
            measured = None if ours is None else in_unit(ours, config)
            rows.append(replace(published, ours=measured, absent="not measured" if ours is None else None))
        if not done:
            rows.append(replace(published, absent="every trial failed" if known else "not simulated"))
    return tuple(rows)


def in_unit(mean: Mean, config: TableConfig) -> Mean:
    """A mean in the unit of the table, its interval no wider than what the quantity can be."""
    mean, factor = mean.within(config.metric), 100.0 if config.unit == "percent" else 1.0
    low, high = (None if limit is None else factor * limit for limit in (mean.low, mean.high))
    return replace(mean, mean=factor * mean.mean, low=low, high=high)


def verdict(row: Published, *, rounded_to: float | None) -> Verdict | None:
    """Where the published number lies; None without an interval of ours.

    A number printed to multiples of `rounded_to` stands for all that round to it: `within its rounding` are those
    outside our interval of which some lie in it.
    """
    if row.ours is None or row.ours.low is None or row.ours.high is None:
        return None
    exact, half = _EXACT * abs(row.value), (rounded_to or 0.0) / 2
    if row.ours.low - exact <= row.value <= row.ours.high + exact:
        return "in our interval"
    return "within its rounding" if row.ours.low - half <= row.value <= row.ours.high + half else "outside"


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """A configured table with its rows: what is compared, with whom, at which settings, and how the two differ."""

    config: TableConfig
    rows: tuple[Published, ...]

    @property
    def title(self) -> str:
        """The user's own, or quantity and source."""
        return self.config.title or f"{_capital(axis_label(self.config.metric))}, {self.config.source}"

    @property
    def paths(self) -> tuple[str, ...]:
        """All settings of the rows, in the order they are first named."""
        return tuple(dict.fromkeys(path for row in self.rows for path in row.at))

    def _telling(self) -> tuple[str, ...]:
        """Settings in which the numbers differ; of a single one, all."""
        if len(self.rows) == 1:
            return self.paths
        return tuple(p for p in self.paths if len({canonical_json(row.at.get(p)) for row in self.rows}) > 1)

    @property
    def table(self) -> Table:
        """The rows as text."""
        config, paths = self.config, self._telling()
        settings = tuple(map(axis_label, paths))
        compared = ("ours − published", "published value") if config.comparable else ()
        rows = []
        for row in self.rows:
            cells = [setting_cell(path, row.at.get(path)) or None for path in paths]
            ours = (None, row.absent) if row.ours is None else (str(row.ours.trials), str(row.ours))
            cells += [*ours, f"{row.value:g}"]
            if config.comparable:
                cells += [_difference(row, config), verdict(row, rounded_to=config.rounded_to)]
            rows.append(tuple(cells))
        heads = ("trials", f"ours{' [%]' if config.unit == 'percent' else ''}", "published")
        return Table(columns=(*settings, *heads, *compared), rows=tuple(rows), left=(*settings, *compared[1:]))

    @property
    def caption(self) -> str:
        """Whose numbers, at which settings that all rows share, and what the last columns say."""
        config = self.config
        common = config.at.keys() - lists_in(config.at).keys() - set(self._telling())
        at = ", ".join(filter(None, (setting_label(path, config.at[path]) for path in config.at if path in common)))
        text = f"{_capital(axis_label(config.metric))}. Published: {config.source}{f' ({at})' if at else ''}."
        text += " Ours: mean [95 % t interval of the mean over trials]; without brackets, of fewer than three."
        if not config.comparable:
            return f"{text} They do not measure the same quantity: no difference is given."
        if config.rounded_to is not None:
            text += (
                f" Published numbers come in steps of {config.rounded_to:g}: one that our interval misses, but that "
                "some of it rounds to, lies within its rounding."
            )
        return f"{text} A wide interval holds many numbers: lying in it is no proof of agreement."

    def markdown(self) -> str:
        """The table as Markdown, to be read as it is or pasted into a note."""
        title, caption, note = map(escape_markdown, (self.title, self.caption, self.config.note))
        return "\n\n".join(filter(None, (f"**{title}**", self.table.markdown(), caption, note))) + "\n"

    def csv(self) -> str:
        """The table as CSV with all digits: settings, ours, published; what is not known is an empty cell."""
        config, rows = self.config, []
        for row in self.rows:
            known = None if not config.comparable else verdict(row, rounded_to=config.rounded_to)
            rows.append(
                {path: row.at.get(path) for path in self.paths}
                | {"metric": config.metric, "unit": config.unit}
                | {name: getattr(row.ours, name, None) for name in ("trials", "mean", "low", "high")}
                | {"published": row.value, "rounded_to": config.rounded_to}
                | {"difference": row.difference if config.comparable else None, "verdict": row.absent or known}
                | {"source": config.source}
            )
        return csv_text(list(rows[0]), rows)


def _difference(row: Published, config: TableConfig) -> str | None:
    """As many decimals as the published number has, at least one; three digits where that is not known."""
    if row.difference is None:
        return None
    if config.rounded_to is None:
        return f"{row.difference:+.3g}"
    return f"{row.difference:+.{max(-math.floor(math.log10(config.rounded_to)), 1)}f}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def read_published(plan: Plan, summaries: Sequence[PointSummary]) -> tuple[PublishedTable, ...]:
    """The tables of a scenario that have numbers of its plan, with what was simulated so far."""
    configs = plan.points[0].scenario.report.tables
    tables = (PublishedTable(config=config, rows=compare(config, plan, summaries)) for config in configs)
    return tuple(table for table in tables if table.rows)


def write_published(folder: Path, tables: Sequence[PublishedTable]) -> tuple[Path, ...]:
    """Write each table as Markdown and as CSV into `folder`, each file whole or not; ScenarioError if it cannot be."""
    paths = []
    for number, one in enumerate(tables, start=1):
        stem = f"{number:02d}-{file_name(one.config.metric)[:80]}"
        with writing(folder, "tables"):
            paths.append(replace_text(folder / f"{stem}.md", one.markdown()))
            paths.append(replace_text(folder / f"{stem}.csv", one.csv()))
    return tuple(paths)


# --- stored results of library scenarios ----------------------------------------------------------

REFERENCE = LIBRARY / "reference"

COLUMNS = ("metric", "mean", "low", "high", "trials", "errors", "total", "seed", "version", "date", "source")
"""Columns of a file behind its settings.

`low` and `high` are empty for one trial. A rate has its counts, `errors` among `total`; without an error `mean` is
empty and `high` the upper limit. Files without a rate leave both columns out; those of links leave out `trials`.
"""


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


def number_of(row: Mapping[str, str]) -> Mean | Rate:
    """Return the rate of a row that has counts, else the mean, with its interval."""
    if row.get("total"):
        return Rate(errors=int(row["errors"]), total=int(row["total"]), low=float(row["low"]), high=float(row["high"]))
    low, high = (float(row[key]) if row[key] else None for key in ("low", "high"))
    return Mean(mean=float(row["mean"]), low=low, high=high, trials=int(row["trials"]))
