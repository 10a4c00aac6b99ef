"""A folder of 100,000 stored tasks: how long `run` takes to find what is missing and `status` to count, and its size.

Also the time to store and to read 1000 trials.

    python benchmarks/store.py [--tasks 100000] [--points 100]

Results are of trials whose numbers are drawn, not learnt. Times are wall and processor seconds of the command in a
process of its own, Python and its libraries included; bytes are of the whole file, per float or integer of metrics
and arrays.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from timing import print_table

from fl.base.results import TrialResult
from scenarios.files.plain_files import RESULTS
from scenarios.plan.identity import physics
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.store.store import Store
from scenarios.store.trials import SERIES_TABLES

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 3

SCENARIO = """\
name: stored
seed: 7
trials: {trials}
link:
  channel: {{model: flat, gain: 0.04, noise_power: 1.0}}
learning:
  task: {{name: gaussian-linear, num_samples: 60, dimension: 3}}
  num_devices: 4
  rounds: {rounds}
  burn_in: 0
  step_size: 1e-3
  lmc_cap: none
  scheme: digital
sweep:
  link.power.snr_max_db: {values}
"""

BEGIN = """
import sys
from scenarios.studies import prepare
from scenarios.cli.app import main

class First:
    def run(self, jobs, *, progress):
        next(iter(jobs))
        raise KeyboardInterrupt
        yield

prepare.choose_engine = lambda *_, **__: First()
scenario, folder, trials = sys.argv[1:]
sys.argv = ["phyloop", "run", scenario, "--out", folder, "--trials", trials]
try:
    main()
except SystemExit as stop:
    sys.exit(stop.code != 130)
"""
"""`phyloop run` with one trial more per point, up to the moment at which the first of them would be computed."""


def tiny(trial: int, *, rounds: int, draws: np.random.Generator) -> TrialResult:
    """Five metrics and one number per round."""
    names = ("mse", "wasserstein2", "variance_ratio", "amplitude", "active_cap")
    return TrialResult(
        trial=trial,
        metrics=dict(zip(names, draws.standard_normal(len(names)).tolist(), strict=True)),
        rounds={"squared_error": draws.standard_normal(rounds)},
    )


def as_flmc(trial: int, *, rounds: int, draws: np.random.Generator) -> TrialResult:
    """What a trial of digital FLMC with 4 devices keeps: 13 metrics, 14 curves, 11 counts per round and device."""
    shape = (rounds, 4)
    return TrialResult(
        trial=trial,
        metrics={f"metric_of_some_name_{k}": float(draws.standard_normal()) for k in range(13)},
        rounds={f"curve_{k}": draws.standard_normal(rounds) for k in range(14)},
        link={f"count_{k}": draws.integers(0, 1000, shape) for k in range(9)}
        | {"energy_j": draws.random(shape), "snr_db": draws.standard_normal(shape)},
        bursts={f"run_{k}": draws.integers(0, 100, 4) for k in range(6)},
    )


def numbers_in(result: TrialResult) -> int:
    """Floats and integers of a result."""
    tables = (result.rounds, result.link, result.privacy, result.bursts, result.devices)
    return len(result.metrics) + sum(array.size for table in tables for array in table.values())


def write_scenario(folder: Path, *, points: int, trials: int, rounds: int) -> tuple[Path, LoadedScenario, Plan]:
    """The scenario file of so many points, loaded and expanded."""
    path = folder / "stored.yaml"
    values = [round(float(value), 6) for value in np.linspace(0.0, 30.0, points)]
    path.write_text(SCENARIO.format(trials=trials, rounds=rounds, values=values))
    loaded = load_scenario(path)
    return path, loaded, expand(loaded)


def fill(folder: Path, plan: Plan, make: Callable[[int], TrialResult]) -> None:
    """Store results of every task."""
    with Store.open(folder, scenario_name="stored") as store:
        for point, ids in zip(plan.points, plan.task_ids, strict=True):
            for start in range(0, len(ids), 1000):
                some = {one: make(start + offset) for offset, one in enumerate(ids[start : start + 1000])}
                store.write(some, physics=physics(point.scenario), seconds=1.0)


def measured(*command: object) -> tuple[float, float]:
    """Wall and processor seconds of a command: the least of a few, for others may hold the cores."""
    found = []
    for _ in range(REPEATS):
        before, started = _cpu_s(), time.perf_counter()
        done = subprocess.run(list(map(str, command)), cwd=ROOT, env=_environment(), capture_output=True, text=True)
        found.append((time.perf_counter() - started, _cpu_s() - before))
        if done.returncode != 0:
            sys.exit(f"{command} ended with {done.returncode}: {done.stderr}")
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}


def times(folder: Path, *, tasks: int, points: int) -> Iterator[tuple[str, ...]]:
    """Rows of the table of times, on a folder of tiny results."""
    trials = tasks // points
    scenario, _, plan = write_scenario(folder, points=points, trials=trials, rounds=2)
    draws = np.random.default_rng(1)
    started = time.perf_counter()
    fill(folder / "run", plan, lambda trial: tiny(trial, rounds=2, draws=draws))
    yield "store them all, here", f"{time.perf_counter() - started:.1f}", "", ""
    command = (sys.executable, "-c", "from scenarios.cli.app import main; main()")
    begin = (sys.executable, "-c", BEGIN, scenario, folder / "run", trials + 1)
    rows: list[tuple[str, tuple[Any, ...], str]] = [
        ("status", (*command, "status", folder / "run"), "1"),
        ("run up to the first missing task", begin, "3"),
    ]
    for name, words, target in rows:
        wall, cpu = measured(*words)
        yield name, f"{wall:.2f}", f"{cpu:.2f}", target


def sizes(folder: Path, *, tasks: int) -> Iterator[tuple[str, ...]]:
    """Rows of the table of sizes."""
    kinds: dict[str, tuple[Callable[..., TrialResult], int]] = {
        "tiny, 2 rounds": (tiny, 2),
        "FLMC, 20 rounds": (as_flmc, 20),
        "FLMC, 200 rounds": (as_flmc, 200),
    }
    for number, (name, (make, rounds)) in enumerate(kinds.items()):
        some = max(tasks // rounds, 200)
        inside = folder / f"size{number}"
        inside.mkdir()
        _, _, plan = write_scenario(inside, points=2, trials=some // 2, rounds=rounds)
        one = partial(make, rounds=rounds, draws=np.random.default_rng(2))
        fill(inside / "run", plan, one)
        count = numbers_in(one(0))
        size = (inside / "run" / RESULTS).stat().st_size
        yield name, str(some), str(count), f"{size / some:.0f}", f"{size / some / count:.1f}"


def batch_times(folder: Path) -> Iterator[tuple[str, ...]]:
    """Rows of the table of 1000 FLMC trials: processor time to store them as one batch, and to read all of them."""
    for rounds in (20, 200):
        draws = np.random.default_rng(3)
        results = {f"{trial:064x}": as_flmc(trial, rounds=rounds, draws=draws) for trial in range(1000)}
        stored, read = [], []
        for turn in range(REPEATS):
            inside = folder / f"batch{rounds}-{turn}"
            with Store.open(inside, scenario_name="stored") as store:
                started = time.process_time()
                store.write(results, physics={}, seconds=1.0)
                stored.append(time.process_time() - started)
            started = time.process_time()
            with Store.open_existing(inside) as store:
                store.read_metrics(results)
                for table in SERIES_TABLES:
                    store.read_series(results, table)
            read.append(time.process_time() - started)
        yield f"1000 trials, {rounds} rounds", f"{1e3 * min(stored):.0f}", f"{1e3 * min(read):.0f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--points", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{arguments.tasks} tasks of {arguments.points} points\n")
        rows = list(times(folder, tasks=arguments.tasks, points=arguments.points))
        print_table(("", "wall [s]", "processor [s]", "target [s]"), rows)
        print()
        print_table(("", "stored, processor [ms]", "read, processor [ms]"), list(batch_times(folder)))
        print()
        header = ("results", "tasks", "numbers per task", "bytes per task", "bytes per number")
        print_table(header, list(sizes(folder, tasks=2000)))


if __name__ == "__main__":
    main()
