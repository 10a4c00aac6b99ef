"""Figures of a learning run: those chosen unasked, and curves along a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from math import isfinite, prod
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fl.base.measured import ENSEMBLE_W2, LINK, joined
from phy.config import LinkConfig
from phy.measure.monte_carlo import ClusteredCounts
from privacy.errors import PrivacyError
from scenarios.plan.points import Plan, is_number
from scenarios.report.figures.curves import Shown, band
from scenarios.report.figures.drawing import Spot
from scenarios.report.figures.ensembles import ensemble_spots, samples_of
from scenarios.report.figures.privacy import spent_by_round
from scenarios.report.settings import axes_of
from scenarios.report.tables.quantities import EPSILON, RATES
from scenarios.report.tables.summaries import along_run, done_series, is_measured, mean_interval, observed_rate
from scenarios.schema.schema import Axis, FigureConfig
from scenarios.store.store import Series, Store
from scenarios.store.trials import SeriesTable

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
    long = long or not axes  # of one round and no sweep a spot is all that can be drawn
    if of_round and long and (numeric is None or len(plan.points) <= MOST_CURVES):
        figures.append(_figure(of_round, x=along, axes=axes))
    return tuple(figures) or tuple(_figure(main, x=path, axes=axes) for path in list(axes)[:1])


def _figure(y: str, *, x: str, axes: dict[str, list[object]]) -> FigureConfig:
    """`y` over `x`, with the other axes as series, and one as panels where these are too many."""
    others = {path: len(values) for path, values in axes.items() if path != x}
    many = prod(others.values()) > MOST_CURVES and len(others) > 1
    panels = min(others, key=others.__getitem__) if many else None
    return FigureConfig(x=x, y=y, series=tuple(path for path in others if path != panels), panels=panels)


_SUMS = ("errors", "observations", "clusters", "squared_errors", "squared_observations", "products")
"""Fields of `ClusteredCounts`."""
MOST_SPOTS = 400
"""Rounds drawn of a longer run, evenly spread: a curve has no more pixels."""


def over_rounds(store: Store, plan: Plan, config: FigureConfig) -> Iterator[Shown]:
    """Point, device in words (empty: all) and spot of every round drawn, from whole trials.

    `x` and `y` are both means over trials at one round: `round` counts rounds done, other axes are what they took on
    average. Points that measured no x or no y are absent. The proved epsilon follows from the ledgers.
    """
    if config.y == EPSILON:
        yield from _epsilons(store, plan)
        return
    table, rate = _table_of(config.y, plan), config.y in RATES
    for point, ids in zip(plan.points, plan.task_ids, strict=True):
        if rate and not is_measured(config.y, point):
            continue
        link = point.scenario.link
        if config.y == ENSEMBLE_W2:
            yield from ((point, "", spot) for spot in _ensemble(store, ids, config, link=link))
            continue
        x: list[NDArray[Any]] = []
        y: list[NDArray[Any]] = []
        both = (done_series(store, ids, one) for one in ("rounds", table or "rounds"))
        for rounds, found in zip(*both, strict=True):
            values, at = _values(config, found, table), along_run(config.x, rounds, link=link)
            if at is not None and values is not None:
                x.append(at)
                y = [y[0] + values] if rate and y else [*y, values]
        if x:
            found_spots = _rates(config, x, y[0], link=link) if rate else _means(config.y, x, np.stack(y))
            for curve, spot in found_spots:
                yield point, f"device {curve}" if "device" in config.series_paths else "", spot


def _ensemble(store: Store, ids: Sequence[str], config: FigureConfig, *, link: LinkConfig) -> list[Spot]:
    """Spots of all trials together that went as far as the first of them."""
    x, samples = [], []
    for rounds in done_series(store, ids, "rounds"):
        at, found = along_run(config.x, rounds, link=link), samples_of(rounds)
        if at is not None and found is not None and len(found):
            x.append(at)
            samples.append(found)
    if not samples:
        return []
    shortest = min(map(len, samples))
    places = np.mean([at[:shortest] for at in x], axis=0)
    return ensemble_spots(places, [one[:shortest] for one in samples], drawn=_drawn(np.arange(shortest)))


def _epsilons(store: Store, plan: Plan) -> Iterator[Shown]:
    """Point and spot of the finite epsilon proved after each round; none where the ledgers have no account."""
    with suppress(PrivacyError):  # phyloop privacy gives the reason
        for spent in spent_by_round(store, plan):
            for number, proved in zip(spent.rounds, spent.proved, strict=True):
                if isfinite(proved.epsilon):
                    yield spent.point, "", Spot(x=float(number), y=proved.epsilon, n=spent.trials)


def _table_of(quantity: str, plan: Plan) -> SeriesTable | None:
    """Where a number per round and device is kept; None for what is one number per round."""
    if quantity in RATES:
        return RATES[quantity].table
    if quantity in LINK:
        return "link"
    return "devices" if any(quantity in p.scenario.learning.measured().per_device for p in plan.points) else None


def _values(config: FigureConfig, series: Series, table: SeriesTable | None) -> NDArray[Any] | None:
    """One trial, `[curves, num_rounds]`; of rates sums of `_SUMS`, `[6, curves, num_rounds]`. None: not measured."""
    by_device = "device" in config.series_paths
    if config.y in RATES:
        names = (RATES[config.y].errors, RATES[config.y].total)
        if names[0] not in series:
            return None
        errors, total = (series[name].T.astype(float) for name in names)
        sums = np.stack([errors, total, (total > 0).astype(float), errors**2, total**2, errors * total])
        return sums if by_device else sums.sum(axis=1, keepdims=True)
    if config.y not in series:
        return None
    values = series[config.y].astype(float)
    if table is None or by_device:
        return values[None] if table is None else values.T
    with np.errstate(invalid="ignore"):  # NaN where no device measured anything
        return np.asarray(np.nansum(values, axis=1) / (~np.isnan(values)).sum(axis=1))[None]


def _drawn(measured: NDArray[np.intp]) -> NDArray[np.intp]:
    places = np.linspace(0, len(measured) - 1, min(len(measured), MOST_SPOTS)).round().astype(int)
    return np.asarray(measured[np.unique(places)])


def _rates(
    config: FigureConfig, x: Sequence[NDArray[Any]], sums: NDArray[np.float64], *, link: LinkConfig
) -> Iterator[tuple[int, Spot]]:
    """Curve and spot, of the sums of all trials `[6, curves, num_rounds]`: the uploads of a round are its clusters."""
    at = np.mean(x, axis=0)
    for curve in range(sums.shape[1]):
        for index in _drawn(np.arange(len(at))):
            counts = ClusteredCounts(**dict(zip(_SUMS, map(int, sums[:, curve, index]), strict=True)))
            if counts.observations:
                rate = observed_rate(config.y, counts, link=link)
                y = rate.value if rate.errors else None
                yield (
                    curve,
                    Spot(
                        x=float(at[index]),
                        y=y,
                        low=rate.low,
                        high=rate.high,
                        n=len(x),
                        errors=rate.errors,
                        total=rate.total,
                    ),
                )


def _means(quantity: str, x: Sequence[NDArray[Any]], y: NDArray[np.float64]) -> Iterator[tuple[int, Spot]]:
    """Curve and spot, of values `[trials, curves, num_rounds]`."""
    at = np.mean(x, axis=0)
    # Rounds in which nothing was looked at have no spot, however few are drawn.
    drawn = _drawn(np.flatnonzero(~np.isnan(y).all(axis=(0, 1))))
    for curve in range(y.shape[1]):
        for index in drawn:
            values = y[:, curve, index]
            values = values[~np.isnan(values)]
            if values.size and np.isfinite((mean := mean_interval(values)).mean):
                low, high = band(quantity, mean, values=values)
                yield curve, Spot(x=float(at[index]), y=mean.mean, low=low, high=high, n=mean.trials)
