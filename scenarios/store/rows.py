"""Rows of a store: batches of tasks, and notes on the run. Each is JSON, checked against its type before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import repeat
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict, TypeAdapter

from scenarios.files.provenance import utc_now
from scenarios.store.blobs import Array

Status = Literal["done", "failed", "part"]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Tasks that are stored together.

    - `ids`, `numbers`: identity of each task, and its number within its sweep point (its trial);
    - `failures`: why a task failed, by its place in `ids`; the others are done, or `part`: more of them will follow;
    - `seconds`: wall time of each task; `extras`: plain JSON of each task, None where there is none.
    """

    ids: list[str]
    numbers: list[int]
    seconds: float
    failures: Mapping[int, str] = field(default_factory=dict)
    status: Literal["done", "part"] = "done"
    extras: list[Any] | None = None
    finished_at: str = field(default_factory=utc_now)

    def tasks(self, number: int) -> list[StoredTask]:
        """Return the tasks, of batch `number`. Raises ValueError for lists that do not belong together."""
        count, extras = len(self.ids), [None] * len(self.ids) if self.extras is None else self.extras
        if not count == len(self.numbers) == len(extras):
            raise ValueError("a batch has not one number for each task")
        reasons = list(map(self.failures.get, range(count))) if self.failures else [None] * count
        statuses = [self.status if reason is None else "failed" for reason in reasons]
        rest = repeat(self.seconds), repeat(self.finished_at), extras, repeat(number), range(count)
        return list(map(StoredTask, self.ids, self.numbers, statuses, reasons, *rest))


@dataclass(frozen=True, kw_only=True)
class NewBatch(Batch):
    """Tasks to store together: also `about`, plain JSON on all of them, and `arrays`."""

    about: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return the fields of `Batch`."""
        return {one.name: getattr(self, one.name) for one in fields(Batch)}


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


class Identity(NamedTuple):
    """What a folder holds results of: a scenario, and the command of its study."""

    scenario: str
    study: str


class Report(NamedTuple):
    """Files that the last report wrote, below the folder, and a digest of all that it was made from."""

    made_from: str
    files: list[str]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: a batch, or notes, each of which replaces the one of the same name (runs: and number) before it."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    batch: Batch | None = None
    identity: Identity | None = None
    scenario: SavedScenario | None = None
    runs: Mapping[int, RunRecord] = field(default_factory=dict)
    report: Report | None = None
    options: Any = None


ROW = TypeAdapter(Row)
