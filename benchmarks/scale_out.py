"""What it costs to spread tasks over processes, and what it brings.

    python benchmarks/scale_out.py                   # both, ten minutes on a machine that does nothing else
    python benchmarks/scale_out.py overhead          # the engine around tasks of one second that only sleep
    python benchmarks/scale_out.py speedup           # flmc-snr with two workers against one

Overhead is (time from the first task that a worker begins to the last that it ends) / (time asleep) - 1, over all
workers. Speed-up is the ratio of medians of runs that take turns, each from the first jobs returned to the last:
processes have been started and compiled what they run by then. Both have the threads of two workers, half of the cores
each: one worker is one process that is held to half of the cores.
"""

from __future__ import annotations

import argparse
import io
import os
import pickle
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence

from fl.base.results import TrialResult
from phy.numerics.workers import THREADS_VARIABLE
from scenarios.engine.batch import Finished, Job, finished
from scenarios.engine.cluster.engine import DaskEngine
from scenarios.engine.cluster.task import Order, Told
from scenarios.engine.start import threads_per_worker
from scenarios.engine.study import Progress
from scenarios.plan.plan import expand
from scenarios.schema.loader import load_scenario
from scenarios.store.blobs import Blob

TASK_S = 1.0


def asleep(order: Order) -> Finished:
    """A task of a second that needs no processor."""
    told = Told(order)
    begun = time.monotonic()
    until = begun + TASK_S
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.1))
        told.advance(1)
    metrics = {"worker": float(os.getpid()), "begun": begun, "ended": time.monotonic()}
    job: Job = pickle.loads(order["job"])
    results = [TrialResult(trial=trial, metrics=metrics, rounds={}) for trial in job.trials]
    return finished(job, results, seconds=TASK_S)


def timed(workers: int, jobs: Sequence[Job], *, skip: int) -> float:
    """Seconds from the moment that `skip` jobs were back until all are."""
    started, last = 0.0, 0.0
    for number, _ in enumerate(DaskEngine(workers=workers).run(jobs, progress=Progress()), start=1):
        last = time.perf_counter()
        started = last if number == skip else started
    return last - started


def overhead(workers: int, tasks: int) -> None:
    """Print the share of time that the engine takes beside tasks of a second."""
    point = expand(load_scenario("flmc-snr")).points[0]
    jobs = [Job(point=point, trials=(trial,)) for trial in range(tasks)]
    spans: dict[float, list[tuple[float, float]]] = defaultdict(list)
    for one in DaskEngine(workers=workers, work=asleep).run(jobs, progress=Progress()):
        metrics = Blob(io.BytesIO(one.rows), most=len(one.rows)).read("metrics")
        for worker, *span in zip(*(metrics[name] for name in ("worker", "begun", "ended")), strict=True):
            spans[worker].append((span[0], span[1]))
    there = sum(max(end for _, end in told) - min(begin for begin, _ in told) for told in spans.values())
    share = there / (tasks * TASK_S) - 1.0
    print(f"overhead: {tasks} tasks of {TASK_S:.0f} s on {workers} workers: {share:+.1%} (wanted: under 5 %)")


def speedup(trials: int, batch: int, repeats: int) -> None:
    """Print how much sooner two workers are done than one."""
    points = expand(load_scenario("flmc-snr")).points
    jobs = [
        Job(point=point, trials=tuple(range(first, first + batch)))
        for first in range(0, trials, batch)
        for point in points
    ]
    warm = 2 * len(points)  # both workers have met every point, or nearly
    walls: dict[int, list[float]] = {1: [], 2: []}
    # Engines divide the cores of PHYLOOP_THREADS among their workers.
    share = threads_per_worker(2)
    for _ in range(repeats):
        for workers, seconds in walls.items():
            os.environ[THREADS_VARIABLE] = str(workers * share)
            seconds.append(timed(workers, jobs, skip=warm))
    one, two = (statistics.median(seconds) for seconds in walls.values())
    print(
        f"speed-up: flmc-snr, {trials} trials of {len(points)} points in batches of {batch}: one worker {one:.1f} s, "
        f"two {two:.1f} s, ratio {one / two:.2f} (wanted: at least 1.7)"
    )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["overhead", "speedup", []], help="default: both")
    parser.add_argument("--workers", type=int, default=2, help="of overhead; speed-up is that of two")
    parser.add_argument("--tasks", type=int, default=60, help="of overhead, a second each")
    parser.add_argument("--trials", type=int, default=400, help="of every point of flmc-snr")
    parser.add_argument("--batch", type=int, default=100, help="trials that a worker takes at once")
    parser.add_argument("--repeats", type=int, default=3, help="turns of one worker and of two")
    chosen = parser.parse_args()
    if not chosen.what or "overhead" in chosen.what:
        overhead(chosen.workers, chosen.tasks)
    if not chosen.what or "speedup" in chosen.what:
        speedup(chosen.trials, chosen.batch, chosen.repeats)


if __name__ == "__main__":
    main()
