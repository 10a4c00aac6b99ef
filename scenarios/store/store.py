"""The store of a run: trials, the runs that computed them, the scenario and the note of the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from fl.results import PrivacyAccount, TrialResult
from scenarios.files.clock import utc_now
from scenarios.files.plain_files import DATABASE
from scenarios.files.provenance import Provenance
from scenarios.schema.errors import ScenarioError
from scenarios.store.blobs import Blob
from scenarios.store.database import telling_damage
from scenarios.store.folder import NewBatch, RunFolder
from scenarios.store.records import Attempt, Planned, ReportNote, RunRecord, SavedScenario
from scenarios.store.trials import METRICS, SERIES_TABLES, SeriesTable, accounts_of, alike, pack_trials, table_of

Series = dict[str, NDArray[Any]]
_RUN = "run/"


class Store(RunFolder):
    """One open run folder of learning; other studies build on it. Make it with `open` or `open_existing`."""

    @classmethod
    def open(cls, folder: Path, *, scenario_name: str, create: bool = True) -> Self:
        """See `RunFolder.open`; runs that never ended are noted as killed."""
        store = super().open(folder, scenario_name=scenario_name, create=create)
        # We hold the lock, so whoever is still called running no longer is.
        killed = {key: {**run, "status": "killed"} for key, run in store.records(_RUN).items() if _is_running(run)}
        if killed:
            store.add((), records=killed)
        return store

    # --- trials -----------------------------------------------------------------------------------

    def write(
        self,
        results: Mapping[str, TrialResult],
        *,
        physics: Mapping[str, Any],
        seconds: float,
        replace_failed: bool = False,
    ) -> None:
        """Store trials of one point in one transaction: all of them, or after an error none.

        `physics` is everything that determined the numbers; `seconds` is the wall time of the whole batch. With
        `replace_failed` a task that is stored as failed becomes an attempt (`read_attempts`). ValueError if a task is
        already stored otherwise (results are never overwritten) or an array is neither int64 nor float64;
        ScenarioError if the disk refuses.
        """
        known = self.statuses(results)
        if kept := [one for one, status in known.items() if not (replace_failed and status == "failed")]:
            raise ValueError(f"task {min(kept)} is already stored; a finished task is never overwritten")
        ids = {id(result): task_id for task_id, result in results.items()}
        about = {"physics": dict(physics)}
        self.add(
            [
                NewBatch(
                    ids=[ids[id(one)] for one in some],
                    numbers=[one.trial for one in some],
                    failures={row: one.failure for row, one in enumerate(some) if one.failure is not None},
                    blob=pack_trials(some, about=about),
                    seconds=seconds / len(results),
                )
                for some in alike(results.values())
            ]
        )

    def state(self) -> tuple[int, ...]:
        """Numbers that change when any task does: tasks, those of them failed, batches, tasks computed again."""
        failed = sum(status == "failed" for status in self.statuses(self.task_ids()).values())
        return self.count_tasks(), failed, len(self.heads()), len(self.failed_before())

    def read_metrics(self, task_ids: Iterable[str]) -> dict[str, dict[str, float]]:
        """Metrics by name of those of `task_ids` that are stored; a value not measured is NaN."""
        return {
            task_id: {name: values[row] for name, values in metrics.items()}
            for task_id, metrics, row in self.located(task_ids, _metrics_of)
        }

    def read_series(self, task_ids: Iterable[str], table: SeriesTable) -> dict[str, Series]:
        """Arrays by name of those of `task_ids` that are stored.

        Rounds and privacy `[num_rounds]`, link and devices `[num_rounds, num_devices]`, bursts `[num_devices]` or
        `[num_devices, n]`, pictures `[num_pictures, height, width, channels]`, read-only. DamagedStoreError if an
        array is not as it was written.
        """
        if table not in SERIES_TABLES:
            raise ValueError(f"no table {table!r} of arrays; there are {', '.join(SERIES_TABLES)}")
        return self.read_arrays(task_ids, f"{table}/")

    def read_accounts(self, task_ids: Iterable[str]) -> dict[str, PrivacyAccount]:
        """Privacy accounts of those of `task_ids` that are stored, done or failed, and have one."""
        accounts = self.located(task_ids, lambda blob, rows: accounts_of(blob, rows=rows))
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

    def read_attempts(self) -> tuple[Attempt, ...]:
        """Failed tasks that were computed again since, oldest first."""
        return tuple(
            Attempt(
                task_id=task.task_id,
                trial=task.trial,
                failure=task.failure,
                seconds=task.seconds,
                finished_at=task.finished_at,
                replaced_at=at,
            )
            for task, at in self.failed_before()
        )

    # --- runs and the scenario --------------------------------------------------------------------

    def record_run(self, provenance: Provenance) -> int:
        """Note that an invocation begins; returns its number for `finish_run`."""
        number = len(self.records(_RUN)) + 1
        run = {
            "command": provenance.command,
            "provenance": provenance.to_dict(),
            "started_at": provenance.date_utc,
            "finished_at": None,
            "status": "running",
        }
        self.add((), records={_key(number): run})
        return number

    def note_plan(self, run: int, planned: Planned) -> None:
        """Keep the plan of invocation `run`."""
        self.add((), records={_key(run): {**self.record(_key(run)), "planned": asdict(planned)}})

    def finish_run(self, run: int, *, status: str = "done") -> None:
        """Note how invocation `run` ended: done, failed, interrupted."""
        ended = {**self.record(_key(run)), "finished_at": utc_now(), "status": status}
        self.add((), records={_key(run): ended})

    def read_runs(self) -> tuple[RunRecord, ...]:
        """All invocations that wrote here, oldest first."""
        return read_runs(self)

    def save_scenario(self, *, yaml: str, root: Mapping[str, Any]) -> None:
        """Keep the latest resolved scenario, as text and as plain values."""
        self.add((), records={"scenario": {"yaml": yaml, "root": root, "saved_at": utc_now()}})

    def read_scenario(self) -> SavedScenario:
        """The scenario saved last; ScenarioError if a run was killed before it saved any."""
        kept = self.record("scenario")
        if kept is None:
            raise ScenarioError(
                file=self.folder, problem="holds no scenario yet", remedy="run the scenario into it first"
            )
        with telling_damage(self.folder / DATABASE):
            return SavedScenario(yaml=kept["yaml"], root=kept["root"])

    def note_report(self, note: ReportNote) -> None:
        """Keep what the report that was just written shows."""
        self.add((), records={"report": asdict(note)})

    def last_report(self) -> ReportNote | None:
        """The note of the report that a run wrote last."""
        kept = self.record("report")
        with telling_damage(self.folder / DATABASE):
            return None if kept is None else ReportNote(made_from=kept["made_from"], files=tuple(kept["files"]))


def read_runs(store: RunFolder) -> tuple[RunRecord, ...]:
    """All invocations that wrote into a run folder, oldest first; DamagedStoreError where a record is not one."""
    with telling_damage(store.folder / DATABASE):
        return tuple(
            RunRecord(run=int(key[len(_RUN) :]), **{**run, "planned": Planned(**run["planned"])})
            if run.get("planned")
            else RunRecord(run=int(key[len(_RUN) :]), **run)
            for key, run in store.records(_RUN).items()
        )


def _metrics_of(blob: Blob, rows: int) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in table_of(blob, METRICS, rows=rows).items()}


def _key(run: int) -> str:
    return f"{_RUN}{run:06d}"


def _is_running(run: Any) -> bool:
    return isinstance(run, dict) and run.get("status") == "running"
