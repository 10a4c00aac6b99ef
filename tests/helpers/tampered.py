"""Stores whose rows were changed by hand, with or without the SHA-256 that they then need."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from scenarios.files.plain_files import DATABASE
from scenarios.store.contents import PART_BITS
from scenarios.store.database import digest, put_record


def execute(folder: Path, statement: str, *values: object) -> None:
    """Run one statement on the database of a folder."""
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as database:
        database.execute(statement, values)


def change_heads(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the heads of all batches, each with the SHA-256 of what it has become."""
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as database:
        for number, raw in database.execute("SELECT id, head FROM batches").fetchall():
            head = json.loads(raw)
            change(head)
            text = json.dumps(head).encode()
            row = (text, digest(str(number).encode(), text), number)
            database.execute("UPDATE batches SET head = ?, sha256 = ? WHERE id = ?", row)


def change_record(folder: Path, key: str, value: object) -> None:
    """Change a record, with the SHA-256 of what it has become."""
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as database:
        put_record(database, key, value)


def flip_arrays(folder: Path, *, batch: int = 1, place: int = -1) -> None:
    """Flip the lowest bit of one byte of the arrays of a batch."""
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as database:
        number = batch << PART_BITS
        (data,) = database.execute("SELECT data FROM blobs WHERE id = ?", (number,)).fetchone()
        spoilt = bytearray(data)
        spoilt[place] ^= 1
        database.execute("UPDATE blobs SET data = ? WHERE id = ?", (bytes(spoilt), number))
