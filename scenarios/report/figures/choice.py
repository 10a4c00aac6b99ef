"""Figures of a learning run whose scenario names none."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import get_args

from fl.config.measured import joined
from scenarios.plan.points import Plan, is_number
from scenarios.report.settings import axes_of
from scenarios.schema.schema import Axis, FigureConfig

MOST_CURVES = 8
"""Curves in one panel: as many as there are colours."""


def figures_of(plan: Plan, metrics: Collection[str]) -> tuple[FigureConfig, ...]:
    """The figures that the scenario names, but those of a link study; else `default_figures`."""
    own = tuple(config for config in plan.points[0].scenario.report.figures if config.x not in get_args(Axis))
    return own or default_figures(plan, metrics)


def default_figures(plan: Plan, metrics: Collection[str]) -> tuple[FigureConfig, ...]:
    """Figures of the main metric, the first of the algorithm that is among the `metrics` measured.

    - over the first axis of the sweep whose values are numbers, if there is one;
    - over the rounds, a learning curve per sweep point, if these are few or no axis has numbers;
    - over the words of the first axis, where nothing else can be drawn.

    The other axes are series. Where these make too many curves for one panel, the axis of fewest values makes panels.
    """
    axes = axes_of(plan)
    measured = joined(point.scenario.learning.measured() for point in plan.points)
    main = next((name for name in measured.per_trial if name in metrics), None)
    if main is None:
        return ()
    numeric = next((path for path, values in axes.items() if all(map(is_number, values))), None)
    figures = [_figure(main, x=numeric, axes=axes)] if numeric else []
    along = "value" if "value" in measured.axes else "round"
    of_round = next((name for name in measured.per_round if name not in measured.axes), None)
    long = along == "value" or any(point.scenario.learning.rounds > 1 for point in plan.points)
    if of_round and long and (numeric is None or len(plan.points) <= MOST_CURVES):
        figures.append(_figure(of_round, x=along, axes=axes))
    return tuple(figures) or tuple(_figure(main, x=path, axes=axes) for path in list(axes)[:1])


def _figure(y: str, *, x: str, axes: dict[str, list[object]]) -> FigureConfig:
    """`y` over `x`, with the other axes as series, and one as panels where these are too many."""
    others = {path: len(values) for path, values in axes.items() if path != x}
    many = prod(others.values()) > MOST_CURVES and len(others) > 1
    panels = min(others, key=others.__getitem__) if many else None
    return FigureConfig(x=x, y=y, series=tuple(path for path in others if path != panels), panels=panels)
