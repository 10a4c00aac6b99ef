"""Stores whose rows were changed by hand, with or without the SHA-256 that they then need."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from scenarios.files.plain_files import DATABASE
from scenarios.store.blobs import pack, unpack
from scenarios.store.database import PART_BITS, put, read_bytes


@contextmanager
def opened(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as database:
        yield database


def execute(folder: Path, statement: str, *values: object) -> None:
    """Run one statement on the database of a folder."""
    with opened(folder) as database:
        database.execute(statement, values)


def replace_batches(folder: Path, make: Callable[[Any], bytes]) -> None:
    """Put the blob that `make` makes of the blob of each batch in its place."""
    with opened(folder) as database:
        for (number,) in database.execute("SELECT id FROM fronts WHERE id > 1").fetchall():
            blob = unpack(*read_bytes(database, number))
            if "ids" not in blob.about:
                continue
            data = make(blob)
            end = 44 + int.from_bytes(data[40:44], "little")
            database.execute("UPDATE fronts SET data = ? WHERE id = ?", (data[:end], number))
            database.execute("DELETE FROM parts WHERE id >> ? = ?", (PART_BITS, number))
            database.execute("INSERT INTO parts VALUES (?, ?)", (number << PART_BITS, data[end:]))


def change_heads(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what all batches are about, each with the SHA-256 of what it has become."""

    def changed(blob: Any) -> bytes:
        about = dict(blob.about)
        change(about)
        return pack({name: blob.array(name) for name in blob.names}, about=about)

    replace_batches(folder, changed)


def change_record(folder: Path, key: str, value: object) -> None:
    """Add a record in the place of an earlier one."""
    with opened(folder) as database:
        (last,) = database.execute("SELECT max(id) FROM fronts").fetchone()
        put(database, last + 1, pack({}, about={"records": {key: value}}))


def change_row(folder: Path, number: int, about: Any) -> None:
    """Change what a row is about, with the SHA-256 that it then needs; row 0 is the seal, row 1 the identity."""
    execute(folder, "UPDATE fronts SET data = ? WHERE id = ?", pack({}, about=about), number)


def flip_arrays(folder: Path, *, place: int = -1) -> None:
    """Flip the lowest bit of one byte of the arrays of the first batch."""
    with opened(folder) as database:
        number, data = database.execute("SELECT id, data FROM parts ORDER BY id LIMIT 1").fetchone()
        spoilt = bytearray(data)
        spoilt[place] ^= 1
        database.execute("UPDATE parts SET data = ? WHERE id = ?", (bytes(spoilt), number))
