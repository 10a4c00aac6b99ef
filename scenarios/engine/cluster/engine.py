"""The engine beyond one process: hands jobs to the workers of a dask scheduler, a few at a time."""

from __future__ import annotations

import logging
import pickle
import queue
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from dask.typing import Key
from distributed import Client, Future
from distributed.scheduler import KilledWorker

from fl.base.results import TrialResult
from scenarios.engine.batch import Finished, Job, finished
from scenarios.engine.cluster.compatibility import versions
from scenarios.engine.cluster.connection import own_workers, running_scheduler
from scenarios.engine.cluster.task import Order, run_order
from scenarios.engine.interruption import stop_if_asked
from scenarios.engine.options import ClusterLostError
from scenarios.engine.study import Progress
from scenarios.files.log import OURS
from scenarios.files.provenance import find_cpu_model
from scenarios.schema.plugins import send_plugins
from scenarios.store.checkpoints import CheckpointPolicy

_AHEAD = 2
"""Orders in the hands of the scheduler for each worker: one in work, one to go on with."""
_LOOK_S = 0.2
_COUNT_S = 2.0


@dataclass(frozen=True, kw_only=True)
class DaskEngine:
    """Jobs in `workers` processes of this machine, or in those of the `scheduler` at an address.

    Results are those of `InProcess`, bit for bit, whoever computes them and in whatever order. A job whose worker is
    lost is computed by another; lost too often, its trials have failed.

    `checkpoints` are those of `InProcess`. `worker_bytes`: memory of each process of ours, an equal share if None.
    `work`: what a worker does with an order.
    """

    workers: int | None = None
    scheduler: str | None = None
    checkpoints: CheckpointPolicy | None = None
    worker_bytes: int | None = None
    work: Callable[[Order], Finished] = run_order

    def run(self, jobs: Iterable[Job | None], *, progress: Progress) -> Generator[Finished, None, None]:
        """See `Engine.run`.

        Raises ScenarioError for workers that would compute other numbers, ClusterLostError for a scheduler that went
        away, and what a job raises.
        """
        if self.scheduler is None:
            connection = own_workers(self.workers or 1, worker_bytes=self.worker_bytes)
        else:
            connection = running_scheduler(self.scheduler)
        with connection as client:
            yield from _Dispatch(client, self, progress).run(jobs)


@dataclass(kw_only=True)
class _Flight:
    """A submitted job and its trial-rounds reported so far. `alone`: no other job was submitted."""

    job: Job
    computed: int = 0
    restored: int = 0
    alone: bool = False


class _Dispatch:
    """One run: what is handed out, by its key, and what came of it."""

    def __init__(self, client: Client, engine: DaskEngine, progress: Progress) -> None:
        self._client, self._work, self._progress = client, engine.work, progress
        self._address, kept = engine.scheduler, engine.checkpoints
        self._checkpoints = kept and replace(kept, folder=kept.folder.absolute())
        self._name = f"phyloop-{uuid.uuid4().hex[:12]}"
        self._inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._flights: dict[Key, _Flight] = {}
        self._given_up: list[_Flight] = []
        self._handed_out = 0
        self._workers, self._counted = 1, float("-inf")

    def run(self, jobs: Iterable[Job | None]) -> Generator[Finished, None, None]:
        waiting = iter(jobs)
        self._client.subscribe_topic(self._name, lambda event: self._inbox.put(event[1]))
        self._hand_out(waiting)
        while self._flights:
            stop_if_asked()
            landed = None
            try:
                message = self._inbox.get(timeout=_LOOK_S)
            except queue.Empty:
                self._progress.advance(0)  # a sign of life
                self._refuse_lost()
            else:
                if "record" in message:
                    log_again(message["record"])
                elif "progress" in message:
                    self._advance(*message["progress"])
                else:
                    landed = self._land(**message)
            self._hand_out(waiting)  # no worker waits until results are stored
            if landed is not None:
                yield landed
                self._hand_out(waiting)  # jobs that waited for this result

    def _hand_out(self, waiting: Iterator[Job | None]) -> None:
        """Hand out the next jobs, and last, one at a time, those that the scheduler gave up.

        Dask blames a lost worker on every job that it had, those that waited behind the guilty one too.
        """
        if time.monotonic() - self._counted >= _COUNT_S:
            with suppress(OSError):  # a scheduler that is lost is noticed elsewhere
                self._workers = max(len(self._client.scheduler_info(n_workers=-1)["workers"]), 1)
            self._counted = time.monotonic()
        while len(self._flights) < self._workers * _AHEAD and (job := next(waiting, None)) is not None:
            self._submit(_Flight(job=job))
        if self._given_up and not self._flights:
            self._submit(replace(self._given_up.pop(0), alone=True))

    def _submit(self, flight: _Flight) -> None:
        self._handed_out += 1
        key = f"{self._name}-{self._handed_out}"
        self._flights[key] = flight
        future = self._client.submit(self._work, self._order(flight.job), key=key, pure=False)
        future.add_done_callback(lambda future: self._inbox.put({"future": future}))

    def _order(self, job: Job) -> Order:
        return {
            "job": pickle.dumps(job),
            "plugins": send_plugins(job.point.scenario.plugins),
            "checkpoints": self._checkpoints,
            "versions": dict(versions()),
            "processor": find_cpu_model(),
            "topic": self._name,
            "log_level": OURS.getEffectiveLevel(),
        }

    def _land(self, future: Future[Finished]) -> Finished | None:
        """Return what came of a job, None if it is handed out again. Raises what the job raised, ClusterLostError."""
        flight = self._flights[future.key]
        job = flight.job
        try:
            landed: Finished = future.result()
        except KilledWorker as error:
            if not flight.alone:
                self._given_up.append(self._flights.pop(future.key))
                return None
            failure = f"the worker was lost {2 * (error.allowed_failures + 1)} times; likely out of memory"
            results = [TrialResult(trial=one, metrics={}, rounds={}, failure=failure) for one in job.trials]
            landed = finished(job, results, seconds=0.0)
        except Exception:
            self._refuse_lost(cancelled=future.cancelled())
            raise
        rounds = len(job.trials) * job.point.scenario.learning.rounds
        self._advance(future.key, rounds - landed.restored, landed.restored)
        del self._flights[future.key]
        future.release()
        return landed

    def _advance(self, key: Key, computed: int, restored: int) -> None:
        """Hear of the trial-rounds of a job so far.

        A job that is computed again after its worker was lost tells its rounds again: only what is new counts.
        """
        if (flight := self._flights.get(key)) is not None:
            new = max(computed + restored - flight.computed - flight.restored, 0)
            found = min(max(restored - flight.restored, 0), new)
            flight.restored += found
            flight.computed += new - found
            self._progress.restored(found)
            self._progress.advance(new - found)

    def _refuse_lost(self, *, cancelled: bool = False) -> None:
        if cancelled or self._client.status != "running":
            raise ClusterLostError(f"the scheduler at {self._address} is lost")


def log_again(sent: dict[str, Any]) -> None:
    """Log here what a worker logged, with the time that it had there."""
    here = logging.getLogger(sent["name"])
    if here.isEnabledFor(sent["levelno"]):
        here.handle(logging.makeLogRecord(sent))
