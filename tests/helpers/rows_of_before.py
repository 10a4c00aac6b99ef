"""Stores as they were written before there were packs: a row for every metric and every array."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Mapping
from contextlib import closing
from math import isnan
from pathlib import Path

from fl.results import TrialResult
from scenarios.store.accounts import account_arrays, account_text
from scenarios.store.array_bytes import pack_series
from scenarios.store.database import DATABASE, LOCK, YOUNG_TABLES, connect, create_database
from scenarios.store.integrity import ARRAY_TABLES, TASK_COLUMNS, Row, digest
from scenarios.store.run_notes import TABLES as NOTES_TABLES

PAGE_OF_BEFORE = 4096
_PARTS = ("task", "point", "metrics", "account", *ARRAY_TABLES)


def create_store_of_before(folder: Path, *, scenario_name: str) -> None:
    """An empty store without packs, in pages of the size of then."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOCK).write_text("1\n")
    create_database(folder / DATABASE, scenario_name=scenario_name, page=PAGE_OF_BEFORE)
    with closing(connect(folder / DATABASE)) as database:
        for statement in (*YOUNG_TABLES, *NOTES_TABLES):
            database.execute(statement)
        database.execute("PRAGMA user_version = 2")
        database.execute("UPDATE meta SET value = '2' WHERE key = 'store_version'")


def write_as_before(folder: Path, results: Mapping[str, TrialResult], *, physics: str) -> None:
    """Add trials of one point."""
    with closing(connect(folder / DATABASE)) as database:
        database.execute("BEGIN")
        database.execute("INSERT OR IGNORE INTO points (physics) VALUES (?)", (physics,))
        (point,) = database.execute("SELECT id FROM points WHERE physics = ?", (physics,)).fetchone()
        for task_id, result in results.items():
            _write_task(database, task_id, result, point=point, physics=physics)
        database.execute("COMMIT")


def _metric_row(name: object, value: object) -> Row:
    """A metric as SQLite keeps it: without NaN and minus zero."""
    if isinstance(value, float):
        return (name, None if isnan(value) else value + 0.0)
    return (name, value)


def _write_task(database: sqlite3.Connection, task_id: str, result: TrialResult, *, point: int, physics: str) -> None:
    status = "done" if result.failure is None else "failed"
    task = (task_id, result.trial, status, result.failure, 0.5, "2026-01-01T00:00:00+00:00")
    number = database.execute(f"INSERT INTO tasks ({TASK_COLUMNS}, point) VALUES (?, ?, ?, ?, ?, ?, ?)", (*task, point))
    row = number.lastrowid
    metrics = [_metric_row(name, float(value)) for name, value in result.metrics.items()]
    database.executemany("INSERT INTO metrics VALUES (?, ?, ?)", [(row, *one) for one in metrics])
    digests = {"task": digest([task]), "point": digest([(physics,)]), "metrics": digest(metrics)}
    for table in ARRAY_TABLES:
        arrays = account_arrays(result.account) if table == "ledger" else getattr(result, table)
        packed = pack_series(arrays)
        database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?)", [(row, *one) for one in packed])
        digests[table] = digest([(*one[:4], one[5]) for one in packed])
    text = None if result.account is None else account_text(result.account)
    account = [] if text is None else [(text, zlib.crc32(text.encode()))]
    database.executemany("INSERT INTO accounts VALUES (?, ?, ?)", [(row, *one) for one in account])
    digests["account"] = digest(account)
    database.execute("INSERT INTO checks VALUES (?, ?)", (row, b"".join(digests[part] for part in _PARTS)))
