"""What a store keeps of itself: the runs that wrote to it, and the scenario; each row has a digest."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenarios.schema.errors import ScenarioError
from scenarios.store.clock import utc_now
from scenarios.store.damage import damaged
from scenarios.store.integrity import RUN_COLUMNS, digest, known_record, note_record
from scenarios.store.store_reading import Source


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One invocation that wrote to the store; `status` is running, killed, or what `finish_run` said."""

    run: int
    command: str
    provenance: Mapping[str, Any]
    started_at: str
    finished_at: str | None
    status: str


@dataclass(frozen=True, kw_only=True)
class SavedScenario:
    """The scenario as resolved: YAML text to read, `root` (plain values) to rebuild the plan from."""

    yaml: str
    root: Mapping[str, Any]


def record_run(database: sqlite3.Connection, *fields: str) -> int:
    """Note that an invocation begins: command, provenance, time; returns its number."""
    row = database.execute(
        "INSERT INTO runs (command, provenance, started_at, status) VALUES (?, ?, ?, 'running')", fields
    ).lastrowid
    assert row is not None  # an INSERT that succeeded has a row; for the type checker
    note_record(database, f"run {row}", (row, *fields))
    return row


def read_runs(source: Source) -> tuple[RunRecord, ...]:
    """All invocations that wrote here, oldest first."""
    rows = source.database.execute(f"SELECT {RUN_COLUMNS}, finished_at, status FROM runs ORDER BY id").fetchall()
    for row in rows:
        _check_record(source, f"run {row[0]}", row[:4])
    return tuple(
        RunRecord(
            run=run,
            command=command,
            provenance=json.loads(provenance),
            started_at=started_at,
            finished_at=finished_at,
            status=status,
        )
        for run, command, provenance, started_at, finished_at, status in rows
    )


def save_scenario(database: sqlite3.Connection, *, yaml: str, root: Mapping[str, Any]) -> None:
    """Keep the latest resolved scenario."""
    kept = (yaml, json.dumps(root), utc_now())
    database.execute("INSERT OR REPLACE INTO scenario VALUES (1, ?, ?, ?)", kept)
    note_record(database, "scenario", kept)


def read_scenario(source: Source) -> SavedScenario:
    """The scenario saved last; ScenarioError if a run was killed before it saved any."""
    row = source.database.execute("SELECT yaml, root, saved_at FROM scenario").fetchone()
    _check_record(source, "scenario", row)
    if row is None:
        raise ScenarioError(
            file=source.path.parent, problem="holds no scenario yet", remedy="run the scenario into it first"
        )
    return SavedScenario(yaml=row[0], root=json.loads(row[1]))


def _check_record(source: Source, record: str, row: Sequence[object] | None) -> None:
    """DamagedStoreError unless a row of the store's own is the one that was written."""
    known = known_record(source.database, record)
    if known is not None and (row is None or digest([tuple(row)]) != known):
        raise damaged(source.path, f"the checksum of its record of the {record} differs")
