"""What cannot fit is refused before any work starts: memory against a limit, disk against what is free."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fl.footprint import held_at_once
from scenarios.engine.batch import BATCH_BYTES
from scenarios.engine.estimate import (
    COMPILED_BYTES,
    LIBRARIES_BYTES,
    MAIN_PROCESS_BYTES,
    disk_bytes_of_task,
    process_bytes,
)
from scenarios.engine.memory import OPTION, MemoryLimit, read_memory_limit
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.labels import byte_size
from scenarios.schema.schema import Scenario

_DISK_KEPT_FREE = 16 << 20
"""What the report and the log of the database take beside the tasks."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """Memory of the processes that compute, together `limit`: each has `process_bytes`, libraries included."""

    limit: MemoryLimit
    workers: int

    @property
    def process_bytes(self) -> int:
        """What one process may take; beside several the main one, which computes nothing, has its share."""
        if self.workers == 1:
            return self.limit.limit_bytes
        return max(self.limit.limit_bytes - MAIN_PROCESS_BYTES, 0) // self.workers

    @property
    def batch_bytes(self) -> int:
        """What trials side by side may take in one process."""
        return max(min(BATCH_BYTES, self.process_bytes - LIBRARIES_BYTES - COMPILED_BYTES), 1)


def room(memory_limit: str | None = None, *, workers: int = 1, elsewhere: bool = False) -> Room:
    """The memory that `--memory-limit` grants `workers` processes, else what is free. ScenarioError for nonsense.

    Of workers `elsewhere` nothing is known: there is no limit but what the option says each of them has.
    """
    if elsewhere and memory_limit is None:
        return Room(limit=MemoryLimit(limit_bytes=1 << 62, said_by="unlimited memory"), workers=1)
    return Room(limit=read_memory_limit(memory_limit), workers=1 if elsewhere else max(workers, 1))


def refuse_memory(scenarios: Iterable[Scenario], room: Room, *, file: Path) -> None:
    """ScenarioError unless the libraries and one trial of every scenario, alone, fit into a process."""
    needed, largest = max(((process_bytes(one), one) for one in scenarios), key=lambda one: one[0], default=(0, None))
    if needed <= room.process_bytes:
        return
    whole = room.limit.limit_bytes
    if room.workers == 1:
        has, remedy = f"{room.limit.said_by} is {byte_size(whole)}", ""
        total = needed
    else:
        has = (
            f"{room.limit.said_by} of {byte_size(whole)} leaves each of {room.workers} {byte_size(room.process_bytes)}"
        )
        remedy = ", take fewer --workers"
        total = MAIN_PROCESS_BYTES + room.workers * needed
    why = None if largest is None else held_at_once(largest.learning)
    raise ScenarioError(
        problem=f"one trial needs about {byte_size(needed)} of memory, {has}{'' if why is None else f': {why}'}",
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
