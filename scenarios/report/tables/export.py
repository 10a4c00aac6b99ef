"""Rows of the tidy CSV files of a run, a few trials at a time however large the run is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scenarios.report.settings import swept_values
from scenarios.report.tables.cells import csv_row
from scenarios.report.tables.quantities import CODED, word_of
from scenarios.report.tables.tables import TRIALS_AT_ONCE, WORDED, Block, TaskIds, blocks

if TYPE_CHECKING:
    from scenarios.plan.points import Plan
    from scenarios.store.store import Store


def rows_of(store: Store, plan: Plan, *, table: str, task_ids: TaskIds) -> Iterator[str]:
    """Body of the CSV file of one tidy table, a few trials of a point at a time.

    Columns as in `scenarios.report.tables.tables`; counts as integers, floats with all digits they need (`nan` and
    `inf` as such), None as an empty cell.
    """
    for point, ids in zip(plan.points, task_ids, strict=True):
        swept = swept_values(plan, point)
        head = csv_row(swept).rstrip("\n") + "," if swept else ""
        for start in range(0, len(ids), TRIALS_AT_ONCE):
            some = blocks(store, table=table, task_ids=ids[start : start + TRIALS_AT_ONCE])
            yield "".join(_rows(block, head=head, worded=table in WORDED) for block in some)


def _rows(block: Block, *, head: str, worded: bool) -> str:
    """All rows of one metric (or of the link) of one trial, formatted in C: pandas takes ten times as long.

    One template holds every row with holes for its values, and is filled once.
    """
    holes = ",".join(map(_hole, block.data))
    # What is written around the holes must not look like one.
    start = f"{head}{block.trial}".replace("%", "%%")
    metric = "" if block.metric is None else f"{csv_row([block.metric]).rstrip()},".replace("%", "%%")
    coded = worded and block.metric in CODED
    text = ",%s" if coded else "," if worded else ""
    template = _template(block.shape, start=start, end=f",{metric}{holes}{text}\n")
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


def _template(shape: tuple[int, ...], *, start: str, end: str) -> str:
    """A row per entry of an array of `shape`, in C order: start, the indices, end."""
    if not shape:
        return start + end
    rounds = [f"{start},{r}" for r in range(shape[0])]
    if len(shape) == 1:
        return "".join([f"{row}{end}" for row in rounds])
    devices = [f",{d}{end}" for d in range(shape[1])]
    return "".join([row + device for row in rounds for device in devices])
