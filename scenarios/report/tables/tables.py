"""From stored trials to tidy tables, and to one summary per point with 95 % intervals.

Nothing is invented: a point without a finished trial, a metric nobody measured and a rate without
observations are absent. Trials that failed keep their rounds in the tables, but count neither in the
metrics nor in the link totals: how far they came may depend on what they met.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from fl.results import LINK_COUNTS
from scenarios.plan.points import Plan, Point
from scenarios.report.settings import swept_values
from scenarios.report.tables.quantities import CODED, RATES, Mean, Rate, mean_interval, rate_interval, word_of
from scenarios.report.tables.table import csv_row

if TYPE_CHECKING:
    from scenarios.store.store import Series, Store
    from scenarios.store.trials import SeriesTable

TRIALS_AT_ONCE = 20
"""Trials in memory at a time: at 300 rounds of 20 devices some 20 MB of text."""

TaskIds = Sequence[Sequence[str]]
"""Identity of each task, `[point][trial]`."""


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


def summarise(store: Store, plan: Plan, *, task_ids: TaskIds) -> tuple[PointSummary, ...]:
    """One summary per point that has a finished trial, in the order of the plan; rates are those of `RATES`."""
    summaries = (_summarise_point(store, point, task_ids=ids) for point, ids in zip(plan.points, task_ids, strict=True))
    return tuple(summary for summary in summaries if summary.done + summary.failed)


def _summarise_point(store: Store, point: Point, *, task_ids: Sequence[str]) -> PointSummary:
    statuses = {task_id: record.status for task_id, record in store.read_tasks(task_ids).items()}
    done = [task_id for task_id, status in statuses.items() if status == "done"]
    values: dict[str, list[float]] = {}
    for metrics in store.read_metrics(done).values():
        for name, value in metrics.items():
            if not np.isnan(value):  # not measured in this trial
                values.setdefault(name, []).append(value)
    totals = {table: store.read_totals(done, table) for table in ("link", "devices")}
    rates = {
        name: rate_interval(errors=totals[one.table][one.errors], total=totals[one.table][one.total])
        for name, one in RATES.items()
        if totals[one.table].get(one.total) and one.errors in totals[one.table] and is_measured(name, point)
    }
    return PointSummary(
        point=point,
        done=len(done),
        failed=len(statuses) - len(done),
        metrics={name: mean_interval(np.asarray(column)) for name, column in values.items()},
        rates=rates,
    )


def is_measured(quantity: str, point: Point) -> bool:
    """Whether a rate of the link was observed at a point: bits that met no radio bound no error rate."""
    return not (RATES[quantity].table == "link" and point.scenario.link.error_model == "error_free")


# --- tidy tables ----------------------------------------------------------------------------------

KEYS: dict[str, tuple[str, ...]] = {
    "metrics": ("trial",),
    "rounds": ("trial", "round"),
    "link": ("trial", "round", "device"),
    "privacy": ("trial", "round"),
    "bursts": ("trial", "device"),
    "devices": ("trial", "round", "device"),
}
"""Columns between the swept paths and what was measured; rounds count from 1, trials and devices from 0."""

LINK_COLUMNS = (*LINK_COUNTS, "power_db")
"""The link table is wide: counts of one device in one round belong side by side."""

WORDED = ("metrics", "rounds", "devices")
"""Tables with a last column `text`: the word of a value that is a code."""


def columns_of(plan: Plan, table: str) -> list[str]:
    """Column names of a tidy table."""
    if table == "link":
        return [*plan.swept_paths, *KEYS[table], *LINK_COLUMNS]
    text = ["text"] if table in WORDED else []
    return [*plan.swept_paths, *KEYS[table], "metric", "value", *text]


@dataclass(frozen=True, kw_only=True)
class Block:
    """One metric of one trial, or all counts of its link (`metric` None, one entry per `LINK_COLUMNS`).

    The arrays have one shape: over rounds, over rounds and devices, over devices, or no axis at all. None is a
    column of empty cells.
    """

    trial: int
    metric: str | None
    data: tuple[NDArray[Any] | None, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the arrays."""
        return next(array.shape for array in self.data if array is not None)


def blocks(store: Store, *, table: str, task_ids: Sequence[str]) -> Iterator[Block]:
    """The blocks of some tasks in the order given; a failed trial has no block in `metrics`."""
    records = store.read_tasks(task_ids)
    if table == "metrics":
        done = [task_id for task_id, record in records.items() if record.status == "done"]
        for task_id, metrics in store.read_metrics(done).items():
            for name, value in metrics.items():
                yield Block(trial=records[task_id].trial, metric=name, data=(np.asarray(value),))
        return
    for task_id, arrays in store.read_series(task_ids, cast("SeriesTable", table)).items():
        trial = records[task_id].trial
        if table != "link":
            for name, values in burst_columns(arrays) if table == "bursts" else arrays.items():
                yield Block(trial=trial, metric=name, data=(values,))
        elif arrays:
            yield Block(trial=trial, metric=None, data=tuple(arrays.get(name) for name in LINK_COLUMNS))


def burst_columns(arrays: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Burst counts `[num_devices]` by name; of the k-th of several, the name ends in its number.

    `in_a_row_1` .. `in_a_row_8`: positions that start so many errors in a row; `label_bits_0`, .. and
    `label_errors_0`, ..: places in the symbol's label from the first.
    """
    for name, values in arrays.items():
        if values.ndim == 1:
            yield name, values
            continue
        first = 1 if name == "in_a_row" else 0
        for place in range(values.shape[1]):
            yield f"{name}_{place + first}", values[:, place]


def rows_of(store: Store, plan: Plan, *, table: str, task_ids: TaskIds) -> Iterator[str]:
    """Body of the CSV file of one tidy table, a few trials of a point at a time.

    Columns as in `columns_of`; counts as integers, floats with all digits they need (`nan` and
    `inf` as such), None as an empty cell.
    """
    for point, ids in zip(plan.points, task_ids, strict=True):
        swept = swept_values(plan, point)
        head = csv_row(swept).rstrip("\n") + "," if swept else ""
        for start in range(0, len(ids), TRIALS_AT_ONCE):
            some = blocks(store, table=table, task_ids=ids[start : start + TRIALS_AT_ONCE])
            first = int("round" in KEYS[table])
            yield "".join(_rows(block, head=head, worded=table in WORDED, first=first) for block in some)


def _rows(block: Block, *, head: str, worded: bool, first: int) -> str:
    """All rows of one metric (or of the link) of one trial, formatted in C: pandas takes ten times as long.

    One template holds every row with holes for its values, and is filled once.
    """
    holes = ",".join(map(_hole, block.data))
    # What is written around the holes must not look like one.
    start = f"{head}{block.trial}".replace("%", "%%")
    metric = "" if block.metric is None else f"{csv_row([block.metric]).rstrip()},".replace("%", "%%")
    coded = worded and block.metric in CODED
    text = ",%s" if coded else "," if worded else ""
    template = _template(block.shape, start=start, end=f",{metric}{holes}{text}\n", first=first)
    columns: list[Sequence[Any]] = [array.reshape(-1).tolist() for array in block.data if array is not None]
    if coded:
        columns.append([word_of(str(block.metric), value) for value in columns[0]])
    values = columns[0] if len(columns) == 1 else list(chain.from_iterable(zip(*columns, strict=True)))
    return template % tuple(values)


def _hole(array: NDArray[Any] | None) -> str:
    """What stands for one value of a column; nothing, where it was not measured."""
    if array is None:
        return ""
    return "%d" if np.issubdtype(array.dtype, np.integer) else "%r"


def _template(shape: tuple[int, ...], *, start: str, end: str, first: int) -> str:
    """A row per entry of an array of `shape`, in C order: start, the indices (the outer one from `first`), end."""
    if not shape:
        return start + end
    rounds = [f"{start},{r}" for r in range(first, first + shape[0])]
    if len(shape) == 1:
        return "".join([f"{row}{end}" for row in rounds])
    devices = [f",{d}{end}" for d in range(shape[1])]
    return "".join([row + device for row in rounds for device in devices])
