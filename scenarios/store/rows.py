"""Rows of a store: batches of tasks, and notes on the run. Each is JSON, checked against its type before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict, TypeAdapter

from scenarios.files.provenance import Provenance, utc_now

Status = Literal["done", "failed", "part"]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Tasks that are stored together.

    - `ids`, `numbers`: identity of each task, and its number within its sweep point (its trial);
    - `failures`: why a task failed, by its place in `ids`; the others are done, or `part`: more of them will follow;
    - `seconds`: wall time of each task.
    """

    ids: list[str]
    numbers: list[int]
    seconds: float
    failures: Mapping[int, str] = field(default_factory=dict)
    status: Literal["done", "part"] = "done"
    finished_at: str = field(default_factory=utc_now)


class StoredTask(NamedTuple):
    """One stored task without its arrays. `seconds` is its share of the batch; `batch` and `row` say where it is."""

    task_id: str
    trial: int
    status: Status
    failure: str | None
    seconds: float
    finished_at: str
    batch: int
    row: int


@dataclass(frozen=True, kw_only=True)
class Planned:
    """Plan of one run of `tasks`.

    `again`: failed ones that it computes again; `skipped`: points that turned out not to be needed; `others`: tasks in
    the folder that belong to other plans, `others_failed` of them failed, and never change.
    """

    tasks: int
    again: int = 0
    skipped: int = 0
    others: int = 0
    others_failed: int = 0


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One invocation that wrote to the store; `status` is running, killed, done, failed (`failure`) or interrupted."""

    command: str
    provenance: Provenance
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

    def plain(self) -> dict[str, Any]:
        """Return the row as plain JSON."""
        return {name: value for name, value in ROW.dump_python(self, mode="json").items() if value}

    def tasks(self, number: int) -> list[StoredTask]:
        """Return the tasks of the batch, if there is one, as row `number`. Raises ValueError if they do not match."""
        if (batch := self.batch) is None:
            return []
        count = len(batch.ids)
        if count != len(batch.numbers):
            raise ValueError("a batch has not one number for each task")
        reasons = list(map(batch.failures.get, range(count))) if batch.failures else [None] * count
        statuses = [batch.status if reason is None else "failed" for reason in reasons]
        rest = repeat(batch.seconds), repeat(batch.finished_at), repeat(number), range(count)
        return list(map(StoredTask, batch.ids, batch.numbers, statuses, reasons, *rest))


ROW = TypeAdapter(Row)
