"""The lock of a run folder: one process writes at a time, readers need none."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO

from scenarios.files.plain_files import LOCK, open_plain
from scenarios.schema.errors import ScenarioError

_SHORT_S = 0.1


def take_lock(path: Path) -> IO[str]:
    """Hold `path` until closed; ScenarioError naming the process that has it. Never deleted: that races."""
    # O_NOFOLLOW: do not truncate the target of a symbolic link.
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    lock = os.fdopen(number, "a+", encoding="ascii", errors="replace")
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_SHORT_S)  # `phyloop status` holds it for a moment
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        holder = _process_in(lock) or "unknown"
        lock.close()
        raise ScenarioError(
            file=path.parent,
            problem=f"another process (PID {holder}) is writing here",
            remedy="wait for it, stop it, or choose another folder",
        ) from error
    except OSError:
        lock.close()
        raise
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def holder(folder: Path) -> tuple[bool, int | None]:
    """Tell whether a process holds the folder to write to it, and its PID if that is known.

    The lock says so, not the number in it, which outlives its process and may be that of another by now.
    """
    try:
        with os.fdopen(open_plain(folder / LOCK), encoding="ascii", errors="replace") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                digits = _process_in(lock)
                return True, int(digits) if digits else None
    except OSError:
        pass
    return False, None


def _process_in(lock: IO[str]) -> str:
    return "".join(one for one in lock.read(32) if one.isdigit())
