"""A figure before it is drawn: panels of curves, which matplotlib and Bokeh draw alike, and its data as rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scenarios.files.replacement import file_name
from scenarios.report.tables.table import csv_text
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.schema import FigureConfig


@dataclass(frozen=True, kw_only=True)
class Spot:
    """One point on a curve: mean or rate `y` with its interval, over `n` trials (or observations).

    `x` None: the setting lies outside the sweep of x. `y` None: no error was seen, only `high` is known. A rate has its
    counts, too: `errors` among `total`.
    """

    x: Any
    y: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    errors: int | None = None
    total: int | None = None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The spots of one combination of series values in one panel, and its theory; `series` numbers its look.

    One label has one look in all figures of a scenario, see `curves.looks_of`.
    """

    label: str
    series: int
    spots: tuple[Spot, ...]
    theory: tuple[Spot, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure before it is drawn: panels in order, each with a title and its curves; `theory` names what is
    dashed, unless `config.beside` does. `charged` follows the name of x on its axis.
    """

    config: FigureConfig
    panels: tuple[tuple[str, tuple[Curve, ...]], ...]
    caption: str
    seed: int | None = None
    theory: str = "closed form"
    charged: str = ""

    @property
    def x_label(self) -> str:
        """Name and unit of x."""
        label = axis_label(self.config.x)
        return label.replace(" [", f" {self.charged} [", 1) if self.charged else label

    @property
    def dashed(self) -> str:
        """What is dashed: the quantity that the figure has beside its own, or theory."""
        return axis_label(self.config.beside) if self.config.beside else self.theory


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
                words = {"series": curve.label, "panel": title, "quantity": quantity}
                for one in spots:
                    yield {x: one.x, **words, "mean": one.y, "low": one.low, "high": one.high, "n": one.n or None}


def data_csv(drawing: Drawing) -> str:
    """The data of a figure as CSV; the column of x has its name."""
    x = drawing.config.x
    return csv_text((x, *DATA), rows_of(drawing, x=x))
