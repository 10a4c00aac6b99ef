"""Options of a run, none of which changes a number of its results."""

from __future__ import annotations

from dataclasses import dataclass

from scenarios.files.provenance import count_cpus
from scenarios.schema.errors import ScenarioError

WORKERS, SCHEDULER = "--workers", "--scheduler"
_PER_CORE = 4
"""Worker processes per core at most: more only wait for each other, in 0.5 GB each."""


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


class ClusterLostError(Exception):
    """The scheduler went away; `str` of it is a sentence without its full stop."""


def refuse_impossible(options: RunOptions) -> None:
    """Raise ScenarioError for an impossible number of workers, or workers here and of a scheduler."""
    workers = options.workers
    if workers is not None and options.scheduler is not None:
        problem = "phyloop starts workers here, or uses those of a running scheduler"
        raise ScenarioError(key=f"{WORKERS} and {SCHEDULER}", problem=problem, remedy="give one of the two")
    most = _PER_CORE * count_cpus()
    if workers is not None and not 1 <= workers <= most:
        problem = f"must lie between 1 and {most}, {_PER_CORE} per core of this machine"
        fewer = min(max(workers, 1), count_cpus())
        remedy = f"write {WORKERS} {fewer}, or use a cluster with {SCHEDULER}"
        raise ScenarioError(key=WORKERS, value=workers, problem=problem, remedy=remedy)
