"""Tables of published numbers beside ours, on the page and as Markdown and CSV in the run folder."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scenarios.files.replacement import file_name, replace_text, writing
from scenarios.report.comparison import Comparison, compare, told_apart_by, verdict
from scenarios.report.tables.cells import csv_row
from scenarios.report.tables.text import Table, format_mean
from scenarios.schema.labels.labels import plain_label, plain_setting, setting_cell

if TYPE_CHECKING:
    from scenarios.plan.points import Plan
    from scenarios.report.tables.tables import PointSummary
    from scenarios.schema.schema import TableConfig

_FIELDS = (
    "metric",
    "unit",
    "trials",
    "mean",
    "low",
    "high",
    "published",
    "rounded_to",
    "difference",
    "verdict",
    "source",
)


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
    compared = ("ours − published", "published lies") if config.comparable else ()
    return ShownTable(
        title=config.title or f"{_capital(plain_label(config.metric))}, {config.source}",
        caption=_caption(one, paths),
        note=config.note,
        table=Table(
            columns=(*map(plain_label, paths), *heads, *compared),
            numeric=(*(False for _ in paths), True, True, True, *(True, False)[: len(compared)]),
            rows=tuple(_cells(row, config, paths) for row in one.rows),
        ),
    )


def _cells(row: Comparison, config: TableConfig, paths: Sequence[str]) -> tuple[str | None, ...]:
    ours = row.absent if row.ours is None else format_mean(row.ours)
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
    common = {path: value for path, value in config.at.items() if path not in paths and not isinstance(value, list)}
    at = ", ".join(filter(None, (plain_setting(path, value) for path, value in common.items())))
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
    ruler = ("---:" if numeric else "---" for numeric in one.table.numeric)
    lines = [_line(one.table.columns), f"| {' | '.join(ruler)} |", *map(_line, one.table.rows)]
    parts = (f"**{_escaped(one.title)}**", "\n".join(lines), _escaped(one.caption), _escaped(one.note))
    return "\n\n".join(filter(None, parts)) + "\n"


def _line(cells: Sequence[str | None]) -> str:
    return f"| {' | '.join(_escaped(cell or '') for cell in cells)} |"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\|<>*_`\[\]])", r"\\\1", " ".join(text.split()))


def tidy(one: PublishedTable) -> str:
    """A table as CSV with all digits: settings, ours, published; what is not known is an empty cell."""
    paths = tuple(dict.fromkeys(path for row in one.rows for path in row.published.at))
    rows = ((*(row.published.at.get(path) for path in paths), *_values(row, one.config)) for row in one.rows)
    return "".join(map(csv_row, [(*paths, *_FIELDS), *rows]))


def _values(row: Comparison, config: TableConfig) -> Iterator[object]:
    """One row from `_FIELDS`; csv writes None as an empty cell."""
    ours = row.ours
    yield from (config.metric, config.unit)
    yield from (None, None, None, None) if ours is None else (ours.trials, ours.mean, ours.low, ours.high)
    yield from (row.published.value, config.rounded_to)
    yield row.difference if config.comparable else None
    yield row.absent or (verdict(row, rounded_to=config.rounded_to) if config.comparable else None)
    yield config.source
