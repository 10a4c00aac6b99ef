"""The data of a figure as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from scenarios.files.replacement import file_name
from scenarios.report.tables.table import csv_text
from scenarios.schema.labels.labels import plain

if TYPE_CHECKING:
    from scenarios.report.figures.curves import Drawing

DATA = ("series", "panel", "quantity", "mean", "low", "high", "n")
"""Columns beside x."""


def stem(number: int, drawing: Drawing) -> str:
    """Name of the files of the figure of this number, from 1."""
    return f"{number:02d}-{file_name(drawing.config.y)}"


def rows_of(drawing: Drawing, *, x: str) -> Iterator[dict[str, Any]]:
    """A row per spot, in the columns `x` and `DATA`.

    `series` and `panel` are labels, empty where there is one. `quantity` is y, or `beside`, or `theory` for a closed
    form. x is empty for a horizontal line, `mean` where no error was seen and `high` is the upper limit; `n` counts
    trials, of a link study observations.
    """
    y, beside = drawing.config.y, drawing.config.beside or "theory"
    for title, curves in drawing.panels:
        for curve in curves:
            for quantity, spots in ((y, curve.spots), (beside, curve.theory)):
                words = {"series": plain(curve.label), "panel": plain(title), "quantity": quantity}
                for one in spots:
                    yield {x: one.x, **words, "mean": one.y, "low": one.low, "high": one.high, "n": one.n or None}


def data_csv(drawing: Drawing) -> str:
    """The data of a figure as CSV; the column of x has its name."""
    x = drawing.config.x
    return csv_text((x, *DATA), rows_of(drawing, x=x))
