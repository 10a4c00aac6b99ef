"""The engine beyond one process: hands jobs to the workers of a dask scheduler, a few at a time."""

from __future__ import annotations

import queue
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from distributed import Future
from distributed.scheduler import KilledWorker

from fl.results import TrialResult
from scenarios.engine.batch import LATEST_S, Finished, Job
from scenarios.engine.cluster.compatibility import versions
from scenarios.engine.cluster.connection import Connection, own_workers, running_scheduler, to_standard_error
from scenarios.engine.cluster.task import run_order
from scenarios.engine.cluster.wire import Answer, Order, physics_digest, written
from scenarios.engine.cluster.worker_log import log_again
from scenarios.engine.interruption import stop_if_asked
from scenarios.files.log import our_logger
from scenarios.schema.plugins import send_plugins
from scenarios.store.checkpoints import CheckpointPolicy
from scenarios.store.trials import unpack_trials

PATIENCE_S = 300.0
"""How long a scheduler that was lost is waited for."""

_AHEAD = 2
"""Orders in the hands of the scheduler for each worker: one in work, one to go on with."""
_TOLD_EVERY_S = 0.5
_HEARD_PER_S = 40.0
"""Rounds are told by each worker this seldom, and by all of them together this seldom."""
_LOOK_S = 0.2
_DROPPED_UNSEEN = 2
"""Times that a job is handed out again which the scheduler gave up and that no worker was heard to begin."""


@dataclass(frozen=True, kw_only=True)
class DaskEngine:
    """Jobs in `workers` processes of this machine, or in those of the `scheduler` at an address.

    Results are those of `InProcess`, bit for bit, whoever computes them and in whatever order. A job whose worker is
    lost is computed by another; lost too often, its trials have failed.

    `checkpoints` are those of `InProcess`. `worker_bytes`: memory of each process of ours, an equal
    share if None. `patience_s`: how long a lost scheduler is waited for. `work`: what a worker does with an order.
    """

    workers: int | None = None
    scheduler: str | None = None
    checkpoints: CheckpointPolicy | None = None
    worker_bytes: int | None = None
    patience_s: float = PATIENCE_S
    tell: Callable[[str], None] = to_standard_error
    work: Callable[[Order], Answer] = run_order

    def run(
        self,
        jobs: Iterable[Job],
        *,
        on_progress: Callable[[int], None],
        on_restored: Callable[[int], None] | None = None,
    ) -> Generator[Finished, None, None]:
        """See `Engine.run`.

        Raises ScenarioError for workers that would compute other numbers, ClusterLostError for a scheduler that went
        away for good, and what a job raises.
        """
        with self._connect() as connection:
            dispatch = _Dispatch(
                connection,
                work=self.work,
                checkpoints=self.checkpoints and replace(self.checkpoints, folder=self.checkpoints.folder.absolute()),
                on_progress=on_progress,
                on_restored=on_restored or on_progress,
            )
            yield from dispatch.run(jobs)

    def _connect(self) -> AbstractContextManager[Connection]:
        if self.scheduler is not None:
            return running_scheduler(self.scheduler, patience_s=self.patience_s, tell=self.tell)
        return own_workers(self.workers or 1, worker_bytes=self.worker_bytes)


@dataclass(kw_only=True)
class _Flight:
    """A job in the hands of the scheduler.

    Trial-rounds of it that were told, how often a worker began it, and how often the scheduler gave it up.
    """

    ticket: int
    job: Job
    future: Future[Any] | None = None
    computed: int = 0
    restored: int = 0
    begun: int = 0
    dropped: int = 0


class _SchedulerLostError(Exception):
    """The scheduler was lost with what it had."""


class _Dispatch:
    """One run: what is handed out, and what came of it."""

    def __init__(
        self,
        connection: Connection,
        *,
        work: Callable[[Order], Answer],
        checkpoints: CheckpointPolicy | None,
        on_progress: Callable[[int], None],
        on_restored: Callable[[int], None],
    ) -> None:
        self._connection, self._work, self._checkpoints = connection, work, checkpoints
        self._on_progress, self._on_restored = on_progress, on_restored
        self._name = f"phyloop-{uuid.uuid4().hex[:12]}"
        self._inbox: queue.SimpleQueue[Callable[[], Finished | None]] = queue.SimpleQueue()
        self._tickets, self._keys = count(), count()
        self._flights: dict[int, _Flight] = {}
        self._again: deque[_Flight] = deque()
        self._texts: dict[int, tuple[str, str]] = {}

    def run(self, jobs: Iterable[Job]) -> Generator[Finished, None, None]:
        waiting = iter(jobs)
        self._listen()
        while True:
            stop_if_asked()
            self._hand_out(waiting)
            if not self._flights:
                return
            try:
                message = self._inbox.get(timeout=_LOOK_S)
            except queue.Empty:
                self._on_progress(0)  # whoever watches hears that this process lives
                if self._connection.client.status != "running":
                    self._start_again()
                continue
            try:
                finished = message()
            except _SchedulerLostError:
                self._start_again()
                continue
            if finished is not None:
                yield finished

    # --- out --------------------------------------------------------------------------------------

    def _listen(self) -> None:
        self._connection.client.subscribe_topic(self._name, self._hear)

    def _hear(self, event: tuple[float, dict[str, Any]]) -> None:
        """Called by dask in a thread of its own."""
        said = event[1]
        self._inbox.put(
            partial(log_again, said["record"]) if "record" in said else partial(self._advance, *said["progress"])
        )

    def _hand_out(self, waiting: Iterator[Job]) -> None:
        """Hand out the next jobs; what came back goes first."""
        workers = max(self._connection.num_workers(), 1)
        while len(self._flights) < workers * _AHEAD:
            if self._again:
                flight = self._again.popleft()
            elif (job := next(waiting, None)) is not None:
                flight = _Flight(ticket=next(self._tickets), job=job)
            else:
                return
            order = self._order(flight.ticket, flight.job, workers)
            key = f"{self._name}-{next(self._keys)}"
            flight.future = self._connection.client.submit(self._work, order, key=key, pure=False)
            self._flights[flight.ticket] = flight
            flight.future.add_done_callback(partial(self._landed, flight.ticket))

    def _landed(self, ticket: int, future: Future[Any]) -> None:
        """Called by dask in a thread of its own."""
        self._inbox.put(partial(self._land, ticket, future))

    def _order(self, ticket: int, job: Job, workers: int) -> Order:
        point = job.point
        if point.index not in self._texts:
            self._texts[point.index] = (written(point.scenario), physics_digest(point.scenario))
        text, physics = self._texts[point.index]
        return {
            "plugins": send_plugins(point.scenario.plugins),
            "scenario": text,
            "physics": physics,
            "trials": job.trials,
            "latest_s": LATEST_S,
            "checkpoints": self._checkpoints,
            "versions": dict(versions()),
            "topic": self._name,
            "ticket": ticket,
            "every_s": max(_TOLD_EVERY_S, workers / _HEARD_PER_S),
            "log_level": our_logger().getEffectiveLevel(),
        }

    # --- back -------------------------------------------------------------------------------------

    def _land(self, ticket: int, future: Future[Any]) -> Finished | None:
        """Return what came of a job; None if it is handed out again, or is of a connection that was lost since.

        Raises what the job raised, or _SchedulerLostError.
        """
        flight = self._flights.get(ticket)
        if flight is None or flight.future is not future:
            return None
        if future.cancelled():
            raise _SchedulerLostError
        try:
            answer: Answer = future.result()
        except KilledWorker as error:
            del self._flights[flight.ticket]
            return self._dropped(flight, losses=error.allowed_failures + 1)
        except Exception as error:
            if future.cancelled() or self._connection.client.status != "running":
                raise _SchedulerLostError from error
            raise
        self._advance(ticket, answer["computed"], answer["restored"])
        del self._flights[ticket]
        future.release()
        point, results = flight.job.point, tuple(unpack_trials(answer["results"]))
        left = Job(point=point, trials=tuple(answer["left"])) if answer["left"] else None
        if left is not None:
            self._again.append(_Flight(ticket=next(self._tickets), job=left))
        return Finished(
            job=Job(point=point, trials=tuple(one.trial for one in results)),
            results=results,
            seconds=answer["seconds"],
            left=left,
            incidents=tuple(answer["incidents"]),
        )

    def _dropped(self, flight: _Flight, *, losses: int) -> Finished | None:
        """The scheduler gave a job up, whose worker was lost so often: it has failed if the worker was at work on it.

        Dask counts a loss against every job that the worker had, those that waited behind the guilty one too.
        """
        flight.dropped += 1
        if flight.begun >= losses or flight.dropped > _DROPPED_UNSEEN:
            return _given_up(flight.job, losses=max(flight.begun, losses))
        self._again.append(flight)
        return None

    def _start_again(self) -> None:
        """Hand everything out once more that was not returned when the scheduler went away."""
        self._connection.renew()
        self._again.extendleft(flight for _, flight in sorted(self._flights.items(), reverse=True))
        self._flights.clear()
        self._listen()

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
            self._on_restored(found)
        if new > found:
            self._on_progress(new - found)


def _given_up(job: Job, *, losses: int) -> Finished:
    failure = f"the worker was lost {losses} times; likely out of memory"
    return Finished(
        job=job,
        results=tuple(TrialResult(trial=trial, metrics={}, rounds={}, failure=failure) for trial in job.trials),
        seconds=0.0,
    )
