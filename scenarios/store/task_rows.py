"""What finished tasks become in the tables of a store: packs, rows, and the digests of both."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fl.results import TrialResult
from scenarios.store.array_bytes import LastSeries, pack_series
from scenarios.store.database import claim_version
from scenarios.store.integrity import (
    ARRAY_TABLES,
    OF_NO_ROWS,
    PARTS,
    TASK_COLUMNS,
    ArrayTable,
    Part,
    Row,
    digest,
    packed_row,
)
from scenarios.store.packing import Pack, pack_tasks

_NO_PARTS: Mapping[Part, bytes] = dict.fromkeys(PARTS, OF_NO_ROWS)


@dataclass(frozen=True, kw_only=True)
class TaskRows:
    """Rows of the tasks of a batch, by task; `arrays` are those that are too large for a pack, from `pack_series`."""

    tasks: Mapping[str, Row]
    packs: Sequence[Pack]
    arrays: Mapping[str, Mapping[ArrayTable, Sequence[Row]]]
    digests: Mapping[str, bytes]


def rows_of_tasks(results: Mapping[str, TrialResult], *, physics: str, seconds: float, finished_at: str) -> TaskRows:
    """The rows of all tasks of one point; `seconds` is what each of them took. ValueError as `pack_tasks` does."""
    packs, unpacked = pack_tasks(results)
    last: dict[ArrayTable, LastSeries] = {table: {} for table in ARRAY_TABLES}
    arrays = {
        task_id: {table: pack_series(some, last=last[table]) for table, some in tables.items()}
        for task_id, tables in unpacked.items()
    }
    tasks = {task_id: _task(task_id, result, seconds, finished_at) for task_id, result in results.items()}
    usual: dict[Part, bytes] = {**_NO_PARTS, "point": digest([(physics,)])}
    between = b"".join(usual[part] for part in PARTS[1:-1])
    digests: dict[str, bytes] = {}
    for pack in packs:
        of_pack = digest([(pack.heads,)])
        for task_id, (heads, metrics, _) in pack.tasks.items():
            task, packed = digest([tasks[task_id]]), digest([packed_row(of_pack, heads, metrics)])
            digests[task_id] = task + between + packed
            if large := arrays.get(task_id):
                found = dict(usual)
                for table, rows in large.items():
                    found[table] = digest([(*row[:4], row[5]) for row in rows])
                digests[task_id] = b"".join([task, *(found[part] for part in PARTS[1:-1]), packed])
    return TaskRows(tasks=tasks, packs=packs, arrays=arrays, digests=digests)


def insert_tasks(database: sqlite3.Connection, rows: TaskRows, *, physics: str) -> None:
    """Write them, within a transaction of the caller's."""
    claim_version(database)
    database.execute("INSERT OR IGNORE INTO points (physics) VALUES (?)", (physics,))
    (point,) = database.execute("SELECT id FROM points WHERE physics = ?", (physics,)).fetchone()
    (first,) = database.execute("SELECT coalesce(max(id), 0) + 1 FROM tasks").fetchone()
    numbers = {task_id: number for number, task_id in enumerate(rows.tasks, first)}
    database.executemany(
        f"INSERT INTO tasks (id, {TASK_COLUMNS}, point) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        ((numbers[task_id], *row, point) for task_id, row in rows.tasks.items()),
    )
    for pack in rows.packs:
        number = database.execute("INSERT INTO packs (heads, data) VALUES (?, ?)", (pack.heads, pack.data)).lastrowid
        database.executemany(
            "INSERT INTO packed VALUES (?, ?, ?, ?, ?)",
            ((numbers[task_id], number, *own) for task_id, own in pack.tasks.items()),
        )
    for table in ARRAY_TABLES:
        database.executemany(
            f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((numbers[task_id], *row) for task_id, tables in rows.arrays.items() for row in tables.get(table, ())),
        )
    database.executemany(
        "INSERT INTO checks VALUES (?, ?)", ((numbers[task_id], digests) for task_id, digests in rows.digests.items())
    )


def _task(task_id: str, result: TrialResult, seconds: float, finished_at: str) -> Row:
    status = "done" if result.failure is None else "failed"
    return (task_id, result.trial, status, result.failure, seconds, finished_at)
