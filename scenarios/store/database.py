"""The SQLite file of a run folder: its two tables, and the checks before anything of it is read.

A row of `fronts` is the front of a blob (see `scenarios.store.blobs`): what the row is about, with a SHA-256. The
arrays of the blob are the rows of `parts` with this number, cut where SQLite takes no more. Rows are only ever added,
from 1 without a gap, and row 0, the seal, has their number: nothing can be lost in silence.

The file is born complete and uses a rollback journal, so that between two writes all of a store is in one file.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from scenarios.files.plain_files import DATABASE, JOURNAL, LOCK
from scenarios.schema.errors import ScenarioError
from scenarios.store.blobs import Part, about_of, pack, unpack

STORE_VERSION = 6
PAGE = 8192
APPLICATION_ID = 0x7068796C  # "phyl": tells our file from any other SQLite database
MOST_ROW = 1 << 28
"""Bytes of a row; SQLite refuses to read a larger one."""
MOST_PART = 1 << 27
"""Bytes of a row of `parts`: the counts of a million devices are more than SQLite takes in one."""
PART_BITS = 16
"""A row of `parts` is numbered by its row of `fronts` and its place, in these last bits."""

REMEDY = "run the scenario into this folder again: what still verifies is kept, the rest is computed again"
_TABLES = frozenset(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, data BLOB NOT NULL)" for name in ("fronts", "parts"))
_SIGNS = ("decode", "malformed", "no such table", "no such column", "disk I/O", "file format")
"""Words of SQLite's operational errors that mean damage."""
READ_ERRORS = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""Errors of code that reads what nobody wrote."""


class DamagedStoreError(ScenarioError):
    """A damaged store; the next run keeps the batches that verify."""


def damaged(path: Path, what: object) -> DamagedStoreError:
    """Return the error for a damaged store at `path`."""
    return DamagedStoreError(file=path, problem=f"is damaged ({' '.join(str(what).split())})", remedy=REMEDY)


def is_damage(error: BaseException) -> bool:
    """Tell an error of SQLite that means damaged bytes from one of a full disk or a lock."""
    if isinstance(error, sqlite3.OperationalError):
        return any(sign in str(error) for sign in _SIGNS)
    return type(error) in (sqlite3.DatabaseError, sqlite3.DataError, UnicodeDecodeError)


@contextmanager
def telling_damage(path: Path) -> Iterator[None]:
    """Raise DamagedStoreError where the block meets damaged bytes, in SQLite or in what it decodes."""
    try:
        yield
    except (sqlite3.Error, *READ_ERRORS) as error:
        if isinstance(error, READ_ERRORS) or is_damage(error):
            raise damaged(path, error) from error
        raise


def unwritable(path: Path, error: Exception) -> ScenarioError:
    """Return the error for a disk that refuses results."""
    remedy = "free or change the disk and run again, finished tasks are kept"
    return ScenarioError(file=path, problem=f"results cannot be written ({error})", remedy=remedy)


def create(path: Path, identity: Mapping[str, Any]) -> None:
    """Write a store with one row beside `path`, then rename it there: no reader meets half a schema."""
    new = path.with_name(f"{DATABASE}.new")
    new.unlink(missing_ok=True)  # of a killed process; we hold the lock
    with closing(_connect(new, mode="rwc")) as database:
        database.execute(f"PRAGMA page_size = {PAGE}")
        database.execute("BEGIN")
        for statement in (
            *_TABLES,
            f"PRAGMA application_id = {APPLICATION_ID}",
            f"PRAGMA user_version = {STORE_VERSION}",
        ):
            database.execute(statement)
        put(database, 1, pack({}, about={"records": {"store": identity}}))
        database.execute("COMMIT")
    if path.name == DATABASE:
        path.with_name(JOURNAL).unlink(missing_ok=True)  # of a database that was moved away
    new.replace(path)


def open_checked(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open a store of this version. To read, a transaction of a killed run is rolled back where the disk lets us.

    Raises ScenarioError for a file that is not such a store, DamagedStoreError for a damaged one.
    """
    _check_header(path)
    free = write or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    with telling_damage(path):
        connection = _connect(path, mode="rw" if free else "ro")
    try:
        # A schema that is not exactly ours is refused before any row is read: rows might be computed.
        with telling_damage(path):
            found = {sql for (sql,) in connection.execute("SELECT CAST(sql AS BLOB) FROM sqlite_master")}
        ours = {statement.encode() for statement in _TABLES}
        if not found >= ours:
            raise damaged(path, "its tables are not those that phyloop writes")
        if found > ours:
            problem = "holds tables, views or triggers that phyloop did not write"
            raise ScenarioError(file=path, problem=problem, remedy="ask for the folder again, or run into a new one")
        if not write:
            connection.execute("PRAGMA query_only = ON")
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError):
            problem = f"cannot be read ({error})"
            raise ScenarioError(
                file=path, problem=problem, remedy="copy the folder to a disk you can write to"
            ) from error
        raise
    return connection


def _connect(path: Path, *, mode: str) -> sqlite3.Connection:
    # isolation_level None: transactions begin and end where the code says so. 30 s cover the commit of another process.
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=30.0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_ROW)
    # The file may come from others. EXTRA: a power cut after a commit must not bring the journal back.
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "synchronous = EXTRA"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        front = file.read(72)
    version = int.from_bytes(front[60:64])
    if front[:16] != b"SQLite format 3\0" or front[68:72] != APPLICATION_ID.to_bytes(4):
        if path.with_name(LOCK).exists():
            raise damaged(path, "it does not begin as a store")
        raise ScenarioError(file=path, problem="is not a phyloop result store", remedy="choose another folder")
    if version != STORE_VERSION:
        problem = f"was written by another phyloop (store version {version}, not {STORE_VERSION})"
        remedy = "run the scenario into a new folder, or read this one with the phyloop that wrote it"
        raise ScenarioError(file=path, problem=problem, remedy=remedy)
    if front[18:20] != b"\1\1":
        raise damaged(path, "its header names a journal that phyloop does not use")


def repair(path: Path, identity: Mapping[str, Any]) -> Path:
    """Put a store with the rows that verify in the place of a damaged one; return the copy that is kept of that.

    The caller holds the lock. Raises OSError and sqlite3.Error where the disk refuses; nothing has changed then.
    """
    new = path.with_name(f"{DATABASE}.repaired")
    create(new, identity)
    try:
        with closing(open_checked(new, write=True)) as target:
            target.execute("BEGIN")
            with suppress(ScenarioError), closing(open_checked(path, write=False)) as source:
                _copy_verified(source, target)
            target.execute("COMMIT")
        aside = next(one for k in count(1) if not (one := path.with_name(f"results.damaged-{k}.sqlite")).exists())
        shutil.copyfile(path, aside)
        with suppress(FileNotFoundError):  # a journal that stayed would be rolled into the new file
            path.with_name(JOURNAL).replace(aside.with_name(f"{aside.name}-journal"))
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return aside


def _copy_verified(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copy the rows that verify, one by one, behind the first."""
    kept, last = 1, None
    with suppress(sqlite3.Error, *READ_ERRORS):
        (last,) = source.execute("SELECT min(max(id), 10000000) FROM fronts").fetchone()
    for number in range(2, (last or 0) + 1):
        with suppress(sqlite3.Error, *READ_ERRORS):
            front, data = read_bytes(source, number)
            unpack(front, data)
            kept += 1
            put(target, kept, front, data)


# --- rows -----------------------------------------------------------------------------------------


def put(database: sqlite3.Connection, number: int, front: Part, *parts: Part) -> None:
    """Write a row from the parts of its blob, and the seal, within a transaction of the caller's."""
    database.execute("INSERT INTO fronts VALUES (?, ?)", (number, front))
    data = b"".join(parts)
    for part, start in enumerate(range(0, len(data), MOST_PART)):
        row = (number << PART_BITS) + part, data[start : start + MOST_PART]
        database.execute("INSERT INTO parts VALUES (?, ?)", row)
    database.execute("INSERT OR REPLACE INTO fronts VALUES (0, ?)", (pack({}, about={"rows": number}),))


def read_abouts(database: sqlite3.Connection) -> list[Mapping[str, Any]]:
    """Return what each row is about, from row 1 on. Raises ValueError for what is not as it was written."""
    rows = database.execute("SELECT id, data FROM fronts ORDER BY id").fetchall()
    seal, *abouts = [about_of(data) for _, data in rows]
    if [number for number, _ in rows] != list(range(len(rows))) or seal != {"rows": len(abouts)}:
        raise ValueError("rows are missing")
    return abouts


def read_bytes(database: sqlite3.Connection, number: int) -> tuple[bytes, bytes]:
    """Return the front and the parts of a row, for `scenarios.store.blobs.unpack`. TypeError where there is no row."""
    (front,) = database.execute("SELECT data FROM fronts WHERE id = ?", (number,)).fetchone()
    first = number << PART_BITS
    query = "SELECT data FROM parts WHERE id >= ? AND id < ? ORDER BY id"
    return front, b"".join(data for (data,) in database.execute(query, (first, first + (1 << PART_BITS))))
