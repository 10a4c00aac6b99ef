"""A job in the hands of the scheduler, and what is heard of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from distributed import Future

from scenarios.engine.batch import Job
from scenarios.engine.cluster.worker_log import PlainRecord


@dataclass(kw_only=True)
class Flight:
    """A job in the hands of the scheduler.

    How many trial-rounds of it were told, how often a worker began it, and how often the scheduler gave it up.
    """

    ticket: int
    job: Job
    future: Future[Any] | None = None
    computed: int = 0
    restored: int = 0
    begun: int = 0
    dropped: int = 0


@dataclass(frozen=True, kw_only=True)
class Landed:
    """The scheduler has an answer, or has given up."""

    ticket: int
    future: Future[Any]


@dataclass(frozen=True, kw_only=True)
class Heard:
    """Trial-rounds of a job so far, as its worker tells them; `begun` where it tells no more than that it begins."""

    ticket: int
    computed: int
    restored: int
    begun: bool = False


@dataclass(frozen=True, kw_only=True)
class Logged:
    """What a worker logged."""

    record: PlainRecord
