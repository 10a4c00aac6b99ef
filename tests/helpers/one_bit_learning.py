"""Scenarios of federated averaging from what they say of learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fl.algorithms.fedavg.config import FedAvgConfig
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.schema.loader import load_scenario
from scenarios.schema.schema import Scenario, validate_quickly
from scenarios.schema.shorthand import normalise

FEDAVG = "name: a\nlearning:\n  algorithm: fedavg\n  upload: update\n"


def scenario(learning: dict[str, Any] | None = None, **parts: Any) -> Scenario:
    document = {"name": "a", "learning": {"algorithm": "fedavg", "upload": "update", **(learning or {})}, **parts}
    normalise(document, left_out=())
    return validate_quickly(document)


def with_scheme(**scheme: Any) -> Scenario:
    return scenario({"aggregation": scheme})


def learnt(made: Scenario) -> FedAvgConfig:
    assert isinstance(made.learning, FedAvgConfig)
    return made.learning


def planned(text: str, folder: Path) -> Plan:
    (folder / "s.yaml").write_text(text)
    return expand(load_scenario(folder / "s.yaml"))
