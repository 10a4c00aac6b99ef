"""The interface of engines, which compute jobs, and the engine that computes them in this process."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fl.base.results import TrialResult
from scenarios.engine.failures import Incident, results_or_failures
from scenarios.engine.interruption import stop_if_asked
from scenarios.engine.start import prepare_tensorflow
from scenarios.engine.study import Progress
from scenarios.plan.identity import canonical_json, physics, physics_json, task_ids
from scenarios.plan.points import Point
from scenarios.schema.schema import Scenario
from scenarios.store.checkpoints import CheckpointPolicy, TaskCheckpoints
from scenarios.store.trials import pack_trials

LIBRARIES_BYTES = 220 << 20
"""Resident memory of a process before its first batch, without TensorFlow."""
TENSORFLOW_BYTES = 680 << 20
"""Memory that TensorFlow and Sionna take, where a link or a network needs them."""
BATCH_BYTES = 192 << 20
"""Memory a batch may take beside the libraries themselves."""

_BATCH_ENTRIES = 40_000_000
"""Gradient entries in a batch: an interruption can lose a batch, so that it takes seconds at most."""
_LARGEST_BATCH = 1000


@dataclass(frozen=True, kw_only=True)
class Job:
    """Trials of one sweep point that are computed together."""

    point: Point
    trials: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """Results of trials of one point, as they are stored and as they travel from a worker.

    - `point`: index of the point; `rows`: rows of a store, see `scenarios.store.trials.pack_trials`;
    - `failures`: why a trial failed, by its number; `incidents`: exceptions that failed trials;
    - `seconds`: time of all trials; `restored`: trial-rounds that were found in checkpoints.
    """

    point: int
    trials: tuple[int, ...]
    rows: bytes
    failures: Mapping[int, str]
    seconds: float
    incidents: tuple[Incident, ...] = ()
    restored: int = 0


class Engine(Protocol):
    """Computes jobs, in any order, and yields each as it is finished.

    `jobs` may yield None: which jobs come next depends on results that are not stored yet.
    """

    def run(self, jobs: Iterable[Job | None], *, progress: Progress) -> Generator[Finished, None, None]:
        """Yield results; `progress` gets the trial-rounds that were computed, and those restored from checkpoints."""
        ...


def libraries_bytes(scenario: Scenario) -> int:
    """Memory of a process at this point before its first trial: libraries and compiled code [B]."""
    learning, link = scenario.learning, scenario.link
    tensorflow = TENSORFLOW_BYTES if learning.loads_tensorflow(link) else 0
    return LIBRARIES_BYTES + tensorflow + learning.bytes_compiled(link)


def batch_size(scenario: Scenario, *, limit_bytes: int | None = None) -> int:
    """Trials in one batch of this sweep point: one, unless trials share their work.

    Then bounded by memory, and by the work that an interruption may lose. `limit_bytes`: memory that the process may
    take; None: no limit. No number depends on it: a trial has the same result alone.
    """
    learning = scenario.learning
    if not learning.side_by_side:
        return 1
    free = BATCH_BYTES if limit_bytes is None else min(BATCH_BYTES, limit_bytes - libraries_bytes(scenario))
    by_memory = free // learning.bytes_per_trial(scenario.link)
    by_work = _BATCH_ENTRIES // (learning.rounds * learning.num_devices * (learning.num_values() or 1))
    return int(max(min(by_memory, by_work, _LARGEST_BATCH), 1))


@dataclass(frozen=True, kw_only=True)
class InProcess:
    """One job after the other, in this process."""

    checkpoints: CheckpointPolicy | None = None

    def run(self, jobs: Iterable[Job | None], *, progress: Progress) -> Generator[Finished, None, None]:
        """See `Engine.run`. Every result is stored before the next job is asked for, so that none has to wait."""
        prepare_tensorflow()
        for job in filter(None, jobs):
            yield compute(job, progress=progress, checkpoints=self.checkpoints)


def compute(job: Job, *, progress: Progress, checkpoints: CheckpointPolicy | None = None) -> Finished:
    """Compute one job in this process, whichever engine asks for it. Call `prepare_tensorflow` before.

    - an exception inside a trial fails that trial: see `results_or_failures`; one of `progress` stops the job;
    - `checkpoints`: where and when states are kept, and looked for; None: nowhere.
    """
    from fl.algorithms.run import run_trials

    started, scenario = time.perf_counter(), job.point.scenario
    text = "" if checkpoints is None else physics_json(scenario)
    counted = _Counted(progress, job.trials, rounds=scenario.learning.rounds)

    def attempt(part: tuple[int, ...]) -> list[TrialResult]:
        return run_trials(
            scenario.learning,
            link=scenario.link,
            privacy=scenario.mechanism,
            seed=scenario.seed,
            trials=part,
            on_round=counted.round_done,
            checkpoints=None if checkpoints is None else TaskCheckpoints(checkpoints, physics=text, trials=part),
        )

    results, incidents = results_or_failures(attempt, job.trials)
    progress.advance(counted.left)  # trials that failed or stopped have no further rounds
    seconds = time.perf_counter() - started
    return finished(job, results, seconds=seconds, incidents=incidents, restored=counted.restored)


def finished(job: Job, results: Sequence[TrialResult], *, seconds: float, **about: Any) -> Finished:
    """Return the results of a job, packed to be stored; `about`: other fields of `Finished`."""
    known = physics(job.point.scenario)
    ids = task_ids(canonical_json(known), trials=[one.trial for one in results])
    rows = b"".join(pack_trials(dict(zip(ids, results, strict=True)), physics=known, seconds=seconds))
    failures = {one.trial: one.failure for one in results if one.failure is not None}
    return Finished(point=job.point.index, trials=job.trials, rows=rows, failures=failures, seconds=seconds, **about)


class _Counted:
    """Counts trial-rounds of `trials` for `progress`, those of trials that are begun again once; `left` are to come."""

    def __init__(self, progress: Progress, trials: tuple[int, ...], *, rounds: int) -> None:
        self.trials, self.left, self.restored = trials, len(trials) * rounds, 0
        self._progress, self._rounds_done = progress, 0

    def round_done(self, rounds_done: int) -> None:
        stop_if_asked()
        new = max(rounds_done - self._rounds_done, 0)
        self._rounds_done += new
        # One round was computed; what else is new was restored from a checkpoint.
        found, computed = (len(self.trials) * rounds for rounds in (max(new - 1, 0), min(new, 1)))
        self.restored += found
        self.left -= found + computed
        if found:
            self._progress.restored(found)
        self._progress.advance(computed)
