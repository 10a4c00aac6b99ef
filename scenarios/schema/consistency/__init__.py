"""Conflicts and warnings about combinations of keys that are each valid, and the values of `auto`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scenarios.schema.consistency import aggregation, budget, fedavg, flmc, radio, warnings
from scenarios.schema.consistency.conflict import Conflict, Where, attacked, value_of_key
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.errors import ScenarioError
from scenarios.schema.schema import Scenario

__all__ = ["Conflict", "Where", "check_consistency", "find_conflicts", "find_warnings", "resolve_auto"]


def check_consistency(scenario: Scenario, *, where: Where, conflicts: Iterable[Conflict] | None = None) -> None:
    """Raise ScenarioError for the first of `conflicts`, by default those of learning, at the key the user wrote."""
    for conflict in find_conflicts(scenario) if conflicts is None else conflicts:
        written = [(key, place) for key in conflict.keys if (place := where(key)) is not None]
        key, (file, line) = written[0] if written else (conflict.keys[0], (None, None))
        value = value_of_key(scenario, key)
        raise ScenarioError(
            problem=conflict.problem, remedy=conflict.remedy, file=file, line=line, key=key, value=value
        )


def find_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Yield every combination of keys that cannot be simulated or that has no meaning."""
    yield from radio.gains(scenario)
    yield from flmc.learning_conflicts(scenario)
    broken = list(fedavg.reconstruction_conflicts(scenario))
    if not broken:
        broken = list(fedavg.learning_conflicts(attacked(scenario)))
    yield from broken
    if not broken:
        yield from aggregation.learning_conflicts(attacked(scenario))
        yield from fedavg.attack_conflicts(scenario)
        yield from aggregation.mechanism_conflicts(attacked(scenario))
    yield from fedavg.codec_conflicts(scenario)
    if scenario.learning.uses_radio and not broken:  # an invalid model has no size
        yield from flmc.radio_conflicts(scenario)
        yield from radio.detected_conflicts(scenario)
        yield from radio.error_model_conflicts(scenario)
        yield from radio.power_conflicts(scenario)
        yield from radio.link_conflicts(scenario)
        yield from flmc.privacy_conflicts(scenario)
    if not broken:
        yield from budget.budget_conflicts(scenario)


def find_warnings(scenario: Scenario) -> Iterator[str]:
    """Yield warnings, one sentence each, without full stops."""
    yield from warnings.find_warnings(attacked(scenario))
    yield from budget.find_warnings(scenario)
