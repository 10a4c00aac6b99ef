"""The store of learning: trials of sweep points in a run folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from fl.results import PrivacyAccount, TrialResult
from scenarios.store.folder import RunFolder
from scenarios.store.rows import NewBatch
from scenarios.store.trials import SeriesTable, accounts_of, alike, arrays_of, metrics_of, table_of

Series = dict[str, NDArray[Any]]


class Store(RunFolder):
    """One open run folder of learning; other studies build on it. Make it with `open` or `open_existing`."""

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
        `replace_failed` a task that is stored as failed becomes one of `failed_before`. ValueError if a task is
        already stored otherwise (results are never overwritten) or an array is neither int64 nor float64;
        ScenarioError if the disk refuses.
        """
        known = self.statuses(results)
        if kept := [one for one, status in known.items() if not (replace_failed and status == "failed")]:
            raise ValueError(f"task {min(kept)} is already stored; a finished task is never overwritten")
        ids = {id(result): task_id for task_id, result in results.items()}
        batches = []
        for some in alike(results.values()):
            about, arrays = arrays_of(some)
            batch = NewBatch(
                ids=[ids[id(one)] for one in some],
                numbers=[one.trial for one in some],
                failures={row: one.failure for row, one in enumerate(some) if one.failure is not None},
                seconds=seconds / len(results),
                about={**about, "physics": dict(physics)},
                arrays=arrays,
            )
            batches.append(batch)
        self.add(batches)

    def read_metrics(self, task_ids: Iterable[str]) -> dict[str, dict[str, float]]:
        """Metrics by name of those of `task_ids` that are stored; a value not measured is NaN."""
        return {
            task_id: {name: values[row] for name, values in metrics.items()}
            for task_id, metrics, row in self.located(task_ids, metrics_of)
        }

    def read_series(self, task_ids: Iterable[str], table: SeriesTable) -> dict[str, Series]:
        """Arrays by name of those of `task_ids` that are stored.

        Rounds and privacy `[num_rounds]`, link and devices `[num_rounds, num_devices]`, bursts `[num_devices]` or
        `[num_devices, n]`, pictures `[num_pictures, height, width, channels]`, read-only. DamagedStoreError if an
        array is not as it was written.
        """
        return {
            task_id: {name: rows[row] for name, rows in arrays.items()}
            for task_id, arrays, row in self.located(task_ids, lambda blob, rows: table_of(blob, table, rows=rows))
        }

    def read_accounts(self, task_ids: Iterable[str]) -> dict[str, PrivacyAccount]:
        """Privacy accounts of those of `task_ids` that are stored, done or failed, and have one."""
        accounts = self.located(task_ids, accounts_of)
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
