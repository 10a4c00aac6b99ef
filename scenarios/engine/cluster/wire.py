"""What goes over the wire: an order to a worker and what it sends back, as plain values and arrays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypedDict

from fl.results import TrialResult
from scenarios.engine.failures import Incident
from scenarios.plan.identity import physics_json
from scenarios.schema.loader import resolved_data, validate_quickly
from scenarios.schema.schema import Scenario
from scenarios.store.blobs import unpack
from scenarios.store.checkpoints import CheckpointPolicy
from scenarios.store.trials import alike, pack_trials, unpack_trials


class PlainPolicy(TypedDict):
    """A `scenarios.store.checkpoints.CheckpointPolicy`; the folder is absolute, and used where the worker has it."""

    folder: str
    rounds: int | None
    minutes: float


class Order(TypedDict):
    """What a worker is asked for.

    - `scenario`: JSON of the point as resolved; `physics`: SHA-256 of what determines its numbers;
    - `trials`: their numbers within the point;
    - `latest_s`, `checkpoints`: see `scenarios.engine.batch.compute`;
    - `versions`: see `scenarios.engine.cluster.compatibility`;
    - `topic`, `ticket`, `every_s`: where rounds are told, under which number, and how seldom;
    - `log_level`: from which level on records of the log are told there, too.
    """

    scenario: str
    physics: str
    trials: list[int]
    latest_s: float | None
    checkpoints: PlainPolicy | None
    versions: dict[str, str]
    topic: str
    ticket: int
    every_s: float
    log_level: int


class PlainIncident(TypedDict):
    """See `scenarios.engine.failures.Incident`."""

    trials: list[int]
    reason: str
    trace: str


class Answer(TypedDict):
    """What a worker sends back.

    Results as blobs (see `scenarios.store.trials`), seconds of the whole batch, trials of the order that it has not
    begun, the trial-rounds that were computed, and found in checkpoints, and exceptions that failed trials.
    """

    results: list[bytes]
    seconds: float
    left: list[int]
    computed: int
    restored: int
    incidents: list[PlainIncident]


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


def plain_policy(policy: CheckpointPolicy | None) -> PlainPolicy | None:
    """Where and when checkpoints are kept, as an order says it."""
    if policy is None:
        return None
    return {"folder": str(policy.folder.absolute()), "rounds": policy.rounds, "minutes": policy.minutes}


def policy_from(sent: PlainPolicy | None) -> CheckpointPolicy | None:
    """What `plain_policy` was made of."""
    if sent is None:
        return None
    return CheckpointPolicy(folder=Path(sent["folder"]), rounds=sent["rounds"], minutes=sent["minutes"])


def packed(results: Sequence[TrialResult]) -> list[bytes]:
    """Return the blobs of results, without what is not stored (`on_air`)."""
    return [pack_trials(some) for some in alike(results)]


def unpacked(sent: Sequence[bytes], *, trials: Sequence[int]) -> tuple[TrialResult, ...]:
    """Return the results of `packed` in the order of `trials`. Raises BlobError for bytes that are no such blob."""
    found = {one.trial: one for blob in sent for one in unpack_trials(unpack(blob))}
    return tuple(found[trial] for trial in trials if trial in found)


def plain_incident(incident: Incident) -> PlainIncident:
    """An exception that failed trials."""
    return {"trials": list(incident.trials), "reason": incident.reason, "trace": incident.trace}


def incident_from(sent: PlainIncident) -> Incident:
    """The incident that `plain_incident` was made of."""
    return Incident(trials=tuple(sent["trials"]), reason=sent["reason"], trace=sent["trace"])
