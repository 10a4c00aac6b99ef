"""Repair of a damaged store: a new one with the batches and records that verify, in the place of the damaged one."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from scenarios.files.plain_files import JOURNAL
from scenarios.schema.errors import ScenarioError
from scenarios.store import database as file
from scenarios.store.contents import Head, is_record, read_blob, read_bytes, write_batch
from scenarios.store.database import IDENTITY, SEAL, DamagedStoreError

_T = TypeVar("_T")
_NEW = "results.sqlite.repaired"
_MOST_BATCHES = 10_000_000


def repair(path: Path, identity: Mapping[str, Any], damage: DamagedStoreError) -> str:
    """Put a sound store in the place of the damaged one, which is kept beside it; return what happened, a sentence.

    The caller holds the lock. Raises OSError and sqlite3.Error where the disk cannot take the copy; nothing has
    changed then.
    """
    new = path.with_name(_NEW)
    tasks: set[str] = set()
    file.create(new, identity)
    try:
        with contextlib.closing(file.open_to_write(new)) as target:
            target.execute("BEGIN")
            with contextlib.suppress(ScenarioError), contextlib.closing(file.open_to_read(path)) as source:
                tasks = _copy(source, target)
            target.execute("COMMIT")
        aside = _beside(path, new)
    finally:
        new.unlink(missing_ok=True)
    return (
        f"{path} {damage.problem}; {len(tasks)} tasks that verify are kept, the rest is computed again, and the "
        f"damaged file is kept as {aside}"
    )


def _copy(source: sqlite3.Connection, target: sqlite3.Connection) -> set[str]:
    """Copy what verifies, row by row; return the tasks."""
    tasks: set[str] = set()
    kept = 0
    for (key,) in _found(lambda: source.execute("SELECT key FROM records").fetchall()) or ():
        row = _found(lambda key: source.execute("SELECT * FROM records WHERE key = ?", (key,)).fetchone(), key)
        if row is not None and is_record(*row) and key not in (IDENTITY, SEAL):
            target.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", row)
    (last,) = _found(lambda: source.execute("SELECT max(id) FROM batches").fetchone()) or (None,)
    for number in range(1, min(last or 0, _MOST_BATCHES) + 1):
        copied = _found(_batch, source, number)
        if copied is None:
            continue
        head, raw, data = copied
        kept += 1
        write_batch(target, kept, head=raw, blob=data)
        tasks.update(head.ids)
    (records,) = target.execute("SELECT count(*) FROM records").fetchone()
    file.put_record(target, SEAL, {"batches": kept, "records": records})
    return tasks


def _batch(source: sqlite3.Connection, number: int) -> tuple[Head, bytes, bytes] | None:
    row = source.execute("SELECT head, sha256 FROM batches WHERE id = ?", (number,)).fetchone()
    if row is None:
        return None
    head = Head.read(number, *row)
    read_blob(source, head)
    return head, row[0], read_bytes(source, number)


def _found(read: Callable[..., _T], *arguments: Any) -> _T | None:
    """Return what can be read, else None."""
    try:
        return read(*arguments)
    except (sqlite3.Error, ValueError, TypeError, LookupError):
        return None


def _beside(path: Path, new: Path) -> str:
    """Move the damaged file and its journal aside and `new` into its place; return the name of the file aside."""
    aside = next(one for k in count(1) if not (one := path.with_name(f"results.damaged-{k}.sqlite")).exists())
    try:
        os.link(path, aside)
    except OSError:
        shutil.copyfile(path, aside)
    # A journal that stayed would be rolled into the new file.
    with contextlib.suppress(FileNotFoundError):
        path.with_name(JOURNAL).replace(aside.with_name(f"{aside.name}-journal"))
    new.replace(path)
    return aside.name
