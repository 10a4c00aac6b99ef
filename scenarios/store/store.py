"""A run folder: finished tasks of any study in one SQLite database, each kept whole or not at all.

One process writes, holding `run.lock`; any number read meanwhile, each what was stored when it opened the folder. Rows
are only ever added: a task that is stored again stands for what was stored of it before, and so does a record.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Self, TypeVar

from numpy.typing import NDArray

from fl.results import PrivacyAccount, TrialResult
from scenarios.files.log import logger
from scenarios.files.plain_files import DATABASE, LOCK, take_lock
from scenarios.files.provenance import Provenance, utc_now
from scenarios.files.replacement import writing
from scenarios.schema.errors import ScenarioError
from scenarios.store import database as file
from scenarios.store.blobs import Blob, pack_parts, unpack
from scenarios.store.database import DamagedStoreError, damaged, is_damage, telling_damage
from scenarios.store.rows import NewBatch, Planned, RunRecord, SavedScenario, Status, StoredTask, tasks_of
from scenarios.store.trials import SeriesTable, accounts_of, alike, arrays_of, table_of

Series = dict[str, NDArray[Any]]
Found = TypeVar("Found")
_RUN = "run/"


class Store:
    """One open run folder. Make it with `open` (to write) or `open_existing` (to read)."""

    study = "run"
    """The command whose tasks are kept; a folder holds those of one."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: IO[str] | None = None) -> None:
        self.folder, self.path = folder, folder / DATABASE
        self._connection, self._lock = connection, lock
        self.history: list[StoredTask] = []
        """All that was ever stored of any task, oldest first: its parts, and failures that were computed again."""
        self.tasks: dict[str, StoredTask] = {}
        """All stored tasks, of whatever plan, by identity, in the order in which they were first stored."""
        self._records: dict[str, Any] = {}
        self._rows = 0
        self._last: tuple[int, Blob] | None = None
        try:
            with telling_damage(self.path):
                for about in file.read_abouts(connection):
                    self._take(about)
                if "store" not in self._records:
                    raise ValueError("the name of its scenario is missing")
        except BaseException:
            connection.close()
            raise

    @classmethod
    def open(cls, folder: Path, *, scenario_name: str) -> Self:
        """Open `folder` for writing, alone; makes folder and database where missing.

        A damaged store is repaired first, and the log gets a warning. Runs that never ended are noted as killed.
        ScenarioError, before anything changes, for a file, a folder of another scenario, study or version, one that
        cannot be written, and one that another process is writing to.
        """
        path, identity = folder / DATABASE, {"scenario": scenario_name, "study": cls.study}
        if path.exists():
            with suppress(DamagedStoreError), cls.open_existing(folder) as found:
                _refuse_other(folder, found.identity, identity)
        with ExitStack() as undo:
            with writing(folder, "results"):
                lock = undo.enter_context(take_lock(folder / LOCK))
            try:
                if not path.exists():
                    file.create(path, identity)
                try:
                    store = cls._verified(folder, lock)
                except DamagedStoreError as error:
                    aside = file.repair(path, identity)
                    store = cls._verified(folder, lock)
                    kept = f"{len(store.tasks)} tasks that verify are kept, the rest is computed again"
                    says = "%s %s; %s, and the damaged file is kept as %s"
                    logger("store").warning(says, path, error.problem, kept, aside.name)
            except (OSError, sqlite3.Error) as error:
                raise file.unwritable(path, error) from error
            undo.callback(store.close)
            # We hold the lock: a run that is still called running was killed.
            runs = {key: run for key, run in store._records.items() if key.startswith(_RUN)}
            if killed := {k: {**run, "status": "killed"} for k, run in runs.items() if run["status"] == "running"}:
                store.add(records=killed)
            undo.pop_all()
            return store

    @classmethod
    def open_existing(cls, folder: Path) -> Self:
        """Open a run folder to read it, also while a run is writing to it; ScenarioError if there is none."""
        path = folder / DATABASE
        if not path.is_file():
            raise _no_results(folder)
        return cls(folder, file.open_checked(path, write=False))

    @classmethod
    def _verified(cls, folder: Path, lock: IO[str]) -> Self:
        store = cls(folder, file.open_checked(folder / DATABASE, write=True), lock)
        try:
            store.verify()
        except BaseException:
            store._connection.close()
            raise
        return store

    def close(self) -> None:
        """Close the database and let go of the lock; closing twice is fine."""
        self._connection.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- reading ----------------------------------------------------------------------------------

    def read_tasks(self, task_ids: Iterable[str]) -> dict[str, StoredTask]:
        """Those of `task_ids` that are stored, in the order asked for."""
        return {one: self.tasks[one] for one in task_ids if one in self.tasks}

    def statuses(self, task_ids: Iterable[str]) -> dict[str, Status]:
        """`done`, `failed` or `part` of those of `task_ids` that are stored."""
        return {one: self.tasks[one].status for one in task_ids if one in self.tasks}

    def failed_before(self) -> list[tuple[StoredTask, str]]:
        """Failed tasks that were computed again, and when that was, oldest first."""
        earlier: dict[str, StoredTask] = {}
        found = []
        for task in self.history:
            before = earlier.get(task.task_id)
            if before is not None and before.status == "failed":
                found.append((before, task.finished_at))
            earlier[task.task_id] = task
        return found

    def blob(self, batch: int) -> Blob:
        """Return the arrays of a batch (`StoredTask.batch`). DamagedStoreError if they are not those written."""
        if self._last is None or self._last[0] != batch:
            with telling_damage(self.path):
                self._last = batch, unpack(*file.read_bytes(self._connection, batch))
        return self._last[1]

    def read_metrics(self, task_ids: Iterable[str]) -> dict[str, dict[str, float]]:
        """Metrics by name of those of `task_ids` that are stored; a value not measured is NaN."""

        def metrics_of(blob: Blob, rows: int) -> dict[str, list[float]]:
            return {name: values.tolist() for name, values in table_of(blob, "metrics", rows=rows).items()}

        return {
            task_id: {name: values[row] for name, values in metrics.items()}
            for task_id, metrics, row in self._located(task_ids, metrics_of)
        }

    def read_series(self, task_ids: Iterable[str], table: SeriesTable) -> dict[str, Series]:
        """Arrays by name of those of `task_ids` that are stored.

        Rounds and privacy `[num_rounds]`, link and devices `[num_rounds, num_devices]`, bursts `[num_devices]` or
        `[num_devices, n]`, pictures `[num_pictures, height, width, channels]`, read-only. DamagedStoreError if an
        array is not as it was written.
        """
        return {
            task_id: {name: rows[row] for name, rows in arrays.items()}
            for task_id, arrays, row in self._located(task_ids, lambda blob, rows: table_of(blob, table, rows=rows))
        }

    def read_accounts(self, task_ids: Iterable[str]) -> dict[str, PrivacyAccount]:
        """Privacy accounts of those of `task_ids` that are stored, done or failed, and have one."""
        accounts = self._located(task_ids, accounts_of)
        return {task_id: found for task_id, of_batch, row in accounts if (found := of_batch[row]) is not None}

    def read_totals(self, task_ids: Iterable[str], table: SeriesTable) -> dict[str, int]:
        """Sum of each count of a table over all rounds and devices of those of `task_ids` that are done."""
        done = [task_id for task_id, status in self.statuses(task_ids).items() if status == "done"]
        totals: dict[str, int] = {}
        for arrays in self.read_series(done, table).values():
            for name, array in arrays.items():
                if array.dtype.kind == "i":
                    totals[name] = totals.get(name, 0) + int(array.sum())
        return totals

    def _located(self, task_ids: Iterable[str], read: Callable[[Blob, int], Found]) -> Iterator[tuple[str, Found, int]]:
        """Yield each stored task with `read(blob, number of tasks)` of its batch, and its row there."""
        tasks = self.read_tasks(task_ids)
        found: dict[int, Found] = {}
        for batch in dict.fromkeys(task.batch for task in tasks.values()):
            blob = self.blob(batch)
            with telling_damage(self.path):
                found[batch] = read(blob, len(blob.about["ids"]))
        for task_id, task in tasks.items():
            yield task_id, found[task.batch], task.row

    def verify(self) -> None:
        """Read everything; DamagedStoreError unless all of it is as it was written."""
        with telling_damage(self.path):
            # SQLite finds its pages in order: writing to broken ones breaks more.
            row = self._connection.execute("PRAGMA quick_check(1)").fetchone()
            if row != ("ok",):
                raise ValueError(str(row and row[0]))
            for number in range(1, self._rows + 1):
                unpack(*file.read_bytes(self._connection, number))

    # --- records ----------------------------------------------------------------------------------

    @property
    def identity(self) -> Mapping[str, str]:
        """The `scenario` and the `study` whose results these are."""
        identity: Mapping[str, str] = self._records["store"]
        return identity

    @property
    def scenario_name(self) -> str:
        """Name of the scenario whose results these are."""
        return self.identity["scenario"]

    def record(self, key: str) -> Any:
        """Return the plain JSON kept under `key`, None if there is none."""
        return self._records.get(key)

    def record_run(self, provenance: Provenance, planned: Planned | None = None) -> int:
        """Note that an invocation begins, and its plan; returns its number for `finish_run`."""
        number, about = len(self.read_runs()) + 1, asdict(provenance)
        run = RunRecord(command=about["command"], provenance=about, started_at=about["date_utc"], planned=planned)
        self.add(records={f"{_RUN}{number:06d}": asdict(run)})
        return number

    def finish_run(self, run: int, *, status: str = "done", failure: str | None = None) -> None:
        """Note how invocation `run` ended: done, interrupted, or failed with this error."""
        self.note_run(run, finished_at=utc_now(), status=status, failure=failure)

    def note_run(self, run: int, **changes: Any) -> None:
        """Change the record of invocation `run`; a plan is given as plain values."""
        key = f"{_RUN}{run:06d}"
        self.add(records={key: {**self._records[key], **changes}})

    def read_runs(self) -> tuple[RunRecord, ...]:
        """All invocations that wrote here, oldest first."""
        with telling_damage(self.path):
            runs = [self._records[key] for key in sorted(self._records) if key.startswith(_RUN)]
            return tuple(RunRecord(**{**run, "planned": run["planned"] and Planned(**run["planned"])}) for run in runs)

    def save_scenario(self, *, yaml: str, root: Mapping[str, Any]) -> None:
        """Keep the latest resolved scenario, as text and as plain values."""
        self.add(records={"scenario": {"yaml": yaml, "root": root}})

    def read_scenario(self) -> SavedScenario:
        """The scenario saved last; ScenarioError if a run was killed before it saved any."""
        if "scenario" not in self._records:
            problem, remedy = "holds no scenario yet", "run the scenario into it first"
            raise ScenarioError(file=self.folder, problem=problem, remedy=remedy)
        with telling_damage(self.path):
            return SavedScenario(**self._records["scenario"])

    # --- writing ----------------------------------------------------------------------------------

    def write(
        self,
        results: Mapping[str, TrialResult],
        *,
        physics: Mapping[str, Any],
        seconds: float,
        replace_failed: bool = False,
    ) -> None:
        """Store trials of one sweep point in one transaction: all of them, or after an error none.

        `physics` is everything that determined the numbers; `seconds` is the wall time of the whole batch. With
        `replace_failed` a task that is stored as failed becomes one of `failed_before`. ValueError if a task is
        already stored otherwise, or an array is neither int64 nor float64; ScenarioError if the disk refuses.
        """
        known = self.statuses(results)
        if kept := [one for one, status in known.items() if not (replace_failed and status == "failed")]:
            raise ValueError(f"task {min(kept)} is already stored; a finished task is never overwritten")
        ids = {id(result): task_id for task_id, result in results.items()}
        batches = []
        for group in alike(results.values()):
            texts, arrays = arrays_of(group)
            batch = NewBatch(
                ids=[ids[id(one)] for one in group],
                numbers=[one.trial for one in group],
                failures={row: one.failure for row, one in enumerate(group) if one.failure is not None},
                seconds=seconds / len(results),
                about={"accounts": texts, "physics": dict(physics)},
                arrays=arrays,
            )
            batches.append(batch)
        self.add(batches)

    def add(self, batches: Sequence[NewBatch] = (), *, records: Mapping[str, Any] | None = None) -> None:
        """Store batches and records in one transaction: all of them, or after an error none.

        ScenarioError if the disk refuses; ValueError for what no batch can hold.
        """
        now = utc_now()
        rows = [(one.as_about(now), one.arrays) for one in batches] + ([({"records": records}, {})] if records else [])
        database = self._connection
        try:
            database.execute("BEGIN IMMEDIATE")
            for number, (about, arrays) in enumerate(rows, self._rows + 1):
                file.put(database, number, *pack_parts(arrays, about=about))
            database.execute("COMMIT")
        except BaseException as error:
            if database.in_transaction:
                database.execute("ROLLBACK")
            if is_damage(error):
                raise damaged(self.path, error) from error
            if isinstance(error, sqlite3.OperationalError | sqlite3.DataError):
                raise file.unwritable(self.path, error) from error
            raise
        for about, _ in rows:
            self._take(json.loads(json.dumps(about)))

    def _take(self, about: Mapping[str, Any]) -> None:
        """Take in what a row is about. Raises ValueError for one that nobody wrote."""
        self._rows += 1
        tasks = tasks_of(about, batch=self._rows)
        self.history += tasks
        self.tasks.update((task.task_id, task) for task in tasks)
        self._records.update(about.get("records", {}))


def _refuse_other(folder: Path, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise ScenarioError for the folder of another scenario or study."""
    for key, kind in (("study", "phyloop "), ("scenario", "scenario ")):
        if found[key] != wanted[key]:
            raise ScenarioError(
                file=folder,
                problem=f"holds results of {kind}{found[key]}, not of {kind}{wanted[key]}",
                remedy="choose another folder with --out",
            )


def _no_results(folder: Path) -> ScenarioError:
    return ScenarioError(
        file=folder, problem=f"holds no results ({DATABASE} is missing)", remedy="name the folder of a run"
    )
