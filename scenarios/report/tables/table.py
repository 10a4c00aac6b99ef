"""Tables: as text on the terminal, on the page and as Markdown, and rows of CSV files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from scenarios.schema.errors import PIPED_COLUMNS

if TYPE_CHECKING:
    from rich.console import Console

_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_LEAST, _LEAST_OTHER = 20, 10
"""Characters in a line of the first column, and of other columns that may break, at least."""
_GAP = 2


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text; None is an empty cell.

    Columns of numbers are aligned to the right, all but those whose heads are in `left`; those in `wrapped` may break
    into lines. The page shows no heads where all are empty.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    left: Collection[str] = ()
    wrapped: Collection[str] = ()

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Tells of each column if it is aligned to the right."""
        return tuple(head not in self.left for head in self.columns)

    def print(self, *, styles: Mapping[str, str] | None = None) -> None:
        """Print the table; a cell that is a key of `styles` has that style of `rich`.

        Columns that do not fit beside each other follow below, with the first column again.
        """
        from rich.cells import cell_len
        from rich.table import Table as Grid
        from rich.text import Text

        console = wide_console()
        whole = [max(cell_len(cell or "") for cell in column) for column in zip(self.columns, *self.rows, strict=True)]
        widths = whole
        if sum(whole) + _GAP * (len(whole) - 1) > console.width:
            least = [_LEAST, *(_LEAST_OTHER if head in self.wrapped else max(whole) for head in self.columns[1:])]
            widths = [min(pair) for pair in zip(whole, least, strict=True)]
        for part in _beside(widths, console.width):
            grid = Grid(box=None, pad_edge=False, header_style="bold")
            for number in part:
                fits = widths[number] == whole[number] and widths[0] + _GAP + whole[number] <= console.width
                grid.add_column(
                    self.columns[number],
                    justify="right" if self.numeric[number] else "left",
                    no_wrap=fits,
                    min_width=None if fits else min(widths[number], console.width),
                    overflow="fold",
                )
            for row in self.rows:
                texts = (row[number] or "" for number in part)
                grid.add_row(*(Text(text, style=(styles or {}).get(text, "")) for text in texts))
            if part[1:2] > (1,):
                console.print()
            console.print(grid)

    def without_constants(self) -> tuple[Table, dict[str, str]]:
        """The table without columns that have one and the same text in several rows, and that text by head.

        Rows with nothing but a first cell are headings. Of a table of constants the first column stays.
        """
        rows = [row for row in self.rows if any(row[1:])]
        columns = list(zip(self.columns, zip(*rows, strict=True), strict=True)) if len(rows) > 1 else []
        fixed = {head: cells[0] or "" for head, cells in columns if len(set(cells)) == 1}
        if self.columns and len(fixed) == len(self.columns):
            fixed.pop(self.columns[0])
        kept = [number for number, head in enumerate(self.columns) if head not in fixed]
        left = tuple(tuple(row[number] for number in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[number] for number in kept), rows=left), fixed

    def markdown(self) -> str:
        """The table as Markdown."""
        ruler = ("---:" if numeric else "---" for numeric in self.numeric)
        lines = [self.columns, *self.rows]
        head, *rows = (f"| {' | '.join(escape_markdown(cell or '') for cell in row)} |" for row in lines)
        return "\n".join([head, f"| {' | '.join(ruler)} |", *rows])


def _beside(widths: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """Numbers of the columns that fit beside each other, each time after the first column."""
    part = [0] if widths else []
    for number in range(1, len(widths)):
        if len(part) > 1 and sum(widths[one] + _GAP for one in part) + widths[number] > most:
            yield tuple(part)
            part = [0]
        part.append(number)
    yield tuple(part)


def wide_console() -> Console:
    """The terminal, or lines of PIPED_COLUMNS characters where there is none."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=PIPED_COLUMNS)


def in_groups(rows: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Iterator[tuple[str, ...]]:
    """Rows of (parts of a setting, cells); those that differ in the last part alone are below a row with the others."""
    for shared, group in groupby(rows, key=lambda row: tuple(row[0][:-1])):
        members = list(group)
        if grouped := len(members) > 1 and bool(shared):
            yield ", ".join(shared), *("" for _ in members[0][1])
        for parts, cells in members:
            yield f"  {parts[-1]}" if grouped else ", ".join(filter(None, parts)), *cells


def say(text: str, *, markup: bool = False) -> None:
    """Print a sentence, broken between words."""
    wide_console().print(text, highlight=False, markup=markup)


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\|<>*_`\[\]])", r"\\\1", " ".join(text.split()))


def csv_cell(value: object) -> object:
    """The value; text that a spreadsheet would take for a formula, and run, has an apostrophe before it.

    Numbers are no text and stay as they are, minus signs included.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_BEGINS_A_FORMULA) else value


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """A CSV file, quoted where needed; None, and a value that a row does not have, is an empty cell."""
    buffer, lines = io.StringIO(), [columns, *([row.get(name) for name in columns] for row in rows)]
    csv.writer(buffer, lineterminator="\n").writerows([csv_cell(value) for value in line] for line in lines)
    return buffer.getvalue()
