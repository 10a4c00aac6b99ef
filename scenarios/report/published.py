"""Published numbers beside ours: each finds its sweep point by its settings. Tables on the page and as files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scenarios.files.replacement import file_name, replace_text, writing
from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, Point, is_number, value_of
from scenarios.report.tables.table import Table, csv_text, escape_markdown
from scenarios.schema.labels.labels import plain_label, plain_setting, setting_cell
from scenarios.schema.schema import PublishedConfig, Scenario, TableConfig

if TYPE_CHECKING:
    from scenarios.report.tables.intervals import Mean
    from scenarios.report.tables.tables import PointSummary
    from scenarios.schema.errors import KeyPath

Verdict = Literal["in our interval", "within its rounding", "outside"]

Absent = Literal["not simulated", "every trial failed", "not measured"]

_EXACT = 1e-9
"""Relative: 0.57 in percent is 56.99999999999999."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """One number of a paper, the settings it belongs to, and where in the list `published` it stands."""

    at: Mapping[str, Any]
    value: float
    place: KeyPath


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A published number beside ours, both in the unit of the table; `ours` None: `absent` says why."""

    published: Published
    ours: Mean | None
    absent: Absent | None = None

    @property
    def difference(self) -> float | None:
        """Ours less the published number."""
        return None if self.ours is None else self.ours.mean - self.published.value


def lists_in(at: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The settings along which the numbers of a row walk."""
    return {path: value for path, value in at.items() if isinstance(value, list)}


def numbers(config: TableConfig) -> Iterator[Published]:
    """Every published number of a table with its own settings; ValueError for lists that do not walk together."""
    for entry, row in enumerate(config.published):
        at = {**row.at, **{path: value for path, value in config.at.items() if path not in row.at}}
        walking = lists_in(at)
        if not isinstance(row.values, tuple):
            if walking:
                raise ValueError(f"{next(iter(walking))} is a list, and the number is one")
            yield Published(at=at, value=row.values, place=(entry,))
            continue
        for place, (value, *steps) in enumerate(zip(row.values, *walking.values(), strict=True)):
            yield Published(at={**at, **dict(zip(walking, steps, strict=True))}, value=value, place=(entry, place))


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


def is_set(value: Any, wanted: Any) -> bool:
    """Whether a setting has the value written: numbers by size, so that 1 is 1.0, all else by its text."""
    if is_number(value) and is_number(wanted):
        return bool(value == wanted)
    return canonical_json(value) == canonical_json(wanted)


def compare(config: TableConfig, plan: Plan, summaries: Sequence[PointSummary]) -> tuple[Comparison, ...]:
    """A row per published number of this plan, in order; one without a whole trial says so."""
    found = {summary.point.index: summary for summary in summaries}
    rows = []
    for published in of_plan(config, plan):
        known = [found[point.index] for point in points_at(plan, published.at) if point.index in found]
        done = [summary for summary in known if summary.done]
        for summary in done:
            ours = summary.metrics.get(config.metric)
            if ours is None:
                rows.append(Comparison(published=published, ours=None, absent="not measured"))
            else:
                rows.append(Comparison(published=published, ours=in_unit(ours, config)))
        if not done:
            absent: Absent = "every trial failed" if known else "not simulated"
            rows.append(Comparison(published=published, ours=None, absent=absent))
    return tuple(rows)


def in_unit(mean: Mean, config: TableConfig) -> Mean:
    """A mean in the unit of the table, its interval no wider than what the quantity can be."""
    mean = mean.within(config.metric)
    low, high, factor = mean.low, mean.high, 100.0 if config.unit == "percent" else 1.0
    return replace(
        mean,
        mean=factor * mean.mean,
        low=None if low is None else factor * low,
        high=None if high is None else factor * high,
    )


def verdict(row: Comparison, *, rounded_to: float | None) -> Verdict | None:
    """Where the published number lies; None without an interval of ours.

    A number printed to multiples of `rounded_to` stands for all that round to it: `within its rounding` are those
    outside our interval of which some lie in it.
    """
    if row.ours is None or row.ours.low is None or row.ours.high is None:
        return None
    value = row.published.value
    exact, half = _EXACT * abs(value), (rounded_to or 0.0) / 2
    if row.ours.low - exact <= value <= row.ours.high + exact:
        return "in our interval"
    return "within its rounding" if row.ours.low - half <= value <= row.ours.high + half else "outside"


def told_apart_by(rows: Sequence[Comparison]) -> tuple[str, ...]:
    """Settings in which the numbers of a table differ, in the order they are first named; of a single one, all."""
    paths = tuple(dict.fromkeys(path for row in rows for path in row.published.at))
    if len(rows) == 1:
        return paths
    return tuple(path for path in paths if len({canonical_json(row.published.at.get(path)) for row in rows}) > 1)


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ShownTable:
    """One table of the page: what is compared, with whom, at which settings, and how the two differ."""

    title: str
    caption: str
    note: str
    table: Table


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """A configured table with its rows."""

    config: TableConfig
    rows: tuple[Comparison, ...]


def read_published(plan: Plan, summaries: Sequence[PointSummary]) -> tuple[PublishedTable, ...]:
    """The tables of a scenario that have numbers of its plan, with what was simulated so far."""
    configs = plan.points[0].scenario.report.tables
    tables = (PublishedTable(config=config, rows=compare(config, plan, summaries)) for config in configs)
    return tuple(table for table in tables if table.rows)


def shown(one: PublishedTable) -> ShownTable:
    """A table as text."""
    config = one.config
    paths = told_apart_by(one.rows)
    heads = ("trials", f"ours{' [%]' if config.unit == 'percent' else ''}", "published")
    compared = ("ours − published", "published value") if config.comparable else ()
    return ShownTable(
        title=config.title or f"{_capital(plain_label(config.metric))}, {config.source}",
        caption=_caption(one, paths),
        note=config.note,
        table=Table(
            columns=(*map(plain_label, paths), *heads, *compared),
            rows=tuple(_cells(row, config, paths) for row in one.rows),
            left=(*map(plain_label, paths), *compared[1:]),
        ),
    )


def _cells(row: Comparison, config: TableConfig, paths: Sequence[str]) -> tuple[str | None, ...]:
    ours = row.absent if row.ours is None else str(row.ours)
    trials = None if row.ours is None else str(row.ours.trials)
    compared = (_difference(row, config), verdict(row, rounded_to=config.rounded_to)) if config.comparable else ()
    return (
        *(setting_cell(path, row.published.at.get(path)) or None for path in paths),
        *(trials, ours, f"{row.published.value:g}"),
        *compared,
    )


def _difference(row: Comparison, config: TableConfig) -> str | None:
    """As many decimals as the published number has, at least one; three digits where that is not known."""
    if row.difference is None:
        return None
    if config.rounded_to is None:
        return f"{row.difference:+.3g}"
    return f"{row.difference:+.{max(-math.floor(math.log10(config.rounded_to)), 1)}f}"


def _caption(one: PublishedTable, paths: Sequence[str]) -> str:
    """Whose numbers, at which settings that all rows share, and what the last columns say."""
    config = one.config
    common = config.at.keys() - lists_in(config.at).keys() - set(paths)
    at = ", ".join(filter(None, (plain_setting(path, config.at[path]) for path in config.at if path in common)))
    text = f"{_capital(plain_label(config.metric))}. Published: {config.source}{f' ({at})' if at else ''}."
    text += " Ours: mean [95 % t interval of the mean over trials]; without brackets a single trial."
    if not config.comparable:
        return f"{text} They are not measurements of one thing: no difference is given."
    if config.rounded_to is not None:
        text += (
            f" Published numbers come in steps of {config.rounded_to:g}: one that our interval misses, but that some "
            "of it rounds to, lies within its rounding."
        )
    return f"{text} A wide interval holds many numbers: lying in it is no proof of agreement."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- files ----------------------------------------------------------------------------------------


def write_published(folder: Path, tables: Sequence[PublishedTable]) -> tuple[Path, ...]:
    """Write each table as Markdown and as CSV into `folder`, each file whole or not; ScenarioError if it cannot be."""
    if not tables:
        return ()
    paths = []
    with writing(folder, "tables"):
        for number, one in enumerate(tables, start=1):
            stem = f"{number:02d}-{file_name(one.config.metric)[:80]}"
            for kind, text in (("md", markdown(shown(one))), ("csv", tidy(one))):
                paths.append(replace_text(folder / f"{stem}.{kind}", text))
    return tuple(paths)


def markdown(one: ShownTable) -> str:
    """A table as Markdown, to be read as it is or pasted into a note."""
    parts = (f"**{escape_markdown(one.title)}**", one.table.markdown(), escape_markdown(one.caption))
    return "\n\n".join(filter(None, (*parts, escape_markdown(one.note)))) + "\n"


def tidy(one: PublishedTable) -> str:
    """A table as CSV with all digits: settings, ours, published; what is not known is an empty cell."""
    paths = tuple(dict.fromkeys(path for row in one.rows for path in row.published.at))
    rows = [{path: row.published.at.get(path) for path in paths} | _fields(row, one.config) for row in one.rows]
    return csv_text(list(rows[0]), rows)


def _fields(row: Comparison, config: TableConfig) -> dict[str, object]:
    ours, compared = row.ours, config.comparable
    return {
        "metric": config.metric,
        "unit": config.unit,
        **{name: getattr(ours, name, None) for name in ("trials", "mean", "low", "high")},
        "published": row.published.value,
        "rounded_to": config.rounded_to,
        "difference": row.difference if compared else None,
        "verdict": row.absent or (verdict(row, rounded_to=config.rounded_to) if compared else None),
        "source": config.source,
    }
