"""The rows of a store, each checked against its SHA-256 as it is read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from scenarios.store.blobs import Blob, sha256_of, unpack
from scenarios.store.database import IDENTITY, SEAL, as_json, digest

if TYPE_CHECKING:
    from scenarios.store.folder import NewBatch, Status

MOST_HEAD = 16 << 20
MOST_PART = 1 << 27
"""Bytes of a row of `blobs`: the counts of a million devices are more than SQLite takes in one."""
PART_BITS = 16
"""A row of `blobs` is numbered by its batch and its part, in these last bits."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """Which tasks a batch holds and how they ended; see `scenarios.store.folder.NewBatch`."""

    number: int
    ids: Sequence[str]
    numbers: Sequence[int]
    status: Literal["done", "part"]
    failures: dict[str, str]
    extras: Sequence[Any] | None
    seconds: float
    finished_at: str
    blob: str

    @classmethod
    def read(cls, number: int, raw: Any, sha256: Any) -> Head:
        """Return the head that a row holds. Raises ValueError, TypeError or LookupError for any other row."""
        if not isinstance(raw, bytes) or len(raw) > MOST_HEAD or digest(str(number).encode(), raw) != sha256:
            raise ValueError(f"the SHA-256 of the head of batch {number} differs from what was written")
        try:
            head = cls(number=number, **json.loads(raw))
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"the head of batch {number} is none that phyloop writes") from error
        lists = [head.ids, head.numbers] + ([] if head.extras is None else [head.extras])
        sound = (
            all(isinstance(one, list) and len(one) == len(head.ids) for one in lists)
            and {*map(type, head.ids), *map(type, head.failures.values())} <= {str}
            and {*map(type, head.numbers)} <= {int}
            and isinstance(head.failures, dict)
            and type(head.seconds) is float
            and head.status in ("done", "part")
        )
        if not sound:
            raise ValueError(f"the head of batch {number} is none that phyloop writes")
        "".join(
            (*head.ids, *head.failures.values(), head.finished_at, head.blob)
        ).encode()  # half characters have no bytes
        return head

    def status_of(self, row: int) -> Status:
        """Return how a task ended."""
        return "failed" if str(row) in self.failures else self.status


def head_of(batch: NewBatch, *, now: str) -> bytes:
    """Return the head of a batch to write."""
    return as_json(
        {
            "ids": list(batch.ids),
            "numbers": [int(one) for one in batch.numbers],
            "status": batch.status,
            # Names of files that are no text end up in errors.
            "failures": {str(row): why.encode(errors="replace").decode() for row, why in batch.failures.items()},
            "extras": None if batch.extras is None else list(batch.extras),
            "seconds": float(batch.seconds),
            "finished_at": now,
            "blob": sha256_of(batch.blob).hex(),
        }
    )


def read_contents(database: sqlite3.Connection, *, known: int) -> tuple[list[Head], dict[str, bytes]]:
    """Return the heads of all batches after the first `known`, and all records, as they are at one moment.

    Raises ValueError for what is not as it was written, besides what SQLite raises.
    """
    database.execute("BEGIN")
    try:
        rows = database.execute("SELECT key, value, sha256 FROM records").fetchall()
        heads = database.execute("SELECT id, head, sha256 FROM batches WHERE id > ? ORDER BY id", (known,)).fetchall()
    finally:
        database.execute("COMMIT")
    records = {key: value for key, value, sha256 in rows if is_record(key, value, sha256)}
    if len(records) < len(rows) or not {IDENTITY, SEAL} <= records.keys():
        raise ValueError("the SHA-256 of a record differs from what was written")
    found = []
    for expected, (number, raw, sha256) in enumerate(heads, known + 1):
        if number != expected:
            raise ValueError(f"batch {expected} is missing")
        found.append(Head.read(number, raw, sha256))
    seal = json.loads(records[SEAL])
    if seal != {"batches": known + len(found), "records": len(records)}:
        raise ValueError("batches or records are missing")
    return found, records


def read_identity(database: sqlite3.Connection) -> dict[str, str]:
    """Return the scenario and the study of a store. Raises ValueError for a record that is not as it was written."""
    row = database.execute("SELECT key, value, sha256 FROM records WHERE key = ?", (IDENTITY,)).fetchone()
    if row is None or not is_record(*row):
        raise ValueError("the name of its scenario differs from what was written")
    return identity_from(row[1])


def identity_from(raw: bytes) -> dict[str, str]:
    """Return `scenario` and `study`. Raises ValueError, TypeError or LookupError for any other record."""
    identity = json.loads(raw)
    return {"scenario": str(identity["scenario"]), "study": str(identity["study"])}


def is_record(key: object, value: object, sha256: object) -> bool:
    """Tell whether a record is as it was written."""
    return isinstance(key, str) and isinstance(value, bytes) and digest(key.encode(), value) == sha256


def read_blob(database: sqlite3.Connection, head: Head) -> Blob:
    """Return the blob of a batch. Raises ValueError unless it is the one that was written."""
    blob = unpack(read_bytes(database, head.number))
    if blob.sha256.hex() != head.blob:
        raise ValueError(f"the arrays of batch {head.number} are not those that were written")
    return blob


def read_bytes(database: sqlite3.Connection, number: int) -> bytes:
    """Return the bytes of the blob of a batch, unchecked. Raises ValueError where there are none."""
    first = number << PART_BITS
    query = "SELECT data FROM blobs WHERE id >= ? AND id < ? ORDER BY id"
    parts = [data for (data,) in database.execute(query, (first, first + (1 << PART_BITS)))]
    if not parts or {*map(type, parts)} != {bytes}:
        raise ValueError(f"the arrays of batch {number} are missing")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def write_batch(database: sqlite3.Connection, number: int, *, head: bytes, blob: bytes) -> None:
    """Write a batch within a transaction of the caller's."""
    database.execute("INSERT INTO batches VALUES (?, ?, ?)", (number, head, digest(str(number).encode(), head)))
    for part, start in enumerate(range(0, len(blob), MOST_PART)):
        data = blob if len(blob) <= MOST_PART else blob[start : start + MOST_PART]
        database.execute("INSERT INTO blobs VALUES (?, ?)", ((number << PART_BITS) + part, data))


def is_whole(database: sqlite3.Connection) -> None:
    """Raise ValueError unless SQLite finds its pages in order: writing to broken ones breaks more."""
    row = database.execute("PRAGMA quick_check(1)").fetchone()
    if row != ("ok",):
        raise ValueError(str(row and row[0]))
