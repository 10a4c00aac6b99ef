"""An engine whose results are known beforehand: runs without learning, for everything around them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from fl.base.results import TrialResult
from scenarios.engine.batch import Finished, Job, finished
from scenarios.engine.study import Progress


@dataclass
class Known:
    """Each trial's mse is its number; trials in `failing` fail; `one_by_one` stores each as it comes.

    `error` ends the run at its first job, `stop_after` jobs it is interrupted.
    """

    failing: frozenset[int] = frozenset()
    stop_after: int | None = None
    seconds: float = 0.0
    one_by_one: bool = False
    error: Exception | None = None
    computed: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)

    def run(self, jobs: Iterable[Job], *, progress: Progress) -> Iterator[Finished]:
        for job in jobs:
            if self.error is not None:
                raise self.error
            if self.stop_after is not None and len(self.computed) >= self.stop_after:
                raise KeyboardInterrupt
            self.computed.append((job.point.index, job.trials))
            for piece in [(one,) for one in job.trials] if self.one_by_one else [job.trials]:
                time.sleep(self.seconds)
                progress.advance(len(piece) * job.point.scenario.learning.rounds)
                results = tuple(map(self._result, piece))
                yield finished(Job(point=job.point, trials=piece), results, seconds=1.0)

    def _result(self, trial: int) -> TrialResult:
        failure = f"round 1: trial {trial} diverged" if trial in self.failing else None
        rounds = {"squared_error": np.full(1 if failure else 2, float(trial))}
        metrics = {} if failure else {"mse": float(trial), "wasserstein2": 1.0}
        return TrialResult(trial=trial, metrics=metrics, rounds=rounds, failure=failure)
