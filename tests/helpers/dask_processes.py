"""A dask scheduler and its workers on the loopback, as a user starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
PATIENCE_S = 300.0
"""Beyond any machine that is merely busy."""


@contextmanager
def running_cluster(folder: Path, *, workers: int, **environment: str) -> Iterator[str]:
    """The address of a scheduler with `workers` worker processes; all are gone when the block ends."""
    file = folder / "scheduler.json"
    root = HERE.parents[1]
    env = {
        **os.environ,
        **environment,
        "PYTHONPATH": os.pathsep.join([str(root), str(HERE)]),
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
        "DASK_TEMPORARY_DIRECTORY": str(folder),
    }
    common = (sys.executable, "-m", "dask")
    scheduler = _start(
        *common, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file, env=env
    )
    team = None
    try:
        address = _address(file)
        team = _start(*common, "worker", address, "--nthreads", "1", "--nworkers", workers, "--no-dashboard", env=env)
        _wait_for(address, workers)
        yield address
    finally:
        for process in (team, scheduler):
            if process is not None:
                process.terminate()
                process.wait(PATIENCE_S)


def _start(*arguments: object, env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([str(one) for one in arguments], env=env, stderr=subprocess.DEVNULL)


def _address(file: Path) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            return str(json.loads(file.read_text())["address"])
        except (OSError, ValueError):
            time.sleep(0.05)
    raise TimeoutError("the scheduler did not start")


def _wait_for(address: str, workers: int) -> None:
    from distributed import Client

    with Client(address, timeout=PATIENCE_S, set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=PATIENCE_S)
