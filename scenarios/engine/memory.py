"""Memory limit: the option, else the memory that the machine and the control group of this process have left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scenarios.schema.errors import ScenarioError

OPTION = "--memory-limit"
_UNITS = {"B": 1} | {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)}
_UNITS |= {f"{letter}IB": 1024**power for power, letter in enumerate("KMGT", start=1)}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([A-Za-z]{0,3})")


@dataclass(frozen=True, kw_only=True)
class MemoryLimit:
    """Bytes that all processes of a run may take together, and the source of that limit."""

    limit_bytes: int
    said_by: str


def read_memory_limit(text: str | None) -> MemoryLimit:
    """The limit from text such as `4GB`, `3.5 GiB` or `500MB`; for None, the memory that is free now.

    ScenarioError for other text.
    """
    if text is None:
        return free_memory()
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].upper() not in _UNITS or float(match[1]) == 0.0:
        raise ScenarioError(
            problem="must be a number of bytes above 0 with a unit",
            remedy="write for example 4GB",
            key=OPTION,
            value=text,
        )
    return MemoryLimit(limit_bytes=int(float(match[1]) * _UNITS[match[2].upper()]), said_by=OPTION)


def free_memory(*, proc: Path = Path("/proc/self")) -> MemoryLimit:
    """The available memory of this machine, or of its control group if that has less."""
    import psutil

    available = int(psutil.virtual_memory().available)
    groups = [left for folder, names in _control_groups(proc) if (left := _left_in(folder, *names)) is not None]
    if groups and min(groups) < available:
        return MemoryLimit(limit_bytes=min(groups), said_by="the memory left in this process' control group")
    return MemoryLimit(limit_bytes=available, said_by="the available memory of this machine")


_V2 = ("memory.max", "memory.current", "inactive_file")
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _control_groups(proc: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Folders of the memory groups around the process, innermost first, version 2 or 1, and the names of their files.

    Nothing on systems without control groups.
    """
    try:
        groups = (proc / "cgroup").read_text().splitlines()
        mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
    except (OSError, UnicodeError):
        return
    for fields in mounts:
        if "-" not in fields or len(fields) < 10:
            continue
        kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
        if kind == "cgroup2":
            names, controller = _V2, ""
        elif kind == "cgroup" and "memory" in options:
            names, controller = _V1, "memory"
        else:
            continue
        for line in groups:
            _, controllers, path = (*line.split(":", 2), "", "")[:3]
            if controller in controllers.split(","):
                # Inside a container the path may be that on the host, while the mount shows the group itself.
                top = Path(fields[4])
                inner = top / path.removeprefix(fields[3]).lstrip("/")
                yield from ((folder, names) for folder in (inner, *inner.parents) if folder.is_relative_to(top))


def _left_in(folder: Path, limit: str, usage: str, reclaimable: str) -> int | None:
    """Bytes that a group may still take, None without a limit; the system can drop cached files."""
    try:
        allowed, used = (folder / limit).read_text().strip(), int((folder / usage).read_text())
        if not allowed.isdigit() or int(allowed) >= 1 << 60:
            return None
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(int(allowed) - used + int(statistics.get(reclaimable, 0)), 0)
    except (OSError, ValueError):
        return None
