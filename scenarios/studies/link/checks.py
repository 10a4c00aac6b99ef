"""Digests of a link study: one per batch, over it and all before it, and one of how its point ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from scenarios.store.integrity import Row, digest, has_table

# Batches of a point are numbered from 0 without a gap. `stop` is why the last of them was the last.
LINK_TABLES = (
    """CREATE TABLE IF NOT EXISTS link_points (id INTEGER PRIMARY KEY, point_id TEXT NOT NULL UNIQUE,
    physics TEXT NOT NULL, stop TEXT, stopped_at TEXT)""",
    """CREATE TABLE IF NOT EXISTS link_batches (point INTEGER NOT NULL REFERENCES link_points(id),
    batch INTEGER NOT NULL, seconds REAL NOT NULL, counts_shape TEXT NOT NULL, counts_crc32 INTEGER NOT NULL,
    counts BLOB NOT NULL, amounts_shape TEXT NOT NULL, amounts_crc32 INTEGER NOT NULL, amounts BLOB NOT NULL,
    bursts TEXT, PRIMARY KEY (point, batch))""",
    # Younger than the two above: points without a row are read unverified.
    """CREATE TABLE IF NOT EXISTS link_checks (point INTEGER NOT NULL REFERENCES link_points(id),
    batch INTEGER NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (point, batch))""",
)

BATCH_COLUMNS = "batch, seconds, counts_shape, counts_crc32, counts, amounts_shape, amounts_crc32, amounts, bursts"
_END = -1
"""The number of the row that holds the digest of a point and of how many batches it has."""


def chain(before: bytes, row: Row) -> bytes:
    """The digest of a batch and all before it."""
    return digest([(before, *row)])


def note_batches(database: sqlite3.Connection, point: int, rows: Sequence[Row]) -> None:
    """Keep the digests of batches that were added to a point, in order, and of the point as it is now."""
    count = database.execute("SELECT count(*) FROM link_batches WHERE point = ?", (point,)).fetchone()[0] - len(rows)
    last = database.execute(
        "SELECT digest FROM link_checks WHERE point = ? AND batch = ?", (point, count - 1)
    ).fetchone()
    if count and last is None:
        return  # begun before there were digests
    before = last[0] if count else _start(database, point)
    for row in rows:
        before = chain(before, row)
        database.execute("INSERT INTO link_checks VALUES (?, ?, ?)", (point, row[0], before))
    ended = _ended(database, point, count + len(rows))
    database.execute("INSERT OR REPLACE INTO link_checks VALUES (?, ?, ?)", (point, _END, ended))


def _start(database: sqlite3.Connection, point: int) -> bytes:
    return digest(database.execute("SELECT point_id FROM link_points WHERE id = ?", (point,)))


def _ended(database: sqlite3.Connection, point: int, batches: int) -> bytes:
    query = "SELECT point_id, physics, stop, stopped_at FROM link_points WHERE id = ?"
    return digest([(batches, *database.execute(query, (point,)).fetchone())])


def sound_batches(database: sqlite3.Connection, point: int, rows: Sequence[Row]) -> tuple[int, bool]:
    """How many of the first `rows` are as they were written, and whether that is all there were; all if unverified."""
    if not has_table(database, "link_checks"):
        return len(rows), True
    known = dict(database.execute("SELECT batch, digest FROM link_checks WHERE point = ?", (point,)))
    if not known:
        return len(rows), True
    before, sound = _start(database, point), 0
    for number, row in enumerate(rows):
        before = chain(before, row)
        if row[0] != number or known.get(number) != before:
            break
        sound += 1
    whole = sound == len(rows) and known.get(_END) == _ended(database, point, sound)
    return sound, whole


def drop_bad_batches(database: sqlite3.Connection) -> None:
    """Keep of every point the batches up to the first that does not verify, and its end where it does."""
    database.execute("DELETE FROM link_batches WHERE point NOT IN (SELECT id FROM link_points)")
    for (point,) in database.execute("SELECT id FROM link_points").fetchall():
        query = f"SELECT {BATCH_COLUMNS} FROM link_batches NOT INDEXED WHERE point = ? ORDER BY batch"
        rows = database.execute(query, (point,)).fetchall()
        known = database.execute("SELECT 1 FROM link_checks WHERE point = ? LIMIT 1", (point,)).fetchone()
        sound, whole = sound_batches(database, point, rows) if known else (0, False)
        if whole:
            continue
        for table in ("link_batches", "link_checks"):
            database.execute(f"DELETE FROM {table} WHERE point = ? AND batch >= ?", (point, sound))
        if not sound:
            database.execute("DELETE FROM link_checks WHERE point = ?", (point,))
            database.execute("DELETE FROM link_points WHERE id = ?", (point,))
            continue
        database.execute("UPDATE link_points SET stop = NULL, stopped_at = NULL WHERE id = ?", (point,))
        ended = _ended(database, point, sound)
        database.execute("INSERT OR REPLACE INTO link_checks VALUES (?, ?, ?)", (point, _END, ended))
