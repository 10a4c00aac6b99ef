"""Memory and disk that a plan needs, what there is of both, and the errors for a plan that does not fit."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ByteSize, TypeAdapter

from scenarios.engine.batch import batch_size, libraries_bytes
from scenarios.plan.points import Plan
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.units import byte_size
from scenarios.schema.schema import Scenario

OPTION = "--memory-limit"
MAIN_PROCESS_BYTES = 400 << 20
"""Resident memory of the process that hands tasks to workers, stores them and draws figures."""

_BYTES_STORED_PER_NUMBER = 6
_DISK_KEPT_FREE = 16 << 20
"""Disk for the report and the log of the database."""
_SIZE = TypeAdapter(ByteSize)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Peak resident memory and disk of a plan, and memory of its largest task alone with the libraries [B]."""

    memory_bytes: int
    disk_bytes: int
    task_memory_bytes: int


def estimate(plan: Plan, *, limit_bytes: int | None = None) -> Cost:
    """Memory and disk of computing every task of a plan once, in batches that fit into `limit_bytes` per process.

    The time is not estimated: `phyloop run` measures it on its first batches.
    """
    scenarios = [point.scenario for point in plan.points]
    together = [min(batch_size(one, limit_bytes=limit_bytes), plan.trials) for one in scenarios]
    return Cost(
        memory_bytes=max(process_bytes(one, trials=many) for one, many in zip(scenarios, together, strict=True)),
        disk_bytes=plan.trials * sum(map(disk_bytes_of_task, scenarios)),
        task_memory_bytes=max(map(process_bytes, scenarios)),
    )


def disk_bytes_of_task(scenario: Scenario) -> int:
    """Disk that one stored trial takes [B]."""
    learning = scenario.learning
    return learning.rounds * learning.numbers_stored_per_round() * _BYTES_STORED_PER_NUMBER


def process_bytes(scenario: Scenario, *, trials: int = 1) -> int:
    """Peak resident memory of a process that computes `trials` trials of a sweep point at once, with libraries [B].

    For 28 scenarios of the library the estimate was 0.8 to 1.5 times the measured peak; for `cpa-table4-cnn3`, in which
    1000 devices keep their momentum, 3.2 times.
    """
    return libraries_bytes(scenario) + trials * scenario.learning.bytes_per_trial(scenario.link)


@dataclass(frozen=True, kw_only=True)
class Room:
    """Memory of all processes that compute together, and the source of that limit."""

    limit_bytes: int
    said_by: str
    workers: int = 1

    @property
    def process_bytes(self) -> int:
        """Memory of one process, including the libraries; beside several workers, the main process has its share."""
        if self.workers == 1:
            return self.limit_bytes
        return max(self.limit_bytes - MAIN_PROCESS_BYTES, 0) // self.workers


def room(memory_limit: str | None = None, *, workers: int = 1, elsewhere: bool = False) -> Room:
    """The memory that `--memory-limit` grants `workers` processes, else the free memory. ScenarioError for bad input.

    The memory of workers `elsewhere` is unknown: the option sets the memory of each, and without it there is no limit.
    """
    workers = 1 if elsewhere else max(workers, 1)
    if memory_limit is not None:
        return Room(limit_bytes=read_bytes(memory_limit), said_by=OPTION, workers=workers)
    if elsewhere:
        return Room(limit_bytes=1 << 62, said_by="unlimited memory")
    limit_bytes, said_by = free_memory()
    return Room(limit_bytes=limit_bytes, said_by=said_by, workers=workers)


def read_bytes(text: str) -> int:
    """Return the bytes of text such as `4GB`, `3.5 GiB` or `500MB`. ScenarioError for other text."""
    try:
        return int(_SIZE.validate_python(text))
    except (ValueError, OverflowError) as error:
        problem, remedy = "must be a number of bytes with a unit", "write for example 4GB"
        raise ScenarioError(problem=problem, remedy=remedy, key=OPTION, value=text) from error


def free_memory(*, proc: Path = Path("/proc/self"), mounted: Path = Path("/sys/fs/cgroup")) -> tuple[int, str]:
    """Return the available memory of this machine, or of its control group if that has less, and its source."""
    import psutil

    found = [(int(psutil.virtual_memory().available), "the available memory of this machine")]
    said_by = "the memory left in this process' control group"
    return min(found + [(left, said_by) for left in _left_in_groups(proc, mounted)])


def _left_in_groups(proc: Path, mounted: Path) -> Iterator[int]:
    """Yield the memory that each control group around the process may still take, of those that have a limit.

    In a container the path may be that on the host, while `mounted` shows the group itself.
    """
    with suppress(OSError, ValueError):
        path = (proc / "cgroup").read_text().partition("0::/")[2].strip()
        for folder in (mounted / path, *(mounted / path).parents):
            with suppress(OSError, ValueError):  # no such group here, or "max"
                allowed, used = (int((folder / name).read_text()) for name in ("memory.max", "memory.current"))
                statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                # The system can drop cached files.
                yield max(allowed - used + int(statistics.get("inactive_file", 0)), 0)


def refuse_memory(scenarios: Iterable[Scenario], room: Room, *, file: Path) -> None:
    """ScenarioError unless the libraries and one trial of every scenario, alone, fit into a process."""
    needed, largest = max(((process_bytes(one), one) for one in scenarios), key=lambda one: one[0], default=(0, None))
    if largest is None or needed <= room.process_bytes:
        return
    limit, total, remedy = f"{room.said_by} is {byte_size(room.limit_bytes)}", needed, ""
    if room.workers > 1:
        each = f"leaves each of {room.workers} {byte_size(room.process_bytes)}"
        limit = f"{room.said_by} of {byte_size(room.limit_bytes)} {each}"
        total, remedy = MAIN_PROCESS_BYTES + room.workers * needed, ", take fewer --workers"
    raise ScenarioError(
        problem=f"one trial needs about {byte_size(needed)} of memory, {limit}",
        remedy=f"make the model or the number of devices smaller{remedy}, or give it {OPTION} "
        f"{-(-total // 10**8) / 10:.1f}GB if there is that much",
        file=file,
    )


def refuse_disk(counts: Iterable[tuple[Scenario, int]], folder: Path, *, file: Path) -> None:
    """ScenarioError unless so many tasks of each scenario fit on the disk of `folder`, which need not exist."""
    needed = sum(number * disk_bytes_of_task(scenario) for scenario, number in counts)
    place = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    free = shutil.disk_usage(place).free
    if needed and needed + _DISK_KEPT_FREE > free:
        raise ScenarioError(
            problem=f"the results need about {byte_size(needed)} of disk, {folder} has {byte_size(free)} free",
            remedy="free some, choose another disk with --out, or take fewer trials or rounds",
            file=file,
        )
