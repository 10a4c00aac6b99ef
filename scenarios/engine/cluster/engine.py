"""The engine beyond one process: hands jobs to the workers of a dask scheduler, a few at a time."""

from __future__ import annotations

import logging
import queue
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from distributed import Client, Future
from distributed.scheduler import KilledWorker

from fl.results import TrialResult
from scenarios.engine.batch import Finished, Job
from scenarios.engine.cluster.compatibility import versions
from scenarios.engine.cluster.connection import own_workers, running_scheduler
from scenarios.engine.cluster.task import Answer, Order, run_order, written
from scenarios.engine.interruption import stop_if_asked
from scenarios.engine.options import ClusterLostError
from scenarios.engine.study import Progress
from scenarios.files.log import our_logger
from scenarios.schema.plugins import send_plugins
from scenarios.store.checkpoints import CheckpointPolicy

_AHEAD = 2
"""Orders in the hands of the scheduler for each worker: one in work, one to go on with."""
_TOLD_EVERY_S = 0.5
_HEARD_PER_S = 40.0
"""Rounds are told by each worker this seldom, and by all of them together this seldom."""
_LOOK_S = 0.2
_COUNT_S = 2.0
_DROPPED_UNSEEN = 2
"""Times that a job is handed out again which the scheduler gave up and that no worker was heard to begin."""


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
    work: Callable[[Order], Answer] = run_order

    def run(self, jobs: Iterable[Job], *, progress: Progress) -> Generator[Finished, None, None]:
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
    """A job in the hands of the scheduler.

    Trial-rounds of it that were told, how often a worker began it, and how often the scheduler gave it up.
    """

    ticket: int
    job: Job
    computed: int = 0
    restored: int = 0
    begun: int = 0
    dropped: int = 0


class _Dispatch:
    """One run: what is handed out, and what came of it."""

    def __init__(self, client: Client, engine: DaskEngine, progress: Progress) -> None:
        self._client, self._work, self._progress = client, engine.work, progress
        self._address, kept = engine.scheduler, engine.checkpoints
        self._checkpoints = kept and replace(kept, folder=kept.folder.absolute())
        self._name = f"phyloop-{uuid.uuid4().hex[:12]}"
        self._inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._tickets, self._keys = count(), count()
        self._flights: dict[int, _Flight] = {}
        self._again: deque[_Flight] = deque()
        self._texts: dict[int, str] = {}
        self._workers, self._counted = 1, float("-inf")

    def run(self, jobs: Iterable[Job]) -> Generator[Finished, None, None]:
        waiting = iter(jobs)
        self._client.subscribe_topic(self._name, lambda event: self._inbox.put(event[1]))
        while True:
            stop_if_asked()
            self._hand_out(waiting)
            if not self._flights:
                return
            try:
                message = self._inbox.get(timeout=_LOOK_S)
            except queue.Empty:
                self._progress.advance(0)  # a sign of life
                self._refuse_lost()
                continue
            if "record" in message:
                log_again(message["record"])
            elif "progress" in message:
                self._advance(*message["progress"])
            elif (finished := self._land(**message)) is not None:
                yield finished

    # --- out --------------------------------------------------------------------------------------

    def _hand_out(self, waiting: Iterator[Job]) -> None:
        """Hand out the next jobs; what came back goes first."""
        if time.monotonic() - self._counted >= _COUNT_S:
            with suppress(OSError):  # a scheduler that is lost is noticed elsewhere
                self._workers = max(len(self._client.scheduler_info(n_workers=-1)["workers"]), 1)
            self._counted = time.monotonic()
        while len(self._flights) < self._workers * _AHEAD:
            if self._again:
                flight = self._again.popleft()
            elif (job := next(waiting, None)) is not None:
                flight = _Flight(ticket=next(self._tickets), job=job)
            else:
                return
            self._flights[flight.ticket] = flight
            key = f"{self._name}-{next(self._keys)}"
            future = self._client.submit(self._work, self._order(flight), key=key, pure=False)
            future.add_done_callback(
                lambda future, ticket=flight.ticket: self._inbox.put({"ticket": ticket, "future": future})
            )

    def _order(self, flight: _Flight) -> Order:
        point = flight.job.point
        if point.index not in self._texts:
            self._texts[point.index] = written(point.scenario)
        return {
            "plugins": send_plugins(point.scenario.plugins),
            "scenario": self._texts[point.index],
            "trials": flight.job.trials,
            "checkpoints": self._checkpoints,
            "versions": dict(versions()),
            "topic": self._name,
            "ticket": flight.ticket,
            "every_s": max(_TOLD_EVERY_S, self._workers / _HEARD_PER_S),
            "log_level": our_logger().getEffectiveLevel(),
        }

    # --- back -------------------------------------------------------------------------------------

    def _land(self, ticket: int, future: Future[Any]) -> Finished | None:
        """Return what came of a job, None if it is handed out again. Raises what the job raised, ClusterLostError."""
        flight = self._flights[ticket]
        try:
            answer: Answer = future.result()
        except KilledWorker as error:
            del self._flights[ticket]
            return self._dropped(flight, losses=error.allowed_failures + 1)
        except Exception:
            self._refuse_lost(cancelled=future.cancelled())
            raise
        self._advance(ticket, answer["computed"], answer["restored"])
        del self._flights[ticket]
        future.release()
        results, incidents = tuple(answer["results"]), tuple(answer["incidents"])
        return Finished(job=flight.job, results=results, seconds=answer["seconds"], incidents=incidents)

    def _dropped(self, flight: _Flight, *, losses: int) -> Finished | None:
        """The scheduler gave a job up, whose worker was lost so often: it has failed if the worker was at work on it.

        Dask counts a loss against every job that the worker had, those that waited behind the guilty one too.
        """
        flight.dropped += 1
        if flight.begun < losses and flight.dropped <= _DROPPED_UNSEEN:
            self._again.append(flight)
            return None
        failure = f"the worker was lost {max(flight.begun, losses)} times; likely out of memory"
        results = (TrialResult(trial=one, metrics={}, rounds={}, failure=failure) for one in flight.job.trials)
        return Finished(job=flight.job, results=tuple(results), seconds=0.0)

    def _advance(self, ticket: int, computed: int, restored: int, begun: bool = False) -> None:
        """Hear of the trial-rounds of a job so far, `begun` where a worker begins it.

        A job that is computed again after its worker was lost tells its rounds again: only what is new counts.
        """
        flight = self._flights.get(ticket)
        if flight is None:
            return
        flight.begun += begun
        new = max(computed + restored - flight.computed - flight.restored, 0)
        found = min(max(restored - flight.restored, 0), new)
        flight.restored += found
        flight.computed += new - found
        if found:
            self._progress.restored(found)
        if new > found:
            self._progress.advance(new - found)

    def _refuse_lost(self, *, cancelled: bool = False) -> None:
        if cancelled or self._client.status != "running":
            raise ClusterLostError(f"the scheduler at {self._address} is lost")


def log_again(sent: dict[str, Any]) -> None:
    """Log here what a worker logged, with the time that it had there."""
    here = logging.getLogger(sent["name"])
    if here.isEnabledFor(sent["levelno"]):
        here.handle(logging.makeLogRecord(sent))
