"""What finished tasks become in the tables of a store: rows, packed arrays, and the digests of both.

Trials of a batch mostly share their point, their account, and arrays that no trial changes: what is shared is packed,
written out and digested once, and found again where the next trial has the same.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fl.results import PrivacyAccount, TrialResult
from scenarios.accounts import account_arrays, account_text
from scenarios.array_bytes import LastSeries, pack_series
from scenarios.integrity import ARRAY_TABLES, OF_NO_ROWS, PARTS, TASK_COLUMNS, ArrayTable, Part, Row, digest, metric_row


@dataclass(frozen=True, kw_only=True)
class TaskRows:
    """One task, as it is stored: `arrays` as `pack_series` gives them, `account` with none or one row."""

    task: Row
    metrics: Sequence[Row]
    arrays: Mapping[ArrayTable, Sequence[Row]]
    account: Sequence[Row]
    digests: bytes


def rows_of_tasks(
    results: Mapping[str, TrialResult], *, physics: str, seconds: float, finished_at: str
) -> dict[str, TaskRows]:
    """The rows of every task of one point; `seconds` is what each of them took. ValueError as `pack_series` does."""
    writer = _Writer(physics=physics, seconds=seconds, finished_at=finished_at)
    return {task_id: writer.rows(task_id, result) for task_id, result in results.items()}


def insert_tasks(database: sqlite3.Connection, tasks: Mapping[str, TaskRows], *, physics: str) -> None:
    """Write them, within a transaction of the caller's."""
    database.execute("INSERT OR IGNORE INTO points (physics) VALUES (?)", (physics,))
    (point,) = database.execute("SELECT id FROM points WHERE physics = ?", (physics,)).fetchone()
    (first,) = database.execute("SELECT coalesce(max(id), 0) + 1 FROM tasks").fetchone()
    numbered = list(enumerate(tasks.values(), first))
    database.executemany(
        f"INSERT INTO tasks (id, {TASK_COLUMNS}, point) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        ((number, *rows.task, point) for number, rows in numbered),
    )
    database.executemany(  # SQLite keeps NaN as NULL; `read_metrics` turns it back
        "INSERT INTO metrics VALUES (?, ?, ?)", ((number, *row) for number, rows in numbered for row in rows.metrics)
    )
    for table in ARRAY_TABLES:
        database.executemany(
            f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((number, *row) for number, rows in numbered for row in rows.arrays[table]),
        )
    database.executemany(
        "INSERT INTO accounts VALUES (?, ?, ?)", ((number, *row) for number, rows in numbered for row in rows.account)
    )
    database.executemany("INSERT INTO checks VALUES (?, ?)", ((number, rows.digests) for number, rows in numbered))


class _Writer:
    """Rows of one task after the other, with what the task before had."""

    def __init__(self, *, physics: str, seconds: float, finished_at: str) -> None:
        self._seconds, self._finished_at = seconds, finished_at
        self._series: dict[ArrayTable, LastSeries] = {table: {} for table in ARRAY_TABLES}
        self._point = digest([(physics,)])
        self._account: tuple[PrivacyAccount | None, list[Row]] = (None, [])
        self._digested: dict[Part, tuple[Sequence[Row], bytes]] = {}

    def rows(self, task_id: str, result: TrialResult) -> TaskRows:
        """One task."""
        status = "done" if result.failure is None else "failed"
        task: Row = (task_id, result.trial, status, result.failure, self._seconds, self._finished_at)
        metrics = [metric_row(name, float(value)) for name, value in result.metrics.items()]
        arrays = {
            table: pack_series(
                account_arrays(result.account) if table == "ledger" else getattr(result, table),
                last=self._series[table],
            )
            for table in ARRAY_TABLES
        }
        account = self._account_rows(result.account)
        digests = {"task": digest([task]), "point": self._point, "metrics": digest(metrics)}
        digests["account"] = self._digest("account", account)
        for table, packed in arrays.items():
            digests[table] = self._digest(table, packed)
        return TaskRows(
            task=task,
            metrics=metrics,
            arrays=arrays,
            account=account,
            digests=b"".join(digests[part] for part in PARTS),
        )

    def _account_rows(self, account: PrivacyAccount | None) -> list[Row]:
        if account is not self._account[0]:
            text = "" if account is None else account_text(account)
            self._account = (account, [] if account is None else [(text, zlib.crc32(text.encode()))])
        return self._account[1]

    def _digest(self, part: Part, rows: Sequence[Row]) -> bytes:
        """The digest of rows that are often those of the task before."""
        if not rows:
            return OF_NO_ROWS
        before = self._digested.get(part)
        # Rows of these parts are text, whole numbers and bytes: equal ones have the same digest.
        if before is not None and before[0] == rows:
            return before[1]
        heads = rows if part == "account" else [(*row[:4], row[5]) for row in rows]
        found = digest(heads)
        self._digested[part] = (rows, found)
        return found
