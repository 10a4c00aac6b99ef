"""The engine beyond one process: hands jobs to the workers of a dask scheduler, a few at a time."""

from __future__ import annotations

import queue
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from distributed import Client, Future
from distributed.scheduler import KilledWorker

from fl.results import TrialResult
from scenarios.checkpoints import CheckpointPolicy
from scenarios.cluster.compatibility import versions
from scenarios.cluster.connection import Connection, own_workers, running_scheduler, to_standard_error
from scenarios.cluster.task import run_order
from scenarios.cluster.wire import (
    Answer,
    Order,
    PlainPolicy,
    incident_from,
    physics_digest,
    plain_policy,
    result_from,
    written,
)
from scenarios.engine import LATEST_S, Finished, Job
from scenarios.interruption import stop_if_asked

PATIENCE_S = 300.0
"""How long a scheduler that was lost is waited for."""

_AHEAD = 2
"""Orders in the hands of the scheduler for each worker: one in work, one to go on with."""
_TOLD_EVERY_S = 0.5
_HEARD_PER_S = 40.0
"""Rounds are told by each worker this seldom, and by all of them together this seldom."""
_LOOK_S = 0.2


@dataclass(frozen=True, kw_only=True)
class DaskEngine:
    """Jobs in `workers` processes of this machine, or in those of the `scheduler` at an address.

    Results are those of `InProcess`, bit for bit, whoever computes them and in whatever order. A job whose worker is
    lost is computed by another; lost too often, its trials have failed. `checkpoints` and `on_restored` are those of
    `InProcess`; `work` is what a worker does with an order.
    """

    workers: int | None = None
    scheduler: str | None = None
    checkpoints: CheckpointPolicy | None = None
    on_restored: Callable[[int], None] | None = None
    patience_s: float = PATIENCE_S
    tell: Callable[[str], None] = to_standard_error
    work: Callable[[Order], Answer] = run_order

    def run(self, jobs: Iterable[Job], *, on_progress: Callable[[int], None]) -> Iterator[Finished]:
        """See `Engine.run`.

        Raises ScenarioError for workers that would compute other numbers, ClusterLostError for a scheduler that went
        away for good, and what a job raises.
        """
        with self._connect() as connection:
            dispatch = _Dispatch(
                connection,
                work=self.work,
                checkpoints=plain_policy(self.checkpoints),
                on_progress=on_progress,
                on_restored=self.on_restored or on_progress,
            )
            yield from dispatch.run(jobs)

    def _connect(self) -> AbstractContextManager[Connection]:
        if self.scheduler is not None:
            return running_scheduler(self.scheduler, patience_s=self.patience_s, tell=self.tell)
        return own_workers(self.workers or 1)


@dataclass(kw_only=True)
class _Flight:
    """A job in the hands of the scheduler, and how many trial-rounds of it were told."""

    job: Job
    future: Future
    computed: int = 0
    restored: int = 0


@dataclass(frozen=True, kw_only=True)
class _Landed:
    ticket: int
    future: Future


@dataclass(frozen=True, kw_only=True)
class _Heard:
    ticket: int
    computed: int
    restored: int


class _Dispatch:
    """One run: what is handed out, and what came of it."""

    def __init__(
        self,
        connection: Connection,
        *,
        work: Callable[[Order], Answer],
        checkpoints: PlainPolicy | None,
        on_progress: Callable[[int], None],
        on_restored: Callable[[int], None],
    ) -> None:
        self._connection, self._work, self._checkpoints = connection, work, checkpoints
        self._on_progress, self._on_restored = on_progress, on_restored
        self._name = f"phyloop-{uuid.uuid4().hex[:12]}"
        self._inbox: queue.SimpleQueue[_Landed | _Heard] = queue.SimpleQueue()
        self._tickets = count()
        self._flights: dict[int, _Flight] = {}
        self._again: deque[Job] = deque()
        self._texts: dict[int, tuple[str, str]] = {}

    def run(self, jobs: Iterable[Job]) -> Iterator[Finished]:
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
                continue
            if isinstance(message, _Heard):
                self._advance(message)
                continue
            flight = self._flights.get(message.ticket)
            if flight is None or flight.future is not message.future:
                continue  # of a connection that was lost since
            finished = None if flight.future.status == "cancelled" else self._land(message.ticket)
            if finished is None:
                self._start_again()
                continue
            if finished.left is not None:
                self._again.append(finished.left)
            yield finished

    # --- out --------------------------------------------------------------------------------------

    def _listen(self) -> None:
        self._connection.client.subscribe_topic(self._name, self._hear)

    def _hear(self, event: tuple[float, dict[str, Any]]) -> None:
        """Called by dask in a thread of its own."""
        said = event[1]
        self._inbox.put(_Heard(ticket=said["ticket"], computed=said["computed"], restored=said["restored"]))

    def _hand_out(self, waiting: Iterator[Job]) -> None:
        """Hand out the next jobs; what came back goes first."""
        client = self._connection.client
        workers = max(_num_workers(client), 1)
        while len(self._flights) < workers * _AHEAD:
            job = self._again.popleft() if self._again else next(waiting, None)
            if job is None:
                return
            ticket = next(self._tickets)
            order = self._order(ticket, job, workers)
            future = client.submit(self._work, order, key=f"{self._name}-{ticket}", pure=False)
            self._flights[ticket] = _Flight(job=job, future=future)
            future.add_done_callback(partial(self._landed, ticket))

    def _landed(self, ticket: int, future: Future) -> None:
        """Called by dask in a thread of its own."""
        self._inbox.put(_Landed(ticket=ticket, future=future))

    def _order(self, ticket: int, job: Job, workers: int) -> Order:
        point = job.point
        if point.index not in self._texts:
            self._texts[point.index] = (written(point.scenario), physics_digest(point.scenario))
        text, physics = self._texts[point.index]
        return {
            "scenario": text,
            "physics": physics,
            "trials": list(job.trials),
            "latest_s": LATEST_S,
            "checkpoints": self._checkpoints,
            "versions": dict(versions()),
            "topic": self._name,
            "ticket": ticket,
            "every_s": max(_TOLD_EVERY_S, workers / _HEARD_PER_S),
        }

    # --- back -------------------------------------------------------------------------------------

    def _land(self, ticket: int) -> Finished | None:
        """What came of a job; None if the scheduler was lost with it."""
        flight = self._flights[ticket]
        try:
            answer: Answer = flight.future.result()
        except KilledWorker as error:
            del self._flights[ticket]
            return _given_up(flight.job, losses=error.allowed_failures + 1)
        except Exception:
            if flight.future.cancelled() or self._connection.client.status != "running":
                return None
            raise
        self._advance(_Heard(ticket=ticket, computed=answer["computed"], restored=answer["restored"]))
        del self._flights[ticket]
        flight.future.release()
        job, results = flight.job, tuple(result_from(sent) for sent in answer["results"])
        return Finished(
            job=Job(point=job.point, trials=tuple(result.trial for result in results)),
            results=results,
            seconds=answer["seconds"],
            left=Job(point=job.point, trials=tuple(answer["left"])) if answer["left"] else None,
            incidents=tuple(incident_from(sent) for sent in answer["incidents"]),
        )

    def _start_again(self) -> None:
        """Hand everything out once more that was not returned when the scheduler went away."""
        self._connection.renew()
        self._again.extendleft(reversed([flight.job for _, flight in sorted(self._flights.items())]))
        self._flights.clear()
        self._listen()

    def _advance(self, heard: _Heard) -> None:
        """A job that is computed again after its worker was lost tells its rounds again: only what is new counts."""
        flight = self._flights.get(heard.ticket)
        if flight is None:
            return
        new = heard.computed + heard.restored - flight.computed - flight.restored
        if new <= 0:
            return
        restored = min(max(heard.restored - flight.restored, 0), new)
        if restored:
            self._on_restored(restored)
            flight.restored += restored
        if new > restored:
            self._on_progress(new - restored)
            flight.computed += new - restored


def _num_workers(client: Client) -> int:
    return len(client.scheduler_info(n_workers=-1)["workers"])


def _given_up(job: Job, *, losses: int) -> Finished:
    failure = f"the worker was lost {losses} times; likely out of memory"
    return Finished(
        job=job,
        results=tuple(TrialResult(trial=trial, metrics={}, rounds={}, failure=failure) for trial in job.trials),
        seconds=0.0,
    )
