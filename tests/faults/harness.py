"""Real runs of a small scenario, to be killed, starved and damaged, and what must be so afterwards.

A run is a process of its own that executes the command's entry point. It is forked from a server that has the large
libraries loaded, so that dozens of kills cost the work that they interrupt and not the loading before it.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from scenarios.files.plain_files import RESULTS
from scenarios.store.store import Store

PATIENCE_S = 300
"""Beyond any machine that is merely busy."""

LEARNING = """\
name: faults
seed: 11
trials: 2
link: {modulation: qpsk, channel: {model: flat, fading: constant}, power: {policy: fixed, snr_max_db: 10}}
learning:
  algorithm: fedavg
  data: digits
  model: linear
  local: {optimizer: sgd, learning_rate: 0.3, batch_size: 16, steps: 5, momentum: 0.9}
  codec: {name: fixed-point, bound: 2.0}
  num_devices: 5
  rounds: 60
sweep: {link.power.snr_max_db: [4, 6, 8, 10, 12]}
"""
"""Ten tasks of half a second, written two at a time: kills fall inside tasks, between them and into transactions."""

SAMPLING = """\
name: faults
seed: 7
trials: 4
link: {channel: {model: flat, gain: 0.04, noise_power: 1.0}}
learning:
  task: {name: gaussian-linear, num_samples: 60, dimension: 3}
  num_devices: 4
  rounds: 300
  burn_in: 100
  step_size: 1e-3
  lmc_cap: none
sweep:
  - {learning.scheme: [digital], link.power.snr_max_db: [5, 15, 25]}
  - {learning.scheme: [noiseless, exact]}
"""
"""Trials side by side: twenty tasks, four at a time."""

ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
COMMAND = (sys.executable, "-c", "from scenarios.cli.app import main; main()")

_forks = multiprocessing.get_context("forkserver")
# Loaded, not started: what TensorFlow starts would not survive a fork.
_forks.set_forkserver_preload(["tensorflow", "numba", "scipy.stats", "matplotlib.figure", "scenarios.cli.app"])


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended: its exit code (minus the signal that killed it), and what it said."""

    code: int
    out: str
    said: str


class Running:
    """One command under way."""

    def __init__(self, arguments: Sequence[str | Path], *, logs: Path) -> None:
        self._out, self._err = logs.with_suffix(".out"), logs.with_suffix(".err")
        for path in (self._out, self._err):
            path.touch()  # it may be killed before it opens them
        words = [str(one) for one in arguments]
        self._process: ForkServerProcess = _forks.Process(target=_obey, args=(words, self._out, self._err))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process is still there."""
        # Between the question and the signal the process may end and be reaped by the fork server.
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self) -> Ended:
        self._process.join(PATIENCE_S)
        if self._process.exitcode is None:
            self._process.kill()
            raise AssertionError(f"still running after {PATIENCE_S} s: {self._err.read_text()}")
        return Ended(code=self._process.exitcode, out=self._out.read_text(), said=self._err.read_text())


def _obey(words: list[str], out: Path, err: Path) -> None:
    """Be the command, in the forked process."""
    for path, number in ((out, 1), (err, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.argv = ["phyloop", *words]
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from scenarios.cli.app import main

    try:
        main()
    finally:
        sys.stdout.flush()


def obey(*arguments: str | Path, logs: Path) -> Ended:
    """Run a command to its end."""
    return Running(arguments, logs=logs).wait()


def wait_for(what: Callable[[], bool], *, of: Running) -> bool:
    """Whether it came to be while the process was alive."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if what():
            return True
        if not of.is_alive:
            return what()
        time.sleep(0.01)
    return False


def stored(run: Path) -> dict[str, tuple[Any, ...]]:
    """Every stored task with all that its row says: one that was computed again has another time."""
    if not (run / RESULTS).exists():
        return {}
    with Store.open_existing(run) as store:
        tasks = dict(store.tasks)
        assert not store.replaced, "a task is stored twice"
    return {task_id: (task.status, task.seconds, task.finished_at) for task_id, task in tasks.items()}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A scenario and the tables of its undisturbed run, by file name."""

    scenario: Path
    tables: dict[str, bytes]
    tasks: frozenset[str]
    folder: Path


def tables_of(run: Path, out: Path) -> dict[str, bytes]:
    """The exported tables of a run, by file name."""
    ended = obey("export", run, "--out", out, "--table", "all", logs=out.with_name(f"{out.name}-export"))
    assert ended.code == 0, ended.said
    return {path.name: path.read_bytes() for path in sorted(out.glob("*.csv"))}


def undisturbed_run(folder: Path, text: str) -> Outcome:
    """Run a scenario by the command itself, in a process that begins from nothing."""
    scenario = folder / "scenario.yaml"
    scenario.write_text(text)
    run = folder / "undisturbed"
    done = subprocess.run(
        [*COMMAND, "run", str(scenario), "--out", str(run)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Outcome(scenario=scenario, tables=tables_of(run, folder / "csv"), tasks=frozenset(stored(run)), folder=run)


@dataclass(kw_only=True)
class Tally:
    """What faults of one kind did: how many, tasks lost and duplicated, tables equal or not."""

    fault: str
    note: Callable[[str, object], None]
    injected: int = 0
    lost: int = 0
    duplicated: int = 0
    equal: bool | None = None

    def compare(self, before: dict[str, tuple[Any, ...]], after: dict[str, tuple[Any, ...]]) -> None:
        """Count what of `before` is gone, and what was computed again."""
        self.lost += len(before.keys() - after.keys())
        self.duplicated += sum(after[one] != row for one, row in before.items() if one in after)

    def finish(self, run: Path, outcome: Outcome) -> None:
        """Compare the tables with those of the undisturbed run, and the tasks; fails where anything differs."""
        found = tables_of(run, run.with_name(f"{run.name}-csv"))
        differing = [name for name in outcome.tables if found.get(name) != outcome.tables[name]]
        self.conclude(equal=not differing and stored(run).keys() == outcome.tasks, what=str(differing))

    def conclude(self, *, equal: bool, what: str = "") -> None:
        """Note the row for the summary, and fail where a task was lost or counted twice or tables differ."""
        self.equal = equal
        self.note("fault", json.dumps([self.fault, self.injected, self.lost, self.duplicated, self.equal]))
        assert self.injected > 0, "no fault was injected"
        assert (self.lost, self.duplicated) == (0, 0)
        assert self.equal, what
