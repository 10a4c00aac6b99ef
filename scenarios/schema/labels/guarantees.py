"""Privacy that aggregation schemes guarantee by their own randomness, in words, and schemes that guarantee unequal."""

from __future__ import annotations

from collections.abc import Iterable

from scenarios.schema.labels.labels import setting_label
from scenarios.schema.schema import Scenario

AGGREGATION = "learning.aggregation"


def guarantee(scenario: Scenario) -> str:
    """Return the epsilon of the aggregation scheme: `ε = 0.5`, or `no ε`; empty without a scheme."""
    scheme = scenario.learning.upload_scheme
    if scheme is None:
        return ""
    if scheme.own_epsilon is None:
        return "no ε"
    return setting_label(f"{AGGREGATION}.epsilon", scheme.own_epsilon)


def unequal_guarantees(scenarios: Iterable[Scenario]) -> dict[str, str]:
    """Return scheme: guarantees in words, where schemes that are compared differ in them; else nothing.

    Mechanisms and budgets under `privacy:` have guarantees of their own; sweep points with one do not count.
    """
    found: dict[str, dict[str, None]] = {}
    for scenario in scenarios:
        scheme = scenario.learning.upload_scheme
        if scheme is not None and scenario.mechanism is None:
            word = setting_label(f"{AGGREGATION}.name", scheme.name)
            per = "" if scheme.own_epsilon is None else f" per {scheme.epsilon_per}"
            found.setdefault(word, {})[guarantee(scenario) + per] = None
    if len({tuple(words) for words in found.values()}) < 2:
        return {}
    return {word: " and ".join(words) for word, words in found.items()}
