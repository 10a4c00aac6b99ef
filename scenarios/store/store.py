"""A run folder: finished tasks of any study in one file, each kept whole or not at all.

One process writes, holding `run.lock`; any number read meanwhile, each what was stored when it opened the folder. Rows
are only ever added: a task that is stored again stands for what was stored of it before, and so does a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Self, TypeVar

from numpy.typing import NDArray

from fl.results import PrivacyAccount, TrialResult
from scenarios.files.log import logger
from scenarios.files.plain_files import LOCK, RESULTS, take_lock
from scenarios.files.provenance import Provenance, utc_now
from scenarios.files.replacement import writing
from scenarios.schema.errors import ScenarioError
from scenarios.store import results_file
from scenarios.store.blobs import Blob, Part, pack
from scenarios.store.results_file import DamagedStoreError, ResultsFile, telling_damage, unwritable
from scenarios.store.rows import Identity, NewBatch, Planned, Row, RunRecord, SavedScenario, Status, StoredTask
from scenarios.store.trials import SeriesTable, accounts_of, grouped, table_of

EARLIER = "results.sqlite"

Series = dict[str, NDArray[Any]]
Found = TypeVar("Found")


class Store:
    """One open run folder. Make it with `open` (to write) or `open_existing` (to read)."""

    study = "run"
    """The command whose tasks are kept; a folder holds those of one."""

    def __init__(self, folder: Path, lock: IO[str] | None = None) -> None:
        self.folder, self.path, self._lock = folder, folder / RESULTS, lock
        self.history: list[StoredTask] = []
        """All that was ever stored of any task, oldest first: its parts, and failures that were computed again."""
        self.tasks: dict[str, StoredTask] = {}
        """All stored tasks, of whatever plan, by identity, in the order in which they were first stored."""
        self._batches: list[tuple[int, int]] = []
        """Where each row begins in the file, and the number of its tasks."""
        self._runs: dict[int, RunRecord] = {}
        self.notes: dict[str, Any] = {}
        """The latest note of each name of `scenarios.store.rows.Row`."""
        self.table = lru_cache(maxsize=2)(self._table)
        """Return the arrays of a table of batch `StoredTask.batch` by name, one row per task."""
        self._file = ResultsFile(self.path, write=lock is not None)
        try:
            self._take(self._file.rows())
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
        path, identity = folder / RESULTS, Identity(scenario=scenario_name, study=cls.study)
        _refuse_earlier(folder)
        if path.exists():
            with suppress(DamagedStoreError), cls.open_existing(folder) as found:
                _refuse_other(folder, found.identity, identity)
        with ExitStack() as undo:
            with writing(folder, "results"):
                lock = undo.enter_context(take_lock(folder / LOCK))
            try:
                first = pack({}, about={"identity": identity})
                if not path.exists():
                    results_file.write_anew(path, first)
                try:
                    store = cls(folder, lock)
                except DamagedStoreError as error:
                    aside = results_file.repair(path, first)
                    store = cls(folder, lock)
                    kept = f"{len(store.tasks)} tasks that verify are kept, the rest is computed again"
                    says = "%s %s; %s, and the damaged file is kept as %s"
                    logger("store").warning(says, path, error.problem, kept, aside.name)
            except OSError as error:
                raise unwritable(path, error) from error
            undo.callback(store.close)
            # We hold the lock: a run that is still called running was killed.
            for number, run in enumerate(store.read_runs(), 1):
                if run.status == "running":
                    store.note_run(number, status="killed")
            undo.pop_all()
            return store

    @classmethod
    def open_existing(cls, folder: Path) -> Self:
        """Open a run folder to read it, also while a run is writing to it; ScenarioError if there is none."""
        _refuse_earlier(folder)
        if not (folder / RESULTS).is_file():
            problem = f"holds no results ({RESULTS} is missing)"
            raise ScenarioError(file=folder, problem=problem, remedy="name the folder of a run")
        return cls(folder)

    def close(self) -> None:
        """Close the file and let go of the lock; closing twice is fine."""
        self._file.close()
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
        """Return what is stored of a batch (`StoredTask.batch`)."""
        return self._file.blob(self._batches[batch][0])

    def read_metrics(self, task_ids: Iterable[str]) -> dict[str, dict[str, float]]:
        """Metrics by name of those of `task_ids` that are stored; a value not measured is NaN."""

        def lists(batch: int) -> dict[str, list[float]]:
            return {name: values.tolist() for name, values in self.table(batch, "metrics").items()}

        found = self._located(task_ids, lists)
        return {one: {name: values[row] for name, values in metrics.items()} for one, metrics, row in found}

    def read_series(self, task_ids: Iterable[str], table: SeriesTable) -> dict[str, Series]:
        """Arrays by name of those of `task_ids` that are stored.

        Rounds and privacy `[num_rounds]`, link and devices `[num_rounds, num_devices]`, bursts `[num_devices]` or
        `[num_devices, n]`, pictures `[num_pictures, height, width, channels]`, read-only. DamagedStoreError if an
        array is not as it was written.
        """
        found = self._located(task_ids, lambda batch: self.table(batch, table))
        return {one: {name: rows[row] for name, rows in arrays.items()} for one, arrays, row in found}

    def read_accounts(self, task_ids: Iterable[str]) -> dict[str, PrivacyAccount]:
        """Privacy accounts of those of `task_ids` that are stored, done or failed, and have one."""
        with telling_damage(self.path):
            accounts = self._located(task_ids, lambda batch: accounts_of(self.blob(batch), self._batches[batch][1]))
            return {task_id: found for task_id, of_batch, row in accounts if (found := of_batch[row]) is not None}

    def _located(self, task_ids: Iterable[str], read: Callable[[int], Found]) -> Iterator[tuple[str, Found, int]]:
        """Yield each stored task with `read` of its batch, and its row there."""
        tasks = self.read_tasks(task_ids)
        found = {batch: read(batch) for batch in dict.fromkeys(task.batch for task in tasks.values())}
        for task_id, task in tasks.items():
            yield task_id, found[task.batch], task.row

    def _table(self, batch: int, table: str) -> Series:
        with telling_damage(self.path):
            return table_of(self.blob(batch), table, rows=self._batches[batch][1])

    def verify(self) -> None:
        """Read everything; DamagedStoreError unless all of it is as it was written."""
        with telling_damage(self.path):
            for batch in range(len(self._batches)):
                self.blob(batch).verify()

    # --- notes ------------------------------------------------------------------------------------

    def record_run(self, provenance: Provenance, planned: Planned | None = None) -> int:
        """Note that an invocation begins, and its plan; returns its number for `finish_run`."""
        number, about = len(self._runs) + 1, asdict(provenance)
        run = RunRecord(command=about["command"], provenance=about, started_at=about["date_utc"], planned=planned)
        self.add(runs={number: asdict(run)})
        return number

    def finish_run(self, run: int, *, status: str = "done", failure: str | None = None) -> None:
        """Note how invocation `run` ended: done, interrupted, or failed with this error."""
        self.note_run(run, finished_at=utc_now(), status=status, failure=failure)

    def note_run(self, run: int, **changes: Any) -> None:
        """Change the record of invocation `run`."""
        self.add(runs={run: asdict(replace(self._runs[run], **changes))})

    def read_runs(self) -> tuple[RunRecord, ...]:
        """All invocations that wrote here, oldest first."""
        return tuple(self._runs.values())

    def save_scenario(self, *, yaml: str, root: Mapping[str, Any]) -> None:
        """Keep the latest resolved scenario, as text and as plain values."""
        self.add(scenario=SavedScenario(yaml=yaml, root=root))

    def read_scenario(self) -> SavedScenario:
        """The scenario saved last; ScenarioError if a run was killed before it saved any."""
        scenario: SavedScenario | None = self.notes.get("scenario")
        if scenario is None:
            problem, remedy = "holds no scenario yet", "run the scenario into it first"
            raise ScenarioError(file=self.folder, problem=problem, remedy=remedy)
        return scenario

    # --- writing ----------------------------------------------------------------------------------

    def write(
        self,
        results: Mapping[str, TrialResult],
        *,
        physics: Mapping[str, Any],
        seconds: float,
        replace_failed: bool = False,
    ) -> None:
        """Store trials of one sweep point in one commit: all of them, or after an error none.

        `physics` is everything that determined the numbers; `seconds` is the wall time of the whole batch. With
        `replace_failed` a task that is stored as failed becomes one of `failed_before`. ValueError if a task is
        already stored otherwise, or an array is neither int64 nor float64; ScenarioError if the disk refuses.
        """
        known = self.statuses(results)
        if kept := [one for one, status in known.items() if not (replace_failed and status == "failed")]:
            raise ValueError(f"task {min(kept)} is already stored; a finished task is never overwritten")
        ids = {id(result): task_id for task_id, result in results.items()}
        batches = [
            NewBatch(
                ids=[ids[id(one)] for one in group],
                numbers=[one.trial for one in group],
                # Names of files that are not text end up in errors.
                failures={
                    row: one.failure.encode(errors="replace").decode()
                    for row, one in enumerate(group)
                    if one.failure is not None
                },
                seconds=seconds / len(results),
                about={"accounts": accounts, "physics": physics},
                arrays=arrays,
            )
            for group, accounts, arrays in grouped(results.values())
        ]
        self.add(batches)

    def add(self, batches: Sequence[NewBatch] = (), **notes: Any) -> None:
        """Store batches, and notes by the names of `scenarios.store.rows.Row`, in one commit: all of them, or none.

        ScenarioError if the disk refuses, or the store is open to read; ValueError for what no batch can hold.
        """
        parts: list[Part] = []
        for batch in batches:
            parts += pack(batch.arrays, about={"batch": batch.plain()}, detail=batch.about)
        if notes:
            parts += pack({}, about=notes)
        start = self._file.end
        try:
            self._file.append(parts)
        except OSError as error:
            raise unwritable(self.path, error) from error
        self._take(self._file.rows(start))

    def _take(self, rows: Iterable[tuple[Blob, Row]]) -> None:
        """Take in rows. DamagedStoreError for tasks that nobody wrote."""
        for blob, row in rows:
            with telling_damage(self.path):
                tasks = [] if row.batch is None else row.batch.tasks(len(self._batches))
            self._batches.append((blob.start, len(tasks)))
            self.history += tasks
            self.tasks.update((task.task_id, task) for task in tasks)
            self._runs.update(row.runs)
            self.notes.update((name, note) for name, note in vars(row).items() if note is not None)


def _refuse_earlier(folder: Path) -> None:
    """Raise ScenarioError for a folder of before there was one plain file of results."""
    if (folder / EARLIER).exists():
        problem = f"holds results of an earlier phyloop ({EARLIER}), which this one cannot read"
        raise ScenarioError(file=folder, problem=problem, remedy="choose another folder with --out")


def _refuse_other(folder: Path, found: Identity, wanted: Identity) -> None:
    """Raise ScenarioError for the folder of another scenario or study."""
    for kind, there, here in (("phyloop ", found.study, wanted.study), ("scenario ", found.scenario, wanted.scenario)):
        if there != here:
            problem = f"holds results of {kind}{there}, not of {kind}{here}"
            raise ScenarioError(file=folder, problem=problem, remedy="choose another folder with --out")
