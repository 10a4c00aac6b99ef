"""Combinations of keys that are each valid and together cannot be, and what `auto` stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scenarios.schema.consistency import (
    aggregation,
    attacks,
    budget,
    evidence,
    fedavg,
    flmc,
    radio,
    reconstruction,
    studies,
    uploads,
    warnings,
)
from scenarios.schema.consistency.conflict import Conflict, Where, value_of_key
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.errors import ScenarioError
from scenarios.schema.schema import Scenario

__all__ = ["Conflict", "Where", "check_consistency", "find_conflicts", "find_warnings", "resolve_auto"]


def check_consistency(scenario: Scenario, *, where: Where, conflicts: Iterable[Conflict] | None = None) -> None:
    """Raise ScenarioError for the first conflict, at the key of it that the user wrote.

    `conflicts` of the scenario, those of learning with it if left out.
    """
    for conflict in find_conflicts(scenario) if conflicts is None else conflicts:
        written = [(key, place) for key in conflict.keys if (place := where(key)) is not None]
        key, (file, line) = written[0] if written else (conflict.keys[0], (None, None))
        raise ScenarioError(
            problem=conflict.problem,
            remedy=conflict.remedy,
            file=file,
            line=line,
            key=key,
            value=value_of_key(scenario, key),
        )


def find_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Every combination in one point of a plan that cannot be simulated, or would mean nothing."""
    yield from radio.devices(scenario)
    yield from flmc.learning_conflicts(scenario)
    broken = list(reconstruction.learning_conflicts(scenario))
    attacked = reconstruction.attacked(scenario)
    if not broken:
        broken = list(fedavg.learning_conflicts(attacked))
    yield from broken
    if not broken:
        yield from aggregation.learning_conflicts(attacked)
        yield from attacks.learning_conflicts(scenario)
        yield from uploads.mechanism_conflicts(attacked)
    yield from studies.learning_conflicts(scenario)
    if scenario.learning.uses_radio and not broken:  # of a model that cannot be, the size is not known
        yield from flmc.radio_conflicts(scenario)
        yield from radio.detected_conflicts(scenario)
        yield from radio.error_model(scenario)
        yield from radio.power(scenario)
        yield from radio.link(scenario)
        yield from flmc.privacy_conflicts(scenario)
    if not broken:
        yield from budget.budget_conflicts(scenario)


def find_warnings(scenario: Scenario) -> Iterator[str]:
    """What is allowed and will hurt, one sentence each, without full stops."""
    attacked = reconstruction.attacked(scenario)
    yield from warnings.find_warnings(attacked)
    yield from aggregation.find_warnings(attacked)
    yield from evidence.find_warnings(attacked)
    yield from budget.find_warnings(scenario)
