"""Memory and disk that a plan needs, and the errors for a plan that does not fit."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fl.config.learning import COMPILED_LINK_BYTES
from scenarios.engine.batch import BATCH_BYTES, batch_size, trial_bytes
from scenarios.engine.memory import OPTION, MemoryLimit, read_memory_limit
from scenarios.plan.points import Plan
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.units import byte_size
from scenarios.schema.schema import Scenario

LIBRARIES_BYTES = 720 << 20
"""Resident memory of a process before its first batch, most of it TensorFlow."""
MAIN_PROCESS_BYTES = 400 << 20
"""Resident memory of the process that hands tasks to workers, stores them and draws figures."""

_BYTES_STORED_PER_NUMBER = 6
_DISK_KEPT_FREE = 16 << 20
"""Disk for the report and the log of the database."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Peak resident memory and disk of a plan, and of its largest task alone with the libraries [B]."""

    memory_bytes: int
    disk_bytes: int
    task_memory_bytes: int
    task_disk_bytes: int


def estimate(plan: Plan, *, batch_bytes: int = BATCH_BYTES) -> Cost:
    """Memory and disk of computing every task of a plan once, with batches within `batch_bytes`.

    The time is not estimated: `phyloop run` measures it on its first batches.
    """
    scenarios = [point.scenario for point in plan.points]
    together = [
        min(batch_size(one, batch_bytes=batch_bytes), plan.trials) if one.learning.side_by_side else 1
        for one in scenarios
    ]
    stored = [disk_bytes_of_task(one) for one in scenarios]
    return Cost(
        memory_bytes=max(process_bytes(one, trials=many) for one, many in zip(scenarios, together, strict=True)),
        disk_bytes=plan.trials * sum(stored),
        task_memory_bytes=max(map(process_bytes, scenarios)),
        task_disk_bytes=max(stored),
    )


def disk_bytes_of_task(scenario: Scenario) -> int:
    """Disk that one stored trial takes [B]."""
    learning = scenario.learning
    return learning.rounds * learning.numbers_stored_per_round() * _BYTES_STORED_PER_NUMBER


def process_bytes(scenario: Scenario, *, trials: int = 1) -> int:
    """Peak resident memory of a process that computes `trials` trials of a sweep point at once, with libraries [B].

    For ten scenarios of the library the estimate was 0.9 to 1.6 times the measured peak.
    """
    return LIBRARIES_BYTES + scenario.learning.bytes_compiled(scenario.link) + trials * trial_bytes(scenario)


@dataclass(frozen=True, kw_only=True)
class Room:
    """Memory `limit` of all processes that compute together; each has `process_bytes`, including the libraries."""

    limit: MemoryLimit
    workers: int

    @property
    def process_bytes(self) -> int:
        """Memory of one process; beside several workers, the main process has its share."""
        if self.workers == 1:
            return self.limit.limit_bytes
        return max(self.limit.limit_bytes - MAIN_PROCESS_BYTES, 0) // self.workers

    @property
    def batch_bytes(self) -> int:
        """Memory of the trials side by side in one process."""
        return max(min(BATCH_BYTES, self.process_bytes - LIBRARIES_BYTES - COMPILED_LINK_BYTES), 1)


def room(memory_limit: str | None = None, *, workers: int = 1, elsewhere: bool = False) -> Room:
    """The memory that `--memory-limit` grants `workers` processes, else the free memory. ScenarioError for bad input.

    The memory of workers `elsewhere` is unknown: the option sets the memory of each, and without it there is no limit.
    """
    if elsewhere and memory_limit is None:
        return Room(limit=MemoryLimit(limit_bytes=1 << 62, said_by="unlimited memory"), workers=1)
    return Room(limit=read_memory_limit(memory_limit), workers=1 if elsewhere else max(workers, 1))


def refuse_memory(scenarios: Iterable[Scenario], room: Room, *, file: Path) -> None:
    """ScenarioError unless the libraries and one trial of every scenario, alone, fit into a process."""
    needed, largest = max(((process_bytes(one), one) for one in scenarios), key=lambda one: one[0], default=(0, None))
    if needed <= room.process_bytes:
        return
    limit = f"{room.limit.said_by} is {byte_size(room.limit.limit_bytes)}"
    total, remedy = needed, ""
    if room.workers > 1:
        limit = (
            f"{room.limit.said_by} of {byte_size(room.limit.limit_bytes)} leaves each of {room.workers} "
            f"{byte_size(room.process_bytes)}"
        )
        total, remedy = MAIN_PROCESS_BYTES + room.workers * needed, ", take fewer --workers"
    why = None if largest is None else largest.learning.held_at_once()
    raise ScenarioError(
        problem=f"one trial needs about {byte_size(needed)} of memory, {limit}{'' if why is None else f': {why}'}",
        remedy=f"make the model or the number of devices smaller{remedy}, or give it {OPTION} "
        f"{-(-total // 10**8) / 10:.1f}GB if there is that much",
        file=file,
    )


def refuse_disk(counts: Iterable[tuple[Scenario, int]], folder: Path, *, file: Path) -> None:
    """ScenarioError unless so many tasks of each scenario fit on the disk of `folder`, which need not exist."""
    needed = sum(number * disk_bytes_of_task(scenario) for scenario, number in counts)
    if needed == 0:
        return
    free = shutil.disk_usage(next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())).free
    if needed + _DISK_KEPT_FREE > free:
        raise ScenarioError(
            problem=f"the results need about {byte_size(needed)} of disk, {folder} has {byte_size(free)} free",
            remedy="free some, choose another disk with --out, or take fewer trials or rounds",
            file=file,
        )
