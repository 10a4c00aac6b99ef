"""Rows of a store: batches of tasks and records, as JSON that is checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Literal, NamedTuple

from scenarios.files.plain_files import fits
from scenarios.store.blobs import Arrays

Status = Literal["done", "failed", "part"]

REPORT = "report"
"""Record of the files that the last report wrote, below the folder, and a digest of all that it was `made_from`."""
_BATCH = {
    "ids": [str],
    "numbers": [int],
    "status": str,
    "failures": {str: str},
    "extras": (list, None),
    "seconds": float,
    "finished_at": str,
}
_RECORDS: Mapping[str, Any] = {
    "store": dict.fromkeys(("scenario", "study"), str),
    "scenario": {"yaml": str},
    REPORT: {"made_from": str, "files": [str]},
    "run": dict.fromkeys(("command", "started_at", "status"), str)
    | dict.fromkeys(("finished_at", "failure"), (str, None))
    | {"provenance": {}, "planned": ({str: int}, None)},
}
"""Shapes of records, by the first word of the key; see `scenarios.files.plain_files.fits`."""


@dataclass(frozen=True, kw_only=True)
class NewBatch:
    """Tasks to store together.

    - `ids`, `numbers`: identity of each task, and its number within its sweep point (its trial);
    - `failures`: why a task failed, by its place in `ids`; the others are done, or `part`: more of them will follow;
    - `seconds`: wall time of each task; `extras`: plain JSON of each task, None where there is none;
    - `about`: plain JSON on all of them; `arrays`: see `scenarios.store.blobs.pack_parts`.
    """

    ids: Sequence[str]
    numbers: Sequence[int]
    seconds: float
    failures: Mapping[int, str] = field(default_factory=dict)
    status: Literal["done", "part"] = "done"
    extras: Sequence[Any] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)

    def as_about(self, now: str) -> dict[str, Any]:
        """Return what the row of the batch is about."""
        return {
            **self.about,
            "ids": list(self.ids),
            "numbers": [int(one) for one in self.numbers],
            "status": self.status,
            # Names of files that are not text end up in errors.
            "failures": {str(row): why.encode(errors="replace").decode() for row, why in self.failures.items()},
            "extras": self.extras and list(self.extras),
            "seconds": float(self.seconds),
            "finished_at": now,
        }


class StoredTask(NamedTuple):
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


@dataclass(frozen=True, kw_only=True)
class Planned:
    """Plan of one run: `tasks`, of which `found` were finished before it began, done or failed.

    `again`: those of the failed that it computes again; `skipped`: points that turned out not to be needed; `others`:
    tasks in the folder that belong to other plans, `others_failed` of them failed, and never change.
    """

    tasks: int
    found: int
    again: int = 0
    skipped: int = 0
    others: int = 0
    others_failed: int = 0


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One invocation that wrote to the store; `status` is running, killed, done, failed (`failure`) or interrupted."""

    command: str
    provenance: Mapping[str, Any]
    started_at: str
    finished_at: str | None = None
    status: str = "running"
    failure: str | None = None
    planned: Planned | None = None


class SavedScenario(NamedTuple):
    """The scenario as resolved: YAML text to read, `root` (plain values) to rebuild the plan from."""

    yaml: str
    root: Any


def tasks_of(about: Mapping[str, Any], *, batch: int) -> list[StoredTask]:
    """Return the tasks of a row. Raises ValueError for a row that nobody wrote."""
    records = about.get("records", {})
    sound = fits(records, {}) and all(fits(one, _RECORDS.get(key.split("/")[0], {})) for key, one in records.items())
    if sound and "ids" not in about:
        return []
    if not (sound and fits(about, _BATCH) and about["status"] in ("done", "part")):
        raise ValueError("a row holds what phyloop does not write")
    ids, failures = about["ids"], about["failures"]
    reasons = [failures.get(str(row)) for row in range(len(ids))] if failures else [None] * len(ids)
    statuses = [about["status"] if reason is None else "failed" for reason in reasons]
    extras = [None] * len(ids) if about["extras"] is None else about["extras"]
    if not len(ids) == len(about["numbers"]) == len(extras):
        raise ValueError("a row has not one number for each task")
    where = (repeat(about["seconds"]), repeat(about["finished_at"]), extras, repeat(batch), range(len(ids)))
    return list(map(StoredTask, ids, about["numbers"], statuses, reasons, *where))
