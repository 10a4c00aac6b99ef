"""Text in tables that a spreadsheet opens."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_cell(value: object) -> object:
    """The value; text that a spreadsheet would take for a formula, and run, has an apostrophe before it.

    Numbers are no text and stay as they are, minus signs included.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_BEGINS_A_FORMULA) else value


def csv_row(values: Iterable[object]) -> str:
    """One line of CSV, quoted where needed; None is an empty cell."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow([csv_cell(value) for value in values])
    return buffer.getvalue()


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """A CSV file; a value that a row does not have is an empty cell."""
    return "".join([csv_row(columns), *(csv_row(row.get(name) for name in columns) for row in rows)])
