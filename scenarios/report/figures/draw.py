"""How curves are drawn and figures written: SVG for the page, PDF, pgf and PNG for a paper.

Curves differ in marker, line style and width, so that they are told apart in grey and where they coincide. No pyplot
and no global state; the same store yields the same SVG, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scenarios.files.replacement import replace_text, replacement, writing
from scenarios.report.figures import style
from scenarios.report.figures.drawing import Curve, Drawing, data_csv, stem
from scenarios.report.figures.frame import Frame, frame_of
from scenarios.report.figures.interactive import describe
from scenarios.report.figures.style import FigureFiles, look, wrap, write_picture
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.labels import axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

MARKERS_PER_CURVE = 15
"""A curve along a run has a spot per round; as many markers would hide it."""

WIDEST = 11.4
"""Inches of the widest figure, three panels side by side: on a page it is shrunk to the width of the others."""

THEORY: dict[str, Any] = {"linestyle": "--", "linewidth": 1.1}

MINOR = "#eeeeee"
"""Lines of the grid between two powers of ten."""

PAPER = {1: 3.5, 2: 7.16}
"""Inches of one and of two columns of a paper, as IEEE has them."""
PAPER_DPI = 300
"""Of PNG; IEEE asks for 300 or more."""
LIMITS_APART = 6.0
"""Points between the arrows of equal upper limits at one x."""
SMALL = 0.75
"""Of all sizes on paper: letters of 7.5 points."""


def draw(drawing: Drawing, *, new: Callable[..., Figure] | None = None, inches: float | None = None) -> Figure:
    """The figure; legend below the panels, panels side by side with shared axes. `new` makes it, as `Figure` does.

    With `inches` it is as wide, in small letters and without a title, for a paper; panels of one column lie one below
    the other.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    config, panels = drawing.config, drawing.panels or (("", ()),)
    count = len(panels)
    columns = 2 if count in (2, 4) else min(count, 3)
    scale, columns = (1.0, columns) if inches is None else (SMALL, columns if inches > PAPER[1] else 1)
    rows = -(-count // columns)
    curves = [curve for _, some in panels for curve in some]
    labels = list(dict.fromkeys(curve.label for curve in curves))
    handles: dict[str, Any] = {}
    if any(curve.theory for curve in curves):
        labels.append(drawing.dashed)
        handles[labels[-1]] = Line2D([], [], label=labels[-1], color="#444444", **THEORY)
    with rc_context(style.sized(scale)):
        frame = frame_of(drawing)
        width = 6.4 if columns == 1 else 3.6 * columns + 0.6
        if columns == 1:  # many curves over many words need room side by side
            width = max(width, min(0.16 * len(frame.series) * len(frame.words), WIDEST))
        width = width if inches is None else inches / scale
        per_row, wrapped, legend_height = style.legend_layout(labels, width=width)
        titles = [wrap(title, width=width / columns - 0.6) for title, _ in panels]
        title_lines = max(title.count("\n") for title in titles)
        height = (4.0 if rows == 1 else 3.1 * rows) + 0.18 * rows * title_lines + legend_height
        figure = (new or Figure)(figsize=(scale * width, scale * height), layout="constrained")
        grid = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
        for axes, title, (_, some) in zip(grid, titles, panels, strict=False):
            beside = _equal_limits(some)
            for curve in some:
                drawn = [(s.x, s.y) for s in curve.theory if s.x is not None and s.y is not None]
                if drawn:  # a thin line, over a measured line that may hide it, or behind markers
                    colour = "#333333" if config.beside else look(curve.series).colour
                    axes.plot(*zip(*drawn, strict=True), color=colour, zorder=3 if config.beside else 1.8, **THEORY)
                _draw_curve(axes, curve, frame=frame, scale=scale, beside=beside)
            axes.set_title(title)
        for axes in grid[count:]:
            axes.set_visible(False)
        for index, axes in enumerate(grid[:count]):
            _finish_axes(axes, config.x, frame=frame, width=(width - 1.0) / columns)
            if index == 0 and rows > 1:  # one label for all rows: beside a single low panel it may not fit
                figure.supylabel(axis_label(config.y), fontsize=10.5 * scale)
            elif index % columns == 0 and rows == 1:
                axes.set_ylabel(axis_label(config.y))
            if index + columns >= count:  # nothing below it, the last row may be short
                axes.set_xlabel(wrap(drawing.x_label, width=width / columns - 0.3))  # its neighbour has one too
                axes.tick_params(labelbottom=True)
        if config.title and inches is None:
            style.put_title(figure, config.title)
        if any(labels):
            for axes in grid:  # the first panel that shows a series is its best example
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


def _equal_limits(curves: Sequence[Curve]) -> dict[tuple[Any, float | None], list[int]]:
    """The curves, by their look, that have the same upper limit at the same x: their arrows stand side by side."""
    found: dict[tuple[Any, float | None], list[int]] = {}
    for curve in curves:
        for spot in curve.spots:
            if spot.x is not None and spot.y is None:
                found.setdefault((spot.x, spot.high), []).append(curve.series)
    return found


def _draw_curve(
    axes: Axes, curve: Curve, *, frame: Frame, scale: float, beside: Mapping[tuple[Any, float | None], list[int]]
) -> None:
    """Line and markers with a band or bars; a spot without an error shows its upper limit alone."""
    own, width, label = look(curve.series), scale * frame.width(curve), curve.label
    colour, line = own.colour, own.line
    marker: dict[str, Any] = {
        "color": colour,
        "marker": own.marker,
        "markersize": 4.0 * scale + width,
        "markerfacecolor": "none" if own.hollow else colour,
        "markeredgewidth": 1.3 * scale,
    }
    placed = [s for s in curve.spots if s.x is not None]
    if placed:
        x = np.array(frame.places(curve))
        rows = [(s.y, s.low, s.high) if s.y is not None else (None,) * 3 for s in placed]
        y, low, high = np.array(rows, float).T  # NaN for what is absent: matplotlib leaves a gap there
        if frame.bars:
            # Nothing lies between two words, and between points a closed form knows the way.
            joined = "" if frame.words or curve.theory else line
            axes.plot(x, y, label=label, linestyle=joined, linewidth=width, **marker)
            # The estimate may be corrected for stopping, its interval is not: a bar has no negative length.
            ends = (np.maximum(y - low, 0.0), np.maximum(high - y, 0.0))
            axes.errorbar(x, y, yerr=ends, linestyle="", color=colour, capsize=2.5, elinewidth=1.0, zorder=2.1)
        else:
            every = max(len(placed) // MARKERS_PER_CURVE, 1)
            axes.plot(x, y, label=label, markevery=every, linestyle=line, linewidth=width, **marker)
            axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
        label = ""
        for at, spot in zip(x, placed, strict=True):
            if spot.y is None and spot.high is not None:
                same = beside[spot.x, spot.high]
                shift = LIMITS_APART * scale * (same.index(curve.series) - (len(same) - 1) / 2)
                _draw_limit(axes, float(at), spot.high, colour=colour, scale=scale, shift=shift)
    for spot in curve.spots:
        # A line at an upper limit would look like a rate: references without errors stand in the table only.
        if spot.x is None and spot.y is not None:
            axes.axhline(spot.y, label=label, color=colour, linestyle=line, linewidth=width)
            label = ""
            if spot.low is not None and spot.high is not None:
                axes.axhspan(spot.low, spot.high, color=colour, alpha=0.12, linewidth=0)


def _draw_limit(axes: Axes, x: float, limit: float, *, colour: str, scale: float, shift: float) -> None:
    """A bar at an upper limit and an arrow down from it, `shift` points aside of `x`."""
    from matplotlib.transforms import ScaledTranslation

    figure = axes.get_figure(root=True)
    assert figure is not None
    aside = axes.transData + ScaledTranslation(shift / 72.0, 0.0, figure.dpi_scale_trans)
    axes.plot([x], [limit], marker="_", markersize=8.0 * scale, color=colour, linestyle="", transform=aside)
    arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": scale, "mutation_scale": 7.0 * scale}
    ends = (x, limit * (1.0 - style.ARROW)), (x, limit)
    axes.annotate("", *ends, xycoords=aside, textcoords=aside, arrowprops={**arrow, "shrinkA": 0.0, "shrinkB": 0.0})
    axes.update_datalim(ends)


def _finish_axes(axes: Axes, x: str, *, frame: Frame, width: float) -> None:
    """Scales, limits, ticks, grid of a panel `width` inches wide."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    words = frame.words
    if words:
        names, slanted = style.word_ticks(x, words, width=width)
        axes.set_xticks(range(len(words)), names, rotation=30 if slanted else 0, ha="right" if slanted else "center")
        axes.set_xticks(np.arange(len(words) - 1) + 0.5, minor=True)  # lines between words, each with its curves
        axes.tick_params(axis="x", which="minor", length=0)
        axes.set_xlim(-0.5, len(words) - 0.5)
    elif frame.x_log:
        axes.set_xscale("log")
        ticks = frame.ticks or tuple(style.round_ticks(*axes.get_xlim()))
        _mark(axes.xaxis, dict(zip(ticks, style.log_ticks(ticks, width=width), strict=True)))
    elif frame.whole:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if frame.alone is not None:  # without room to its sides there is no second whole number
            axes.set_xlim(frame.alone - 1.0, frame.alone + 1.0)
    if frame.y_log:
        axes.set_yscale("log")
    if frame.y_limits:
        axes.set_ylim(*frame.y_limits)
        if frame.y_log:
            _mark(axes.yaxis, style.round_ticks(*frame.y_limits))
            between = LogLocator(subs=range(2, 10), numticks=style.MOST_DECADES).tick_values(*frame.y_limits)
            across = axes.get_yaxis_transform()
            axes.hlines(between, 0, 1, transform=across, colors=MINOR, linewidths=0.5, zorder=0.5)
    axes.grid(visible=True, which="major", axis="y" if words else "both", color="#d9d9d9", linewidth=0.7)
    axes.grid(visible=True, which="minor", color="#d9d9d9" if words else MINOR, linewidth=0.5)


def _mark(axis: Axis, ticks: Mapping[float, str]) -> None:
    axis.set_ticks(list(ticks), list(ticks.values()))
    axis.set_ticks([], minor=True)


def write_figures(folder: Path, drawings: Iterable[Drawing]) -> tuple[FigureFiles, ...]:
    """Draw each figure into `folder` as SVG beside its data as CSV; ScenarioError if it cannot."""
    files = []
    with writing(folder, "figures"):
        for number, drawing in enumerate(drawings, start=1):
            config = drawing.config
            path = folder / stem(number, drawing)
            title = config.title or f"{axis_label(config.y)} over {drawing.x_label}"
            replace_text(path.with_name(f"{path.name}.csv"), data_csv(drawing))
            make = partial(draw, drawing)
            written = write_picture(make, path, shows=drawing, title=title, caption=drawing.caption)
            files.append(replace(written, curves=describe(drawing)))
    return tuple(files)


def write_for_paper(folder: Path, drawings: Iterable[Drawing], *, kind: str, columns: int) -> tuple[Path, ...]:
    """Write each figure as a `kind` (pdf, pgf, svg or png) that is one or two columns of a paper wide."""
    paths = []
    with writing(folder, "figures"):
        for number, drawing in enumerate(drawings, start=1):
            path = folder / f"{stem(number, drawing)}-{columns}col.{kind}"
            try:
                picture = style.render(draw(drawing, inches=PAPER[columns]), kind, dpi=PAPER_DPI)
            except (RuntimeError, ValueError) as error:  # matplotlib measures the words of a pgf by xelatex
                if kind != "pgf":
                    raise
                missing = isinstance(error, RuntimeError)
                problem = "pgf needs xelatex, which is not installed" if missing else f"xelatex fails: {error}"
                raise ScenarioError(problem=problem, remedy="install TeX Live with xelatex, or write pdf") from error
            with replacement(path) as file:
                file.write(picture)
            paths.append(path)
    return tuple(paths)
