"""Where the time of three jobs goes: FLMC, compressed private aggregation, bit flipping.

    python benchmarks/profile_rounds.py [JOB ..] [--turns N] [--functions]

Each job is run once to compile, then `--turns` times as it is and with a stopwatch around every call into compiled
code and around the functions that do the rest of the signal processing and learning in NumPy. A stopwatch stands still
while one inside it runs. Shares are of the run without stopwatches, which would make what is around them dearer:
medians over the turns, and both quartiles of what is in compiled code:

- kernels: `run_tasks` and compiled functions called outside it, by numba;
- TensorFlow: execution of compiled functions and single operations, not what Python does around them;
- NumPy: signal processing and learning in arrays, the functions of `NUMPY`, but for kernels that they call;
- results: what is put together once trials are done; storing: packing, and the write into a store;
- Python: all that is left, checks, copies and the calls themselves.

Shares are of processor time of all threads, so that other work on the machine hardly counts, and of wall time. Calls
inside worker threads belong to the stage that waits for them, and crews of devices train one after the other here, so
that TensorFlow can be told from what calls it. `--functions` shows the costliest functions of Python
by cProfile as well.
"""

from __future__ import annotations

import argparse
import atexit
import cProfile
import importlib
import os
import pstats
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from timing import print_table

from scenarios.engine.batch import Job, batch_size, compute
from scenarios.engine.start import prepare_tensorflow
from scenarios.engine.study import Progress
from scenarios.plan.plan import expand
from scenarios.plan.points import Point
from scenarios.schema.loader import load_scenario
from scenarios.store.store import Store

STAGES = ("kernels", "TensorFlow", "NumPy", "results", "storing", "Python")
NUMPY = (
    "fl.algorithms.flmc.tasks.regression:GaussianLinear.__init__",
    "fl.algorithms.flmc.kernels:SampleMoments.summary",
    "fl.schemes.aggregation.estimates:weighted_mean",
    "fl.schemes.codecs.partwise:FixedPoint._fractions",
    "fl.schemes.codecs.partwise:FixedPoint._values",
    "phy.numerics.bit_flips:flip_bits",
    "phy.measure.counts:count_differences",
    "fl.uplink.transport:believe",
    "phy.links.power:decide_amplitude",
    "phy.numerics.random:uniform_words",
    "privacy.mechanisms.flip_plans:plan_flips",
    "privacy.mechanisms.amplitude_privacy:RoundPrivacy.delta_spent",
)
_MOST_TURNS = 9
_CALLS = 2 * _MOST_TURNS + 2
"""One to compile, turns without and with stopwatches, one for cProfile."""
OTHERS = {
    "results": ("fl.algorithms.flmc.trials:FlmcTrials.results",),
    "storing": ("scenarios.engine.batch:finished", "scenarios.store.store:Store.append"),
}


class Cost(NamedTuple):
    """(processor, wall) seconds that a stopwatch adds to the stage that calls and to the one that is called."""

    of_caller: tuple[float, float] = (0.0, 0.0)
    of_called: tuple[float, float] = (0.0, 0.0)


@dataclass(slots=True)
class _Stage:
    processor: float = 0.0
    wall: float = 0.0
    called: int = 0
    calls: int = 0


class Stopwatches:
    """Time of each stage, exclusive of stages called inside it; calls of other threads do not count.

    What the stopwatches themselves take, `cost` of `calibrated` for each call, is taken off the stage that calls and
    off the one that is called.
    """

    def __init__(self, cost: Cost | None = None) -> None:
        self._cost = cost or Cost()
        self._stages: dict[str, _Stage] = defaultdict(_Stage)
        self._running = [_Stage()]
        self._since = [0.0, 0.0]
        self._thread = threading.get_ident()

    @property
    def spent(self) -> dict[str, tuple[float, float]]:
        """(processor, wall) time of each stage [s]."""
        of_caller, of_called = self._cost
        return {
            name: (
                stage.processor - stage.calls * of_caller[0] - stage.called * of_called[0],
                stage.wall - stage.calls * of_caller[1] - stage.called * of_called[1],
            )
            for name, stage in self._stages.items()
        }

    def around(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """The function with its stopwatch."""
        # Every name is bound here: what a stopwatch takes while caches are cold is not taken off.
        own, running, since, thread = self._stages[stage], self._running, self._since, self._thread
        ident, processor_s, wall_s = threading.get_ident, time.process_time, time.perf_counter

        @wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            if ident() != thread:
                return function(*arguments, **named)
            caller = running[-1]
            caller.calls += 1
            own.called += 1
            running.append(own)
            processor, wall = processor_s(), wall_s()
            caller.processor += processor - since[0]
            caller.wall += wall - since[1]
            since[0], since[1] = processor, wall
            try:
                return function(*arguments, **named)
            finally:
                processor, wall = processor_s(), wall_s()
                own.processor += processor - since[0]
                own.wall += wall - since[1]
                since[0], since[1] = processor, wall
                running.pop()

        return timed


def calibrated(calls: int = 2000, turns: int = 5) -> Cost:
    """What a stopwatch costs here: medians of `turns` times `calls` of a function that does nothing."""
    found = []
    for _ in range(turns):
        watches = Stopwatches()
        nothing = watches.around(lambda: None, "called")
        watches.around(lambda function=nothing: [function() for _ in range(calls)], "caller")()
        found.append([[watches.spent[stage][place] / calls for place in range(2)] for stage in ("caller", "called")])
    caller, called = np.median(found, axis=0).tolist()
    return Cost(of_caller=tuple(caller), of_called=tuple(called))


class InTurn:
    """A pool of threads that has none."""

    def __init__(self, threads: int) -> None:
        del threads

    def __enter__(self) -> InTurn:
        return self

    def __exit__(self, *error: object) -> None:
        del error

    def map(self, function: Callable[[Any], Any], some: Iterable[Any]) -> list[Any]:
        """See `concurrent.futures.Executor.map`."""
        return [function(one) for one in some]


@contextmanager
def watched(watches: Stopwatches) -> Iterator[None]:
    """Stopwatches around all stages; modules are as they were afterwards."""
    import numba
    from tensorflow.python import pywrap_tfe

    from phy.numerics.workers import run_tasks

    compiled = type(numba.njit(lambda: None))
    undo: list[tuple[Any, str, Any]] = []

    def put(owner: Any, name: str, value: Any) -> None:
        undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    replaced = {id(run_tasks): watches.around(run_tasks, "kernels")}
    for stage, places in {"NumPy": NUMPY, **OTHERS}.items():
        for place in places:
            module, _, path = place.partition(":")
            owner: Any = importlib.import_module(module)
            *classes, name = path.split(".")
            for one in classes:
                owner = getattr(owner, one)
            function = getattr(owner, name)
            replaced[id(function)] = watches.around(function, stage)
            if classes:
                put(owner, name, replaced[id(function)])
    # Where a module imported a function by name, that name is what it calls.
    for module_name, loaded in list(sys.modules.items()):
        if module_name.split(".")[0] in ("fl", "phy", "privacy", "scenarios"):
            for name, value in list(vars(loaded).items()):
                if id(value) in replaced:
                    put(loaded, name, replaced[id(value)])
                elif isinstance(value, compiled) and value.signatures:
                    put(loaded, name, watches.around(value, "kernels"))
    put(importlib.import_module("fl.local.trainer"), "ThreadPoolExecutor", InTurn)
    for name in ("TFE_Py_Execute", "TFE_Py_FastPathExecute"):
        put(pywrap_tfe, name, watches.around(getattr(pywrap_tfe, name), "TensorFlow"))
    try:
        yield
    finally:
        for owner, name, value in reversed(undo):
            setattr(owner, name, value)


# --- jobs -------------------------------------------------------------------------------------------------------------


def point_of(name: str, **wanted: Any) -> Point:
    """The point of a library scenario whose swept paths have these values (the last part of the path names it)."""
    plan = expand(load_scenario(name))
    for point in plan.points:
        found = {path.rsplit(".", 1)[-1]: value for path, value in point.settings.items()}
        if all(found.get(path) == value for path, value in wanted.items()):
            return point
    raise SystemExit(f"{name} has no point with {wanted}")


def stored(point: Point, *, trials: int) -> Callable[[], None]:
    """The point, computed and stored as `phyloop run` does: batch by batch, into a store that is open.

    Each call writes to another one: a finished task is never stored twice.
    """
    size = batch_size(point.scenario)
    rooms = ExitStack()
    atexit.register(rooms.close)
    empty = []
    for _ in range(_CALLS):
        folder = rooms.enter_context(tempfile.TemporaryDirectory())
        empty.append(rooms.enter_context(Store.open(Path(folder), scenario_name="profile")))

    def run() -> None:
        store = empty.pop()
        for first in range(0, trials, size):
            batch = tuple(range(first, min(first + size, trials)))
            store.append([compute(Job(point=point, trials=batch), progress=Progress()).rows])

    return run


def flmc(scheme: str) -> Callable[[], None]:
    """One point of `flmc-snr`, 1000 trials of 300 rounds."""
    privacy = {"epsilon": 5, "delta": 0.01}
    return stored(point_of("flmc-snr", scheme=scheme, snr_max_db=25, lmc_cap="printed", privacy=privacy), trials=1000)


def flmc_both() -> Callable[[], None]:
    """What `flmc-snr` is made of: a point of each."""
    analog, digital = flmc("analog"), flmc("digital")

    def run() -> None:
        analog()
        digital()

    return run


def cpa() -> Callable[[], None]:
    """Ten rounds of 1000 devices with the linear model."""
    from one_bit import cpa_federation, write_random_images

    with tempfile.TemporaryDirectory() as folder:
        write_random_images(Path(folder), count=5000)
        os.environ["PHYLOOP_DATA"] = folder
        federation = cpa_federation(1000)
    return lambda: _rounds(federation, 10)


def bit_flipping() -> Callable[[], None]:
    """The channel-native point of `bitflip-mechanisms`: 20 devices, digits, 50 rounds, 5 trials."""
    return stored(point_of("bitflip-mechanisms", label="channel-native"), trials=5)


def bit_flipping_cnn() -> Callable[[], None]:
    """Two rounds of 20 devices with the EMNIST CNN of 1.2 million weights, 23 bits each, over Rayleigh fading."""
    from fedavg_round import bit_flipping_federation, write_random_images

    with tempfile.TemporaryDirectory() as folder:
        write_random_images(Path(folder), "emnist", num_classes=62)
        os.environ["PHYLOOP_DATA"] = folder
        federation = bit_flipping_federation()
    return lambda: _rounds(federation, 2)


def _rounds(federation: Any, count: int) -> None:
    for index in range(count):
        federation.round(index)


JOBS: dict[str, Callable[[], Callable[[], None]]] = {
    "flmc": flmc_both,
    "flmc-analog": lambda: flmc("analog"),
    "flmc-digital": lambda: flmc("digital"),
    "cpa": cpa,
    "bit-flipping": bit_flipping,
    "bit-flipping-cnn": bit_flipping_cnn,
}


def profiled(name: str, *, turns: int, functions: bool) -> list[tuple[str, ...]]:
    """Rows of the table: shares of processor and of wall time, from medians over `turns`."""
    job = JOBS[name]()
    job()
    whole, seconds = np.empty((turns, 2)), np.empty((turns, len(STAGES), 2))
    for turn in range(turns):
        started = time.process_time(), time.perf_counter()
        job()
        whole[turn] = time.process_time() - started[0], time.perf_counter() - started[1]
        watches = Stopwatches(calibrated())
        with watched(watches):
            watches.around(job, "Python")()
        spent = watches.spent
        seconds[turn] = [spent.get(stage, (0.0, 0.0)) for stage in STAGES]
    # What surrounds a stopwatch is slower for it, caches and all: Python is what the run without any leaves.
    seconds[:, STAGES.index("Python")] = whole - (seconds.sum(axis=1) - seconds[:, STAGES.index("Python")])
    if functions:
        profiler = cProfile.Profile(timer=time.process_time)
        profiler.runcall(job)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    rows = []
    for place, clock in enumerate(("processor", "wall")):
        shares = 100.0 * seconds[:, :, place] / whole[:, place, None]
        compiled = shares[:, STAGES.index("kernels")] + shares[:, STAGES.index("TensorFlow")]
        told = [f"{one:.1f}" for one in np.median(shares, axis=0)]
        low, middle, high = np.quantile(compiled, (0.25, 0.5, 0.75))
        rows.append(
            (f"{name}, {clock}", f"{np.median(whole[:, place]):.2f}", *told, f"{middle:.0f} ({low:.0f}, {high:.0f})")
        )
    return rows


def main(arguments: list[str]) -> int:
    """Print one table for all jobs; a job of FLMC is a point of the main scenario."""
    parser = argparse.ArgumentParser(description="where the time of a round goes")
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}; all if left out")
    parser.add_argument("--functions", action="store_true", help="the costliest functions of Python too")
    parser.add_argument("--turns", type=int, default=5, choices=range(1, _MOST_TURNS + 1), help="medians of so many")
    asked = parser.parse_args(arguments)
    if unknown := [job for job in asked.jobs if job not in JOBS]:
        parser.error(f"no job {', '.join(unknown)}; use {', '.join(JOBS)}")
    prepare_tensorflow()
    wanted = asked.jobs or JOBS
    rows = [row for job in wanted for row in profiled(job, turns=asked.turns, functions=asked.functions)]
    print_table(("percent of", "seconds", *STAGES, "kernels and TensorFlow"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
