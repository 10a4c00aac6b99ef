"""Digests by which a store notices a byte that is no longer as written.

A task has one digest per part: its record, the physics of its point, all that is packed of it, and the heads of each
table of arrays that are too large for that. Heads carry the checksums of what the arrays hold: reading one array so
needs no other. Tasks of before there were packs have one of their metrics, one of their account and one per table
instead. Records of the store itself (the scenario, the runs) have one each. Stores from before there were digests are
read unverified.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from scenarios.store.array_bytes import unpack_series
from scenarios.store.damage import damaged, telling_damage
from scenarios.store.database import look
from scenarios.store.packs import Layout, is_pack, is_packed, layout_of
from scenarios.store.wal import log_damage

Row = tuple[object, ...]
ArrayTable = Literal["rounds", "link", "privacy", "bursts", "devices", "pictures", "ledger"]
Part = Literal["task", "point", "metrics", "account", "packed"] | ArrayTable

ARRAY_TABLES: tuple[ArrayTable, ...] = ("rounds", "link", "privacy", "bursts", "devices", "pictures", "ledger")
PARTS: tuple[Part, ...] = ("task", "point", "metrics", "account", *ARRAY_TABLES, "packed")
"""In the order of their digests, joined, in a row of `checks` (a part without rows: that of none); parts to come are
appended, for rows of before are shorter."""
TABLES_OF_TASKS = ("metrics", *ARRAY_TABLES, "accounts", "checks", "packed")
"""Tables whose rows are of one task each, named by its number."""
TASK_COLUMNS = "task_id, trial, status, failure, seconds, finished_at"
HEAD_COLUMNS = "name, dtype, shape, crc32, total"
RUN_COLUMNS = "id, command, provenance, started_at"

DIGEST_BYTES = 8
SUSPECT = "results.suspect"
"""A file that a reader leaves which met damage: what is next to write looks at everything."""
THOROUGH_BYTES = 32 << 20
"""Stores up to here are read whole before they are written to: about a second. Larger ones are checked as read."""


def digest(rows: Iterable[Row]) -> bytes:
    """8 bytes of BLAKE2b over the rows as SQLite gives them back."""
    return blake2b("\n".join(map(repr, rows)).encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


OF_NO_ROWS = digest(())


def packed_row(pack: bytes, heads: object, metrics: object) -> Row:
    """What is digested of a row of `packed`: for bytes stand their checksums, in its heads and those of its pack."""
    return (pack, heads, metrics)


def part_of(digests: bytes, part: Part) -> bytes | None:
    """The digest of one part, None where the row is from before the part had one."""
    start = PARTS.index(part) * DIGEST_BYTES
    found = digests[start : start + DIGEST_BYTES]
    if len(found) == DIGEST_BYTES:
        return found
    return OF_NO_ROWS if part == "packed" else None  # what of before packs has one now was not written so


def has_table(database: sqlite3.Connection, table: str) -> bool:
    """Whether the table is there: a store that was last written before there was one is only read."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return database.execute(query, (table,)).fetchone() is not None


def checked_from(database: sqlite3.Connection) -> float:
    """The number of the first task that must have digests; infinite in a store from before there were any."""
    row = database.execute("SELECT value FROM meta WHERE key = 'checked_from'").fetchone()
    return float("inf") if row is None or not has_table(database, "checks") else int(row[0])


def note_record(database: sqlite3.Connection, record: str, row: Sequence[object]) -> None:
    """Keep the digest of a row that is of no task: the scenario, a run."""
    database.execute("INSERT OR REPLACE INTO record_checks VALUES (?, ?)", (record, digest([tuple(row)])))


def bad_records(database: sqlite3.Connection) -> list[str]:
    """Which of the rows with such a digest are not as they were written."""
    if not has_table(database, "record_checks"):
        return []
    rows = {"scenario": database.execute("SELECT yaml, root, saved_at FROM scenario").fetchone()}
    rows |= {f"run {row[0]}": row for row in database.execute(f"SELECT {RUN_COLUMNS} FROM runs")}
    if has_table(database, "planned"):
        rows |= {f"plan of run {row[0]}": row for row in database.execute("SELECT * FROM planned")}
    known = database.execute("SELECT record, digest FROM record_checks").fetchall()
    return [record for record, written in known if rows.get(record) is None or digest([rows[record]]) != written]


def known_record(database: sqlite3.Connection, record: str) -> bytes | None:
    """The digest kept for such a row; None where there is none."""
    if not has_table(database, "record_checks"):
        return None
    row = database.execute("SELECT digest FROM record_checks WHERE record = ?", (record,)).fetchone()
    return None if row is None else row[0]


def examine(path: Path, *, thorough: bool) -> None:
    """DamagedStoreError if the store at `path` is damaged, as far as can be seen quickly; nothing is changed.

    Its log, its own records, and whether the tasks are where their index says; `thorough`: every byte in use, of a
    store of up to `THOROUGH_BYTES` or one that a reader left suspect.
    """
    log = path.with_name(f"{path.name}-wal")
    # A writer at work may be caught in the middle of a frame, hardly twice.
    if (what := log_damage(log)) and (what := log_damage(log)):
        raise damaged(path, what)
    small = path.stat().st_size + (log.stat().st_size if log.exists() else 0) <= THOROUGH_BYTES
    whole = thorough and (small or path.with_name(SUSPECT).exists())
    with telling_damage(path):
        # What is recovered from the log must not be folded in before it was found sound.
        database = look(path)
        try:
            query = "PRAGMA integrity_check(1)" if whole else "PRAGMA integrity_check(tasks)"
            (found,) = database.execute(query).fetchone()
            if found != "ok":
                raise damaged(path, str(found))
            if names := bad_records(database):
                raise damaged(path, f"the checksum of its record of the {names[0]} differs")
            if whole and (bad := bad_tasks(database, of=checked_from(database))):
                raise damaged(path, f"the checksum of {len(bad)} task{'s' if len(bad) > 1 else ''} differs")
        finally:
            database.close()
    if whole:
        path.with_name(SUSPECT).unlink(missing_ok=True)


def bad_tasks(database: sqlite3.Connection, *, of: float = 0) -> set[int]:
    """Numbers of the tasks from number `of` on that are not as they were written, their arrays included."""
    known = {} if not has_table(database, "checks") else dict(database.execute("SELECT task, digests FROM checks"))
    tasks = {row[0] for row in database.execute("SELECT id FROM tasks NOT INDEXED")}
    bad = {task for task in tasks if task >= of and not isinstance(known.get(task), bytes)}
    bad |= {task for task in known if task not in tasks}
    for part in PARTS:
        hashers = {task: blake2b(digest_size=DIGEST_BYTES) for task in known}
        first: set[int] = set()
        for task, row, sound in _rows_of(database, part):
            if not sound:
                bad.add(task)
            if (hasher := hashers.get(task)) is not None:
                # As `digest` of all rows at once.
                hasher.update(("\n" * (task in first) + repr(row)).encode("utf-8", "surrogatepass"))
                first.add(task)
        for task, hasher in hashers.items():
            if task not in bad and part_of(known[task], part) not in (None, hasher.digest()):
                bad.add(task)
    return bad


def _rows_of(database: sqlite3.Connection, part: Part) -> Iterator[tuple[int, Row, bool]]:
    """(task, row as digested, whether what it holds has the checksum it names), in the order written."""
    if part == "task":
        query = f"SELECT id, {TASK_COLUMNS} FROM tasks NOT INDEXED"
    elif part == "point":
        query = "SELECT tasks.id, physics FROM tasks NOT INDEXED LEFT JOIN points ON points.id = point"
    elif part == "metrics":
        query = "SELECT task, name, value FROM metrics NOT INDEXED ORDER BY rowid"
    elif part == "account":
        query = "SELECT task, plain, crc32 FROM accounts NOT INDEXED ORDER BY rowid"
    elif part == "packed":
        yield from _packed_rows(database)
        return
    else:
        query = f"SELECT task, {HEAD_COLUMNS}, data FROM {part} NOT INDEXED ORDER BY rowid"
    if not has_table(database, {"task": "tasks", "point": "points", "account": "accounts"}.get(part, part)):
        return
    for task, *row in database.execute(query):
        if part in ARRAY_TABLES:
            *head, data = row
            yield task, tuple(head), is_sound(head, data)
        else:
            yield task, tuple(row), True


def _packed_rows(database: sqlite3.Connection) -> Iterator[tuple[int, Row, bool]]:
    if not has_table(database, "packed"):
        return
    packs: dict[int, tuple[bytes, Layout]] = {}
    for number, heads, data in database.execute("SELECT id, heads, data FROM packs NOT INDEXED"):
        with suppress(ValueError):
            if is_pack(layout := layout_of(heads), data):
                packs[number] = (digest([(heads,)]), layout)
    query = "SELECT task, pack, heads, metrics, data FROM packed NOT INDEXED"
    for task, number, heads, metrics, data in database.execute(query):
        if number not in packs:
            yield task, (), False
            continue
        of_pack, layout = packs[number]
        yield task, packed_row(of_pack, heads, metrics), is_packed(layout, heads, metrics=metrics, data=data)


def is_sound(head: Sequence[Any], data: Any) -> bool:
    """Whether the bytes of an array are those that its head names."""
    _, dtype, shape, crc32, _ = head
    try:
        return unpack_series(dtype, shape, crc32, data) is not None
    except (TypeError, ValueError):
        return False
