"""What goes over the wire: an order to a worker and what it sends back, as plain values and arrays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from fl.results import TrialResult
from scenarios.accounts import account_arrays, account_from, account_text
from scenarios.checkpoints import CheckpointPolicy
from scenarios.failures import Incident
from scenarios.identity import physics_json
from scenarios.loader import resolved_data, validate_quickly
from scenarios.schema import Scenario
from scenarios.store import SERIES_TABLES


class PlainPolicy(TypedDict):
    """A `scenarios.checkpoints.CheckpointPolicy`; the folder is absolute, and used where the worker has it."""

    folder: str
    rounds: int | None
    minutes: float


class Order(TypedDict):
    """What a worker is asked for.

    - `scenario`: JSON of the point as resolved; `physics`: SHA-256 of what determines its numbers;
    - `trials`: their numbers within the point;
    - `latest_s`, `checkpoints`: see `scenarios.engine.compute`;
    - `versions`: see `scenarios.cluster.compatibility`;
    - `topic`, `ticket`, `every_s`: where rounds are told, under which number, and how seldom.
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


class PlainAccount(TypedDict):
    """A privacy account: see `scenarios.accounts`."""

    text: str
    arrays: dict[str, NDArray[Any]]


class PlainResult(TypedDict):
    """A trial's result as it is stored; `series[table][name]` are arrays of int64 or float64."""

    trial: int
    failure: str | None
    metrics: dict[str, float]
    series: dict[str, dict[str, NDArray[Any]]]
    account: PlainAccount | None


class PlainIncident(TypedDict):
    """See `scenarios.failures.Incident`."""

    trials: list[int]
    reason: str
    trace: str


class Answer(TypedDict):
    """What a worker sends back.

    Results, seconds of the whole batch, trials of the order that it has not begun, the trial-rounds that were
    computed, and found in checkpoints, and exceptions that failed trials.
    """

    results: list[PlainResult]
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


def plain(result: TrialResult) -> PlainResult:
    """A result without what is not stored (`on_air`)."""
    account = result.account
    return {
        "trial": int(result.trial),
        "failure": result.failure,
        "metrics": {name: float(value) for name, value in result.metrics.items()},
        "series": {table: _arrays(getattr(result, table)) for table in SERIES_TABLES},
        "account": None
        if account is None
        else {"text": account_text(account), "arrays": _arrays(account_arrays(account))},
    }


def plain_incident(incident: Incident) -> PlainIncident:
    """An exception that failed trials."""
    return {"trials": list(incident.trials), "reason": incident.reason, "trace": incident.trace}


def incident_from(sent: PlainIncident) -> Incident:
    """The incident that `plain_incident` was made of."""
    return Incident(trials=tuple(sent["trials"]), reason=sent["reason"], trace=sent["trace"])


def result_from(sent: PlainResult) -> TrialResult:
    """The result that `plain` was made of."""
    account, series = sent["account"], sent["series"]
    return TrialResult(
        trial=sent["trial"],
        metrics=sent["metrics"],
        account=None if account is None else account_from(account["text"], account["arrays"]),
        failure=sent["failure"],
        rounds=series["rounds"],
        link=series["link"],
        privacy=series["privacy"],
        bursts=series["bursts"],
        devices=series["devices"],
        pictures=series["pictures"],
    )


def _arrays(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    # Whole arrays of their own: a view would be sent with all that it looks into.
    return {name: np.array(array, order="C") for name, array in arrays.items()}
