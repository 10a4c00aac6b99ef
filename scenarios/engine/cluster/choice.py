"""Which engine the options of a run ask for; loads dask only for one that needs it."""

from __future__ import annotations

import re
from collections.abc import Callable

from scenarios.engine.batch import Engine, InProcess
from scenarios.engine.options import RunOptions
from scenarios.schema.errors import ScenarioError
from scenarios.store.checkpoints import CheckpointPolicy
from scenarios.store.provenance import count_cpus

WORKERS, SCHEDULER = "--workers", "--scheduler"
_PER_CORE = 4
"""Worker processes per core at most: more only wait for each other, in 0.5 GB each."""
_ADDRESS = re.compile(r"(?:tcp|tls)://[^\s/:]+:([0-9]{1,5})")
_LAST_PORT = 65535


class ClusterLostError(Exception):
    """The scheduler went away and did not come back in time; `str` of it is a sentence without its full stop."""


def refuse_impossible(options: RunOptions) -> None:
    """ScenarioError for numbers of workers and addresses that cannot be."""
    if options.workers is not None and options.scheduler is not None:
        raise ScenarioError(
            key=f"{WORKERS} and {SCHEDULER}",
            problem="workers are started here, or those of a running scheduler are used",
            remedy="give one of the two",
        )
    most = _PER_CORE * count_cpus()
    if options.workers is not None and not 1 <= options.workers <= most:
        raise ScenarioError(
            key=WORKERS,
            value=options.workers,
            problem=f"must lie between 1 and {most}, {_PER_CORE} per core of this machine",
            remedy=f"write {WORKERS} {min(max(options.workers, 1), count_cpus())}, or use a cluster with {SCHEDULER}",
        )
    if options.scheduler is None:
        return
    address = _ADDRESS.fullmatch(options.scheduler)
    if address is None or not 1 <= int(address[1]) <= _LAST_PORT:
        raise ScenarioError(
            key=SCHEDULER,
            value=options.scheduler,
            problem="is no address of a dask scheduler",
            remedy="write tcp://HOST:PORT as dask scheduler says it when it starts",
        )


def choose_engine(
    options: RunOptions,
    *,
    checkpoints: CheckpointPolicy | None,
    on_restored: Callable[[int], None],
    worker_bytes: int,
) -> Engine:
    """This process, processes of its own, or the workers of a scheduler.

    `worker_bytes`: what a process of ours may take where `options.memory_limit` says so; it is ended beyond that.
    """
    if options.workers is None and options.scheduler is None:
        return InProcess(checkpoints=checkpoints, on_restored=on_restored)
    from scenarios.engine.cluster.engine import DaskEngine

    return DaskEngine(
        workers=options.workers,
        scheduler=options.scheduler,
        checkpoints=checkpoints,
        on_restored=on_restored,
        worker_bytes=None if options.memory_limit is None else worker_bytes,
    )
