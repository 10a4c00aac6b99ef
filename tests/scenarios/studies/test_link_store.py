"""Batches of a link study as a folder from elsewhere may hold them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scenarios.store.blobs import pack
from scenarios.store.database import DamagedStoreError
from scenarios.store.folder import NewBatch
from scenarios.studies.link.batches import AMOUNTS, COUNTS
from scenarios.studies.link.plan import BatchShape
from scenarios.studies.link.store import LinkStore


@pytest.mark.parametrize(
    ("arrays", "about"),
    [
        ({"counts": np.zeros((1, 3, 2, 1), np.int64)}, {}),
        ({"amounts": np.zeros((1, 3, 1))}, {}),
        ({"seconds": np.zeros(0)}, {}),
        ({}, {"numbers": ["0"]}),
        ({}, {"numbers": 3}),
        ({}, {"bursts": [[1]]}),
        ({}, {"bursts": "text"}),
    ],
)
def test_batches_that_nobody_wrote_are_said_in_one_sentence(
    tmp_path: Path, arrays: dict[str, np.ndarray], about: dict[str, object]
) -> None:
    given = {
        "counts": np.zeros((1, len(COUNTS), 2, 1), np.int64),
        "amounts": np.zeros((1, len(AMOUNTS), 1)),
        "seconds": np.zeros(1),
    }
    blob = pack(given | arrays, about={"numbers": [0], "bursts": [None]} | about)
    with LinkStore.open(tmp_path, scenario_name="small-link") as store:
        store.add([NewBatch(ids=["point"], numbers=[1], blob=blob, seconds=1.0)])
        with pytest.raises(DamagedStoreError, match="is damaged"):
            store.read_point("point", num_devices=1, shape=BatchShape(transmissions=2, num_bits=64))
