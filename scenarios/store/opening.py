"""Opening the database of a run folder: to write, alone, or to read, also beside a writer."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import IO

from scenarios.schema.errors import ScenarioError
from scenarios.store.damage import damaged, is_damage
from scenarios.store.database import (
    DATABASE,
    LOCK,
    PACK_TABLES,
    YOUNG_TABLES,
    check_identity,
    connect,
    create_database,
    take_lock,
)
from scenarios.store.integrity import examine
from scenarios.store.run_notes import TABLES as NOTES_TABLES


def open_to_write(folder: Path, *, scenario_name: str, create: bool) -> tuple[sqlite3.Connection, IO[str]]:
    """The database and the lock that is held, as `Store.open` says."""
    path = folder / DATABASE
    if folder.exists() and not folder.is_dir():
        raise ScenarioError(file=folder, problem="is a file, not a folder", remedy="name a folder for the results")
    if path.exists():
        check_identity(path, scenario_name=scenario_name)
    elif not create:
        raise _no_results(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = take_lock(folder / LOCK)
    except OSError as error:
        raise ScenarioError(
            file=folder,
            problem=f"results cannot be written here ({error.strerror})",
            remedy="choose a folder on a writable disk",
        ) from error
    try:
        if not path.exists():
            create_database(path, scenario_name=scenario_name)
        check_identity(path, scenario_name=scenario_name)  # whoever held the lock may have made it
        examine(path, thorough=True)
        connection = connect(path)
        connection.execute("PRAGMA journal_mode = WAL")
        # FULL: in WAL mode, NORMAL would lose the last tasks to a power cut. One fsync per batch of
        # seconds costs nothing.
        connection.execute("PRAGMA synchronous = FULL")
        for statement in (*YOUNG_TABLES, *NOTES_TABLES, *PACK_TABLES):
            connection.execute(statement)
        # We hold the lock, so whoever is still called running no longer is.
        connection.execute("UPDATE runs SET status = 'killed' WHERE status = 'running'")
    except (OSError, sqlite3.Error) as error:
        lock.close()
        raise damaged(path, str(error)) if is_damage(error) else unwritable(path, error) from error
    except BaseException:
        lock.close()
        raise
    return connection, lock


def open_to_read(folder: Path) -> sqlite3.Connection:
    """The database, as `Store.open_existing` says."""
    path = folder / DATABASE
    if not path.is_file():
        raise _no_results(folder)
    check_identity(path, scenario_name=None)
    examine(path, thorough=False)
    if os.access(folder, os.W_OK) and os.access(path, os.W_OK):
        connection = connect(path)  # read-write, so that a log left by a killed run is folded in
    elif (log := path.with_name(f"{DATABASE}-wal")).exists() and log.stat().st_size:
        connection = connect(path, options="mode=ro")
    else:
        connection = connect(path, options="mode=ro&immutable=1")  # a read-only disk: no log possible
    connection.execute("PRAGMA query_only = ON")
    return connection


def unwritable(path: Path, error: Exception) -> ScenarioError:
    """The error of a disk that takes no more."""
    return ScenarioError(
        file=path,
        problem=f"results cannot be written ({error})",
        remedy="free or change the disk and run again, finished tasks are kept",
    )


def _no_results(folder: Path) -> ScenarioError:
    return ScenarioError(
        file=folder, problem=f"holds no results ({DATABASE} is missing)", remedy="name the folder of a run"
    )
