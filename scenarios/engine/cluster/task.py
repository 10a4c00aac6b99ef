"""What a worker does with an order. Runs in a process of its own, one order at a time."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import Any

from distributed import Worker, get_worker

from phy.numerics.workers import THREADS_VARIABLE
from scenarios.engine.batch import Job, compute, start_tensorflow
from scenarios.engine.cluster.compatibility import refuse_other_versions, versions
from scenarios.engine.cluster.wire import Answer, Order, physics_digest, scenario_from
from scenarios.engine.cluster.worker_log import PlainRecord, sending
from scenarios.files.provenance import find_cpu_model
from scenarios.plan.points import Point
from scenarios.schema.errors import ScenarioError
from scenarios.schema.plugins import receive_plugins
from scenarios.store.trials import pack_trials


class NobodyWaitsError(Exception):
    """Whoever gave the order took it back, or is gone."""


def introduce(dask_worker: Worker) -> dict[str, Any]:
    """Versions, threads and processor of a worker, for a client that looks before it sends an order."""
    return {"versions": dict(versions()), "threads": dask_worker.state.nthreads, "processor": find_cpu_model()}


def run_order(order: Order) -> Answer:
    """Compute the trials of an order; ScenarioError where this worker would compute other numbers than the client."""
    receive_plugins(order["plugins"])
    _refuse_unlike(order)
    scenario = scenario_from(order["scenario"])
    told = Told(order)
    _start()
    job = Job(point=Point(index=0, settings={}, scenario=scenario), trials=tuple(order["trials"]))
    with sending(told.log, level=order["log_level"]):
        finished = compute(
            job,
            on_progress=told.advance,
            on_restored=told.restore,
            checkpoints=order["checkpoints"],
            latest_s=order["latest_s"],
        )
    return {
        "results": pack_trials(finished.results),
        "seconds": finished.seconds,
        "left": () if finished.left is None else finished.left.trials,
        "computed": told.computed,
        "restored": told.restored,
        "incidents": finished.incidents,
    }


class Told:
    """Tells the client that an order is begun, what is logged, and now and then how many trial-rounds are done.

    Ends the work where nobody waits for it any more.
    """

    def __init__(self, order: Order) -> None:
        self.computed = self.restored = 0
        self._order = order
        self._worker = get_worker()
        self._key = self._worker.get_current_task()
        self._say(begun=True)

    def advance(self, rounds: int) -> None:
        """Hear of `rounds` more that were computed. Raises NobodyWaitsError."""
        self.computed += rounds
        self._tell()

    def restore(self, rounds: int) -> None:
        """Hear of `rounds` more that were found in checkpoints. Raises NobodyWaitsError."""
        self.restored += rounds
        self._tell()

    def log(self, record: PlainRecord) -> None:
        """Hear what was logged."""
        self._worker.log_event(self._order["topic"], {"record": record})

    def _tell(self) -> None:
        task = self._worker.state.tasks.get(self._key)
        if task is None or task.state != "executing":
            raise NobodyWaitsError(self._key)
        if time.monotonic() - self._spoken >= self._order["every_s"]:
            self._say(begun=False)

    def _say(self, *, begun: bool) -> None:
        self._spoken = time.monotonic()
        progress = (self._order["ticket"], self.computed, self.restored, begun)
        self._worker.log_event(self._order["topic"], {"progress": progress})


def _refuse_unlike(order: Order) -> None:
    worker = get_worker()
    refuse_other_versions(order["versions"], versions(), address=worker.address)
    refuse_threads(worker.state.nthreads, address=worker.address)
    if physics_digest(scenario_from(order["scenario"])) != order["physics"]:
        raise ScenarioError(
            file=f"worker {worker.address}",
            problem="reads the scenario otherwise than this process, and would compute other numbers",
            remedy="install the same versions of all packages on both (pip freeze tells them)",
        )


def refuse_threads(threads: int, *, address: str) -> None:
    """ScenarioError for a worker that would run several orders in one process: TensorFlow's seeds are the process's."""
    if threads != 1:
        raise ScenarioError(
            file=f"worker {address}",
            problem=f"runs {threads} tasks at a time in one process, and a task needs one of its own",
            remedy="start it with dask worker --nthreads 1, and with PHYLOOP_THREADS for the cores it may use",
        )


@lru_cache(maxsize=1)
def _start() -> None:
    # Whoever started this worker for one thread meant one core, unless they say more.
    os.environ.setdefault(THREADS_VARIABLE, "1")
    start_tensorflow()
