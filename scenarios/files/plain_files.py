"""Files of a run folder are plain files: a link leads out of the folder, and a pipe is waited for without end."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from scenarios.schema.errors import ScenarioError

DATABASE = "results.sqlite"
JOURNAL = f"{DATABASE}-journal"
LOCK = "run.lock"
RESOLVED = "scenario.yaml"
_WRITTEN_IN_PLACE = (DATABASE, JOURNAL, LOCK)
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """The descriptor of a plain file, never waited for and no link followed; OSError for anything else."""
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(f"{path} is no plain file")
    return number


def refuse_replaced(folder: Path) -> None:
    """ScenarioError for a run folder in which something else stands where a run writes.

    What a run replaces as a whole may be a link, which goes; what it writes in place would be written elsewhere: two
    folders with links to one store have two locks, and a link in the place of the lock empties what it leads to.
    """
    for name in (*_WRITTEN_IN_PLACE, RESOLVED):
        path = folder / name
        try:
            kind = stat.S_IFMT(path.lstat().st_mode)
        except OSError:
            continue  # nothing there, or a folder of which whoever opens it says what is wrong
        if kind == stat.S_IFREG or (kind != stat.S_IFDIR and name == RESOLVED):
            continue
        raise ScenarioError(
            file=path,
            problem=f"is {_KINDS.get(kind, 'something else')} where a run keeps a plain file",
            remedy="move it away, or choose another folder with --out",
        )
