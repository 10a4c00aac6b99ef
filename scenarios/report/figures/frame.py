"""The axes of a figure: scales, limits and ticks, and the place of every curve among the others.

Both back ends, matplotlib for files and Bokeh for the page, draw a `Drawing` into the same frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from scenarios.plan.points import is_number
from scenarios.report.figures.drawing import Curve, Drawing, Spot
from scenarios.report.figures.style import log_limits, scale
from scenarios.report.tables.quantities import RATES, ROUND_AXES
from scenarios.schema.schema import Axis

APART = (*get_args(Axis), "run_length")
"""Over these axes points stand apart, with bars, and are joined where no theory shows the way between them."""

MOST_TICKS = 8
"""Values on a logarithmic axis that are ticks themselves, rather than powers of ten."""

ROUNDING = 1e-6
"""Relative differences of numbers that are equal in single precision."""

THICKEST, THINNEST = 3.2, 1.3
"""Widths of the first and the last curve in points: where curves coincide, a thin one lies over a thick one."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Axes of all panels of a figure.

    `words`: values along x that are no numbers, at 0, 1, ...; `ticks`: all values of a logarithmic x axis, if few;
    `alone`: the only number along x; `y_limits`: lowest and highest y, None where the data decide; `series`: looks of
    the curves in order.
    """

    words: tuple[str, ...]
    bars: bool
    x_log: bool
    ticks: tuple[float, ...]
    whole: bool
    alone: float | None
    y_log: bool
    y_limits: tuple[float, float] | None
    series: tuple[int, ...]

    def width(self, curve: Curve) -> float:
        """Width of the line of a curve in points: the later, the thinner."""
        share = self.series.index(curve.series) / max(len(self.series) - 1, 1)
        return THICKEST - (THICKEST - THINNEST) * share if len(self.series) > 1 else 1.6

    def places(self, curve: Curve) -> list[float]:
        """Return x of every spot that has one; over words, curves stand side by side."""
        placed = [spot.x for spot in curve.spots if spot.x is not None]
        if not self.words:
            return [float(x) for x in placed]
        abreast = len(self.series)
        shift = 0.8 / max(abreast, 9) * (self.series.index(curve.series) - (abreast - 1) / 2)
        return [self.words.index(str(x)) + shift for x in placed]


def frame_of(drawing: Drawing) -> Frame:
    """Return the frame that all panels of a figure share."""
    config, curves = drawing.config, [curve for _, some in drawing.panels for curve in some]
    # A closed form has no end: the figure goes down as far as what was measured.
    spots = [s for c in curves for s in (*c.spots, *(c.theory if config.beside else ()))]
    placed = [s.x for s in spots if s.x is not None]
    words = () if all(map(is_number, placed)) else tuple(dict.fromkeys(map(str, placed)))
    # A curve along a run has one spot per round: 50 rounds span a factor of 50, and read best on a linear axis.
    along = config.x in ROUND_AXES
    ends = [c.spots[-1].x for c in curves if c.spots] if along else placed
    x_log = not words and scale(config.x_scale, config.x, ends) == "log" and min(placed, default=0) > 0
    values = tuple(sorted(set(placed))) if x_log else ()
    y_limits = None
    y_log = scale(config.y_scale, config.y, [s.y for s in spots if s.y is not None]) == "log"
    if y_log and (limits := log_limits(spots)):
        top = max([limits[1], *(s.y for c in curves for s in c.theory if s.y is not None)])
        y_limits = limits[0], min(top, 1.3) if config.y in RATES else top
    return Frame(
        words=words,
        bars=bool(words) or config.x in APART or len({*placed}) == 1,  # one value has no area to shade
        x_log=x_log,
        ticks=values if len(values) <= MOST_TICKS else (),
        whole=config.x == "round",
        alone=float(placed[0]) if placed and not words and len({*placed}) == 1 else None,
        y_log=y_limits is not None,
        y_limits=_constant(spots) or y_limits or _equal(spots),
        series=tuple(sorted({curve.series for curve in curves})),
    )


def _equal(spots: Sequence[Spot]) -> tuple[float, float] | None:
    """Limits close around one value that all spots have: the page draws from -1 to 1 otherwise."""
    heights = {y for s in spots for y in (s.low, s.y, s.high) if y is not None}
    if len(heights) != 1:
        return None
    (height,) = heights
    return height - 0.05 * (abs(height) or 1.0), height + 0.05 * (abs(height) or 1.0)


def _constant(spots: Sequence[Spot]) -> tuple[float, float] | None:
    """Limits around values that differ by rounding alone."""
    heights = np.array([y for s in spots for y in (s.low, s.y, s.high) if y is not None])
    if len(heights) and 0 < heights.max() - heights.min() < ROUNDING * heights.max():
        return 0.95 * float(heights.min()), 1.05 * float(heights.max())
    return None
