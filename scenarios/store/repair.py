"""Repair of a damaged store: a new one with the rows that verify, in the place of the damaged one."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from scenarios.files.plain_files import JOURNAL
from scenarios.schema.errors import ScenarioError
from scenarios.store import database as file
from scenarios.store.blobs import unpack
from scenarios.store.rows import tasks_of

_Given = TypeVar("_Given")
_T = TypeVar("_T")
_NEW = "results.sqlite.repaired"
_MOST_ROWS = 10_000_000


def repair(path: Path, identity: Mapping[str, Any], damage: file.DamagedStoreError) -> str:
    """Put a sound store in the place of the damaged one, which is kept beside it; return what happened, a sentence.

    The caller holds the lock. Raises OSError and sqlite3.Error where the disk cannot take the copies; nothing has
    changed then.
    """
    new = path.with_name(_NEW)
    tasks: set[str] = set()
    file.create(new, identity)
    try:
        with closing(file.open_to_write(new)) as target:
            target.execute("BEGIN")
            with suppress(ScenarioError), closing(file.open_to_read(path)) as source:
                tasks = _copy(source, target)
            target.execute("COMMIT")
        aside = next(one for k in count(1) if not (one := path.with_name(f"results.damaged-{k}.sqlite")).exists())
        shutil.copyfile(path, aside)
        # A journal that stayed would be rolled into the new file.
        with suppress(FileNotFoundError):
            path.with_name(JOURNAL).replace(aside.with_name(f"{aside.name}-journal"))
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return (
        f"{path} {damage.problem}; {len(tasks)} tasks that verify are kept, the rest is computed again, and the "
        f"damaged file is kept as {aside.name}"
    )


def _copy(source: sqlite3.Connection, target: sqlite3.Connection) -> set[str]:
    """Copy the rows that verify after the identity, one by one; return the tasks."""
    tasks: set[str] = set()
    kept = 1
    (last,) = _readable(lambda query: source.execute(query).fetchone(), "SELECT max(id) FROM fronts") or (0,)
    for number in range(2, min(last or 0, _MOST_ROWS) + 1):
        row = _readable(lambda number: file.read_bytes(source, number), number)
        found = None if row is None else _readable(lambda row: tasks_of(unpack(*row).about), row)
        if row is not None and found is not None:
            tasks.update(one.task_id for one in found)
            kept += 1
            file.put_packed(target, kept, *row)
    return tasks


def _readable(read: Callable[[_Given], _T], given: _Given) -> _T | None:
    """Return what can be read, else None."""
    try:
        return read(given)
    except (sqlite3.Error, *file.READ_ERRORS):
        return None
