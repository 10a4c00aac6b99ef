"""The run folder: one SQLite database that holds every finished task whole, or not at all.

Writers hold `run.lock`, one per folder; readers need no lock.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from fl.results import PrivacyAccount, TrialResult
from scenarios.store.clock import utc_now
from scenarios.store.damage import DamagedStoreError, damaged, is_damage
from scenarios.store.database import DATABASE
from scenarios.store.integrity import ARRAY_TABLES, SUSPECT, TABLES_OF_TASKS, ArrayTable, note_record
from scenarios.store.opening import open_to_read, open_to_write, unwritable
from scenarios.store.provenance import Provenance
from scenarios.store.run_notes import (
    Attempt,
    Planned,
    ReportNote,
    last_report,
    note_plan,
    note_report,
    put_aside,
    read_attempts,
)
from scenarios.store.run_records import RunRecord, SavedScenario, read_runs, read_scenario, record_run, save_scenario
from scenarios.store.store_reading import (
    CHUNK,
    Series,
    SeriesTable,
    Source,
    TaskRecord,
    accounts_of,
    metrics_of,
    series_of,
    tasks_of,
    totals_of,
)
from scenarios.store.task_rows import insert_tasks, rows_of_tasks


class Store:
    """One open run folder. Make it with `Store.open` (to write) or `Store.open_existing` (to read)."""

    def __init__(self, folder: Path, *, connection: sqlite3.Connection, lock: IO[str] | None) -> None:
        self.folder = folder
        self._connection = connection
        self._lock = lock

    @classmethod
    def open(cls, folder: Path, *, scenario_name: str, create: bool = True) -> Self:
        """Open `folder` for writing, alone; `create` makes folder and database where missing.

        ScenarioError if the folder is a file, cannot be written, holds a database that is not ours, is
        from a newer or older phyloop or belongs to another scenario (all found before anything on disk changes),
        or if another process is writing to it; DamagedStoreError if its bytes are not as they were written.
        """
        connection, lock = open_to_write(folder, scenario_name=scenario_name, create=create)
        return cls(folder, connection=connection, lock=lock)

    @classmethod
    def open_existing(cls, folder: Path) -> Self:
        """Open a run folder to read it, also while a run is writing to it; ScenarioError if there is none."""
        return cls(folder, connection=open_to_read(folder), lock=None)

    def close(self) -> None:
        """Close the database and let go of the lock; closing twice is fine."""
        self._connection.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if self._lock is None and (isinstance(error, DamagedStoreError) or (error is not None and is_damage(error))):
            with contextlib.suppress(OSError):
                (self.folder / SUSPECT).touch()
        if error is not None and is_damage(error):
            raise damaged(self.folder / DATABASE, str(error)) from error

    @property
    def scenario_name(self) -> str:
        """Name of the scenario whose results these are."""
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'scenario_name'").fetchone()
        return str(row[0])

    # --- tasks ------------------------------------------------------------------------------------

    def count_tasks(self) -> int:
        """Tasks stored, of whatever plan."""
        return int(self._connection.execute("SELECT count(*) FROM tasks").fetchone()[0])

    def state(self) -> tuple[int, ...]:
        """Numbers that change when any task does: tasks stored, those of them failed, youngest row, tasks put aside."""
        row = self._connection.execute("SELECT count(*), total(status = 'failed'), ifnull(max(id), 0) FROM tasks")
        return *map(int, row.fetchone()), len(self.read_attempts())

    def finished(self, task_ids: Sequence[str]) -> set[str]:
        """Those of `task_ids` that are stored, done or failed."""
        return set(self.statuses(task_ids))

    def statuses(self, task_ids: Sequence[str]) -> dict[str, str]:
        """`done` or `failed` of those of `task_ids` that are stored."""
        if len(task_ids) > CHUNK and self.count_tasks() < 4 * len(task_ids):
            wanted = set(task_ids)  # one pass over all of them beats a look for each
            rows = self._connection.execute("SELECT task_id, status FROM tasks")
            return {task_id: status for task_id, status in rows if task_id in wanted}
        return dict(self._source.select("SELECT task_id, status FROM tasks WHERE task_id IN ({})", task_ids))

    def write(
        self,
        results: Mapping[str, TrialResult],
        *,
        physics: Mapping[str, Any],
        seconds: float,
        replace_failed: bool = False,
    ) -> None:
        """Store trials of one point in one transaction: all of them, or after an error none.

        `physics` is everything that determined the numbers, kept once per point; `seconds` is the wall
        time of the whole batch. A task that is stored as failed is put aside (`read_attempts`) with `replace_failed`.
        ValueError if a task is already stored otherwise (results are never overwritten) or an array is neither int64
        nor float64; ScenarioError if the disk refuses.
        """
        known = self.statuses(list(results))
        again = [task_id for task_id, status in known.items() if replace_failed and status == "failed"]
        if kept := known.keys() - set(again):
            raise ValueError(f"task {min(kept)} is already stored; a finished task is never overwritten")
        now, text = utc_now(), canonical_json(physics)
        # Packed before the transaction, which then is short.
        rows = rows_of_tasks(results, physics=text, seconds=float(seconds / max(len(results), 1)), finished_at=now)
        with self._transaction() as database:
            put_aside(database, again, tables=TABLES_OF_TASKS, now=now)
            insert_tasks(database, rows, physics=text)

    def read_tasks(self, task_ids: Sequence[str]) -> dict[str, TaskRecord]:
        """Records of those of `task_ids` that are stored, in the order asked for."""
        return tasks_of(self._source, task_ids)

    def read_metrics(self, task_ids: Sequence[str]) -> dict[str, dict[str, float]]:
        """Metrics by name of those of `task_ids` that are stored; a value not measured is NaN."""
        return metrics_of(self._source, task_ids)

    def read_series(self, task_ids: Sequence[str], table: ArrayTable) -> dict[str, Series]:
        """Arrays by name of those of `task_ids` that are stored, checked against their checksums.

        Rounds and privacy `[num_rounds]`, link and devices `[num_rounds, num_devices]`, bursts `[num_devices]` or
        `[num_devices, n]`, pictures `[num_pictures, height, width, channels]`, read-only. ScenarioError if an array is
        damaged.
        """
        _refuse_unknown(table)
        return series_of(self._source, task_ids, table=table)

    def read_accounts(self, task_ids: Sequence[str]) -> dict[str, PrivacyAccount]:
        """What those of `task_ids` released that are stored, done or failed, and have an account.

        ScenarioError if one is damaged.
        """
        return accounts_of(self._source, task_ids)

    def read_totals(self, task_ids: Sequence[str], table: SeriesTable) -> dict[str, int]:
        """Sum of each count of a table over all rounds and devices of those of `task_ids` that are done."""
        _refuse_unknown(table)
        return totals_of(self._source, task_ids, table=table)

    # --- runs and the scenario --------------------------------------------------------------------

    def record_run(self, provenance: Provenance) -> int:
        """Note that an invocation begins; returns its number for `finish_run`."""
        with self._transaction() as database:
            return record_run(database, provenance.command, canonical_json(provenance.to_dict()), provenance.date_utc)

    def note_plan(self, run: int, planned: Planned) -> None:
        """Keep what invocation `run` set out to have."""
        with self._transaction() as database:
            note_plan(database, run, planned)
            row = database.execute("SELECT * FROM planned WHERE run = ?", (run,)).fetchone()
            note_record(database, f"plan of run {run}", row)

    def note_report(self, note: ReportNote) -> None:
        """Keep what the report that was just written shows."""
        with self._transaction() as database:
            note_report(database, note)

    def last_report(self) -> ReportNote | None:
        """The note of the report that a run wrote last."""
        return last_report(self._connection)

    def read_attempts(self) -> tuple[Attempt, ...]:
        """Failed tasks that were computed again since, oldest first."""
        return read_attempts(self._connection)

    def finish_run(self, run: int, *, status: str = "done") -> None:
        """Note how invocation `run` ended: done, failed, interrupted."""
        with self._transaction() as database:
            database.execute("UPDATE runs SET finished_at = ?, status = ? WHERE id = ?", (utc_now(), status, run))

    def read_runs(self) -> tuple[RunRecord, ...]:
        """All invocations that wrote here, oldest first."""
        return read_runs(self._source)

    def save_scenario(self, *, yaml: str, root: Mapping[str, Any]) -> None:
        """Keep the latest resolved scenario, as text and as plain values."""
        with self._transaction() as database:
            save_scenario(database, yaml=yaml, root=root)

    def read_scenario(self) -> SavedScenario:
        """The scenario saved last; ScenarioError if a run was killed before it saved any."""
        return read_scenario(self._source)

    # --- how --------------------------------------------------------------------------------------

    @property
    def _source(self) -> Source:
        return Source(database=self._connection, path=self.folder / DATABASE)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All statements of the block, or after any error none of them."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise unwritable(self.folder / DATABASE, error) from error
            raise


def canonical_json(value: object) -> str:
    """Compact JSON with sorted keys: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _refuse_unknown(table: str) -> None:
    if table not in ARRAY_TABLES:
        raise ValueError(f"no table {table!r} of arrays; there are {', '.join(ARRAY_TABLES)}")
