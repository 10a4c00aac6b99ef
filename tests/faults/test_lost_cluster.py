"""A worker killed in a task, a scheduler lost: the run goes on and its tables are those of one process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from harness import COMMAND, ENVIRONMENT, LEARNING, PATIENCE_S, Outcome, Tally, stored, undisturbed_run

from scenarios.files.log import LOG
from scenarios.store.checkpoints import CHECKPOINTS, read_checkpoint

LONG = LEARNING.replace("trials: 2", "trials: 1").replace("rounds: 60", "rounds: 900").replace(", 8, 10, 12]", "]")
"""Two tasks, one for each worker, of many checkpoints."""

LONG_S = 3 * PATIENCE_S
ROOT = Path(__file__).resolve().parents[2]
ON_PATH = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}


def start(outcome: Outcome, run: Path, *options: str) -> subprocess.Popen[str]:
    """The command from nothing: it begins processes of its own, which a forked one should not."""
    return subprocess.Popen(
        [*COMMAND, "run", str(outcome.scenario), "--out", str(run), "--checkpoint-rounds", "10", *options],
        env=ON_PATH,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_tasks(process: subprocess.Popen[str], run: Path, *, more_than: int) -> None:
    deadline = time.monotonic() + LONG_S
    while process.poll() is None and len(stored(run)) <= more_than and time.monotonic() < deadline:
        time.sleep(0.05)


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Worker processes of a run, those at work first."""
    children = psutil.Process(process.pid).children(recursive=True)
    found = [one for one in children if "spawn_main" in " ".join(one.cmdline())]
    return sorted(found, key=lambda one: -sum(one.cpu_times()[:2]))


@pytest.mark.slow
def test_a_worker_killed_in_a_task_costs_nothing(learning: Outcome, run: Path, tally: Callable[[str], Tally]) -> None:
    row = tally("SIGKILL of a worker in a task")
    process = start(learning, run, "--workers", "2")
    wait_for_tasks(process, run, more_than=1)
    before = stored(run)
    workers_of(process)[0].send_signal(signal.SIGKILL)
    row.injected += process.poll() is None
    _, said = process.communicate(timeout=LONG_S)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    row.compare(before, stored(run))
    row.finish(run, learning)


@pytest.mark.slow
def test_the_run_killed_amid_its_workers_goes_on_in_one_process(
    learning: Outcome, run: Path, tally: Callable[[str], Tally]
) -> None:
    row = tally("SIGKILL of a run with workers")
    process = start(learning, run, "--workers", "2")
    wait_for_tasks(process, run, more_than=1)
    before, workers = stored(run), workers_of(process)
    process.kill()
    process.communicate()
    row.injected += 1
    _, still = psutil.wait_procs(workers, timeout=60)
    assert not still, "workers outlive the run that began them"
    last = start(learning, run)
    _, said = last.communicate(timeout=LONG_S)
    assert last.returncode == 0, said
    row.compare(before, stored(run))
    row.finish(run, learning)


@pytest.mark.slow
def test_workers_go_on_inside_the_tasks_in_which_workers_were_killed(
    run: Path, tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    row = tally("SIGKILL of a run with workers, inside tasks")
    (tmp_path / "long").mkdir()
    long = undisturbed_run(tmp_path / "long", LONG)
    process = start(long, run, "--workers", "2")
    deadline = time.monotonic() + LONG_S
    while process.poll() is None and len(kept_rounds(run)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = workers_of(process)
    process.kill()
    process.communicate()
    psutil.wait_procs(workers, timeout=60)
    kept = kept_rounds(run)
    assert len(kept) == 2, "a task was done before it could be killed"
    assert not stored(run)
    row.injected += 1
    last = start(long, run, "--workers", "2")
    _, said = last.communicate(timeout=LONG_S)
    assert last.returncode == 0, said
    log = [json.loads(line) for line in (run / LOG).read_text().splitlines()]
    assert {line["file"]: line["rounds"] for line in log if line["event"] == "checkpoint-taken"} == kept
    assert not (run / CHECKPOINTS).exists()
    row.finish(run, long)


def kept_rounds(run: Path) -> dict[str, int]:
    """Rounds of the checkpoint of each task."""
    return {path.name: read_checkpoint(path)[0]["rounds"] for path in (run / CHECKPOINTS).glob("*.ckpt")}


@contextmanager
def dask(*arguments: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments],
        env={**ON_PATH, "DASK_TEMPORARY_DIRECTORY": str(folder)},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_a_lost_scheduler_stops_the_run_which_goes_on_without_it(
    learning: Outcome, run: Path, tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    row = tally("scheduler lost")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
    worker = ("worker", address, "--nthreads", "1", "--no-dashboard")
    with dask(*scheduler, folder=tmp_path) as first, dask(*worker, folder=tmp_path):
        process = start(learning, run, "--scheduler", address)
        wait_for_tasks(process, run, more_than=1)
        before = stored(run)
        os.killpg(first.pid, signal.SIGKILL)
        row.injected += process.poll() is None
        _, said = process.communicate(timeout=LONG_S)
    assert process.returncode == 1, said
    assert f"the scheduler at {address} is lost; everything finished is kept" in said
    assert "Traceback" not in said
    last = start(learning, run)
    _, said = last.communicate(timeout=LONG_S)
    assert last.returncode == 0, said
    row.compare(before, stored(run))
    row.finish(run, learning)
