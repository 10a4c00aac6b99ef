"""Tables: as text on the terminal, on the page and as Markdown, and rows of CSV files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PIPED_COLUMNS = 100
"""Width of a table with columns that may break, where there is no terminal."""


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
        """Print the table; a cell that is a key of `styles` has that style of `rich`."""
        from rich.console import Console
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid(box=None, pad_edge=False, header_style="bold")
        for head, right in zip(self.columns, self.numeric, strict=True):
            grid.add_column(
                head, justify="right" if right else "left", no_wrap=head not in self.wrapped, overflow="fold"
            )
        for row in self.rows:
            grid.add_row(*(Text(cell or "", style=(styles or {}).get(cell or "", "")) for cell in row))
        # A table cut to a narrow window loses digits: let long lines wrap instead, unless columns may break.
        console = Console()
        width = None if console.is_terminal else _PIPED_COLUMNS
        Console(width=width if self.wrapped else max(console.width, 1000), soft_wrap=not self.wrapped).print(grid)

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


def in_groups(rows: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Iterator[tuple[str, ...]]:
    """Rows of (parts of a setting, cells); those that differ in the last part alone are below a row with the others."""
    for shared, group in groupby(rows, key=lambda row: tuple(row[0][:-1])):
        members = list(group)
        if grouped := len(members) > 1 and bool(shared):
            yield ", ".join(shared), *("" for _ in members[0][1])
        for parts, cells in members:
            yield f"  {parts[-1]}" if grouped else ", ".join(parts), *cells


def say(text: str, *, markup: bool = False) -> None:
    """Print a sentence: broken between words on a terminal, on one line elsewhere."""
    from rich.console import Console

    console = Console()
    console.print(text, highlight=False, markup=markup, soft_wrap=not console.is_terminal)


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
