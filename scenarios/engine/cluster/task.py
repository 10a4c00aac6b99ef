"""What a worker does with an order: computes its trials, and says what it logs and how far it is.

Runs in a process of its own, one order at a time.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypedDict

from distributed import get_worker

from fl.base.words import plural
from phy.numerics.workers import THREADS_VARIABLE
from scenarios.engine.batch import Finished, compute
from scenarios.engine.cluster.compatibility import refuse_other_versions, versions
from scenarios.engine.start import prepare_tensorflow
from scenarios.engine.study import Progress
from scenarios.files.log import OURS
from scenarios.files.provenance import find_cpu_model
from scenarios.schema.errors import ScenarioError
from scenarios.schema.plugins import Plugin, receive_plugins
from scenarios.store.checkpoints import CheckpointPolicy

TOLD_EVERY_S = 1.0
"""A worker tells its rounds this seldom."""


class Order(TypedDict):
    """What a worker is asked for.

    - `job`: pickle of a `Job`, to be read by a worker of the same versions, which has imported the plug-ins;
    - `plugins`: see `scenarios.schema.plugins.send_plugins`;
    - `checkpoints`: see `scenarios.engine.batch.compute`; the folder is used where the worker has it;
    - `versions`: see `scenarios.engine.cluster.compatibility`; `processor`: that of the client;
    - `topic`: where rounds are told, and records of the log from `log_level` on.
    """

    job: bytes
    plugins: dict[str, Plugin]
    checkpoints: CheckpointPolicy | None
    versions: dict[str, str]
    processor: str
    topic: str
    log_level: int


class NobodyWaitsError(Exception):
    """Whoever gave the order took it back, or is gone."""


def run_order(order: Order) -> Finished:
    """Compute the trials of an order; ScenarioError where this worker would compute other numbers than the client."""
    worker = get_worker()
    refuse_other_versions(order["versions"], versions(), address=worker.address)
    refuse_threads(worker.state.nthreads, address=worker.address)
    receive_plugins(order["plugins"])
    told = Told(order)
    OURS.setLevel(order["log_level"])
    OURS.addHandler(told)  # a worker has no run folder to write to
    try:
        _start(worker.address, order["processor"])
        return compute(
            pickle.loads(order["job"]),
            progress=Progress(advance=told.advance, restored=lambda rounds: told.advance(restored=rounds)),
            checkpoints=order["checkpoints"],
        )
    finally:
        OURS.removeHandler(told)


class Told(logging.Handler):
    """Tells the client what is logged, and now and then how many trial-rounds are done.

    Ends the work where nobody waits for it any more.
    """

    def __init__(self, order: Order) -> None:
        super().__init__()
        self.computed = self.restored = 0
        self._order = order
        self._worker = get_worker()
        self._key = self._worker.get_current_task()
        self._spoken = time.monotonic()

    def advance(self, rounds: int = 0, *, restored: int = 0) -> None:
        """Hear of rounds that were computed, or restored from checkpoints. Raises NobodyWaitsError."""
        self.computed += rounds
        self.restored += restored
        task = self._worker.state.tasks.get(self._key)
        if task is None or task.state != "executing":
            raise NobodyWaitsError(self._key)
        if time.monotonic() - self._spoken >= TOLD_EVERY_S:
            self._spoken = time.monotonic()
            progress = (self._key, self.computed, self.restored)
            self._worker.log_event(self._order["topic"], {"progress": progress})

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record; a message that is not JSON is no reason to fail a trial."""
        with suppress(TypeError, ValueError):
            self._worker.log_event(self._order["topic"], {"record": plain_record(record)})


def plain_record(record: logging.LogRecord) -> dict[str, Any]:
    """Return the attributes of a record as JSON has them, for `logging.makeLogRecord`. Raises TypeError, ValueError."""
    plain = {**vars(record), "msg": record.getMessage(), "args": None, "exc_info": None}
    found: dict[str, Any] = json.loads(json.dumps(plain, default=str))
    return found


def refuse_threads(threads: int, *, address: str) -> None:
    """ScenarioError for a worker that runs several orders in one process: TensorFlow's seeds are the process's."""
    if threads != 1:
        raise ScenarioError(
            file=f"worker {address}",
            problem=f"runs {plural(threads, 'task')} at a time in one process, and a task needs one of its own",
            remedy="start it with dask worker --nthreads 1, and with PHYLOOP_THREADS for the cores it may use",
        )


@lru_cache(maxsize=1)
def _start(address: str, processor: str) -> None:
    # Whoever started this worker for one thread meant one core, unless they say more.
    os.environ.setdefault(THREADS_VARIABLE, "1")
    prepare_tensorflow()
    if (ours := find_cpu_model()) != processor:
        says = "the worker %s has a %s, the client a %s: last bits of numbers may differ"
        OURS.warning(says, address, ours, processor)
