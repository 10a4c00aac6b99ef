"""The SQLite file below the store: schema, identity, lock.

A database is born complete: its schema is written to a temporary file that is then renamed, so the
identity check never meets half a schema and can read it without opening the write-ahead log.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sqlite3
import time
from collections.abc import Set
from pathlib import Path
from typing import IO

from scenarios.schema.errors import ScenarioError
from scenarios.store.damage import damaged

DATABASE = "results.sqlite"
LOCK = "run.lock"
STORE_VERSION = 3
READABLE_VERSIONS = (2, 3)
"""Up to 2 what trials share was not kept together: such stores are read as they are, and are of 3 once continued."""
PAGE = 8192
"""Bytes of a page: three tasks of 2.4 kB fit where two pages of 4096, the size of before, took one each."""
_A_LOOK_S = 0.1
ENTRIES = "SELECT type, name, CAST(sql AS BLOB) FROM sqlite_master"
"""The table of contents; bytes, for a damaged one may hold what is no text."""
_FIRST_TABLES = frozenset({"meta", "tasks", "points", "metrics"})
_COMPUTING = re.compile(rb"\b(?:as|virtual|view|trigger)\b", re.IGNORECASE)
"""Columns are generated `AS` something; `GENERATED ALWAYS` may be left out. No statement of ours has these words."""
APPLICATION_ID = 0x7068796C  # "phyl": tells our file from any other SQLite database

# `total` is the sum of an array of counts, kept so that error rates need no blob to be unpacked.
_SERIES_COLUMNS = """(task INTEGER NOT NULL REFERENCES tasks(id), name TEXT NOT NULL, dtype TEXT NOT NULL,
    shape TEXT NOT NULL, crc32 INTEGER NOT NULL, data BLOB NOT NULL, total INTEGER, UNIQUE (task, name))"""

DEVICES_TABLE = f"CREATE TABLE IF NOT EXISTS devices {_SERIES_COLUMNS}"
"""Younger than the rest of store version 2: a store without it has an empty one until it is written to."""

PICTURES_TABLE = f"CREATE TABLE IF NOT EXISTS pictures {_SERIES_COLUMNS}"
"""Images that an attack rebuilt; as young as the ledger."""

LEDGER_TABLES = (
    f"CREATE TABLE IF NOT EXISTS ledger {_SERIES_COLUMNS}",
    """CREATE TABLE IF NOT EXISTS accounts (task INTEGER NOT NULL UNIQUE REFERENCES tasks(id), plain TEXT NOT NULL,
    crc32 INTEGER NOT NULL)""",
)
"""What was released, as arrays, and all else of a privacy account as JSON; younger still."""

CHECK_TABLES = (
    "CREATE TABLE IF NOT EXISTS checks (task INTEGER PRIMARY KEY REFERENCES tasks(id), digests BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS record_checks (record TEXT PRIMARY KEY, digest BLOB NOT NULL)",
    # Tasks from this number on have digests: one without them has lost them.
    "INSERT OR IGNORE INTO meta SELECT 'checked_from', coalesce(max(id), 0) + 1 FROM tasks",
    "INSERT OR IGNORE INTO meta SELECT 'store_version', CAST(user_version AS TEXT) FROM pragma_user_version",
)
"""Digests of tasks and of the store's own records, the youngest of version 2: see `scenarios.store.integrity`."""

YOUNG_TABLES = (DEVICES_TABLE, PICTURES_TABLE, *LEDGER_TABLES, *CHECK_TABLES)
"""What a store of version 2 may lack until it is written to."""

PACK_TABLES = (
    """CREATE TABLE IF NOT EXISTS packs (id INTEGER PRIMARY KEY, heads TEXT NOT NULL, data BLOB NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS packed (task INTEGER PRIMARY KEY REFERENCES tasks(id),
    pack INTEGER NOT NULL REFERENCES packs(id), heads TEXT NOT NULL, metrics BLOB NOT NULL, data BLOB NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS packed_by_pack ON packed (pack)",
)
"""Metrics, accounts and small arrays, which were rows of the tables above: see `scenarios.store.packs`."""

SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {STORE_VERSION};
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE points (id INTEGER PRIMARY KEY, physics TEXT NOT NULL UNIQUE);
CREATE TABLE tasks (id INTEGER PRIMARY KEY, task_id TEXT NOT NULL UNIQUE,
    point INTEGER NOT NULL REFERENCES points(id), trial INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed')), failure TEXT,
    seconds REAL NOT NULL, finished_at TEXT NOT NULL);
CREATE TABLE metrics (task INTEGER NOT NULL REFERENCES tasks(id), name TEXT NOT NULL, value REAL,
    UNIQUE (task, name));
CREATE TABLE rounds {_SERIES_COLUMNS};
CREATE TABLE link {_SERIES_COLUMNS};
CREATE TABLE privacy {_SERIES_COLUMNS};
CREATE TABLE bursts {_SERIES_COLUMNS};
{";".join(YOUNG_TABLES)};
CREATE TABLE runs (id INTEGER PRIMARY KEY, command TEXT NOT NULL, provenance TEXT NOT NULL,
    started_at TEXT NOT NULL, finished_at TEXT, status TEXT NOT NULL);
CREATE TABLE scenario (id INTEGER PRIMARY KEY CHECK (id = 1), yaml TEXT NOT NULL, root TEXT NOT NULL,
    saved_at TEXT NOT NULL);
"""


def connect(path: Path, *, options: str = "mode=rw") -> sqlite3.Connection:
    """A connection to `path` with the URI `options` of SQLite; creates the file only with `mode=rwc`."""
    # isolation_level None: transactions begin and end where this file says so. 30 s of patience cover
    # a reader that folds in the log.
    uri = f"{path.resolve().as_uri()}?{options}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30.0)
    connection.execute("PRAGMA trusted_schema = OFF")  # the file may come from others
    return connection


def look(path: Path) -> sqlite3.Connection:
    """A connection to read `path` that changes nothing: a log that lies beside it is used, and not folded in."""
    if path.with_name(f"{path.name}-wal").exists():
        return connect(path, options="mode=ro")
    free = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return connect(path, options="mode=rw" if free else "mode=ro&immutable=1")


def create_database(path: Path, *, scenario_name: str, page: int = PAGE) -> None:
    """Write an empty store beside `path`, then rename it there: no reader ever meets half a schema."""
    temporary = path.with_name(f"{DATABASE}.new")
    temporary.unlink(missing_ok=True)  # left by a killed process; we hold the lock
    with contextlib.closing(connect(temporary, options="mode=rwc")) as database:
        database.execute(f"PRAGMA page_size = {page}")
        # One transaction: each table in its own would be as many waits for the disk.
        database.executescript(f"BEGIN; {SCHEMA} COMMIT;")
        database.execute("INSERT INTO meta VALUES ('scenario_name', ?)", (scenario_name,))
    temporary.replace(path)


def claim_version(database: sqlite3.Connection) -> None:
    """Note, within a transaction of the caller's, that the store holds what phyloop of before cannot read.

    Which would take packed tasks for tasks without numbers, and leave rows of theirs behind where it replaces them.
    """
    if database.execute("PRAGMA user_version").fetchone() != (STORE_VERSION,):
        database.execute(f"PRAGMA user_version = {STORE_VERSION}")
    told = str(STORE_VERSION)
    database.execute("UPDATE meta SET value = ? WHERE key = 'store_version' AND value <> ?", (told, told))


def check_identity(path: Path, *, scenario_name: str | None) -> None:
    """ScenarioError unless `path` is our store, readable by this version, of this scenario.

    Leaves no trace on disk: `immutable` keeps SQLite from making log files, and what is read here was
    written before the first log existed.
    """
    refuse = "choose another folder for the results"
    try:
        with contextlib.closing(connect(path, options="mode=ro&immutable=1")) as database:
            (application,) = database.execute("PRAGMA application_id").fetchone()
            (version,) = database.execute("PRAGMA user_version").fetchone()
            ours = application == APPLICATION_ID and version in READABLE_VERSIONS
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if application == APPLICATION_ID or tables >= _FIRST_TABLES:
                _refuse_foreign_schema(path, database)  # before anything is selected: it might be computed
            known = version if ours and _is_writable_format(path) else None
            _refuse_broken_header(path, database, tables, version=known)
            row = None
            if ours:
                row = database.execute("SELECT value FROM meta WHERE key = 'scenario_name'").fetchone()
                if row is None or (scenario_name is not None and row[0] != scenario_name):
                    _refuse_broken_name(path, database, scenario_name)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # A lock of ours beside it: it was a store once.
        if path.with_name(LOCK).exists():
            raise damaged(path, str(error)) from error
        raise ScenarioError(file=path, problem=f"is not a phyloop result store ({error})", remedy=refuse) from error
    if application == APPLICATION_ID and version > STORE_VERSION:
        raise ScenarioError(
            file=path,
            problem=f"was written by a newer phyloop (store version {version}, not {STORE_VERSION})",
            remedy="upgrade phyloop, or choose another folder",
        )
    if application == APPLICATION_ID and version < READABLE_VERSIONS[0]:
        raise ScenarioError(
            file=path,
            problem=f"was written by an older phyloop (store version {version}, not {STORE_VERSION}), whose link "
            "counted less",
            remedy="run the scenario into a new folder, or read this one with the phyloop that wrote it",
        )
    if row is None:
        raise ScenarioError(file=path, problem="is not a phyloop result store", remedy=refuse)
    if scenario_name is not None and row[0] != scenario_name:
        raise ScenarioError(
            file=path.parent,
            problem=f"holds results of scenario {row[0]!r}, not of {scenario_name!r}",
            remedy=refuse,
        )


def _is_writable_format(path: Path) -> bool:
    """Whether the header names journals that SQLite knows: of others it only reads."""
    with path.open("rb") as file:
        return set(file.read(20)[18:]) <= {1, 2}


def _refuse_broken_header(path: Path, database: sqlite3.Connection, tables: Set[str], *, version: int | None) -> None:
    """DamagedStoreError if the file's `tables` say that it is a store that we read, and its header something else.

    `version` of the header, None where the header is not that of such a store.
    """
    if not tables >= _FIRST_TABLES:
        if not tables and path.with_name(LOCK).exists():
            raise damaged(path, "it is empty")
        return
    row = database.execute("SELECT value FROM meta WHERE key = 'store_version'").fetchone()
    known = {str(one) for one in READABLE_VERSIONS}
    if row is not None and version == STORE_VERSION and row[0] in known:
        return  # where a log was not folded in whole, the header may be ahead: it is on the first page
    if row is not None and row[0] != str(version) and (version is not None or row[0] in known):
        raise damaged(path, "its header differs from what was written")


def _refuse_foreign_schema(path: Path, database: sqlite3.Connection) -> None:
    """ScenarioError for triggers, views, virtual tables and computed columns: phyloop writes none, they compute."""
    for kind, name, sql in database.execute(ENTRIES):
        if kind in ("table", "index") and not computes(sql):
            continue
        raise ScenarioError(
            file=path,
            problem=f"holds {name!r}, which is no plain table and which phyloop did not write",
            remedy="ask for the folder again, or run the scenario into a new one",
        )


def computes(sql: object) -> bool:
    """Whether an entry of a table of contents may be of what computes when it is read.

    A word anywhere is enough: what an entry calls itself need not be what its statement makes.
    """
    return sql is not None and (not isinstance(sql, bytes) or _COMPUTING.search(sql) is not None)


def _refuse_broken_name(path: Path, database: sqlite3.Connection, scenario_name: str | None) -> None:
    """DamagedStoreError if the store has no name, or another than the scenario that it keeps."""
    row = database.execute("SELECT json_extract(root, '$.name') FROM scenario").fetchone()
    name = database.execute("SELECT value FROM meta WHERE key = 'scenario_name'").fetchone()
    if name is None or (row is not None and row[0] == scenario_name):
        raise damaged(path, "the name of its scenario differs from what was written")


def take_lock(path: Path) -> IO[str]:
    """Hold `path` until closed; ScenarioError naming the process that has it. Never deleted: that races."""
    # A link in its place would have what it leads to emptied.
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    lock = os.fdopen(number, "a+", encoding="ascii", errors="replace")
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_A_LOOK_S)  # whoever asks for the status holds it for a moment
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        holder = "".join(one for one in lock.read(32) if one.isdigit()) or "unknown"
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
