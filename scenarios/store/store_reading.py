"""What is read of the tasks of a store, each part checked against the digests that were written with it.

Tasks of before there were packs have their metrics, arrays and account as rows of tables of their own, and so has every
task those arrays that are too large for a pack.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fl.results import PrivacyAccount
from scenarios.store.accounts import account_from
from scenarios.store.array_bytes import unpack_series
from scenarios.store.damage import DamagedStoreError, damaged
from scenarios.store.integrity import (
    HEAD_COLUMNS,
    TASK_COLUMNS,
    ArrayTable,
    Part,
    Row,
    checked_from,
    digest,
    has_table,
    packed_row,
    part_of,
)
from scenarios.store.packs import ACCOUNT, Entry, Layout, Place, array_at, layout_of, text_at

CHUNK = 500
"""Tasks per query: well below SQLite's limit on bound values (999 before version 3.32)."""

_Read = tuple[Any, ...]
"""A row that may hold anything."""
Series = dict[str, NDArray[Any]]
SeriesTable = Literal["rounds", "link", "privacy", "bursts", "devices", "pictures"]
SERIES_TABLES: tuple[SeriesTable, ...] = ("rounds", "link", "privacy", "bursts", "devices", "pictures")

_NAMES: Mapping[Part, str] = {
    **{table: f"{table} rows" for table in SERIES_TABLES},
    "packed": "the list of metrics and arrays",
}


@dataclass(frozen=True, kw_only=True)
class TaskRecord:
    """One stored task without its arrays. `seconds` is its share of the batch it was computed in."""

    task_id: str
    trial: int
    status: Literal["done", "failed"]
    failure: str | None
    seconds: float
    finished_at: str


@dataclass(frozen=True, kw_only=True)
class Source:
    """An open database, and where it lies."""

    database: sqlite3.Connection
    path: Path

    def select(self, query: str, keys: Sequence[object]) -> Iterator[tuple[Any, ...]]:
        """Rows of `query`, whose `{}` stands for the keys, a chunk of them at a time."""
        for some in _chunks(keys):
            yield from self.database.execute(query.format(", ".join("?" * len(some))), some)

    @contextlib.contextmanager
    def reading(self, what: str, task_id: str) -> Iterator[None]:
        """Reading what no digest may have vouched for: what it cannot be is damage."""
        try:
            yield
        except ValueError as error:
            raise self.not_as_written(what, task_id) from error

    def not_as_written(self, what: str, task_id: str) -> DamagedStoreError:
        """The error that says so of a part of a task."""
        return damaged(self.path, f"{what} of task {task_id[:12]} is damaged: the checksum differs")


@dataclass(frozen=True, kw_only=True)
class _Packed:
    """What is packed of a task but the bytes of arrays: `row` as it is digested, and the layout of its pack."""

    row: Row
    pack: int
    layout: Layout
    heads: str
    metrics: bytes

    def places(self, *tables: str) -> list[tuple[Entry, Place]]:
        """The arrays of these tables, and where they are."""
        if self.layout.tables.isdisjoint(tables):
            return []
        pairs = zip(self.layout.entries, self.layout.places(self.heads), strict=True)
        return [(entry, place) for entry, place in pairs if entry.table in tables]


@dataclass(frozen=True, kw_only=True)
class _Bytes:
    """Bytes of arrays: of tasks and of packs, by number."""

    own: Mapping[int, bytes]
    shared: Mapping[int, bytes]

    def of(self, task: int, one: _Packed, entry: Entry) -> bytes:
        """Those in which an array of a task is; none where what is stored are no bytes."""
        found = self.own.get(task) if entry.place is None else self.shared.get(one.pack)
        return found if isinstance(found, bytes) else b""


def tasks_of(source: Source, task_ids: Sequence[str]) -> dict[str, TaskRecord]:
    """Records of those of `task_ids` that are stored, in the order asked for."""
    found: dict[str, TaskRecord] = {}
    for some in _chunks(task_ids):
        tasks = _task_rows(source, some)
        _verify(source, tasks, {})
        for row in tasks.values():
            found[row[0]] = TaskRecord(**dict(zip(TASK_COLUMNS.split(", "), row, strict=True)))
    return found


def metrics_of(source: Source, task_ids: Sequence[str]) -> dict[str, dict[str, float]]:
    """Metrics by name of those of `task_ids` that are stored; a value not measured is NaN."""
    found: dict[str, dict[str, float]] = {}
    for some in _chunks(task_ids):
        tasks = _task_rows(source, some)
        rows = _rows(source, "metrics", "name, value", tasks)
        packed = _packed_rows(source, tasks)
        _verify(source, tasks, {"metrics": rows, "packed": _digested(packed)})
        for number, task in tasks.items():
            metrics = {name: np.nan if value is None else value for name, value in rows.get(number, ())}
            if (one := packed.get(number)) is not None:
                with source.reading("the metrics", task[0]):
                    metrics |= zip(one.layout.metrics, one.layout.values(one.metrics), strict=True)
            found[task[0]] = metrics
    return found


def series_of(source: Source, task_ids: Sequence[str], *, table: ArrayTable) -> dict[str, Series]:
    """Arrays by name of those of `task_ids` that are stored, checked against their checksums."""
    found: dict[str, Series] = {}
    for some in _chunks(task_ids):
        tasks = _task_rows(source, some)
        found |= _series(source, tasks, _packed_rows(source, tasks), table=table)
    return found


def accounts_of(source: Source, task_ids: Sequence[str]) -> dict[str, PrivacyAccount]:
    """What those of `task_ids` released that are stored, done or failed, and have an account."""
    found: dict[str, PrivacyAccount] = {}
    for some in _chunks(task_ids):
        tasks = _task_rows(source, some)
        packed = _packed_rows(source, tasks)
        arrays = _series(source, tasks, packed, table="ledger")
        rows = _rows(source, "accounts", "plain, crc32", tasks)
        _verify(source, tasks, {"account": rows})
        data = _bytes(source, packed, ACCOUNT)
        for number, task in tasks.items():
            texts = [text if zlib.crc32(text.encode()) == crc32 else None for text, crc32 in rows.get(number, ())]
            if (one := packed.get(number)) is not None:
                with source.reading("the privacy account", task[0]):
                    texts += [text_at(place, data.of(number, one, entry)) for entry, place in one.places(ACCOUNT)]
            for text in texts:
                if text is None:
                    raise source.not_as_written("the privacy account", task[0])
                found[task[0]] = account_from(text, arrays[task[0]])
    return found


def totals_of(source: Source, task_ids: Sequence[str], *, table: SeriesTable) -> dict[str, int]:
    """Sum of each count of a table over all rounds and devices of those of `task_ids` that are done."""
    totals: dict[str, int] = {}
    for some in _chunks(task_ids):
        stored = _task_rows(source, some)
        _verify(source, stored, {})  # all of them: what is left out by its status must be so
        tasks = {number: row for number, row in stored.items() if row[2] == "done"}
        heads = _rows(source, table, HEAD_COLUMNS, tasks)
        packed = _packed_rows(source, tasks)
        _verify(source, tasks, {table: heads, "packed": _digested(packed)})
        counts = [(row[0], row[4]) for rows in heads.values() for row in rows]
        for number, one in packed.items():
            with source.reading(f"{table} rows", tasks[number][0]):
                counts += [(entry.name, place.total) for entry, place in one.places(table)]
        for name, total in counts:
            if total is not None:
                totals[name] = totals.get(name, 0) + total
    return totals


def _series(
    source: Source, tasks: Mapping[int, _Read], packed: Mapping[int, _Packed], *, table: ArrayTable
) -> dict[str, Series]:
    rows = _rows(source, table, f"{HEAD_COLUMNS}, data", tasks)
    heads = {number: [row[:-1] for row in some] for number, some in rows.items()}
    _verify(source, tasks, {table: heads, "packed": _digested(packed)})
    data = _bytes(source, packed, table)
    shared: dict[tuple[int, str], NDArray[Any] | None] = {}
    found: dict[str, Series] = {}
    for number, task in tasks.items():
        arrays = [(row[0], unpack_series(row[1], row[2], row[3], row[5])) for row in rows.get(number, ())]
        if (one := packed.get(number)) is not None:
            with source.reading(f"{table} rows", task[0]):
                for entry, place in one.places(table):
                    # What tasks share is unpacked once.
                    key = (-number if entry.place is None else one.pack, entry.name)
                    if key not in shared:
                        shared[key] = array_at(entry, place, data.of(number, one, entry))
                    arrays.append((entry.name, shared[key]))
        found[task[0]] = {}
        for name, array in arrays:
            if array is None:
                raise source.not_as_written(f"{table} {name}", task[0])
            found[task[0]][name] = array
    return found


def _task_rows(source: Source, task_ids: Sequence[str]) -> dict[int, _Read]:
    """Rows of those tasks that are stored, by number, in the order asked for."""
    query = f"SELECT {TASK_COLUMNS}, id FROM tasks WHERE task_id IN ({{}})"
    rows = {row[0]: row for row in source.select(query, task_ids)}
    return {rows[task_id][-1]: rows[task_id][:-1] for task_id in task_ids if task_id in rows}


def _rows(source: Source, table: str, columns: str, tasks: Mapping[int, _Read]) -> dict[int, list[_Read]]:
    """Rows of these tasks in a table, in the order written; none where a store has no such table yet."""
    found: dict[int, list[_Read]] = {}
    if has_table(source.database, table):
        query = f"SELECT task, {columns} FROM {table} WHERE task IN ({{}}) ORDER BY rowid"
        for task, *row in source.select(query, list(tasks)):
            found.setdefault(task, []).append(tuple(row))
    return found


def _packed_rows(source: Source, tasks: Mapping[int, _Read]) -> dict[int, _Packed]:
    """What is packed of these tasks, but for bytes of arrays."""
    if not has_table(source.database, "packed"):
        return {}
    rows = list(source.select("SELECT task, pack, heads, metrics FROM packed WHERE task IN ({})", list(tasks)))
    numbers = list({row[1] for row in rows})
    packs = dict(source.select("SELECT id, heads FROM packs WHERE id IN ({})", numbers))
    layouts: dict[int, tuple[Layout, bytes]] = {}
    found: dict[int, _Packed] = {}
    for task, pack, heads, metrics in rows:
        with source.reading(_NAMES["packed"], tasks[task][0]):
            if pack not in layouts:
                layouts[pack] = (layout_of(packs.get(pack)), digest([(packs.get(pack),)]))
            layout, of_pack = layouts[pack]
            row = packed_row(of_pack, heads, metrics)
            found[task] = _Packed(row=row, pack=pack, layout=layout, heads=heads, metrics=metrics)
    return found


def _bytes(source: Source, packed: Mapping[int, _Packed], table: str) -> _Bytes:
    """The bytes of the arrays of a table: those of tasks that have none of their own in it stay unread."""
    own = [task for task, one in packed.items() if table in one.layout.own_tables]
    packs = list({one.pack for one in packed.values() if table in one.layout.tables})
    return _Bytes(
        own=dict(source.select("SELECT task, data FROM packed WHERE task IN ({})", own)),
        shared=dict(source.select("SELECT id, data FROM packs WHERE id IN ({})", packs)),
    )


def _digested(packed: Mapping[int, _Packed]) -> dict[int, list[Row]]:
    return {number: [one.row] for number, one in packed.items()}


def _verify(source: Source, tasks: Mapping[int, _Read], parts: Mapping[Part, Mapping[int, Sequence[Row]]]) -> None:
    """DamagedStoreError unless these tasks, and the rows of these parts of them, are those that were written."""
    first = checked_from(source.database)
    if first == np.inf:
        return
    known = dict(source.select("SELECT task, digests FROM checks WHERE task IN ({})", list(tasks)))
    for number, task in tasks.items():
        digests = known.get(number)
        if digests is None and number < first:
            continue
        rows: dict[Part, Sequence[Row]] = {"task": [task], **{part: of.get(number, ()) for part, of in parts.items()}}
        for part, some in rows.items():
            written = part_of(digests, part) if isinstance(digests, bytes) else b""
            if written is not None and written != digest(some):
                raise source.not_as_written(_NAMES.get(part, f"the {part}"), str(task[0]))


def _chunks(keys: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(keys), CHUNK):
        yield list(keys[start : start + CHUNK])
