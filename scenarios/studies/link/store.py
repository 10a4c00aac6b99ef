"""Batches of a link study in a run folder: each point of the study is a task that is stored in parts.

The arrays of one part, a row per batch: `counts`, `amounts` (see `scenarios.studies.link.batches`), `seconds`. Bursts
are in `about`. The number of a part is how many batches the point has by then. The last part is `done`, and its extra
is the note of why the point ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.measure.monte_carlo import Stop
from scenarios.store.blobs import Blob, pack
from scenarios.store.database import damaged, telling_damage
from scenarios.store.folder import NewBatch, identity_of
from scenarios.store.plain_files import DATABASE
from scenarios.store.store import Store
from scenarios.studies.link.batches import AMOUNTS, COUNTS, Batch, Measured, bursts_from_plain, bursts_to_plain
from scenarios.studies.link.plan import BatchShape

LINK = "link"


def holds_link_study(folder: Path) -> bool:
    """Whether `phyloop link` has written into `folder`."""
    return (folder / DATABASE).is_file() and identity_of(folder)["study"] == LINK


class LinkStore(Store):
    """One open run folder of a link study."""

    study = LINK

    def write_batches(
        self, point_id: str, batches: Sequence[Batch], *, physics: Mapping[str, Any], stop: Stop | None = None
    ) -> None:
        """Store batches of one point, and why they were the last if they were, in one transaction."""
        arrays: dict[str, NDArray[Any] | Sequence[NDArray[Any]]] = {
            "counts": [one.counts for one in batches],
            "amounts": [one.amounts for one in batches],
            "seconds": np.array([float(one.seconds) for one in batches]),
        }
        bursts = [None if one.bursts is None else bursts_to_plain(one.bursts) for one in batches]
        numbers = [one.number for one in batches]
        parts = self.read_all(point_id)
        total = numbers[-1] + 1 if numbers else parts[-1].trial if parts else 0
        about = {"physics": dict(physics), "numbers": numbers, "bursts": bursts}
        self.add(
            [
                NewBatch(
                    ids=[point_id],
                    numbers=[total],
                    blob=pack(arrays if batches else {}, about=about),
                    seconds=sum(float(one.seconds) for one in batches),
                    status="part" if stop is None else "done",
                    extras=[None if stop is None else asdict(stop)],
                )
            ]
        )

    def ended_points(self) -> set[str]:
        """Points of whatever plan that have ended."""
        return self.finished(self.task_ids())

    def read_point(self, point_id: str, *, num_devices: int, shape: BatchShape) -> tuple[Measured, Stop | None]:
        """Everything measured at a point so far, and why it ended; nothing at all for one never begun.

        Batches count up to the first that is missing: a damaged one takes those after it along, until it is measured
        again. DamagedStoreError for batches that are not as they were written.
        """
        parts = self.read_all(point_id)
        batches: dict[int, Batch] = {}
        for part in parts:
            blob = self.blob(part.batch)
            with telling_damage(self.folder / DATABASE):
                batches |= {one.number: one for one in _batches(blob)}
        measured = Measured.nothing(num_devices)
        while (batch := batches.get(measured.tally.batches)) is not None:
            try:
                measured = measured.with_batch(batch, shape)
            except (ValueError, TypeError, AttributeError, OverflowError) as error:
                raise damaged(self.folder / DATABASE, f"a batch of point {point_id[:12]} is of another link") from error
        if not parts or parts[-1].extra is None or measured.tally.batches != parts[-1].trial:
            return measured, None
        with telling_damage(self.folder / DATABASE):
            return measured, Stop(**parts[-1].extra)


def _batches(blob: Blob) -> list[Batch]:
    """Return the batches of a part. Raises ValueError, LookupError or TypeError for any other blob."""
    numbers = blob.about["numbers"]
    if not numbers:
        return []
    counts, amounts, seconds = (blob.array(name) for name in ("counts", "amounts", "seconds"))
    if counts.dtype != np.int64 or amounts.dtype != np.float64 or counts.shape[1] != len(COUNTS):
        raise ValueError("the arrays of a batch are of another link")
    if amounts.shape[1] != len(AMOUNTS) or {*map(type, numbers)} != {int}:
        raise ValueError("the arrays of a batch are of another link")
    return [
        Batch(
            number=number,
            seconds=float(seconds[row]),
            counts=counts[row],
            amounts=amounts[row],
            bursts=None if blob.about["bursts"][row] is None else bursts_from_plain(blob.about["bursts"][row]),
        )
        for row, number in enumerate(numbers)
    ]
