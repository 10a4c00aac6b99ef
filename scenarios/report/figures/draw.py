"""How curves are drawn and figures written, as PNG and SVG.

No pyplot and no global state; the same store yields the same SVG, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scenarios.files.replacement import file_name, writing
from scenarios.report.figures.curves import Curve, Drawing, Spot, arrange, is_shown
from scenarios.report.figures.layout import legend_layout, log_limits, log_ticks, word_ticks, wrap
from scenarios.report.figures.style import COLOURS, LINES, MARKERS, STYLE, FigureFiles, write_picture
from scenarios.report.tables.quantities import ROUND_AXES
from scenarios.schema.labels.labels import axis_label, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scenarios.plan.points import Plan, Point
    from scenarios.report.tables.tables import PointSummary
    from scenarios.schema.schema import FigureConfig


MARKERS_PER_CURVE = 15
"""A curve along a run has a spot per round; as many markers would hide it."""

WIDEST = 11.4
"""Inches of the widest figure, three panels side by side: on a page it is shrunk to the width of the others."""


def draw(drawing: Drawing) -> Figure:
    """The figure; legend below the panels, panels side by side with shared axes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    config, count = drawing.config, max(len(drawing.panels), 1)
    columns = 2 if count in (2, 4) else min(count, 3)
    rows = -(-count // columns)
    if config.beside is not None and any(drawing.beside.values()):
        drawing = _with_names(drawing)
    labels = list(dict.fromkeys(curve.label for _, curves in drawing.panels for curve in curves))
    if config.beside is not None and any(drawing.beside.values()):
        labels.append(plain_label(config.beside))
    with rc_context(STYLE):
        words = _categories(drawing)
        abreast = 1 + max((curve.series for _, curves in drawing.panels for curve in curves), default=0)
        width = 6.4 if columns == 1 else 3.6 * columns + 0.6
        if columns == 1:  # many curves over many words need room side by side
            width = max(width, min(0.16 * abreast * len(words), WIDEST))
        per_row, wrapped, legend_height = legend_layout(labels, width=width)
        titles = [wrap(title, width=width / columns - 0.6) for title, _ in drawing.panels]
        title_lines = max((title.count("\n") for title in titles), default=0)
        height = (4.0 if rows == 1 else 3.1 * rows) + 0.18 * rows * title_lines + legend_height
        figure = Figure(figsize=(width, height), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, title, (_, curves) in zip(grid.flat, titles, drawing.panels, strict=False):
            for curve in curves:
                _draw_curve(axes, curve, words=words, abreast=abreast)
            axes.set_title(title)
        for axes, (title, _) in zip(grid.flat, drawing.panels, strict=False):
            _draw_beside(axes, drawing.beside.get(title, ()), label=plain_label(config.beside or ""))
        for axes in grid.flat[count:]:
            axes.set_visible(False)
        for axes in grid.flat[:count]:
            _finish_axes(axes, drawing, words=words, width=(width - 1.0) / columns)
        for index, axes in enumerate(grid.flat[:count]):
            if index == 0 and rows > 1:  # one label for all rows: beside a single low panel it may not fit
                figure.supylabel(axis_label(config.y), fontsize=10.5)
            elif index % columns == 0 and rows == 1:
                axes.set_ylabel(axis_label(config.y))
            if index + columns >= count:  # nothing below it, the last row may be short
                axes.set_xlabel(wrap(axis_label(config.x), width=width / columns - 0.3))  # its neighbour has one too
                axes.tick_params(labelbottom=True)
        if config.title:
            title = wrap(config.title.replace("$", r"\$"), width=0.8 * width)
            figure.suptitle(title, fontsize=11.5, fontweight="bold")
        if any(labels):
            handles: dict[str, Any] = {}
            for axes in grid.flat:  # the first panel that shows a series is its best example
                for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                    handles.setdefault(label, handle)
            figure.legend(
                handles=[handles[label] for label in labels if label in handles],
                labels=[text for label, text in zip(labels, wrapped, strict=True) if label in handles],
                loc="outside lower center",
                ncols=per_row,
                handlelength=3.2,
            )
    return figure


def _categories(drawing: Drawing) -> list[str]:
    """Words along x in the order of the plan; empty if x is a number."""
    values = [s.x for _, curves in drawing.panels for c in curves for s in c.spots if s.x is not None]
    if all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in values):
        return []
    return list(dict.fromkeys(str(x) for x in values))


def _draw_curve(axes: Axes, curve: Curve, *, words: Sequence[str], abreast: int) -> None:
    """Line, markers and band; a spot without an error shows its upper limit and no line through it.

    Over words, `abreast` curves of the figure stand side by side.
    """
    look: dict[str, Any] = {
        "color": COLOURS[curve.series % len(COLOURS)],
        "linestyle": LINES[curve.series % len(LINES)],
        "linewidth": 1.5,
    }
    marker: dict[str, Any] = {
        "marker": MARKERS[curve.series % len(MARKERS)],
        "markersize": 5.5,
        # Every other series is hollow: tells neighbours apart in grey.
        "markerfacecolor": "white" if curve.series % 2 else look["color"],
        "markeredgewidth": 1.3,
    }
    label: str | None = curve.label
    placed = [s for s in curve.spots if s.x is not None]
    if placed:
        x = np.array([words.index(str(s.x)) if words else float(s.x) for s in placed])
        y = _column([s.y for s in placed])
        low = _column([s.low if s.y is not None else None for s in placed])
        high = _column([s.high if s.y is not None else None for s in placed])
        if words:  # nothing lies between two words: no line, bars instead of a band, side by side
            x = x + 0.8 / max(abreast, 9) * (curve.series - (abreast - 1) / 2)
            axes.errorbar(x, y, yerr=(y - low, high - y), label=label, capsize=3, **{**look, "linestyle": ""}, **marker)
        else:
            every = max(len(placed) // MARKERS_PER_CURVE, 1)
            axes.plot(x, y, label=label, markevery=every, **look, **marker)
            axes.fill_between(x, low, high, color=look["color"], alpha=0.16, linewidth=0)
        label = None
        unseen = [(at, s.high) for at, s in zip(x, placed, strict=True) if s.y is None]
        if unseen:
            at, limit = zip(*unseen, strict=True)
            axes.plot(at, limit, linestyle="", marker="_", color=look["color"], markersize=8)
            axes.plot(at, limit, linestyle="", marker=11, color=look["color"], markersize=5)  # caret below
    for spot in curve.spots:
        # A line at an upper limit would look like a rate: references without errors stand in the table only.
        if spot.x is None and spot.y is not None:
            axes.axhline(spot.y, label=label, **look)
            label = None
            if spot.low is not None and spot.high is not None:
                axes.axhspan(spot.low, spot.high, color=look["color"], alpha=0.12, linewidth=0)


def _with_names(drawing: Drawing) -> Drawing:
    """A curve that is alone needs no name, until a theory stands beside it."""
    named = tuple(
        (title, tuple(replace(curve, label=curve.label or "measured") for curve in curves))
        for title, curves in drawing.panels
    )
    return replace(drawing, panels=named)


def _draw_beside(axes: Axes, curves: Sequence[Curve], *, label: str) -> None:
    """Thin lines without markers over the curves, one entry of the legend for all of them."""
    for number, curve in enumerate(curves):
        placed = [(s.x, s.y) for s in curve.spots if isinstance(s.x, (int, float)) and s.y is not None]
        axes.plot(
            [x for x, _ in placed],
            [y for _, y in placed],
            color="#333333",
            linewidth=0.9,
            zorder=3,
            label=label if number == 0 else None,
        )


def _column(values: Sequence[float | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Numbers with NaN for what is absent: matplotlib leaves a gap there."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _finish_axes(axes: Axes, drawing: Drawing, *, words: Sequence[str], width: float) -> None:
    """Scales, limits, ticks, grid of a panel `width` inches wide."""
    config = drawing.config
    spots = [s for _, curves in (*drawing.panels, *drawing.beside.items()) for c in curves for s in c.spots]
    numbers = [s.x for s in spots if s.x is not None]
    if words:
        names, slanted = word_ticks(config.x, words, width=width)
        axes.set_xticks(range(len(words)), names, rotation=30 if slanted else 0, ha="right" if slanted else "center")
        axes.set_xticks(np.arange(len(words) - 1) + 0.5, minor=True)  # lines between words, each with its curves
        axes.tick_params(axis="x", which="minor", length=0)
        axes.set_xlim(-0.5, len(words) - 0.5)
    elif config.x_scale == "log" and numbers and min(numbers) > 0:
        axes.set_xscale("log")
        if len(ticks := sorted(set(numbers))) <= 8:  # the values themselves, rather than powers of ten
            axes.set_xticks(ticks, log_ticks(ticks, width=width))
            axes.set_xticks([], minor=True)
    elif config.x == "round":
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if config.y_scale == "log" and (limits := log_limits(spots)):
        axes.set_yscale("log")
        axes.set_ylim(*limits)
    axes.grid(visible=True, which="major", axis="y" if words else "both", color="#d9d9d9", linewidth=0.7)
    axes.grid(visible=True, which="minor", color="#d9d9d9" if words else "#eeeeee", linewidth=0.5)


def write_figures(
    folder: Path,
    plan: Plan,
    *,
    summaries: Sequence[PointSummary],
    figures: Sequence[FigureConfig],
    along: Callable[[FigureConfig], Iterable[tuple[Point, str, Spot]]] = lambda _: (),
) -> tuple[FigureFiles, ...]:
    """Draw each figure into `folder` as PNG (150 dpi) and SVG; ScenarioError if it cannot be written.

    `along` reads what a figure over rounds, seconds or joules shows.
    """
    with writing(folder, "figures"):
        return tuple(
            _write_figure(
                folder,
                f"{number:02d}-{file_name(config.y)}",
                _arranged(config, plan, summaries, along),
            )
            for number, config in enumerate(figures, start=1)
        )


def _arranged(
    config: FigureConfig,
    plan: Plan,
    summaries: Sequence[PointSummary],
    along: Callable[[FigureConfig], Iterable[tuple[Point, str, Spot]]],
) -> Drawing:
    """The drawing of the points that the figure keeps, with what it draws beside them."""
    kept = [s for s in summaries if is_shown(config, s.point)]
    spots = [one for one in along(config) if is_shown(config, one[0])] if config.x in ROUND_AXES else []
    drawing = arrange(config, plan, kept, over_rounds=spots)
    if config.beside is None:
        return drawing
    other = config.model_copy(update={"y": config.beside, "beside": None})
    return replace(drawing, beside=dict(_arranged(other, plan, kept, along).panels))


def _write_figure(folder: Path, name: str, drawing: Drawing) -> FigureFiles:
    config = drawing.config
    paths = write_picture(draw(drawing), folder / name)
    title = config.title or f"{plain_label(config.y)} over {plain_label(config.x)}"
    return FigureFiles(title=title, caption=drawing.caption, **paths)
