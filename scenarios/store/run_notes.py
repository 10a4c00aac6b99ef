"""What a run folder knows of its runs beside results: what was planned, what was tried again, what the report shows.

Tables of their own in the same database, younger than the rest of store version 2: a store without them is read as one
in which nothing was noted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scenarios.store.integrity import has_table

TABLES = (
    # Of run `run`: tasks (or points of a link study) planned, those of them found finished, those found failed and
    # computed again, those that are not needed after all, and those stored here that are no part of the plan.
    """CREATE TABLE IF NOT EXISTS planned (run INTEGER PRIMARY KEY REFERENCES runs(id), tasks INTEGER NOT NULL,
    found INTEGER NOT NULL, again INTEGER NOT NULL, skipped INTEGER NOT NULL, others INTEGER NOT NULL,
    others_failed INTEGER NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS attempts (task_id TEXT NOT NULL, trial INTEGER NOT NULL, failure TEXT,
    seconds REAL NOT NULL, finished_at TEXT NOT NULL, replaced_at TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS reports (id INTEGER PRIMARY KEY CHECK (id = 1), made_from TEXT NOT NULL,
    files TEXT NOT NULL)""",
)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What one run set out to have: `tasks`, of which `found` were finished before it began, done or failed.

    `again`: those of the failed that it computes again; `skipped`: points that turned out not to be needed; `others`:
    tasks in the folder that belong to plans of before, `others_failed` of them failed, and never change.
    """

    tasks: int
    found: int
    again: int = 0
    skipped: int = 0
    others: int = 0
    others_failed: int = 0


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A task that had failed and was computed again: why and when it failed, and when that was replaced."""

    task_id: str
    trial: int
    failure: str | None
    seconds: float
    finished_at: str
    replaced_at: str


@dataclass(frozen=True, kw_only=True)
class ReportNote:
    """Which files the last report wrote, below the folder, and a digest of all that it was `made_from`."""

    made_from: str
    files: tuple[str, ...]


def note_plan(database: sqlite3.Connection, run: int, planned: Planned) -> None:
    """Keep what run `run` set out to have."""
    numbers = (planned.tasks, planned.found, planned.again, planned.skipped, planned.others, planned.others_failed)
    database.execute("INSERT OR REPLACE INTO planned VALUES (?, ?, ?, ?, ?, ?, ?)", (run, *numbers))


def planned_by(database: sqlite3.Connection, run: int) -> Planned | None:
    """What run `run` set out to have; None if it was killed before it said so, or is of an older phyloop."""
    if not has_table(database, "planned"):
        return None
    columns = "tasks, found, again, skipped, others, others_failed"
    row = database.execute(f"SELECT {columns} FROM planned WHERE run = ?", (run,)).fetchone()
    return None if row is None else Planned(**dict(zip(columns.split(", "), row, strict=True)))


def put_aside(database: sqlite3.Connection, task_ids: Sequence[str], *, tables: Iterable[str], now: str) -> None:
    """Move failed tasks to the attempts: their rows leave `tables` and `tasks`, for what was computed instead.

    Their packs leave with them, but for those that other tasks need.
    """
    packs: set[int] = set()
    for task_id in task_ids:
        query = "SELECT id, trial, failure, seconds, finished_at FROM tasks WHERE task_id = ? AND status = 'failed'"
        task, *told = database.execute(query, (task_id,)).fetchone()
        database.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?)", (task_id, *told, now))
        packs |= {pack for (pack,) in database.execute("SELECT pack FROM packed WHERE task = ?", (task,))}
        for table in tables:
            database.execute(f"DELETE FROM {table} WHERE task = ?", (task,))
        database.execute("DELETE FROM tasks WHERE id = ?", (task,))
    if packs:
        # Asked of the rows themselves: an index that is damaged would hide tasks, and have their packs deleted.
        needed = {pack for (pack,) in database.execute("SELECT pack FROM packed NOT INDEXED")}
        database.executemany("DELETE FROM packs WHERE id = ?", [(pack,) for pack in packs - needed])


def read_attempts(database: sqlite3.Connection) -> tuple[Attempt, ...]:
    """Everything that was tried again, oldest first."""
    if not has_table(database, "attempts"):
        return ()
    columns = "task_id, trial, failure, seconds, finished_at, replaced_at"
    rows = database.execute(f"SELECT {columns} FROM attempts ORDER BY rowid")
    return tuple(Attempt(**dict(zip(columns.split(", "), row, strict=True))) for row in rows)


def note_report(database: sqlite3.Connection, note: ReportNote) -> None:
    """Keep what the report that was just written shows."""
    database.execute("INSERT OR REPLACE INTO reports VALUES (1, ?, ?)", (note.made_from, json.dumps(note.files)))


def last_report(database: sqlite3.Connection) -> ReportNote | None:
    """The note of the report that a run wrote last."""
    if not has_table(database, "reports"):
        return None
    row = database.execute("SELECT made_from, files FROM reports").fetchone()
    return None if row is None else ReportNote(made_from=row[0], files=tuple(json.loads(row[1])))


def below(folder: Path, files: Iterable[Path]) -> tuple[str, ...]:
    """Files as a note keeps them: relative to the run folder, which may be moved."""
    return tuple(file.relative_to(folder).as_posix() for file in files)
