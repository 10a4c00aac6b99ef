"""The SQLite file of a run folder: its schema, the checks before anything of it is read, and connections to it.

Three plain tables. A batch of tasks has a `head` (JSON: which tasks, how they ended) with a SHA-256, and its arrays as
one blob (`scenarios.store.blobs`), whose SHA-256 the head holds. Everything else a folder knows is a `record`: a key,
JSON, and a SHA-256 over both. Batches are numbered from 1 without a gap, and the record `seal` counts batches and
records: nothing can be lost in silence.

The file is born complete and uses a rollback journal, so that between two writes all of a store is in one file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scenarios.files.plain_files import DATABASE, JOURNAL, LOCK
from scenarios.schema.errors import ScenarioError

STORE_VERSION = 4
PAGE = 8192
APPLICATION_ID = 0x7068796C  # "phyl": tells our file from any other SQLite database
MOST_ROW = 1 << 28
"""Bytes of a row or a blob; SQLite refuses to read a larger one."""
IDENTITY, SEAL = "store", "seal"
"""Records that every store has."""

REMEDY = "run the scenario into this folder again: what still verifies is kept, the rest is computed again"
_NEW_FOLDER = "run the scenario into a new folder"
_TABLES = (
    "CREATE TABLE batches (id INTEGER PRIMARY KEY, head BLOB NOT NULL, sha256 BLOB NOT NULL)",
    "CREATE TABLE blobs (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    "CREATE TABLE records (key TEXT PRIMARY KEY, value BLOB NOT NULL, sha256 BLOB NOT NULL) WITHOUT ROWID",
)
_HEADER = struct.Struct(">16sH2B40xI4xI28x")
"""First 100 bytes of a SQLite file: magic, page size, write and read version, user version, application id."""
_SIGNS = ("decode", "malformed", "no such table", "no such column", "disk I/O", "file format")
"""Words of SQLite's operational errors that mean damage."""


class DamagedStoreError(ScenarioError):
    """A damaged store; the next run keeps the batches that verify."""


def damaged(path: Path, what: str) -> DamagedStoreError:
    """Return the error for a damaged store at `path`."""
    return DamagedStoreError(file=path, problem=f"is damaged ({' '.join(what.split())})", remedy=REMEDY)


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
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if is_damage(error):
            raise damaged(path, str(error)) from error
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise damaged(path, str(error)) from error


def unwritable(path: Path, error: Exception) -> ScenarioError:
    """Return the error for a disk that takes no more."""
    return ScenarioError(
        file=path,
        problem=f"results cannot be written ({error})",
        remedy="free or change the disk and run again, finished tasks are kept",
    )


def digest(*parts: bytes) -> bytes:
    """SHA-256 over the parts, a NUL between them."""
    return hashlib.sha256(b"\0".join(parts)).digest()


def as_json(value: object) -> bytes:
    """Compact JSON, for heads and records."""
    return json.dumps(value, separators=(",", ":")).encode()


def create(path: Path, identity: Mapping[str, Any]) -> None:
    """Write an empty store beside `path`, then rename it there: no reader meets half a schema."""
    new = path.with_name(f"{DATABASE}.new")
    new.unlink(missing_ok=True)  # of a killed process; we hold the lock
    with contextlib.closing(_connect(new, mode="rwc")) as database:
        database.execute(f"PRAGMA page_size = {PAGE}")
        database.execute("BEGIN")
        for statement in _TABLES:
            database.execute(statement)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {STORE_VERSION}")
        put_record(database, IDENTITY, identity)
        put_record(database, SEAL, {"batches": 0, "records": 2})
        database.execute("COMMIT")
    if path.name == DATABASE:
        path.with_name(JOURNAL).unlink(missing_ok=True)  # of a database that was moved away
    new.replace(path)


def put_record(database: sqlite3.Connection, key: str, value: object) -> None:
    """Write a record within a transaction of the caller's."""
    raw = as_json(value)
    database.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", (key, raw, digest(key.encode(), raw)))


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a checked store to read it. A transaction of a killed run is rolled back where the disk lets us.

    Raises ScenarioError for a file that is no store of this version, DamagedStoreError for a damaged one.
    """
    _check_header(path)
    free = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    connection = _checked(path, mode="rw" if free else "ro")
    connection.execute("PRAGMA query_only = ON")
    return connection


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open a checked store to write to it; the caller holds the lock. Raises as `open_to_read` does."""
    _check_header(path)
    return _checked(path, mode="rw")


def _connect(path: Path, *, mode: str) -> sqlite3.Connection:
    # isolation_level None: transactions begin and end where the code says so. 30 s cover the commit of another process.
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=30.0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_ROW)
    connection.execute("PRAGMA trusted_schema = OFF")  # the file may come from others
    connection.execute("PRAGMA cell_size_check = ON")
    # EXTRA: a power cut after a commit must not bring the journal back. One more wait for the disk per batch.
    connection.execute("PRAGMA synchronous = EXTRA")
    return connection


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        front = file.read(_HEADER.size)
    once_ours = path.with_name(LOCK).exists()
    magic, _, write, read, version, application = _HEADER.unpack(front.ljust(_HEADER.size, b"\0"))
    if magic != b"SQLite format 3\0" or application != APPLICATION_ID:
        if once_ours:
            raise damaged(path, "it does not begin as a store")
        raise ScenarioError(file=path, problem="is not a phyloop result store", remedy="choose another folder")
    if version != STORE_VERSION:
        age, remedy = ("an earlier", _NEW_FOLDER) if version < STORE_VERSION else ("a newer", "upgrade phyloop")
        raise ScenarioError(
            file=path,
            problem=f"was written by {age} phyloop (store version {version}, not {STORE_VERSION})",
            remedy=f"{remedy}, or read this folder with the phyloop that wrote it",
        )
    if (write, read) != (1, 1):
        raise damaged(path, "its header names a journal that phyloop does not use")


def _checked(path: Path, *, mode: str) -> sqlite3.Connection:
    """Connect, and refuse a schema that is not exactly ours before any row is read: it might be computed."""
    with telling_damage(path):
        connection = _connect(path, mode=mode)
    try:
        with telling_damage(path):
            found = {sql for (sql,) in connection.execute("SELECT CAST(sql AS BLOB) FROM sqlite_master")}
    except sqlite3.OperationalError as error:
        connection.close()
        raise ScenarioError(
            file=path, problem=f"cannot be read ({error})", remedy="copy the folder to a disk you can write to"
        ) from error
    except BaseException:
        connection.close()
        raise
    if found == {statement.encode() for statement in _TABLES}:
        return connection
    connection.close()
    if found > {statement.encode() for statement in _TABLES}:
        raise ScenarioError(
            file=path,
            problem="holds tables, views or triggers that phyloop did not write",
            remedy=f"ask for the folder again, or {_NEW_FOLDER}",
        )
    raise damaged(path, "its tables are not those that phyloop writes")
