"""How a run is carried out, none of which changes a number of its results."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What the command line says of a run beyond the scenario itself.

    `retry_failed`: tasks stored as failed are computed again.
    """

    retry_failed: bool = False
    allow_code: bool = False
    memory_limit: str | None = None


AS_USUAL = RunOptions()
