"""Text in tables that a spreadsheet opens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_cell(value: object) -> object:
    """The value; text that a spreadsheet would take for a formula, and run, has an apostrophe before it.

    Numbers are no text and stay as they are, minus signs included.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_BEGINS_A_FORMULA) else value


def csv_cells(values: Iterable[object]) -> list[object]:
    """`csv_cell` of each."""
    return [csv_cell(value) for value in values]


def csv_record(values: Mapping[str, object]) -> dict[str, object]:
    """`csv_cell` of each value."""
    return {name: csv_cell(value) for name, value in values.items()}
