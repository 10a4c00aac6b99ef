"""Tidy CSV files of a whole run, written a few trials at a time however large the run is."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenarios.plan.points import Plan
from scenarios.report.settings import swept_values
from scenarios.report.tables.cells import csv_cells
from scenarios.report.tables.quantities import CODED, word_of
from scenarios.report.tables.tables import KEYS, WORDED, Block, TaskIds, blocks, columns_of
from scenarios.schema.errors import ScenarioError
from scenarios.store.files import Replacement
from scenarios.store.store import Store

TABLES: tuple[str, ...] = tuple(KEYS)
TRIALS_AT_ONCE = 20
"""Trials in memory at a time: at 300 rounds of 20 devices some 20 MB of text."""


def export(folder: Path, out: Path, *, plan: Plan, task_ids: TaskIds) -> tuple[Path, ...]:
    """Write metrics.csv, rounds.csv, link.csv, privacy.csv, bursts.csv and devices.csv of a run into `out`.

    Columns as in `scenarios.report.tables.tables`; UTF-8, a header even where there is no row, counts as integers,
    floats with all digits they need (`nan` and `inf` as such), None as an empty cell. Each file
    appears whole or not at all. ScenarioError if there is no run or `out` cannot be written.
    """
    if out.exists() and not out.is_dir():
        raise ScenarioError(file=out, problem="is a file, not a folder", remedy="name a folder for the CSV files")
    paths = tuple(out / f"{table}.csv" for table in TABLES)
    with Store.open_existing(folder) as store:
        try:
            out.mkdir(parents=True, exist_ok=True)
            for table, path in zip(TABLES, paths, strict=True):
                with Replacement(path) as file:
                    file.write(_row(columns_of(plan, table)).encode())
                    for text in _pieces(store, plan, table=table, task_ids=task_ids):
                        file.write(text.encode())
        except OSError as error:
            raise ScenarioError(
                file=out,
                problem=f"CSV files cannot be written here ({error.strerror})",
                remedy="choose a folder on a writable disk",
            ) from error
    return paths


def _pieces(store: Store, plan: Plan, *, table: str, task_ids: TaskIds) -> Iterator[str]:
    """The body of a file, a few trials of a point at a time."""
    for point, ids in zip(plan.points, task_ids, strict=True):
        swept = swept_values(plan, point)
        head = _row(["" if value is None else value for value in swept]).rstrip("\n") + "," if swept else ""
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
    metric = "" if block.metric is None else f"{_cell(block.metric)},".replace("%", "%%")
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


def _row(cells: Sequence[object]) -> str:
    """One line of CSV, quoted where needed."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(csv_cells(cells))
    return buffer.getvalue()


def _cell(value: object) -> str:
    return _row([value]).rstrip("\n")
