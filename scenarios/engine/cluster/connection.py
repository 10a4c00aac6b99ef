"""Where orders go: worker processes of our own, or a scheduler that somebody started."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import dask
from distributed import Client, LocalCluster, Nanny

from scenarios.engine.cluster.compatibility import refuse_other_versions, versions
from scenarios.engine.cluster.task import introduce, refuse_threads
from scenarios.engine.interruption import stop_if_asked
from scenarios.engine.options import SCHEDULER, WORKERS, ClusterLostError
from scenarios.engine.threads import thread_variables, threads_per_worker
from scenarios.files.provenance import find_cpu_model
from scenarios.schema.errors import ScenarioError

ALLOWED_LOSSES = 3
"""Workers that an order may lose before it is given up with the next one; dask's own default."""

_ANSWER_S = 10.0
"""A scheduler that is there answers within this time."""
_RETRY_S = 1.0
_COUNT_S = 2.0
_STOP_S = 5.0
"""How long the end of what was told to end is waited for."""


class Connection:
    """A scheduler in this process with workers of its own: it is there as long as we are."""

    def __init__(self, client: Client, *, workers: int = 0) -> None:
        self.client, self._workers = client, workers

    def num_workers(self) -> int:
        """Workers that are there, or were a moment ago."""
        return self._workers

    def renew(self) -> None:
        """Connect again after the scheduler was lost; raises ClusterLostError."""
        raise ClusterLostError("the scheduler of this process has stopped")


class _Running(Connection):
    """A scheduler somewhere else."""

    def __init__(self, address: str, *, patience_s: float, tell: Callable[[str], None]) -> None:
        self._address, self._patience_s, self._tell = address, patience_s, tell
        self._told_of: set[str] = set()
        self._counted = float("-inf")
        try:
            client = _client(address, timeout_s=_ANSWER_S)
        except OSError as error:
            raise ScenarioError(
                key=SCHEDULER,
                value=address,
                problem=f"no dask scheduler answers within {_ANSWER_S:.0f} s",
                remedy=f"start one with dask scheduler, or leave this out and give {WORKERS}",
            ) from error
        super().__init__(client)
        self._look()

    def num_workers(self) -> int:
        if time.monotonic() - self._counted >= _COUNT_S:
            with suppress(OSError):  # the scheduler is lost, which is noticed elsewhere
                self._workers = len(self.client.scheduler_info(n_workers=-1)["workers"])
            self._counted = time.monotonic()
        return self._workers

    def renew(self) -> None:
        lost = time.monotonic()
        self._tell(f"the scheduler at {self._address} is lost; waiting up to {self._patience_s:.0f} s for it")
        self.close()
        while True:
            stop_if_asked()
            try:
                self.client = _client(self._address, timeout_s=_ANSWER_S / 2)
                break
            except OSError:
                if time.monotonic() - lost >= self._patience_s:
                    raise ClusterLostError(
                        f"the scheduler at {self._address} was lost and has not come back in {self._patience_s:.0f} s"
                    ) from None
                time.sleep(_RETRY_S)
        self._tell(f"the scheduler at {self._address} is back; what it had not returned is computed again")
        self._look()

    def close(self) -> None:
        """Leave the scheduler, which then takes back what we asked for."""
        with suppress(OSError):
            self.client.close(timeout=_STOP_S)

    def _look(self) -> None:
        """Refuse workers that would compute other numbers; those that come later refuse orders themselves."""
        answers: dict[str, Any] = self.client.run(introduce, on_error="return")
        if not answers:
            self._tell(f"the scheduler at {self._address} has no workers yet; waiting for the first")
        for address, answer in answers.items():
            if type(answer) in (ImportError, ModuleNotFoundError):
                raise ScenarioError(
                    file=f"worker {address}",
                    problem=f"cannot load this version of phyloop ({answer})",
                    remedy="install the same checkout of phyloop there and start the worker again",
                )
            if isinstance(answer, OSError):  # gone since the scheduler named it
                continue
            if isinstance(answer, BaseException):
                raise answer
            refuse_other_versions(versions(), answer["versions"], address=address)
            refuse_threads(answer["threads"], address=address)
            if (there := answer["processor"]) != find_cpu_model() and there not in self._told_of:
                self._told_of.add(there)
                self._tell(
                    f"the worker {address} has a {there}, this machine a {find_cpu_model()}: the last bits of its "
                    "numbers may be others"
                )


@contextmanager
def own_workers(number: int, *, worker_bytes: int | None = None) -> Iterator[Connection]:
    """`number` worker processes on this machine, each with its share of the cores; gone when the block ends.

    One that takes more than `worker_bytes`, or else its share of the memory, is ended and started again.
    """
    variables = {
        **thread_variables(threads_per_worker(number)),
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"),
        "TF_FORCE_GPU_ALLOW_GROWTH": os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
    }
    settings: dict[str, Any] = {
        "distributed.nanny.pre-spawn-environ": variables,
        "distributed.scheduler.allowed-failures": ALLOWED_LOSSES,
        # TensorFlow gives no memory back: a worker that waits until it has less would wait for ever.
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        # Looks at all threads a hundred times a second, for a page that nobody opens.
        "distributed.worker.profile.enabled": False,
    }
    kept = dict(os.environ)
    # Dask prefers what the environment says to its own settings, and ours may hold the threads of all workers together.
    os.environ.update(variables)
    try:
        with (
            dask.config.set(settings),
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
                with _client(cluster, timeout_s=_ANSWER_S, direct=True) as client:
                    yield Connection(client, workers=number)
            finally:
                # What is in work is not waited for: it is computed again when the run goes on.
                cluster.sync(_stop, list(cluster.workers.values()))
    finally:
        # Whoever starts a process through a nanny finds the settings of the child among its own.
        os.environ.clear()
        os.environ.update(kept)


def _client(where: str | LocalCluster, *, timeout_s: float, direct: bool = False) -> Client:
    # Workers of ours can be reached: their answers need not pass the scheduler, which would seal them once more.
    return Client(where, timeout=timeout_s, set_as_default=False, direct_to_workers=direct)


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
def running_scheduler(address: str, *, patience_s: float, tell: Callable[[str], None]) -> Iterator[Connection]:
    """The workers of a scheduler that is already there; ScenarioError if it does not answer or they do not fit."""
    with _quiet():
        connection = _Running(address, patience_s=patience_s, tell=tell)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """What dask says of lost connections we say ourselves."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def to_standard_error(sentence: str) -> None:
    """Say something to whoever watches the run."""
    print(f"phyloop: {sentence}.", file=sys.stderr, flush=True)
