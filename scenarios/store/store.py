"""A run folder: finished tasks of any study in one file, each kept whole or not at all.

The file is a head, and rows one behind the other, each a blob (see `scenarios.store.blobs`). The head has the version
and where the last row ends, with their SHA-256. A commit appends rows behind this end, brings them to the disk, and
then writes the head: a kill at any moment leaves all of a commit or none. Bytes behind the end do not count, and no
byte before it ever changes. One process writes, holding `run.lock`; any number read meanwhile, each what was stored
when it opened the folder. A task that is stored again stands for what was stored of it before, and so does a note.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from itertools import chain, count
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any, Self, TypeVar

from numpy.typing import NDArray

from fl.base.results import PrivacyAccount, TrialResult
from fl.base.words import plural
from scenarios.files.log import logger
from scenarios.files.plain_files import LOCK, RESULTS, open_plain, refuse_links, take_lock
from scenarios.files.provenance import Provenance, utc_now
from scenarios.files.replacement import replacement, writing
from scenarios.schema.errors import ScenarioError
from scenarios.store.blobs import MAGIC, Blob, Part, pack
from scenarios.store.rows import ROW, Identity, Planned, Row, RunRecord, SavedScenario, Status, StoredTask
from scenarios.store.trials import SeriesTable, accounts_of, pack_trials, table_of

STORE_VERSION = 11
_MAGIC = b"phyloop\n"
_HEAD = struct.Struct("<8sIQ32s")
_SUMMED = 20
"""Bytes of the head that its SHA-256 is of."""
_ROOM = 1 << 14
"""Bytes kept free behind the end while a run goes on."""
_READ_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""Errors of code that reads what nobody wrote."""

Series = dict[str, NDArray[Any]]
Found = TypeVar("Found")


class DamagedStoreError(ScenarioError):
    """A damaged store; the next run keeps the batches that verify."""


@contextmanager
def telling_damage(path: Path) -> Iterator[None]:
    """Raise DamagedStoreError where the block meets bytes that nobody wrote."""
    try:
        yield
    except _READ_ERRORS as error:
        remedy = "run the scenario into this folder again: what still verifies is kept, the rest is computed again"
        why = "it holds what phyloop does not write" if "\n" in str(error) else str(error)
        raise DamagedStoreError(file=path, problem=f"is damaged ({why})", remedy=remedy) from error


class Store:
    """One open run folder. Make it with `open` (to write) or `open_existing` (to read)."""

    study = "run"
    """The command whose tasks are kept; a folder holds those of one."""

    def __init__(self, folder: Path, lock: IO[str] | None = None) -> None:
        self.folder, self.path, self._lock = folder, folder / RESULTS, lock
        self.tasks: dict[str, StoredTask] = {}
        """All stored tasks, of whatever plan, by identity, in the order in which they were first stored."""
        self.replaced: list[tuple[StoredTask, str]] = []
        """Failed tasks that were computed again, and when that was, oldest first."""
        self.notes: dict[str, Any] = {}
        """The latest note of each name of `scenarios.store.rows.Row`."""
        self.runs: dict[int, RunRecord] = {}
        """All invocations that wrote here, by number, from 1 on."""
        self._starts: list[int] = []
        self._rows: list[int] = []
        """Number of tasks of each batch."""
        self.table = lru_cache(maxsize=2)(self._table)
        """Return the arrays of a table of batch `StoredTask.batch` by name, one row per task."""
        refuse_links(self.path, within=folder)
        try:
            number = open_plain(self.path, os.O_RDONLY if lock is None else os.O_RDWR)
            self._file = os.fdopen(number, "rb" if lock is None else "r+b")
        except OSError as error:
            problem, remedy = f"cannot be read ({error.strerror or error})", "mend its permissions, or copy the folder"
            raise ScenarioError(file=self.path, problem=problem, remedy=remedy) from error
        try:
            self._end = self._read_end()
            self._take(_HEAD.size)
            with telling_damage(self.path):
                self.identity: Identity = self.notes["identity"]
                """The scenario and the study whose results these are."""
            if lock is not None:
                self.verify()
        except BaseException:
            self._file.close()
            raise

    @classmethod
    def open(cls, folder: Path, *, scenario_name: str) -> Self:
        """Open `folder` for writing, alone; makes folder and file where missing.

        A damaged store is repaired first, and the log gets a warning. Runs that never ended are noted as killed.
        ScenarioError, before anything changes, for a file, a folder of another scenario, study or version, one that
        cannot be written, and one that another process is writing to.
        """
        path, wanted = folder / RESULTS, Identity(scenario=scenario_name, study=cls.study)
        if path.exists():
            with suppress(DamagedStoreError), cls.open_existing(folder) as found:
                if found.identity != wanted:
                    there, here = ("phyloop {1}, scenario {0}".format(*one) for one in (found.identity, wanted))
                    problem = f"holds results of {there}, not of {here}"
                    raise ScenarioError(file=folder, problem=problem, remedy="choose another folder with --out")
        with ExitStack() as undo, writing(folder, "results"):
            lock = undo.enter_context(take_lock(folder / LOCK))
            first = pack(Row(identity=wanted).plain())
            if not path.exists():
                write_anew(path, first)
            try:
                store = cls(folder, lock)
            except DamagedStoreError as error:
                aside = _repair(path, first)
                store = cls(folder, lock)
                kept = f"{plural(len(store.tasks), 'task')} that verify are kept, the rest is computed again"
                says = "%s %s; %s, and the damaged file is kept as %s"
                logger("store").warning(says, path, error.problem, kept, aside.name)
            undo.callback(store.close)
            # We hold the lock: a run that is still called running was killed.
            for number, run in list(store.runs.items()):
                if run.status == "running":
                    store.note_run(number, status="killed")
            undo.pop_all()
            return store

    @classmethod
    def open_existing(cls, folder: Path) -> Self:
        """Open a run folder to read it, also while a run is writing to it; ScenarioError if there is none."""
        if not (folder / RESULTS).is_file():
            problem = f"holds no results ({RESULTS} is missing)"
            raise ScenarioError(file=folder, problem=problem, remedy="name the folder of a run")
        return cls(folder)

    def close(self) -> None:
        """Close the file and let go of the lock; closing twice is fine."""
        with suppress(OSError):  # what a full disk refused is tried once more
            self._file.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- reading ----------------------------------------------------------------------------------

    @property
    def times_stored(self) -> int:
        """Number of times that any task was stored, again and in part as well."""
        return sum(self._rows)

    def read_tasks(self, task_ids: Iterable[str]) -> dict[str, StoredTask]:
        """Those of `task_ids` that are stored, in the order asked for."""
        return {one: self.tasks[one] for one in task_ids if one in self.tasks}

    def statuses(self, task_ids: Iterable[str]) -> dict[str, Status]:
        """`done`, `failed` or `part` of those of `task_ids` that are stored."""
        return {one: self.tasks[one].status for one in task_ids if one in self.tasks}

    def read(self, task: StoredTask, *names: str) -> Any:
        """Return what is stored below these names with the batch of a task. DamagedStoreError, see `Blob.read`."""
        with telling_damage(self.path):
            return self._blob(task.batch).read(*names)

    def read_metrics(self, task_ids: Iterable[str]) -> dict[str, dict[str, float]]:
        """Metrics by name of those of `task_ids` that are stored; a value not measured is NaN."""
        found = self._located(task_ids, lambda batch: {n: a.tolist() for n, a in self.table(batch, "metrics").items()})
        return {one: {name: values[row] for name, values in metrics.items()} for one, metrics, row in found}

    def read_series(self, task_ids: Iterable[str], table: SeriesTable) -> dict[str, Series]:
        """Arrays by name of those of `task_ids` that are stored, read-only.

        Rounds and privacy `[num_rounds]`, link and devices `[num_rounds, num_devices]`, bursts `[num_devices]` or
        `[num_devices, n]`, pictures `[num_pictures, height, width, channels]`.
        """
        found = self._located(task_ids, lambda batch: self.table(batch, table))
        return {one: {name: rows[row] for name, rows in arrays.items()} for one, arrays, row in found}

    def read_accounts(self, task_ids: Iterable[str]) -> dict[str, PrivacyAccount]:
        """Privacy accounts of those of `task_ids` that are stored, done or failed, and have one."""
        found = self._located(task_ids, lambda batch: accounts_of(self._blob(batch), self._rows[batch]))
        return {one: account for one, of_batch, row in found if (account := of_batch[row]) is not None}

    def _located(self, task_ids: Iterable[str], read: Callable[[int], Found]) -> Iterator[tuple[str, Found, int]]:
        """Yield each stored task with `read` of its batch, and its row there. DamagedStoreError."""
        tasks = self.read_tasks(task_ids)
        with telling_damage(self.path):
            found = {batch: read(batch) for batch in dict.fromkeys(task.batch for task in tasks.values())}
        for task_id, task in tasks.items():
            yield task_id, found[task.batch], task.row

    def _table(self, batch: int, table: str) -> Series:
        with telling_damage(self.path):
            return table_of(self._blob(batch), table, rows=self._rows[batch])

    def verify(self) -> None:
        """Read everything; DamagedStoreError unless all of it is as it was written."""
        with telling_damage(self.path):
            for batch in range(len(self._starts)):
                self._blob(batch).verify()

    def read_scenario(self) -> SavedScenario:
        """The scenario saved last; ScenarioError if a run was killed before it saved any."""
        scenario: SavedScenario | None = self.notes.get("scenario")
        if scenario is None:
            problem, remedy = "holds no scenario yet", "run the scenario into it first"
            raise ScenarioError(file=self.folder, problem=problem, remedy=remedy)
        return scenario

    # --- writing ----------------------------------------------------------------------------------

    def record_run(self, provenance: Provenance, planned: Planned | None = None) -> int:
        """Note that an invocation begins, and its plan; returns its number for `finish_run`."""
        number = len(self.runs) + 1
        run = RunRecord(
            command=provenance.command, provenance=provenance, started_at=provenance.date_utc, planned=planned
        )
        self.add(Row(runs={number: run}))
        return number

    def finish_run(self, run: int, *, status: str = "done", **changes: Any) -> None:
        """Note how invocation `run` ended: done, interrupted, or failed; and other changes of its record."""
        self.note_run(run, finished_at=utc_now(), status=status, **changes)

    def note_run(self, run: int, **changes: Any) -> None:
        """Change the record of invocation `run`."""
        self.add(Row(runs={run: replace(self.runs[run], **changes)}))

    def save_scenario(self, *, yaml: str, root: Mapping[str, Any]) -> None:
        """Keep the latest resolved scenario, as text and as plain values."""
        self.add(Row(scenario=SavedScenario(yaml=yaml, root=root)))

    def write(self, results: Mapping[str, TrialResult], *, physics: Mapping[str, Any], seconds: float) -> None:
        """Store trials of one sweep point by identity; see `pack_trials`."""
        self.append(pack_trials(results, physics=physics, seconds=seconds))

    def add(self, row: Row, content: Mapping[str, Any] | None = None) -> None:
        """Store a batch of tasks with its content, or notes; ValueError for what no blob can hold."""
        self.append(pack(row.plain(), content))

    def append(self, parts: Iterable[Part]) -> None:
        """Store rows: all of them, or after an error none. ScenarioError if the disk refuses, or if it is read-only."""
        start = self._end
        with writing(self.folder, "results"):
            try:
                self._end = _commit(self._file, parts, start=start)
            except OSError:
                self._forget_unwritten()
                raise
        self._take(start)
        self._keep_room()

    def _forget_unwritten(self) -> None:
        """Drop what a full disk refused, which the buffer would write again before anything else."""
        refused, number = self._file, open_plain(self.path, os.O_RDWR)
        self._file = os.fdopen(number, "r+b")
        with suppress(OSError):
            refused.close()

    def _keep_room(self) -> None:
        """Hold room for the note on how a run ends, which a full disk would refuse, until it has ended."""
        running = any(run.status == "running" for run in self.runs.values())
        with suppress(OSError, AttributeError):  # not every system has it, and nothing depends on it
            if running:
                os.posix_fallocate(self._file.fileno(), self._end, _ROOM)
            else:
                os.ftruncate(self._file.fileno(), self._end)

    # --- the file ---------------------------------------------------------------------------------

    def _read_end(self) -> int:
        for _ in range(2):
            self._file.seek(0)
            head = self._file.read(_HEAD.size).ljust(_HEAD.size)
            magic, version, end, sha256 = _HEAD.unpack(head)
            sound = hashlib.sha256(head[:_SUMMED]).digest() == sha256
            if sound:
                break
            time.sleep(0.05)  # a run may just be writing it
        if magic != _MAGIC and not (self.folder / LOCK).exists():
            problem, remedy = "is not a phyloop result store", "choose another folder"
            raise ScenarioError(file=self.path, problem=problem, remedy=remedy)
        with telling_damage(self.path):
            if not sound:
                raise ValueError("the SHA-256 of its head differs from what was written")
        if version != STORE_VERSION:
            problem = f"was written by another phyloop (store version {version}, not {STORE_VERSION})"
            remedy = "run the scenario into a new folder, or read this one with the phyloop that wrote it"
            raise ScenarioError(file=self.path, problem=problem, remedy=remedy)
        return int(end)

    def _blob(self, batch: int) -> Blob:
        return Blob(self._file, start=self._starts[batch], most=min(self._end, os.fstat(self._file.fileno()).st_size))

    def _take(self, start: int) -> None:
        """Take in the rows from `start` on. DamagedStoreError for one that nobody wrote."""
        while start < self._end:
            self._starts.append(start)
            with telling_damage(self.path):
                blob = self._blob(-1)
                row = ROW.validate_json(blob.about)
                tasks = row.tasks(len(self._rows))
            self._rows.append(len(tasks))
            for task in tasks:
                before = self.tasks.get(task.task_id)
                if before is not None and before.status == "failed":
                    self.replaced.append((before, task.finished_at))
                self.tasks[task.task_id] = task
            self.runs.update(row.runs)
            self.notes.update((name, note) for name, note in vars(row).items() if note is not None)
            start = blob.end


def write_anew(path: Path, parts: Iterable[Part]) -> None:
    """Write a file of rows in the place of `path`: no reader meets half a file. Raises OSError."""
    with replacement(path) as file:
        _commit(file, parts, start=_HEAD.size)


def _repair(path: Path, identity: Iterable[Part]) -> Path:
    """Put a file with the rows that verify in the place of a damaged one; return the copy that is kept of that.

    Raises OSError where the disk refuses; nothing has changed then.
    """
    aside = next(one for k in count(1) if not (one := path.with_name(f"results.damaged-{k}.phyloop")).exists())
    shutil.copyfile(path, aside)
    write_anew(path, chain(_verified(aside) if aside.stat().st_size else (), identity))
    return aside


def _verified(path: Path) -> Iterator[Part]:
    """Yield the rows of a file that verify, wherever they begin."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        for found in re.finditer(MAGIC, data):
            with suppress(*_READ_ERRORS):
                blob = Blob(file, start=found.start(), most=len(data))
                blob.verify()
                ROW.validate_json(blob.about).tasks(0)
                yield data[found.start() : blob.end]


def _commit(file: IO[bytes], parts: Iterable[Part], *, start: int) -> int:
    """Write rows from `start` on, and when they are on the disk the head. Return where they end."""
    file.seek(start)
    file.writelines(parts)
    file.flush()
    os.fsync(file.fileno())
    end = file.tell()
    head = _HEAD.pack(_MAGIC, STORE_VERSION, end, b"")[:_SUMMED]
    file.seek(0)
    file.write(head + hashlib.sha256(head).digest())
    file.flush()
    os.fsync(file.fileno())
    return end
