"""Conflicts and warnings about combinations of keys that are each valid, and the values of `auto`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from phy.config.conflict import Conflict
from phy.links.conflicts import link_conflicts
from scenarios.schema.consistency import budget, warnings
from scenarios.schema.consistency.conflict import Where, attacked, links_of, mechanism_of, value_of_key
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.errors import ScenarioError, together
from scenarios.schema.schema import Scenario

__all__ = ["Conflict", "Where", "check_consistency", "find_conflicts", "find_warnings", "resolve_auto"]


def check_consistency(scenario: Scenario, *, where: Where, conflicts: Iterable[Conflict] | None = None) -> None:
    """Raise ScenarioError for all `conflicts`, by default those of learning, each at the key the user wrote."""
    found = []
    for conflict in find_conflicts(scenario) if conflicts is None else conflicts:
        written = [(key, place) for key in conflict.keys if (place := where(key)) is not None]
        key, (file, line) = written[0] if written else (conflict.keys[0], (None, None))
        value = value_of_key(scenario, key)
        found.append(
            ScenarioError(problem=conflict.problem, remedy=conflict.remedy, file=file, line=line, key=key, value=value)
        )
    if found:
        raise together(found)


def find_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Yield every combination of keys that cannot be simulated or that has no meaning."""
    learning, privacy = scenario.learning, mechanism_of(scenario)
    broken = list(learning.conflicts(link=scenario.link, privacy=privacy))
    yield from broken
    if not broken and (conflict := learning.privacy_conflict(privacy)) is not None:
        yield conflict
    if learning.uses_radio:
        yield from _links(scenario, sized=not broken)
    if not broken:
        yield from budget.budget_conflicts(scenario)


def _links(scenario: Scenario, *, sized: bool) -> Iterator[Conflict]:
    """Conflicts within each link, for the number of devices and bits that learning sends."""
    learning = scenario.learning
    for path, link in links_of(resolve_auto(scenario)):
        bits = None
        if sized:
            bits = learning.payload_bits() if path == "link" else learning.downlink_bits()
        # A model of unknown size, as an invalid one, is checked with one full packet.
        bits = bits or 8 * link.packet_size_bytes
        for conflict in link_conflicts(link, num_devices=learning.num_devices, payload_bits=bits):
            yield conflict.under(path, "learning.num_devices learning.scheme learning.algorithm")


def find_warnings(scenario: Scenario) -> Iterator[str]:
    """Yield warnings, one sentence each, without full stops."""
    yield from warnings.find_warnings(attacked(scenario))
    yield from budget.find_warnings(scenario)
