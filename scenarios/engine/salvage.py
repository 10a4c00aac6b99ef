"""What is left of a damaged store, moved into a new one: every task and every batch that still verifies, and no other.

The damaged file is read row by row, stepping over pages that cannot be read, in several ways: with its log and without,
with its header as it must have been, with the table of contents of an empty store. Whatever a way yields is believed
only where digests say that it is as it was written.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from scenarios.schema.errors import ScenarioError
from scenarios.store.damage import DamagedStoreError, damaged, is_damage
from scenarios.store.database import (
    APPLICATION_ID,
    DATABASE,
    ENTRIES,
    LOCK,
    PACK_TABLES,
    PAGE,
    STORE_VERSION,
    computes,
    connect,
    create_database,
    take_lock,
)
from scenarios.store.integrity import (
    DIGEST_BYTES,
    PARTS,
    RUN_COLUMNS,
    SUSPECT,
    TABLES_OF_TASKS,
    bad_tasks,
    digest,
)
from scenarios.store.run_notes import TABLES as NOTES_TABLES
from scenarios.studies.link.checks import LINK_TABLES, drop_bad_batches

Outcome = TypeVar("Outcome")

_PAGE_OF_BEFORE = 4096
_CONTENTS = (
    (PAGE, (*NOTES_TABLES, *PACK_TABLES)),
    (PAGE, (*NOTES_TABLES, *PACK_TABLES, *LINK_TABLES)),
    (_PAGE_OF_BEFORE, NOTES_TABLES),
    (_PAGE_OF_BEFORE, (*NOTES_TABLES, *LINK_TABLES)),
)
"""Size of a page, and tables beside the first ones: of `phyloop run` and `link`, of both before there were packs."""
_LOG, _INDEX = "-wal", "-shm"
_INNER = 5
"""The first byte of a page of a table that holds pointers alone."""
_LAST = 2**63 - 1
_FARTHEST = 2**40
"""Beyond any row: a gap that is longer is the end of a table."""


@dataclass(frozen=True, kw_only=True)
class Salvage:
    """What was kept: tasks, batches of link studies; and where the damaged file lies."""

    tasks: int
    batches: int
    aside: Path


def surviving_damage(
    work: Callable[[], Outcome], *, folder: Path, scenario_name: str, tell: Callable[[str], None]
) -> Outcome:
    """The outcome of `work`; where it meets a damaged store in `folder`, that is salvaged and `work` done once more.

    `scenario_name` is given to a store that has lost its own; `tell` hears what happened, a sentence.
    """
    try:
        return work()
    except DamagedStoreError as error:
        damage = error
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if not is_damage(error):
            raise
        damage = damaged(folder / DATABASE, str(error))
    tell(told(damage, salvage(folder, scenario_name=scenario_name)))
    return work()


def told(damage: DamagedStoreError, kept: Salvage) -> str:
    """What was wrong and what became of it."""
    amount = f"{kept.tasks} tasks" if not kept.batches else f"{kept.batches} batches"
    return (
        f"{damage.file} {damage.problem}; {amount} that verify were moved into a new store, the rest is computed "
        f"anew, and the damaged file is kept as {kept.aside.name}"
    )


def salvage(folder: Path, *, scenario_name: str) -> Salvage:
    """Put a sound store in the place of the damaged one of `folder`, which is moved aside.

    ScenarioError if another process is writing there or the disk cannot take the copy; nothing has changed then.
    """
    path = folder / DATABASE
    try:
        with contextlib.closing(take_lock(folder / LOCK)), tempfile.TemporaryDirectory(dir=folder) as room:
            new = Path(room) / DATABASE
            kept = _gather(path, new, room=Path(room), scenario_name=scenario_name)
            return _put_in_place(path, new, kept)
    except OSError as error:
        raise _cannot(path, error.strerror or str(error)) from error
    except sqlite3.OperationalError as error:  # of the new store: what is wrong with the old one is met below
        raise _cannot(path, str(error)) from error


def _cannot(path: Path, why: str) -> ScenarioError:
    return ScenarioError(
        file=path,
        problem=f"is damaged, and what is left of it cannot be moved into a new store ({why})",
        remedy="free or change the disk and run again",
    )


def _put_in_place(path: Path, new: Path, kept: tuple[int, int]) -> Salvage:
    # The log leaves first: SQLite would take it for the new file's.
    aside = next(one for n in count(1) if not (one := path.with_name(f"{path.stem}.damaged-{n}{path.suffix}")).exists())
    shutil.copy2(path, aside)
    log = path.with_name(path.name + _LOG)
    if log.exists():
        log.replace(aside.with_name(aside.name + _LOG))
    path.with_name(path.name + _INDEX).unlink(missing_ok=True)
    new.replace(path)
    path.with_name(SUSPECT).unlink(missing_ok=True)
    return Salvage(tasks=kept[0], batches=kept[1], aside=aside)


def _gather(path: Path, new: Path, *, room: Path, scenario_name: str) -> tuple[int, int]:
    """Fill `new` from every way to read `path`; tasks and batches that verify."""
    create_database(new, scenario_name="")
    log = path.with_name(path.name + _LOG)
    has_log = log.exists() and log.stat().st_size > 0
    copy = room / "view.sqlite"
    with contextlib.closing(connect(new)) as target:
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        for statement in (*NOTES_TABLES, *PACK_TABLES, *LINK_TABLES):
            target.execute(statement)
        for mend in _ways():
            legible = True
            for with_log in (True, False) if has_log else (False,):
                _clear(copy)
                shutil.copyfile(path, copy)
                if with_log:
                    shutil.copyfile(log, copy.with_name(copy.name + _LOG))
                mend(copy)
                legible &= _take(copy, target)
            if legible:
                break  # every page was read: what does not verify now never will
        _clear(copy)
        _finish(target, scenario_name=scenario_name)
        tasks = target.execute("SELECT count(*) FROM tasks").fetchone()[0]
        batches = target.execute("SELECT count(*) FROM link_batches").fetchone()[0]
        if not batches:
            for table in ("link_batches", "link_checks", "link_points"):
                target.execute(f"DROP TABLE {table}")
        target.execute("VACUUM")
    with new.open("rb") as file:
        os.fsync(file.fileno())
    return int(tasks), int(batches)


def _finish(target: sqlite3.Connection, *, scenario_name: str) -> None:
    """What the new store says of itself."""
    row = target.execute("SELECT json_extract(root, '$.name') FROM scenario").fetchone()
    (name,) = target.execute("SELECT value FROM meta WHERE key = 'scenario_name'").fetchone()
    told = (row[0] if row else None) or name or scenario_name
    target.execute("UPDATE meta SET value = ? WHERE key = 'scenario_name'", (told,))
    target.execute("UPDATE meta SET value = '1' WHERE key = 'checked_from'")
    target.execute("DELETE FROM reports")  # what there is was drawn from the old one


def _clear(copy: Path) -> None:
    for tail in ("", _LOG, _INDEX):
        copy.with_name(copy.name + tail).unlink(missing_ok=True)


def _ways() -> Iterator[Callable[[Path], None]]:
    """What is done to a copy of the damaged file before it is read, one after the other."""
    yield lambda _: None
    for page in (PAGE, _PAGE_OF_BEFORE):
        yield partial(_put_header, page=page)
    for page, tables in _CONTENTS:
        yield partial(_put_contents, page=page, tables=tables)


def _put_header(copy: Path, *, page: int) -> None:
    """The 100 bytes before the first page as every store has them, the size that of the file."""
    length = copy.stat().st_size
    if length < page:
        return
    with copy.open("r+b") as file:
        file.write(_header(length // page, page=page))


def _header(pages: int, *, page: int) -> bytes:
    """https://www.sqlite.org/fileformat2.html, section 1.3; 2, 2: a log may lie beside it."""
    head = b"SQLite format 3\x00" + struct.pack(">HBBBBBB", page, 2, 2, 0, 64, 32, 32)
    numbers = (1, pages, 0, 0, 1, 4, 0, 0, 1, STORE_VERSION, 0, APPLICATION_ID)
    return head + struct.pack(">12I", *numbers) + bytes(20) + struct.pack(">2I", 1, 3_040_000)


def _put_contents(copy: Path, *, page: int, tables: Iterable[str]) -> None:
    """The pages that say which table begins where, from an empty store: stores begin alike."""
    empty = copy.with_name("empty.sqlite")
    create_database(empty, scenario_name="", page=page)
    with contextlib.closing(connect(empty)) as database:
        for statement in tables:
            database.execute(statement)
    pages = empty.read_bytes()
    empty.unlink()
    numbers = [1]
    for number in numbers:
        first = (number - 1) * page
        start = first + (100 if number == 1 else 0)
        if pages[start] == _INNER:
            (cells,) = struct.unpack_from(">H", pages, start + 3)
            children = [*struct.unpack_from(f">{cells}H", pages, start + 12)]
            numbers += [struct.unpack_from(">I", pages, first + offset)[0] for offset in children]
            numbers.append(struct.unpack_from(">I", pages, start + 8)[0])
    length = copy.stat().st_size
    if length < max(numbers) * page:
        return
    with copy.open("r+b") as file:
        for number in numbers:
            file.seek((number - 1) * page)
            file.write(pages[(number - 1) * page : number * page])
        file.seek(0)
        file.write(_header(length // page, page=page))


def _take(copy: Path, target: sqlite3.Connection) -> bool:
    """Add to `target` what of `copy` it lacks and what verifies; whether all of `copy` could be read."""
    target.execute("BEGIN")
    legible = True
    sound = {row[0] for row in target.execute("SELECT id FROM tasks")}
    with contextlib.closing(connect(copy)) as source:
        try:
            # As long as the schema can be written to, SQLite reads a file that is shorter than it says.
            source.execute("PRAGMA writable_schema = ON")
            entries = source.execute(ENTRIES).fetchall()
            # Nothing of a file that might compute when it is read: a view may pass for the table of another entry.
            foreign = any(computes(sql) for _, _, sql in entries)
            there = set() if foreign else {name for kind, name, _ in entries if kind == "table"}
        except (sqlite3.Error, UnicodeDecodeError):
            there, legible = set(), False
        legible &= there >= {"tasks", "metrics", "points", *TABLES_OF_TASKS} - {"packed"}
        # A store of before there were packs lacks both tables of theirs; any other has lost them without an error.
        legible &= there >= {"packs", "packed"} or (not there & {"packs", "packed"} and _is_of_before(source))
        for (table,) in target.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if table in there and table not in ("meta", "record_checks"):
                legible &= _copy_rows(source, target, table, sound)
        if there >= {"meta", "record_checks"}:
            _take_records(source, target)
    bad = bad_tasks(target)
    target.executemany("DELETE FROM tasks WHERE id = ?", [(task,) for task in bad])
    for table in TABLES_OF_TASKS:
        target.execute(f"DELETE FROM {table} WHERE task NOT IN (SELECT id FROM tasks)")
    target.execute("DELETE FROM points WHERE id NOT IN (SELECT point FROM tasks)")
    target.execute("DELETE FROM packs WHERE id NOT IN (SELECT pack FROM packed NOT INDEXED)")
    drop_bad_batches(target)
    target.execute("COMMIT")
    return legible


def _is_of_before(source: sqlite3.Connection) -> bool:
    """Whether a store is of before there were packs: by its version, where it tells one, and by its digests."""
    try:
        version = source.execute("SELECT value FROM meta WHERE key = 'store_version'").fetchone()
        (longest,) = source.execute("SELECT max(length(digests)) FROM checks").fetchone()
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    return version in (None, ("2",)) and (longest or 0) <= PARTS.index("packed") * DIGEST_BYTES


def _copy_rows(source: sqlite3.Connection, target: sqlite3.Connection, table: str, sound: Set[int]) -> bool:
    """Copy a table but for the tasks that are `sound` already; whether every row of it could be read."""
    columns = [row[1] for row in target.execute(f"PRAGMA table_info({table})")]
    of_task = table in TABLES_OF_TASKS
    place = 1 + columns.index("task") if of_task else 0 if table == "tasks" else None
    holes = ", ".join("?" * (len(columns) + 1))
    legible = True
    for row in _walk(source, table, ", ".join(columns)):
        if row is None:
            legible = False
        elif place is None or row[place] not in sound:  # nothing is added to what verifies
            with contextlib.suppress(sqlite3.IntegrityError, sqlite3.DataError):
                target.execute(f"INSERT OR IGNORE INTO {table} (rowid, {', '.join(columns)}) VALUES ({holes})", row)
    return legible


def _walk(source: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[Any, ...] | None]:
    """(rowid, columns) of every row that can be read, in order, and None for what could not."""
    query = f"SELECT rowid, {columns} FROM {table} NOT INDEXED WHERE rowid > ? ORDER BY rowid"
    after: int | None = -1
    while after is not None:
        try:
            for row in source.execute(query, (after,)):
                yield row
                after = max(after, row[0])
        except (sqlite3.Error, UnicodeDecodeError):
            yield None
            after = _next_readable(source, query, after)
        else:
            return


def _next_readable(source: sqlite3.Connection, query: str, after: int) -> int | None:
    """The least number after which a row can be read again, as far as doubling steps and halving find it."""

    def reads(number: int) -> bool | None:
        try:
            return source.execute(f"{query} LIMIT 1", (min(number, _LAST),)).fetchone() is not None or None
        except (sqlite3.Error, UnicodeDecodeError):
            return False

    step = 1
    while (found := reads(after + step)) is False and step < _FARTHEST:
        step *= 2
    if not found:
        return None  # the end, or nothing but damage up to there
    low, high = after + step // 2, after + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reads(middle) else (middle, high)
    return high


def _take_records(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Drop what differs from its digest of the scenario and the runs just copied; take the name of the scenario."""
    runs = [run for (run,) in target.execute("SELECT id FROM runs")]
    kept = [("scenario", "SELECT yaml, root, saved_at FROM scenario")]
    kept += [(f"run {run}", f"SELECT {RUN_COLUMNS} FROM runs WHERE id = {run}") for run in runs]
    known: dict[str, bytes] = {}
    with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
        known = dict(source.execute("SELECT record, digest FROM record_checks"))
    for record, query in kept:
        row = target.execute(query).fetchone()
        if row is not None and record in known and known[record] != digest([row]):
            table = record.split()[0].replace("run", "runs")
            target.execute(f"DELETE FROM {table} WHERE id = ?", (row[0] if table == "runs" else 1,))
        elif row is not None and record in known:
            target.execute("INSERT OR REPLACE INTO record_checks VALUES (?, ?)", (record, known[record]))
    with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
        name = source.execute("SELECT value FROM meta WHERE key = 'scenario_name'").fetchone()
        if name is not None and isinstance(name[0], str):
            target.execute("UPDATE meta SET value = ? WHERE key = 'scenario_name'", name)
