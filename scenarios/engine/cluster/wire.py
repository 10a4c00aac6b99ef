"""What goes over the wire: an order to a worker and what it sends back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypedDict

from scenarios.engine.failures import Incident
from scenarios.plan.identity import physics_json
from scenarios.schema.loader import resolved_data, validate_quickly
from scenarios.schema.schema import Scenario
from scenarios.store.checkpoints import CheckpointPolicy


class Order(TypedDict):
    """What a worker is asked for; its scenario is JSON, which a worker of any version can read and refuse.

    - `scenario`: JSON of the point as resolved; `physics`: SHA-256 of what determines its numbers;
    - `plugins`: see `scenarios.schema.plugins.send_plugins`;
    - `trials`: their numbers within the point;
    - `latest_s`, `checkpoints`: see `scenarios.engine.batch.compute`; the folder is used where the worker has it;
    - `versions`: see `scenarios.engine.cluster.compatibility`;
    - `topic`, `ticket`, `every_s`: where rounds are told, under which number, and how seldom;
    - `log_level`: from which level on records of the log are told there, too.
    """

    scenario: str
    physics: str
    plugins: dict[str, dict[str, Any]]
    trials: Sequence[int]
    latest_s: float | None
    checkpoints: CheckpointPolicy | None
    versions: dict[str, str]
    topic: str
    ticket: int
    every_s: float
    log_level: int


class Answer(TypedDict):
    """What a worker sends back.

    Results as blobs (see `scenarios.store.trials`), seconds of the whole batch, trials of the order that it has not
    begun, the trial-rounds that were computed, and found in checkpoints, and exceptions that failed trials.
    """

    results: list[bytes]
    seconds: float
    left: Sequence[int]
    computed: int
    restored: int
    incidents: Sequence[Incident]


def written(scenario: Scenario) -> str:
    """A resolved scenario as JSON, from which `scenario_from` makes an equal one."""
    return json.dumps(resolved_data(scenario))


@lru_cache(maxsize=32)
def scenario_from(text: str) -> Scenario:
    """The scenario of an order."""
    return validate_quickly(json.loads(text))


def physics_digest(scenario: Scenario) -> str:
    """SHA-256, in hex, of what determines the numbers of a point."""
    return hashlib.sha256(physics_json(scenario).encode()).hexdigest()
