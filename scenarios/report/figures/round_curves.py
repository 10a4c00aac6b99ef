"""Curves along a run: a number per round, over rounds, seconds on the air or joules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scenarios.report.figures.curves import Spot, band
from scenarios.report.tables.intervals import mean_interval, rate_interval
from scenarios.report.tables.quantities import DEVICES_TABLE, PER_DEVICE, RATES
from scenarios.report.tables.tables import TRIALS_AT_ONCE, TaskIds, is_measured

if TYPE_CHECKING:
    from scenarios.plan.points import Plan, Point
    from scenarios.schema.schema import FigureConfig
    from scenarios.store.store import Series, Store
    from scenarios.store.trials import SeriesTable

MOST_SPOTS = 400
"""Rounds drawn of a longer run, evenly spread: a curve has no more pixels."""


def over_rounds(
    store: Store, plan: Plan, *, task_ids: TaskIds, config: FigureConfig
) -> Iterator[tuple[Point, str, Spot]]:
    """Point, device in words (empty: all) and spot of every round drawn, from whole trials.

    `x` and `y` are both means over trials at one round: `round` counts rounds done, `elapsed_s` and `spent_j` are what
    they took on average. Points that measured no x or no y are absent.
    """
    table = _table_of(config.y)
    by_device = "device" in ((config.series,) if isinstance(config.series, str) else config.series)
    for point, ids in zip(plan.points, task_ids, strict=True):
        if config.y in RATES and not is_measured(config.y, point):
            continue
        records = store.read_tasks(ids)
        done = [task_id for task_id, record in records.items() if record.status == "done"]
        trials = _Trials(config, by_device=by_device)
        for start in range(0, len(done), TRIALS_AT_ONCE):
            some = done[start : start + TRIALS_AT_ONCE]
            rounds = store.read_series(some, "rounds")
            of_devices = {} if table is None else store.read_series(some, table)
            for task_id in some:
                trials.add(rounds[task_id], of_devices.get(task_id, {}))
        for word, spot in trials.spots():
            yield point, word, spot


def _table_of(quantity: str) -> SeriesTable | None:
    """Where a number per round and device is kept; None for what is one number per round."""
    if quantity in RATES:
        return RATES[quantity].table
    if quantity in DEVICES_TABLE:
        return "devices"
    return "link" if any(quantity in names for names in PER_DEVICE.values()) else None


class _Trials:
    """x and y of the trials of one point, one row per trial; of rates, counts summed over trials."""

    def __init__(self, config: FigureConfig, *, by_device: bool) -> None:
        self._config, self._by_device = config, by_device
        self._x: list[NDArray[np.float64]] = []
        self._y: list[NDArray[np.float64]] = []
        self._errors: NDArray[np.int64] | None = None
        self._total: NDArray[np.int64] | None = None

    def add(self, rounds: Series, devices: Series) -> None:
        """One trial, if it measured x and y."""
        config = self._config
        some = next(iter(rounds.values()), np.zeros(0))
        x = np.arange(1.0, len(some) + 1.0) if config.x == "round" else rounds.get(config.x)
        if x is None:
            return
        if config.y in RATES:
            counted = RATES[config.y]
            if counted.errors not in devices:
                return
            errors, total = (self._devices(devices[name]) for name in (counted.errors, counted.total))
            self._errors = errors if self._errors is None or self._total is None else self._errors + errors
            self._total = total if self._total is None else self._total + total
        elif _table_of(config.y) is not None:
            if config.y not in devices:
                return
            values = devices[config.y].astype(float)
            self._y.append(values.T if self._by_device else _mean_over_devices(values))
        else:
            if config.y not in rounds:
                return
            self._y.append(rounds[config.y].astype(float)[None])
        self._x.append(x)

    def _devices(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts `[num_rounds, num_devices]` as `[num_devices or 1, num_rounds]`."""
        return np.asarray(counts.T if self._by_device else counts.sum(axis=1)[None])

    def spots(self) -> Iterator[tuple[str, Spot]]:
        """Device in words and spot, device by device, round by round."""
        if not self._x:
            return
        x, n = np.mean(self._x, axis=0), len(self._x)
        y = np.stack(self._y) if self._y else None
        # Rounds in which nothing was looked at have no spot, however few are drawn.
        measured = np.arange(len(x)) if y is None else np.flatnonzero(~np.isnan(y).all(axis=(0, 1)))
        drawn = measured[
            np.unique(np.linspace(0, len(measured) - 1, min(len(measured), MOST_SPOTS)).round().astype(int))
        ]
        curves = y.shape[1] if y is not None else len(self._counts[1])
        for curve in range(curves):
            word = f"device {curve}" if self._by_device else ""
            for index in drawn:
                spot = (
                    self._rate(curve, index, x=float(x[index]), n=n)
                    if y is None
                    else _mean(self._config.y, y[:, curve, index], x=float(x[index]))
                )
                if spot is not None:
                    yield word, spot

    @property
    def _counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        none = np.zeros((0, 0), np.int64)
        return (none, none) if self._errors is None or self._total is None else (self._errors, self._total)

    def _rate(self, curve: int, index: int, *, x: float, n: int) -> Spot | None:
        errors, total = (int(counts[curve, index]) for counts in self._counts)
        if total == 0:
            return None
        rate = rate_interval(errors=errors, total=total)
        return Spot(x=x, y=rate.value if errors else None, low=rate.low, high=rate.high, n=n)


def _mean(quantity: str, values: NDArray[np.float64], *, x: float) -> Spot | None:
    measured = values[~np.isnan(values)]
    if measured.size == 0:
        return None
    mean = mean_interval(measured)
    if not np.isfinite(mean.mean):
        return None
    low, high = band(quantity, mean, values=measured)
    return Spot(x=x, y=mean.mean, low=low, high=high, n=mean.trials)


def _mean_over_devices(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the devices that measured something, `[1, num_rounds]`; NaN where none did."""
    measured = ~np.isnan(values)
    total = np.where(measured, values, 0.0).sum(axis=1)
    count = measured.sum(axis=1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))[None]
