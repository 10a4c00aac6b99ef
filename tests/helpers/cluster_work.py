"""What workers do in tests of the engine: the road is the real one, the work takes no time."""

from __future__ import annotations

import os
import pickle
import signal
import time
from pathlib import Path

import numpy as np

from fl.base.errors import LearningError
from fl.base.results import TrialResult
from scenarios.engine.batch import Finished, Job, finished
from scenarios.engine.cluster import task
from scenarios.engine.cluster.task import Order, Told

MARK = "PHYLOOP_TEST_MARK"
"""Environment variable of workers: a file that says that something has happened already."""


def draw(order: Order) -> Finished:
    """Numbers that hang on seed and trial alone; later trials are faster, so that jobs end in another order."""
    told, job = Told(order), job_of(order)
    scenario = job.point.scenario
    time.sleep(0.02 * (7 - job.trials[0] % 8))
    results = []
    for trial in job.trials:
        numbers = np.random.default_rng([scenario.seed, trial]).normal(size=scenario.learning.rounds)
        told.advance(scenario.learning.rounds)
        metrics = {"mse": float(numbers.mean()), "nothing": float("nan")}
        results.append(TrialResult(trial=trial, metrics=metrics, rounds={"amplitude": numbers}))
    return finished(job, results, seconds=0.0)


def job_of(order: Order) -> Job:
    found: Job = pickle.loads(order["job"])
    return found


def die_once(order: Order) -> Finished:
    """The worker that has trial 3 first is killed, halfway through its rounds."""
    mark = Path(os.environ[MARK])
    if job_of(order).trials[0] == 3 and not mark.exists():
        mark.touch()
        task.TOLD_EVERY_S = 0.0
        Told(order).advance(10)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    return draw(order)


def die_always(order: Order) -> Finished:
    """Whoever has trial 3 is killed."""
    if job_of(order).trials[0] == 3:
        Told(order)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    return draw(order)


def raise_an_error_of_ours(order: Order) -> Finished:
    """A sentence on the scenario."""
    raise LearningError(f"trial {job_of(order).trials[0]} cannot be")


def go_on_and_on(order: Order) -> Finished:
    """Rounds without end, as long as somebody waits."""
    told = Told(order)
    try:
        while True:
            time.sleep(0.02)
            told.advance(1)
    finally:
        Path(os.environ[MARK]).touch()
