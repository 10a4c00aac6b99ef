"""Clients of a dask scheduler: with worker processes of our own, or of a scheduler that is running."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import spawn
from typing import Any
from unittest.mock import patch

import dask
from distributed import Client, LocalCluster, Nanny

from scenarios.engine.options import SCHEDULER, WORKERS
from scenarios.engine.start import thread_variables, threads_per_worker
from scenarios.files.log import OURS
from scenarios.schema.errors import ScenarioError

ALLOWED_LOSSES = 1
"""Workers that an order may lose before it is given up with the next one."""

_ANSWER_S = 10.0
"""A scheduler that is there answers within this time."""
_STOP_S = 5.0
"""Time to wait until a stopped cluster has ended [s]."""


@contextmanager
def own_workers(number: int, *, worker_bytes: int | None = None) -> Iterator[Client]:
    """`number` worker processes on this machine, each with its share of the cores; gone when the block ends.

    One that takes more than `worker_bytes`, or else its share of the memory, is ended and started again.
    """
    variables = {
        **thread_variables(threads_per_worker(number)),
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"),
        "TF_FORCE_GPU_ALLOW_GROWTH": os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
    }
    settings: dict[str, Any] = {
        "distributed.scheduler.allowed-failures": ALLOWED_LOSSES,
        # TensorFlow gives no memory back: a worker that waits until it has less would wait for ever.
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        # Dask's profiler looks at all threads a hundred times a second, for its dashboard, which is off.
        "distributed.worker.profile.enabled": False,
    }
    with (
        patch.dict(os.environ, variables),  # workers inherit it, and nannies change it
        dask.config.set(settings),
        _without_main(),
        LocalCluster(
            n_workers=number,
            threads_per_worker=1,
            memory_limit="auto" if worker_bytes is None else worker_bytes,
            processes=True,
            # None would open dask's usual port, and warn where another run has it.
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            security=True,  # or others on this machine could send us orders
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        try:
            # Directly: answers need not pass the scheduler.
            with Client(cluster, timeout=_ANSWER_S, set_as_default=False, direct_to_workers=True) as client:
                yield client
        finally:
            # What is in work is not waited for: it is computed again when the run goes on.
            cluster.sync(_stop, list(cluster.workers.values()))


@contextmanager
def _without_main() -> Iterator[None]:
    """Processes that start within the block do not run the main script again, which may lack a `__main__` guard.

    Workers need nothing of the script: plug-ins travel with their orders.
    """
    usual = spawn.get_preparation_data

    def prepared(name: str) -> dict[str, Any]:
        return {key: value for key, value in usual(name).items() if not key.startswith("init_main")}

    spawn.get_preparation_data = prepared
    try:
        yield
    finally:
        spawn.get_preparation_data = usual


async def _stop(nannies: list[Nanny]) -> None:
    """End workers at once, in the middle of whatever they do: they hold nothing that is not computed again."""
    closing = [asyncio.ensure_future(nanny.close(timeout=_STOP_S)) for nanny in nannies]
    await asyncio.sleep(0)  # from now on a nanny takes no death of its worker for an accident
    for nanny in nannies:
        if nanny.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(nanny.pid, signal.SIGKILL)
    await asyncio.gather(*closing, return_exceptions=True)


@contextmanager
def running_scheduler(address: str) -> Iterator[Client]:
    """The workers of a scheduler that is running; ScenarioError if it does not answer."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # of lost connections we speak ourselves
    try:
        try:
            client = Client(address, timeout=_ANSWER_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ScenarioError(
                key=SCHEDULER,
                value=address,
                problem=f"no dask scheduler answers within {_ANSWER_S:.0f} s ({error})",
                remedy=f"start one with dask scheduler, or leave this out and give {WORKERS}",
            ) from error
        try:
            if not client.scheduler_info()["workers"]:
                OURS.warning("the scheduler at %s has no workers yet; waiting for the first", address)
            yield client
        finally:
            with suppress(OSError):
                client.close(timeout=_STOP_S)  # the scheduler then takes back what we asked for
    finally:
        logger.setLevel(level)
