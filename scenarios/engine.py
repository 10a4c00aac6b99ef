"""The engine seam: where batches of tasks are computed. The do-nothing one computes them in this process."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from fl.footprint import bytes_per_trial, dimension, seconds_per_trial, trials_side_by_side
from fl.results import TrialResult
from scenarios.interruption import stop_if_asked
from scenarios.plan import Point
from scenarios.schema import Scenario

BATCH_BYTES = 192 << 20
"""Memory a batch may take beside the libraries themselves."""

_BATCH_ENTRIES = 40_000_000
"""Gradient entries in a batch: a batch is what an interruption can lose, so it stays within seconds."""
_LARGEST_BATCH = 1000
_BATCH_SECONDS = 5.0
"""Time of a batch of trials that run one after the other: more would only be stored later."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Trials of one point that are computed side by side."""

    point: Point
    trials: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A job and what came of it; `seconds` is the time of the whole batch."""

    job: Job
    results: tuple[TrialResult, ...]
    seconds: float


class Engine(Protocol):
    """Computes jobs, in any order, and yields each as it is finished."""

    def run(self, jobs: Iterable[Job], *, on_progress: Callable[[int], None]) -> Iterator[Finished]:
        """`on_progress` hears how many trial-rounds were done since it last heard."""
        ...


def trial_bytes(scenario: Scenario) -> int:
    """Memory of one trial at this point beside the libraries [B]."""
    return bytes_per_trial(scenario.learning, scenario.link)


def batch_size(scenario: Scenario, *, batch_bytes: int = BATCH_BYTES) -> int:
    """Trials computed side by side at this point: bounded by memory and by what an interruption may lose.

    Of `batch_bytes` no number depends: a trial comes out the same alone.
    """
    learning = scenario.learning
    if not trials_side_by_side(learning):
        one = seconds_per_trial(learning, scenario.link, batch=1)
        return int(min(max(_BATCH_SECONDS // max(one, 1e-3), 1), _LARGEST_BATCH))
    by_memory = batch_bytes // trial_bytes(scenario)
    by_time = _BATCH_ENTRIES // (learning.rounds * learning.num_devices * (dimension(learning) or 1))
    return int(max(min(by_memory, by_time, _LARGEST_BATCH), 1))


@dataclass(frozen=True, kw_only=True)
class InProcess:
    """One job after the other, here."""

    def run(self, jobs: Iterable[Job], *, on_progress: Callable[[int], None]) -> Iterator[Finished]:
        """See `Engine.run`."""
        start_tensorflow()
        for job in jobs:
            yield compute(job, on_progress=on_progress)


def compute(job: Job, *, on_progress: Callable[[int], None]) -> Finished:
    """Compute one job in this process, whichever engine asks for it. TensorFlow must have been started.

    `on_progress` hears how many trial-rounds were done since it last heard, and may raise to stop.
    """
    from fl.run import run_trials

    started = time.perf_counter()
    scenario = job.point.scenario
    # Heard once per round of all trials side by side, or once per round of each.
    size = len(job.trials) if trials_side_by_side(scenario.learning) else 1
    results = run_trials(
        scenario.learning,
        link=scenario.link,
        privacy=None if scenario.privacy == "none" else scenario.privacy,
        seed=scenario.seed,
        trials=job.trials,
        on_round=partial(_advance, on_progress, size),
    )
    return Finished(job=job, results=tuple(results), seconds=time.perf_counter() - started)


def start_tensorflow() -> None:
    """Import TensorFlow and let it find its devices, without the chatter of either."""
    # Before the import, which is when native code reads it: its errors (oneDNN's, XLA's) come at any later moment.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with quiet_standard_error():
        import tensorflow

        # Finding devices is what makes TensorFlow chatter about absent GPUs.
        tensorflow.config.list_logical_devices()
    # Several links in one process share a function's name, which TensorFlow takes for retracing.
    tensorflow.get_logger().setLevel("ERROR")


def _advance(on_progress: Callable[[int], None], size: int, rounds_done: int) -> None:
    del rounds_done  # one more round of `size` trials
    stop_if_asked()
    on_progress(size)


@contextmanager
def quiet_standard_error() -> Iterator[None]:
    """Hold back what native code writes to standard error; show it only if the block raises."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            yield
        except Exception:
            aside.seek(0)
            os.write(kept, aside.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
