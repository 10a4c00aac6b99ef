"""A run folder: finished tasks of any study in one SQLite database, each kept whole or not at all.

One process writes, holding `run.lock`; any number read meanwhile, each what was stored when it opened the folder. Rows
are only ever added: a task that is stored again stands for what was stored of it before, and so does a record.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Self, TypeVar

from scenarios.files.clock import utc_now
from scenarios.files.lock import take_lock
from scenarios.files.log import logger
from scenarios.files.plain_files import DATABASE, LOCK
from scenarios.files.provenance import Provenance
from scenarios.files.replacement import writing
from scenarios.schema.errors import ScenarioError
from scenarios.store import database as file
from scenarios.store.blobs import Blob, about_of, unpack
from scenarios.store.database import DamagedStoreError, damaged, is_damage, telling_damage
from scenarios.store.repair import repair
from scenarios.store.rows import (
    NewBatch,
    Planned,
    RunRecord,
    SavedScenario,
    Status,
    StoredTask,
    about_batch,
    tasks_of,
)

Found = TypeVar("Found")
_RUN = "run/"


class RunFolder:
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
    def open(cls, folder: Path, *, scenario_name: str, create: bool = True) -> Self:
        """Open `folder` for writing, alone; `create` makes folder and database where missing.

        A damaged store is repaired first: batches that verify are kept, and the log gets a warning. Runs that never
        ended are noted as killed. ScenarioError if the folder is a file, cannot be written, holds a database that is
        not ours, is from another version or belongs to another scenario or study (found before anything on disk
        changes), or if another process is writing to it.
        """
        path, identity = folder / DATABASE, {"scenario": scenario_name, "study": cls.study}
        if path.exists():
            with suppress(DamagedStoreError):
                _refuse_other(folder, identity_of(folder), identity)
        elif not create:
            raise _no_results(folder)
        with ExitStack() as undo:
            with writing(folder, "results"):
                lock = undo.enter_context(take_lock(folder / LOCK))
            try:
                if not path.exists():
                    file.create(path, identity)
                try:
                    store = cls._opened(folder, lock)
                except DamagedStoreError as error:
                    logger("store").warning(repair(path, identity, error))
                    store = cls._opened(folder, lock)
            except (OSError, sqlite3.Error) as error:
                raise file.unwritable(path, error) from error
            undo.callback(store.close)
            _refuse_other(folder, store.identity, identity)  # whoever held the lock may have made it
            # We hold the lock, so whoever is still called running no longer is.
            runs = {key: run for key, run in store._records.items() if key.startswith(_RUN)}
            if killed := {key: {**run, "status": "killed"} for key, run in runs.items() if run["status"] == "running"}:
                store.add(records=killed)
            undo.pop_all()
            return store

    @classmethod
    def open_existing(cls, folder: Path) -> Self:
        """Open a run folder to read it, also while a run is writing to it; ScenarioError if there is none."""
        path = folder / DATABASE
        if not path.is_file():
            raise _no_results(folder)
        return cls(folder, file.open_to_read(path))

    @classmethod
    def _opened(cls, folder: Path, lock: IO[str]) -> Self:
        """Open to write, everything verified."""
        store = cls(folder, file.open_to_write(folder / DATABASE), lock)
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

    # --- tasks ------------------------------------------------------------------------------------

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

    def state(self) -> tuple[int, ...]:
        """Numbers that change when any task does: tasks, those of them failed, all that was ever stored."""
        return len(self.tasks), sum(one.status == "failed" for one in self.tasks.values()), len(self.history)

    def blob(self, batch: int) -> Blob:
        """Return the arrays of a batch (`StoredTask.batch`). DamagedStoreError if they are not those written."""
        if self._last is None or self._last[0] != batch:
            with telling_damage(self.path):
                self._last = batch, unpack(*file.read_bytes(self._connection, batch))
        return self._last[1]

    def located(self, task_ids: Iterable[str], read: Callable[[Blob, int], Found]) -> Iterator[tuple[str, Found, int]]:
        """Yield each stored task, in the order asked for, with what `read` makes of its batch and its row there.

        `read(blob, number of tasks)` is called once per batch; its ValueError, LookupError or TypeError is damage.
        """
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
    def scenario_name(self) -> str:
        """Name of the scenario whose results these are."""
        return self.identity["scenario"]

    @property
    def identity(self) -> Mapping[str, str]:
        """The `scenario` and the `study` whose results these are."""
        identity: Mapping[str, str] = self._records["store"]
        return identity

    def record(self, key: str, default: Any = None) -> Any:
        """Return the plain JSON kept under `key`, else `default`."""
        return self._records.get(key, default)

    def record_run(self, provenance: Provenance, planned: Planned | None = None) -> int:
        """Note that an invocation begins, and its plan; returns its number for `finish_run`."""
        number = len(self.read_runs()) + 1
        run = RunRecord(
            command=provenance.command,
            provenance=asdict(provenance),
            started_at=provenance.date_utc,
            planned=planned,
        )
        self.add(records={f"{_RUN}{number:06d}": asdict(run)})
        return number

    def note_plan(self, run: int, planned: Planned) -> None:
        """Keep the plan of invocation `run`."""
        self._note_run(run, planned=asdict(planned))

    def finish_run(self, run: int, *, status: str = "done") -> None:
        """Note how invocation `run` ended: done, failed, interrupted."""
        self._note_run(run, finished_at=utc_now(), status=status)

    def _note_run(self, run: int, **changes: Any) -> None:
        key = f"{_RUN}{run:06d}"
        self.add(records={key: {**self._records[key], **changes}})

    def read_runs(self) -> tuple[RunRecord, ...]:
        """All invocations that wrote here, oldest first."""
        with telling_damage(self.path):
            runs = [self._records[key] for key in sorted(self._records) if key.startswith(_RUN)]
            plans = [run["planned"] and Planned(**run["planned"]) for run in runs]
            return tuple(RunRecord(**{**run, "planned": plan}) for run, plan in zip(runs, plans, strict=True))

    def save_scenario(self, *, yaml: str, root: Mapping[str, Any]) -> None:
        """Keep the latest resolved scenario, as text and as plain values."""
        self.add(records={"scenario": {"yaml": yaml, "root": root}})

    def read_scenario(self) -> SavedScenario:
        """The scenario saved last; ScenarioError if a run was killed before it saved any."""
        if "scenario" not in self._records:
            raise ScenarioError(
                file=self.folder, problem="holds no scenario yet", remedy="run the scenario into it first"
            )
        with telling_damage(self.path):
            return SavedScenario(**self._records["scenario"])

    # --- writing ----------------------------------------------------------------------------------

    def add(self, batches: Sequence[NewBatch] = (), *, records: Mapping[str, Any] | None = None) -> None:
        """Store batches and records in one transaction: all of them, or after an error none.

        ScenarioError if the disk refuses; ValueError for what no batch can hold.
        """
        now = utc_now()
        rows = [(about_batch(one, now), one.arrays) for one in batches] + (
            [({"records": records}, {})] if records else []
        )
        with self._transaction() as database:
            for number, (about, arrays) in enumerate(rows, self._rows + 1):
                file.put(database, number, about, arrays)
        for about, _ in rows:
            self._take(json.loads(json.dumps(about)))

    def _take(self, about: Mapping[str, Any]) -> None:
        """Take in what a row is about. Raises ValueError for one that nobody wrote."""
        self._rows += 1
        tasks = tasks_of(about, batch=self._rows)
        self.history += tasks
        self.tasks.update((task.task_id, task) for task in tasks)
        self._records.update(about.get("records", {}))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All statements of the block, or after any error none of them."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if is_damage(error):
                raise damaged(self.path, error) from error
            if type(error) in (sqlite3.OperationalError, sqlite3.DataError):
                raise file.unwritable(self.path, error) from error  # type: ignore[arg-type]
            raise


def identity_of(folder: Path) -> Mapping[str, str]:
    """Return `scenario` and `study` of a run folder. Raises as `RunFolder.open_existing` does."""
    path = folder / DATABASE
    if not path.is_file():
        raise _no_results(folder)
    with closing(file.open_to_read(path)) as connection, telling_damage(path):
        about = about_of(file.read_bytes(connection, 1)[0])
        tasks_of(about)
        identity: Mapping[str, str] = about["records"]["store"]
        return identity


def _refuse_other(folder: Path, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise ScenarioError for the folder of another scenario or study."""
    if found["study"] != wanted["study"]:
        raise ScenarioError(
            file=folder,
            problem=f"holds results of phyloop {found['study']}, not of phyloop {wanted['study']}",
            remedy="choose another folder with --out",
        )
    if found["scenario"] != wanted["scenario"]:
        raise ScenarioError(
            file=folder,
            problem=f"holds results of scenario {found['scenario']!r}, not of {wanted['scenario']!r}",
            remedy="choose another folder for the results",
        )


def _no_results(folder: Path) -> ScenarioError:
    return ScenarioError(
        file=folder, problem=f"holds no results ({DATABASE} is missing)", remedy="name the folder of a run"
    )
