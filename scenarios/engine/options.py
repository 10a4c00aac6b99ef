"""Options of a run, none of which changes a number of its results."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scenarios.files.provenance import count_cpus
from scenarios.schema.errors import ScenarioError

WORKERS, SCHEDULER = "--workers", "--scheduler"
_PER_CORE = 4
"""Worker processes per core at most: more only wait for each other, in 0.5 GB each."""
_ADDRESS = re.compile(r"(?:tcp|tls)://[^\s/:]+:([0-9]{1,5})")
_LAST_PORT = 65535


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options on the command line beside the scenario itself.

    - `workers`: processes of this machine that compute, None for this one alone; `scheduler`: address of a running dask
      scheduler, whose workers compute instead.
    - `checkpoint_rounds`, `checkpoint_minutes`: how often tasks under way are kept, see
      `scenarios.store.checkpoints.CheckpointPolicy`.
    - `memory_limit`: memory of all processes together, as written (`4GB`); None: what is free.
    """

    workers: int | None = None
    scheduler: str | None = None
    checkpoint_rounds: int | None = None
    checkpoint_minutes: float = 1.0
    memory_limit: str | None = None


AS_USUAL = RunOptions()


class ClusterLostError(Exception):
    """The scheduler went away; `str` of it is a sentence without its full stop."""


def refuse_impossible(options: RunOptions) -> None:
    """Raise ScenarioError for an impossible number of workers or address."""
    if options.workers is not None and options.scheduler is not None:
        raise ScenarioError(
            key=f"{WORKERS} and {SCHEDULER}",
            problem="phyloop starts workers here, or uses those of a running scheduler",
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
