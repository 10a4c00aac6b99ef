"""How a run is carried out, none of which changes a number of its results."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What the command line says of a run beyond the scenario itself.

    - `retry_failed`: tasks stored as failed are computed again.
    - `workers`: processes of this machine that compute, None for this one alone; `scheduler`: address of a running dask
      scheduler, whose workers compute instead.
    - `checkpoint_rounds`, `checkpoint_minutes`: how often tasks under way are kept, see
      `scenarios.store.checkpoints.CheckpointPolicy`.
    - `allow_code`: models may be functions of the user's own.
    - `memory_limit`: what all processes may take together, as written (`4GB`); what is free, if None.
    - `log_level`: from which level on `log.jsonl` keeps what happens, and standard error tells it, see `log`.
    - `debug`: tracebacks of what failed are shown.
    """

    retry_failed: bool = False
    workers: int | None = None
    scheduler: str | None = None
    checkpoint_rounds: int | None = None
    checkpoint_minutes: float = 1.0
    allow_code: bool = False
    memory_limit: str | None = None
    log_level: str = "info"
    debug: bool = False


AS_USUAL = RunOptions()
