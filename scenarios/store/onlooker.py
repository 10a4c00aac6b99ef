"""A connection to a store that changes nothing, whoever writes to it meanwhile."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from scenarios.store.database import connect


@contextlib.contextmanager
def looking(path: Path) -> Iterator[sqlite3.Connection]:
    """Read the store at `path` as it is at one moment; the log of a killed run is left for the next run to fold in."""
    log = path.with_name(f"{path.name}-wal")
    # Without a log nobody writes: immutable keeps SQLite from making one.
    database = connect(path, options="mode=ro" if log.exists() else "mode=ro&immutable=1")
    try:
        database.execute("BEGIN")
        yield database
    finally:
        database.close()
