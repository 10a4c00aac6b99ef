"""What a run folder knows beside results: its runs, the scenario, what was planned, what the report shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
    """One invocation that wrote to the store; `status` is running, killed, or what `finish_run` said."""

    run: int
    command: str
    provenance: Mapping[str, Any]
    started_at: str
    finished_at: str | None
    status: str
    planned: Planned | None = None


@dataclass(frozen=True, kw_only=True)
class SavedScenario:
    """The scenario as resolved: YAML text to read, `root` (plain values) to rebuild the plan from."""

    yaml: str
    root: Any


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A task that had failed and was computed again: why and when it failed, and when that was replaced."""

    task_id: str
    trial: int
    failure: str | None
    seconds: float
    finished_at: str
    replaced_at: str


@dataclass(frozen=True, kw_only=True)
class ReportNote:
    """Which files the last report wrote, below the folder, and a digest of all that it was `made_from`."""

    made_from: str
    files: tuple[str, ...]


def below(folder: Path, files: Iterable[Path]) -> tuple[str, ...]:
    """Files as a note keeps them: relative to the run folder, which may be moved."""
    return tuple(file.relative_to(folder).as_posix() for file in files)
