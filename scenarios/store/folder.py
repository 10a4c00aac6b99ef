"""A run folder: finished tasks of any study in one SQLite database, each kept whole or not at all.

One process writes, holding `run.lock`; any number read meanwhile. A batch is only ever added: a task that is stored
again stands for what was stored of it before.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self, TypeVar

from numpy.typing import NDArray

from scenarios.files.clock import utc_now
from scenarios.files.lock import take_lock
from scenarios.files.log import logger
from scenarios.files.plain_files import DATABASE, LOCK
from scenarios.schema.errors import ScenarioError
from scenarios.store import database as file
from scenarios.store.blobs import Blob, rows_of
from scenarios.store.contents import (
    Head,
    head_of,
    identity_from,
    is_whole,
    read_blob,
    read_contents,
    read_identity,
    write_batch,
)
from scenarios.store.database import IDENTITY, SEAL, DamagedStoreError, damaged, is_damage, telling_damage
from scenarios.store.repair import repair

Status = Literal["done", "failed", "part"]
Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class NewBatch:
    """Tasks to store together, and their arrays as a blob (see `scenarios.store.blobs.pack`).

    - `ids`, `numbers`: identity of each task, and its number within its sweep point (its trial);
    - `failures`: why a task failed, by its place in `ids`; the others are done, or `part`: more of them will follow;
    - `seconds`: wall time of each task; `extras`: plain JSON of each task, None where there is none.
    """

    ids: Sequence[str]
    numbers: Sequence[int]
    blob: bytes
    seconds: float
    failures: Mapping[int, str] = field(default_factory=dict)
    status: Literal["done", "part"] = "done"
    extras: Sequence[Any] | None = None


@dataclass(frozen=True, kw_only=True)
class TaskRecord:
    """One stored task without its arrays. `seconds` is its share of the batch; `batch` and `row` say where it is."""

    task_id: str
    trial: int
    status: Status
    failure: str | None
    seconds: float
    finished_at: str
    extra: Any
    batch: int
    row: int


class RunFolder:
    """One open run folder. Make it with `open` (to write) or `open_existing` (to read)."""

    study = "run"
    """The command whose tasks are kept; a folder holds those of one."""

    def __init__(self, folder: Path, *, connection: sqlite3.Connection, lock: IO[str] | None) -> None:
        self.folder = folder
        self._connection, self._lock = connection, lock
        self._heads: list[Head] = []
        self._index: dict[str, tuple[int, int]] = {}
        self._earlier: dict[str, list[tuple[int, int]]] = {}
        self._records: dict[str, bytes] = {}
        self._seen: int | None = None
        self._last: tuple[int, Blob] | None = None

    @classmethod
    def open(cls, folder: Path, *, scenario_name: str, create: bool = True) -> Self:
        """Open `folder` for writing, alone; `create` makes folder and database where missing.

        A damaged store is repaired first: batches that verify are kept, and the log gets a warning. ScenarioError if
        the folder is a file, cannot be written, holds a database that is not ours, is from another version or belongs
        to another scenario or study (found before anything on disk changes), or if another process is writing to it.
        """
        path = folder / DATABASE
        if folder.exists() and not folder.is_dir():
            raise ScenarioError(file=folder, problem="is a file, not a folder", remedy="name a folder for the results")
        if path.exists():
            with contextlib.suppress(DamagedStoreError):
                cls._refuse_other(folder, scenario_name)
        elif not create:
            raise _no_results(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = take_lock(folder / LOCK)
        except OSError as error:
            raise ScenarioError(
                file=folder,
                problem=f"results cannot be written here ({error.strerror})",
                remedy="choose a folder on a writable disk",
            ) from error
        identity = {"scenario": scenario_name, "study": cls.study}
        try:
            if not path.exists():
                file.create(path, identity)
            try:
                store = cls._opened(folder, scenario_name, lock)
            except DamagedStoreError as error:
                logger("store").warning(repair(path, identity, error))
                store = cls._opened(folder, scenario_name, lock)
        except (OSError, sqlite3.Error) as error:
            lock.close()
            raise file.unwritable(path, error) from error
        except BaseException:
            lock.close()
            raise
        return store

    @classmethod
    def open_existing(cls, folder: Path) -> Self:
        """Open a run folder to read it, also while a run is writing to it; ScenarioError if there is none."""
        path = folder / DATABASE
        if not path.is_file():
            raise _no_results(folder)
        return cls(folder, connection=file.open_to_read(path), lock=None)

    @classmethod
    def _opened(cls, folder: Path, scenario_name: str, lock: IO[str]) -> Self:
        """Open to write, everything verified."""
        connection = file.open_to_write(folder / DATABASE)
        store = cls(folder, connection=connection, lock=lock)
        try:
            store.verify()
        except BaseException:
            connection.close()
            raise
        cls._refuse_other(folder, scenario_name)  # whoever held the lock may have made it
        return store

    @classmethod
    def _refuse_other(cls, folder: Path, scenario_name: str) -> None:
        """ScenarioError for the folder of another scenario or study."""
        identity = identity_of(folder)
        study = identity["study"]
        if study != cls.study:
            raise ScenarioError(
                file=folder,
                problem=f"holds results of phyloop {study}, which phyloop {cls.study} would mix with its own",
                remedy="choose another folder with --out",
            )
        if identity["scenario"] != scenario_name:
            raise ScenarioError(
                file=folder,
                problem=f"holds results of scenario {identity['scenario']!r}, not of {scenario_name!r}",
                remedy="choose another folder for the results",
            )

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
        if error is not None and is_damage(error):
            raise damaged(self._path, str(error)) from error

    # --- reading ----------------------------------------------------------------------------------

    @property
    def scenario_name(self) -> str:
        """Name of the scenario whose results these are."""
        return self.identity["scenario"]

    @property
    def identity(self) -> Mapping[str, str]:
        """The `scenario` and the `study` whose results these are."""
        self._refresh()
        with telling_damage(self._path):
            return identity_from(self._records[IDENTITY])

    def count_tasks(self) -> int:
        """Tasks stored, of whatever plan."""
        self._refresh()
        return len(self._index)

    def task_ids(self) -> list[str]:
        """Identities of all stored tasks, in the order in which they were first stored."""
        self._refresh()
        return list(self._index)

    def statuses(self, task_ids: Iterable[str]) -> dict[str, Status]:
        """`done`, `failed` or `part` of those of `task_ids` that are stored."""
        self._refresh()
        found = ((one, self._index[one]) for one in task_ids if one in self._index)
        return {task_id: self._heads[place].status_of(row) for task_id, (place, row) in found}

    def finished(self, task_ids: Iterable[str]) -> set[str]:
        """Those of `task_ids` that are stored, done or failed."""
        return {task_id for task_id, status in self.statuses(task_ids).items() if status != "part"}

    def read_tasks(self, task_ids: Iterable[str]) -> dict[str, TaskRecord]:
        """Records of those of `task_ids` that are stored, in the order asked for."""
        self._refresh()
        return {one: self._task(*self._index[one]) for one in task_ids if one in self._index}

    def read_all(self, task_id: str) -> list[TaskRecord]:
        """Everything stored of a task, oldest first: its parts, and failures that were computed again."""
        self._refresh()
        last = [self._index[task_id]] if task_id in self._index else []
        return [self._task(*place) for place in (*self._earlier.get(task_id, ()), *last)]

    def failed_before(self) -> list[tuple[TaskRecord, str]]:
        """Failed tasks that were computed again, and when that was, oldest first."""
        self._refresh()
        stored = [self.read_all(task_id) for task_id in self._earlier]
        pairs = [(one, after.finished_at) for of_task in stored for one, after in pairwise(of_task)]
        return sorted((pair for pair in pairs if pair[0].status == "failed"), key=lambda pair: (pair[1], pair[0].batch))

    def heads(self) -> Sequence[Head]:
        """Heads of all batches, oldest first."""
        self._refresh()
        return self._heads

    def blob(self, batch: int) -> Blob:
        """Return the arrays of a batch (`TaskRecord.batch`). DamagedStoreError if they are not those written."""
        self._refresh()
        if self._last is None or self._last[0] != batch:
            with telling_damage(self._path):
                self._last = batch, read_blob(self._connection, self._heads[batch])
        return self._last[1]

    def read_arrays(self, task_ids: Iterable[str], prefix: str = "") -> dict[str, dict[str, NDArray[Any]]]:
        """Arrays of each stored task whose names begin with `prefix`, by the rest of the name, read-only.

        Each must have one row per task of the batch. DamagedStoreError if a blob is damaged.
        """
        return {
            one: {name: rows[row] for name, rows in arrays.items()}
            for one, arrays, row in self.located(task_ids, lambda blob, rows: rows_of(blob, prefix, rows=rows))
        }

    def located(self, task_ids: Iterable[str], read: Callable[[Blob, int], Found]) -> Iterator[tuple[str, Found, int]]:
        """Yield each stored task, in the order asked for, with what `read` makes of its batch and its row there.

        `read(blob, number of tasks)` is called once per batch; its ValueError, LookupError or TypeError is damage.
        """
        self._refresh()
        places = {one: self._index[one] for one in task_ids if one in self._index}
        found: dict[int, Found] = {}
        for batch in dict.fromkeys(batch for batch, _ in places.values()):
            blob = self.blob(batch)
            with telling_damage(self._path):
                found[batch] = read(blob, len(self._heads[batch].ids))
        for task_id, (batch, row) in places.items():
            yield task_id, found[batch], row

    def record(self, key: str, default: Any = None) -> Any:
        """Return the plain JSON kept under `key`, else `default`."""
        self._refresh()
        with telling_damage(self._path):
            return json.loads(self._records[key]) if key in self._records else default

    def records(self, prefix: str) -> dict[str, Any]:
        """Return all records whose keys begin with `prefix`, in the order of their keys."""
        self._refresh()
        return {key: self.record(key) for key in sorted(self._records) if key.startswith(prefix)}

    def verify(self) -> None:
        """Read everything; DamagedStoreError unless all of it is as it was written."""
        self._refresh()
        with telling_damage(self._path):
            is_whole(self._connection)
            for head in self._heads:
                read_blob(self._connection, head)

    # --- writing ----------------------------------------------------------------------------------

    def add(self, batches: Sequence[NewBatch], *, records: Mapping[str, Any] | None = None) -> None:
        """Store batches and records in one transaction: all of them, or after an error none.

        ScenarioError if the disk refuses; ValueError for what no batch can hold.
        """
        self._refresh()
        now, first = utc_now(), len(self._heads) + 1
        rows = [(number, head_of(one, now=now), one.blob) for number, one in enumerate(batches, first)]
        changed = {key: file.as_json(value) for key, value in (records or {}).items()}
        known = self._records.keys() | changed.keys() | {SEAL}
        with self._transaction() as database:
            for number, head, blob in rows:
                write_batch(database, number, head=head, blob=blob)
            for key, value in (records or {}).items():
                file.put_record(database, key, value)
            file.put_record(database, SEAL, {"batches": len(self._heads) + len(rows), "records": len(known)})
        with telling_damage(self._path):
            for number, head, _ in rows:
                self._append(Head.read(number, head, file.digest(str(number).encode(), head)))
        self._records |= changed

    # --- how --------------------------------------------------------------------------------------

    @property
    def _path(self) -> Path:
        return self.folder / DATABASE

    def _refresh(self) -> None:
        """Read what was written since; another process may be writing."""
        with telling_damage(self._path):
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            if version == self._seen:
                return
            new, self._records = read_contents(self._connection, known=len(self._heads))
            for head in new:
                self._append(head)
            self._seen = version

    def _append(self, head: Head) -> None:
        place = len(self._heads)
        for task_id in self._index.keys() & set(head.ids):
            self._earlier.setdefault(task_id, []).append(self._index[task_id])
        self._heads.append(head)
        self._index.update(zip(head.ids, ((place, row) for row in range(len(head.ids))), strict=True))

    def _task(self, place: int, row: int) -> TaskRecord:
        head = self._heads[place]
        return TaskRecord(
            task_id=head.ids[row],
            trial=head.numbers[row],
            status=head.status_of(row),
            failure=head.failures.get(str(row)),
            seconds=head.seconds,
            finished_at=head.finished_at,
            extra=None if head.extras is None else head.extras[row],
            batch=place,
            row=row,
        )

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
            if isinstance(error, (sqlite3.OperationalError, sqlite3.DataError)) and not is_damage(error):
                raise file.unwritable(self._path, error) from error
            raise


def identity_of(folder: Path) -> Mapping[str, Any]:
    """Return `scenario` and `study` of a run folder. Raises as `RunFolder.open_existing` does."""
    path = folder / DATABASE
    if not path.is_file():
        raise _no_results(folder)
    with contextlib.closing(file.open_to_read(path)) as connection, telling_damage(path):
        return read_identity(connection)


def _no_results(folder: Path) -> ScenarioError:
    return ScenarioError(
        file=folder, problem=f"holds no results ({DATABASE} is missing)", remedy="name the folder of a run"
    )
