"""From stored trials to one summary per sweep point with 95 % intervals.

Nothing is invented: a point without a finished trial, a metric nobody measured and a rate without observations are
absent. Trials that failed count neither in the metrics nor in the link totals: how far they came may depend on what
they met.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from phy.measure.monte_carlo import ClusteredCounts
from scenarios.plan.points import Plan, Point
from scenarios.report.tables.quantities import RATES, Mean, Rate, mean_interval, observed_rate

if TYPE_CHECKING:
    from scenarios.store.store import Series, Store
    from scenarios.store.trials import SeriesTable

TRIALS_AT_ONCE = 20
"""Trials in memory at a time: at 300 rounds of 20 devices some 20 MB of text."""


def done_tasks(store: Store, task_ids: Sequence[str]) -> list[str]:
    """The tasks that are whole trials."""
    return [task_id for task_id, record in store.read_tasks(task_ids).items() if record.status == "done"]


def done_series(store: Store, task_ids: Sequence[str], table: SeriesTable) -> Iterator[Series]:
    """Arrays of a table of each whole trial, read a few trials at a time."""
    done = done_tasks(store, task_ids)
    for start in range(0, len(done), TRIALS_AT_ONCE):
        yield from store.read_series(done[start : start + TRIALS_AT_ONCE], table).values()


@dataclass(frozen=True, kw_only=True)
class PointSummary:
    """A point of the sweep over its finished trials: `done` whole ones, `failed` ones."""

    point: Point
    done: int
    failed: int
    metrics: Mapping[str, Mean] = field(default_factory=dict)
    rates: Mapping[str, Rate] = field(default_factory=dict)


def summarise(store: Store, plan: Plan) -> tuple[PointSummary, ...]:
    """One summary per point that has a finished trial, in the order of the plan; rates are those of `RATES`."""
    pairs = zip(plan.points, plan.task_ids, strict=True)
    summaries = (_summarise_point(store, point, task_ids=ids) for point, ids in pairs)
    return tuple(summary for summary in summaries if summary.done + summary.failed)


def _summarise_point(store: Store, point: Point, *, task_ids: Sequence[str]) -> PointSummary:
    statuses = {task_id: record.status for task_id, record in store.read_tasks(task_ids).items()}
    done = [task_id for task_id, status in statuses.items() if status == "done"]
    values: dict[str, list[float]] = {}
    for metrics in store.read_metrics(done).values():
        for name, value in metrics.items():
            if not np.isnan(value):  # not measured in this trial
                values.setdefault(name, []).append(value)
    rates = {name: counts for name, counts in _counts(store, point, done).items() if counts.observations}
    return PointSummary(
        point=point,
        done=len(done),
        failed=len(statuses) - len(done),
        metrics={name: mean_interval(np.asarray(column)) for name, column in values.items()},
        rates={name: observed_rate(name, one, link=point.scenario.link) for name, one in rates.items()},
    )


def _counts(store: Store, point: Point, done: Sequence[str]) -> dict[str, ClusteredCounts]:
    """Counts of every rate measured at a point; one upload is a cluster, for it meets one fade.

    So are all uploads of a device in a trial, where its channel lasts over rounds.
    """
    lasting = point.scenario.link.lasting
    names = [name for name in RATES if is_measured(name, point)]
    counts = {name: ClusteredCounts() for name in names}
    for table in dict.fromkeys(RATES[name].table for name in names):
        for start in range(0, len(done), TRIALS_AT_ONCE):
            some = store.read_series(done[start : start + TRIALS_AT_ONCE], table).values()
            for name in names:
                one = RATES[name]
                pairs = [(s[one.errors], s[one.total]) for s in some if one.errors in s and one.total in s]
                if one.table == table and pairs:
                    errors, total = (
                        np.concatenate([a.sum(axis=0) if lasting else a.ravel() for a in column])
                        for column in zip(*pairs, strict=True)
                    )
                    counts[name] += ClusteredCounts.of(errors[total > 0], total[total > 0])
    return counts


def is_measured(quantity: str, point: Point) -> bool:
    """Whether a rate of the link was observed at a point: bits that met no radio bound no error rate."""
    return not (RATES[quantity].table == "link" and point.scenario.link.error_model == "error_free")


KEYS: dict[str, tuple[str, ...]] = {
    "metrics": ("trial",),
    "rounds": ("trial", "round"),
    "link": ("trial", "round", "device"),
    "privacy": ("trial", "round"),
    "bursts": ("trial", "device"),
    "devices": ("trial", "round", "device"),
}
"""Columns between the swept paths and what was measured; rounds count from 1, trials and devices from 0."""
