"""What goes over the wire: an order to a worker and what it sends back, as plain values and arrays."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from fl.results import TrialResult
from scenarios.engine.failures import Incident
from scenarios.plan.identity import physics_json
from scenarios.schema.loader import resolved_data, validate_quickly
from scenarios.schema.schema import Scenario
from scenarios.store.accounts import account_arrays, account_from, account_text
from scenarios.store.checkpoints import CheckpointPolicy
from scenarios.store.store_reading import SERIES_TABLES

ACCOUNT = "account"
"""Stands for the arrays of a privacy account."""


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


class PackedResults(TypedDict):
    """Results of trials in a few large arrays: of many small ones each would cost the worker a moment on the wire.

    - `trials`, `failures`, `metrics`, `accounts` (text, see `scenarios.store.accounts`): one each;
    - `layouts`: (table, name, dtype, shape) of the arrays of a trial, in their order, the account's under `ACCOUNT`;
      `layout` says which of these each trial has;
    - `numbers`: by dtype the numbers of all arrays one after the other.
    """

    trials: list[int]
    failures: list[str | None]
    metrics: list[dict[str, float]]
    accounts: list[str | None]
    layouts: list[tuple[tuple[str, str, str, tuple[int, ...]], ...]]
    layout: list[int]
    numbers: dict[str, NDArray[Any]]


class PlainIncident(TypedDict):
    """See `scenarios.engine.failures.Incident`."""

    trials: list[int]
    reason: str
    trace: str


class Answer(TypedDict):
    """What a worker sends back.

    Results, seconds of the whole batch, trials of the order that it has not begun, the trial-rounds that were
    computed, and found in checkpoints, and exceptions that failed trials.
    """

    results: PackedResults
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


def packed(results: Sequence[TrialResult]) -> PackedResults:
    """Results without what is not stored (`on_air`)."""
    known: dict[tuple[tuple[str, str, str, tuple[int, ...]], ...], int] = {}
    layout, flat = [], defaultdict(list)
    for result in results:
        arrays = [
            (table, name, np.asarray(array))
            for table in (*SERIES_TABLES, ACCOUNT)
            for name, array in (account_arrays(result.account) if table == ACCOUNT else getattr(result, table)).items()
        ]
        shapes = tuple((table, name, array.dtype.str, array.shape) for table, name, array in arrays)
        layout.append(known.setdefault(shapes, len(known)))
        for _, _, array in arrays:
            flat[array.dtype.str].append(array.reshape(-1))
    return {
        "trials": [int(result.trial) for result in results],
        "failures": [result.failure for result in results],
        "metrics": [{name: float(value) for name, value in result.metrics.items()} for result in results],
        "accounts": [None if result.account is None else account_text(result.account) for result in results],
        "layouts": list(known),
        "layout": layout,
        "numbers": {dtype: np.concatenate(parts) for dtype, parts in flat.items()},
    }


def unpacked(sent: PackedResults) -> tuple[TrialResult, ...]:
    """The results that `packed` was given; their arrays are views, so that one result keeps the numbers of all."""
    results, taken = [], dict.fromkeys(sent["numbers"], 0)
    for place, trial in enumerate(sent["trials"]):
        series: dict[str, dict[str, NDArray[Any]]] = {table: {} for table in (*SERIES_TABLES, ACCOUNT)}
        for table, name, dtype, shape in sent["layouts"][sent["layout"][place]]:
            start = taken[dtype]
            taken[dtype] += prod(shape)
            series[table][name] = sent["numbers"][dtype][start : taken[dtype]].reshape(shape)
        text = sent["accounts"][place]
        results.append(
            TrialResult(
                trial=trial,
                metrics=sent["metrics"][place],
                account=None if text is None else account_from(text, series[ACCOUNT]),
                failure=sent["failures"][place],
                rounds=series["rounds"],
                link=series["link"],
                privacy=series["privacy"],
                bursts=series["bursts"],
                devices=series["devices"],
                pictures=series["pictures"],
            )
        )
    return tuple(results)


def plain_incident(incident: Incident) -> PlainIncident:
    """An exception that failed trials."""
    return {"trials": list(incident.trials), "reason": incident.reason, "trace": incident.trace}


def incident_from(sent: PlainIncident) -> Incident:
    """The incident that `plain_incident` was made of."""
    return Incident(trials=tuple(sent["trials"]), reason=sent["reason"], trace=sent["trace"])
