"""Error rates over the axis: which points make which line, and how they are drawn.

Measured points have a marker each, joined by solid lines where no closed form shows the way; closed forms are dashed
without markers. Nothing depends on colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scenarios.files.replacement import file_name, writing
from scenarios.report.figures.curves import Spot
from scenarios.report.figures.layout import log_limits
from scenarios.report.figures.style import COLOURS, MARKERS, STYLE, FigureFiles, write_picture
from scenarios.schema.labels.labels import axis_label, plain_label
from scenarios.studies.link.closed_form import DENSE, theory
from scenarios.studies.link.level import DEVICE, LABELS, PLAIN_LABELS
from scenarios.studies.link.words import said

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from phy.measure.monte_carlo import RateEstimate
    from scenarios.schema.schema import Axis, FigureConfig
    from scenarios.studies.link.plan import Curve, LinkPlan
    from scenarios.studies.link.results import CurveResult, PointResult

THEORY = "theory"
THEORY_COLOUR = "#444444"
_ARROW = 0.5
"""Where the arrow of an upper limit ends, over the limit."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line: measured spots, and the closed form (x, y), each `[DENSE]`, if there is one; `look` is its number."""

    label: str
    look: int
    spots: tuple[Spot, ...]
    theory: tuple[NDArray[np.float64], NDArray[np.float64]] | None


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure before it is drawn: panels in order, each with a title and its lines."""

    config: FigureConfig
    axis: Axis
    panels: tuple[tuple[str, tuple[Line, ...]], ...]
    caption: str


# --- which line -----------------------------------------------------------------------------------


def arrange(config: FigureConfig, plan: LinkPlan, results: Sequence[CurveResult]) -> Picture:
    """Sort curves into panels and lines."""
    axis: Axis = next(known for known in LABELS if known == config.x)
    series = (config.series,) if isinstance(config.series, str) else config.series
    panels: dict[str, list[Line]] = {}
    looks: dict[str, int] = {}
    for result in results:
        devices: Sequence[int | None] = range(result.curve.num_devices) if DEVICE in series else (None,)
        title = said(result.curve.point, config.panels) if config.panels and config.panels in plan.swept_paths else ""
        for device in devices:
            label = _line_label(plan, result.curve, series, config.panels, device)
            spots = tuple(_spots(result, config.y, axis, device))
            closed = _closed_form(result.curve, config.y, axis, device)
            if spots or closed:
                look = looks.setdefault(label, len(looks))
                panels.setdefault(title, []).append(Line(label=label, look=look, spots=spots, theory=closed))
    lines = [line for some in panels.values() for line in some]
    return Picture(
        config=config,
        axis=axis,
        panels=tuple((title, tuple(some)) for title, some in panels.items()),
        caption=_caption(plan, config, results, lines),
    )


def _line_label(plan: LinkPlan, curve: Curve, series: Sequence[str], panels: str | None, device: int | None) -> str:
    """What tells the line from the others in its panel: the settings in `series` first, then all other swept ones."""
    paths = dict.fromkeys([path for path in (*series, *plan.swept_paths) if path not in (panels, DEVICE)])
    if "label" in paths and curve.point.scenario.label:
        paths = {"label": None}
    parts = [said(curve.point, path) for path in paths if path in curve.point.settings]
    if device is not None:
        parts.append(f"device {device}")
    words = [part for part in parts if part] or [said(curve.point, "link.modulation")]
    return ", ".join(words)


def _spots(result: CurveResult, quantity: str, axis: Axis, device: int | None) -> Iterator[Spot]:
    for found in result.points:
        x = result.curve.budget.value_db(found.point.esno_db, axis)
        if quantity == "raw_bit_error_rate":
            if spot := _raw_spot(x, found, device):
                yield spot
            continue
        rates = found.of(device)
        estimate = rates.bits if quantity == "bit_error_rate" else rates.packets
        if estimate is not None:
            yield _spot(x, estimate)


def _spot(x: float, estimate: RateEstimate) -> Spot:
    return Spot(x=x, y=estimate.rate, low=estimate.low, high=estimate.high, n=estimate.observations)


def _raw_spot(x: float, found: PointResult, device: int | None) -> Spot | None:
    """Hard decisions before any decoder; without an error, or a bit, nothing is drawn."""
    chosen = slice(None) if device is None else slice(device, device + 1)
    errors = int(found.measured.count("raw_bit_errors")[chosen].sum())
    bits = int(found.measured.count("raw_bits")[chosen].sum())
    return Spot(x=x, y=errors / bits, low=None, high=None, n=bits) if errors else None


def _closed_form(
    curve: Curve, quantity: str, axis: Axis, device: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    esno_db = np.linspace(curve.points[0].esno_db, curve.points[-1].esno_db, DENSE)
    found = None if quantity == "raw_bit_error_rate" else theory(curve, quantity, esno_db, device=device)
    return None if found is None else (esno_db + curve.budget.value_db(0.0, axis), found)


def _caption(plan: LinkPlan, config: FigureConfig, results: Sequence[CurveResult], lines: Sequence[Line]) -> str:
    points = [point for result in results for point in result.points]
    if not points:
        return "No point has been measured yet."
    percent = f"{100 * plan.measure.confidence:g} %"
    text = (
        "Hard decisions before any decoder."
        if config.y == "raw_bit_error_rate"
        else (
            f"Bars: {percent} interval of each point (Korn and Graubard), from the spread between independent "
            "transmissions, so that errors in bursts widen it."
        )
    )
    if any(spot.y is None for line in lines for spot in line.spots):
        text += f" {_arrows(results, config.y)}"
    if any(line.theory for line in lines):
        text += " Dashed: closed form."
    if any(point.stop is not None and point.stop.reason == "time" for point in points):
        text += " Some points were ended by max_seconds: how far they came depends on the machine."
    if any(point.stop is None for point in points):
        text += " Some points are not finished."
    return f"{text} Points share random numbers, so neighbours err alike. Seed {plan.seed}."


def _arrows(results: Sequence[CurveResult], quantity: str) -> str:
    """What the upper limits take as independent."""
    kinds = {result.curve.independent for result in results}
    units = "transmissions" if "transmissions" in kinds else "packets"
    if quantity == "packet_error_rate":
        return f"Arrows: one-sided upper limit where no error was seen, from the number of independent {units}."
    if kinds == {"bits"}:
        return "Arrows: one-sided upper limit where no error was seen; bits of this link err independently."
    besides = " (independent bits where nothing else joins them)" if "bits" in kinds else ""
    return (
        f"Arrows: one-sided upper limit where no error was seen, from the number of independent {units}, half of whose "
        f"bits may be wrong{besides}."
    )


# --- how ------------------------------------------------------------------------------------------


def draw(picture: Picture) -> Figure:
    """The figure; legend below the panels, panels side by side with shared axes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    config, count = picture.config, max(len(picture.panels), 1)
    columns = 2 if count in (2, 4) else min(count, 3)
    rows = -(-count // columns)
    lines = [line for _, some in picture.panels for line in some]
    labels = list(dict.fromkeys(line.label for line in lines))
    with rc_context(STYLE):
        width = 6.8 if columns == 1 else 3.9 * columns + 0.6
        handles = _legend(labels, lines)
        per_row = max(1, min(6, int(width / (0.65 + 0.078 * max((len(label) for label in labels), default=1)))))
        legend_rows = -(-len(handles) // per_row)
        height = (4.4 if rows == 1 else 3.3 * rows) + 0.22 * legend_rows + 0.1
        figure = Figure(figsize=(width, height), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for index, axes in enumerate(grid.flat):
            if index >= len(picture.panels):
                axes.set_visible(count == 1 and index == 0)
                continue
            title, some = picture.panels[index]
            for line in some:
                _draw_line(axes, line)
            axes.set_title(title)
            if index % columns == 0:
                axes.set_ylabel(axis_label(config.y))
            if index + columns >= count:
                axes.set_xlabel(LABELS[picture.axis])
                axes.tick_params(labelbottom=True)
        _scale(grid.flat[0], config, lines)
        for axes in grid.flat:
            axes.grid(visible=True, which="major", color="#d9d9d9", linewidth=0.7)
            axes.grid(visible=True, which="minor", color="#eeeeee", linewidth=0.5)
        if config.title:
            figure.suptitle(config.title.replace("$", r"\$"), fontsize=11.5, fontweight="bold")
        if handles:
            columns = -(-len(handles) // legend_rows)  # rows of one length: a legend fills column by column
            figure.legend(handles=handles, loc="outside lower center", ncols=columns, handlelength=2.8)
    return figure


def _legend(labels: Sequence[str], lines: Sequence[Line]) -> list[Line2D]:
    """A handle per line as it is drawn, and one for all closed forms."""
    from matplotlib.lines import Line2D

    joined = {line.label for line in lines if line.theory is None}
    handles = [
        Line2D([], [], label=label, **_look(number), linestyle="-" if label in joined else "")
        for number, label in enumerate(labels)
    ]
    if len(joined) < len(labels) or any(line.theory for line in lines):
        handles.append(Line2D([], [], label=THEORY, color=THEORY_COLOUR, linestyle="--", linewidth=1.1))
    return handles


def _look(number: int) -> dict[str, Any]:
    """Colour and marker of a line; every other one is hollow."""
    colour = COLOURS[number % len(COLOURS)]
    return {
        "color": colour,
        "linewidth": 1.3,
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 5.5,
        "markerfacecolor": "none" if number % 2 else colour,
        "markeredgewidth": 1.2,
    }


def _draw_line(axes: Axes, line: Line) -> None:
    """Closed form below, measured points on it; one without an error shows its upper limit, and no line goes there."""
    look = _look(line.look)
    if line.theory is not None:
        axes.plot(*line.theory, color=look["color"], linestyle="--", linewidth=1.1, zorder=1.8)
    seen = [(s.x, s.y, s.low, s.high) for s in line.spots if s.y is not None]
    if seen:
        x, y = [s[0] for s in seen], np.array([s[1] for s in seen], float)
        # Between points a closed form knows the way, and a straight line would only hide it.
        axes.plot(x, y, linestyle="-" if line.theory is None else "", zorder=2.2, **look)
        if all(s[2] is not None for s in seen):
            low, high = (np.array([s[part] for s in seen], float) for part in (2, 3))
            # The estimate is corrected for stopping, its interval is not: an error bar has no negative length.
            bars = (np.maximum(y - low, 0.0), np.maximum(high - y, 0.0))
            axes.errorbar(x, y, yerr=bars, linestyle="", color=look["color"], capsize=2.5, elinewidth=1.0, zorder=2.1)
    unseen = [(s.x, s.high) for s in line.spots if s.y is None]
    if unseen:
        at, limit = np.array(unseen, float).T
        arrow = limit * (1.0 - _ARROW)
        axes.errorbar(
            at, limit, yerr=arrow, uplims=True, linestyle="", elinewidth=1.0, zorder=2.1, **_without_width(look)
        )


def _without_width(look: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in look.items() if key != "linewidth"}


def _scale(axes: Axes, config: FigureConfig, lines: Sequence[Line]) -> None:
    """As far as measured points go: a closed form has no end."""
    spots = [spot for line in lines for spot in line.spots]
    if config.y_scale == "log" and (limits := log_limits(spots)):
        arrows = [0.8 * (1.0 - _ARROW) * spot.high for spot in spots if spot.y is None and spot.high is not None]
        axes.set_yscale("log")
        axes.set_ylim(min([limits[0], *arrows]), min(limits[1], 1.3))


def write_study_figures(
    folder: Path, plan: LinkPlan, *, results: Sequence[CurveResult], figures: Sequence[FigureConfig]
) -> tuple[FigureFiles, ...]:
    """Draw each figure into `folder` as PNG (150 dpi) and SVG; ScenarioError if it cannot be written."""
    with writing(folder, "figures"):
        return tuple(_write(folder, number, config, plan, results) for number, config in enumerate(figures, start=1))


def _write(
    folder: Path, number: int, config: FigureConfig, plan: LinkPlan, results: Sequence[CurveResult]
) -> FigureFiles:
    picture = arrange(config, plan, results)
    paths = write_picture(draw(picture), folder / f"{number:02d}-{file_name(config.y)}")
    title = config.title or f"{plain_label(config.y)} over {PLAIN_LABELS[picture.axis]}"
    return FigureFiles(title=title, caption=picture.caption, **paths)
