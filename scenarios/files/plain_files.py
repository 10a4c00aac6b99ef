"""Files of a run folder that others may have written: plain files, and the writer's lock."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from scenarios.schema.errors import ScenarioError

RESULTS = "results.phyloop"
LOCK = "run.lock"
RESOLVED = "scenario.yaml"
FOLDERS = ("figures", "checkpoints", "inspect")
"""Folders in a run folder."""
_DEEPEST = 4
"""Levels of folders from a file to the run folder it is of: `inspect/POINT/figures`."""

_SHORT_S = 0.1


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Return the descriptor of a plain file: no link is followed, no pipe is waited for. OSError for anything else."""
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(f"{path} is not a plain file")
    return number


def refuse_replaced(folder: Path) -> None:
    """ScenarioError for a folder with a link, a pipe or a folder where a run writes: two links have two locks.

    The resolved scenario may be a link, which is replaced. A folder in it may be none: its files lie elsewhere.
    """
    for name in FOLDERS:
        refuse_links(folder / name, within=folder)
    for name in (RESULTS, LOCK, RESOLVED):
        path = folder / name
        plain = path.is_file() and not path.is_symlink()
        if os.path.lexists(path) and not plain and (path.is_dir() or name != RESOLVED):
            raise ScenarioError(
                file=path,
                problem="is not a plain file, and a run writes here",
                remedy="move it away, or choose another folder with --out",
            )


def refuse_links(path: Path, *, within: Path) -> None:
    """ScenarioError for a symbolic link at `path`, or at a folder between it and the run folder `within`."""
    for part in (path, *path.parents):
        if part == within:
            return
        if part.is_symlink():
            raise ScenarioError(
                file=part,
                problem="is a symbolic link, and phyloop follows none out of a run folder",
                remedy="put what it leads to in its place, or move it away",
            )


def run_folder_of(folder: Path) -> Path | None:
    """Return the run folder that `folder` is or lies in, None for any other."""
    near = (folder, *folder.parents)[:_DEEPEST]
    return next((one for one in near if os.path.lexists(one / RESULTS)), None)


def take_lock(path: Path) -> IO[str]:
    """Hold `path` until closed; ScenarioError naming the process that has it. Never deleted: that races."""
    lock = os.fdopen(open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+", encoding="ascii", errors="replace")
    for pause_s in (_SHORT_S, 0.0):  # `phyloop status` holds it for a moment
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            return lock
        time.sleep(pause_s)
    lock.seek(0)
    with lock:
        raise ScenarioError(
            file=path.parent,
            problem=f"another process (PID {_process_in(lock) or 'unknown'}) is writing here",
            remedy="wait for it, stop it, or choose another folder",
        )


def holder(folder: Path) -> tuple[bool, int | None]:
    """Tell whether a process holds the folder to write to it, and its PID if that is known.

    The lock says so, not the number in it, which outlives its process and may be that of another by now.
    """
    with suppress(OSError), os.fdopen(open_plain(folder / LOCK), encoding="ascii", errors="replace") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            digits = _process_in(lock)
            return True, int(digits) if digits else None
    return False, None


def _process_in(lock: IO[str]) -> str:
    return "".join(one for one in lock.read(32) if one.isdigit())
