"""A store whose bytes are not as they were written: the error, and telling it from a full disk or a lock."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scenarios.schema.errors import ScenarioError

REMEDY = "run the scenario into this folder again: what still verifies is kept, and the rest computed anew"

_SIGNS = ("decode", "malformed", "no such table", "no such column", "disk I/O")
"""In what SQLite calls an operational error and is none."""


class DamagedStoreError(ScenarioError):
    """A damaged store; the next run keeps what verifies."""


def damaged(path: Path, what: str) -> DamagedStoreError:
    """The error that says so of the store at `path`."""
    return DamagedStoreError(file=path, problem=f"is damaged ({' '.join(what.split())})", remedy=REMEDY)


def is_damage(error: BaseException) -> bool:
    """Whether SQLite met bytes that it could not have written."""
    if isinstance(error, sqlite3.OperationalError):
        return any(sign in str(error) for sign in _SIGNS)
    return type(error) in (sqlite3.DatabaseError, sqlite3.DataError, UnicodeDecodeError)


@contextmanager
def telling_damage(path: Path) -> Iterator[None]:
    """What the block meets of the damage of the store at `path` becomes DamagedStoreError."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if is_damage(error):
            raise damaged(path, str(error)) from error
        raise
