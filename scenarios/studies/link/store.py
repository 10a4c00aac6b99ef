"""Where batches of a link study are kept: two tables more in the database of a run folder."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from phy.measure.monte_carlo import Stop
from scenarios.schema.errors import ScenarioError
from scenarios.store.array_bytes import pack_series, unpack_series
from scenarios.store.clock import utc_now
from scenarios.store.damage import DamagedStoreError, damaged, telling_damage
from scenarios.store.database import DATABASE, check_identity, look
from scenarios.store.store import Store, canonical_json
from scenarios.studies.link.batches import Batch, Measured, bursts_from_plain, bursts_to_plain
from scenarios.studies.link.checks import BATCH_COLUMNS, LINK_TABLES, note_batches, sound_batches
from scenarios.studies.link.plan import BatchShape


def holds_link_study(folder: Path) -> bool:
    """Whether `phyloop link` has written into `folder`."""
    return _tables_with_rows(folder, "link_points")


def _tables_with_rows(folder: Path, table: str) -> bool:
    path = folder / DATABASE
    if not path.is_file():
        return False
    check_identity(path, scenario_name=None)
    with telling_damage(path), contextlib.closing(look(path)) as database:
        known = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        return known is not None and database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None


class LinkStore(Store):
    """One open run folder of a link study: `LinkStore.open_study` to write, `open_existing` to read."""

    @classmethod
    def open_study(cls, folder: Path, *, scenario_name: str) -> Self:
        """As `Store.open`; ScenarioError also for a folder that holds results of `phyloop run`."""
        if folder.is_dir() and _tables_with_rows(folder, "tasks"):
            raise ScenarioError(
                file=folder,
                problem="holds results of phyloop run, which a link study would mix with its own",
                remedy="choose another folder with --out",
            )
        store = cls.open(folder, scenario_name=scenario_name)
        try:
            for statement in LINK_TABLES:
                store._connection.execute(statement)
        except sqlite3.Error:
            store.close()
            raise
        return store

    def write_batches(
        self, point_id: str, batches: Sequence[Batch], *, physics: Mapping[str, Any], stop: Stop | None = None
    ) -> None:
        """Store batches of one point, and why they were the last if they were, in one transaction."""
        packed = [(batch, _pack(batch.counts), _pack(batch.amounts)) for batch in batches]
        with self._transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO link_points (point_id, physics) VALUES (?, ?)",
                (point_id, canonical_json(physics)),
            )
            row = database.execute("SELECT id FROM link_points WHERE point_id = ?", (point_id,)).fetchone()[0]
            rows = [
                (batch.number, float(batch.seconds), *counts, *amounts, _bursts_text(batch))
                for batch, counts, amounts in packed
            ]
            database.executemany(
                "INSERT INTO link_batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", [(row, *one) for one in rows]
            )
            told = None if stop is None else canonical_json(asdict(stop))
            database.execute(
                "UPDATE link_points SET stop = ?, stopped_at = ? WHERE id = ?", (told, stop and utc_now(), row)
            )
            note_batches(database, row, rows)

    def ended_points(self) -> set[str]:
        """Points of whatever plan that have ended."""
        return {row[0] for row in self._connection.execute("SELECT point_id FROM link_points WHERE stop IS NOT NULL")}

    def read_point(self, point_id: str, *, num_devices: int, shape: BatchShape) -> tuple[Measured, Stop | None]:
        """Everything measured at a point so far, and why it ended; nothing at all for one never begun.

        ScenarioError if a batch is damaged.
        """
        measured = Measured.nothing(num_devices)
        row = None
        if self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'link_points'").fetchone():
            query = "SELECT id, stop FROM link_points WHERE point_id = ?"
            row = self._connection.execute(query, (point_id,)).fetchone()
        if row is None:
            return measured, None
        query = f"SELECT {BATCH_COLUMNS} FROM link_batches WHERE point = ? ORDER BY batch"
        batches = self._connection.execute(query, (row[0],)).fetchall()
        sound, whole = sound_batches(self._connection, row[0], batches)
        if not whole:
            raise self._damaged(sound, point_id)
        for number, seconds, *blobs, bursts in batches:
            counts, amounts = unpack_series("<i8", *blobs[:3]), unpack_series("<f8", *blobs[3:])
            if counts is None or amounts is None or number != measured.tally.batches:
                raise self._damaged(number, point_id)
            try:
                read = bursts_from_plain(json.loads(bursts)) if bursts else None
                batch = Batch(number=number, seconds=seconds, counts=counts, amounts=amounts, bursts=read)
                measured = measured.with_batch(batch, shape)
            except (ValueError, TypeError, AttributeError, OverflowError) as error:
                raise self._damaged(number, point_id) from error
        return measured, Stop(**json.loads(row[1])) if row[1] else None

    def _damaged(self, number: int, point_id: str) -> DamagedStoreError:
        return damaged(self.folder / DATABASE, f"batch {number} of point {point_id[:12]} differs from what was written")


def _pack(array: NDArray[np.int64] | NDArray[np.float64]) -> tuple[object, ...]:
    ((_, _, shape, crc32, data, _),) = pack_series({"array": array})
    return shape, crc32, data


def _bursts_text(batch: Batch) -> str | None:
    return None if batch.bursts is None else canonical_json(bursts_to_plain(batch.bursts))
