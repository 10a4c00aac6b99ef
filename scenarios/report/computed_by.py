"""Which engine computes the links of a plan, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scenarios.schema.consistency.resolve import links_of

if TYPE_CHECKING:
    from phy.config import LinkConfig
    from scenarios.schema.schema import Scenario

_WORDS = {"fused": "fused kernels", "sionna": "Sionna under XLA"}


def links_on_air(scenarios: Iterable[Scenario]) -> list[LinkConfig]:
    """The resolved links over which symbols travel, uplinks and downlinks; none where nothing has a radio."""
    return [
        link
        for scenario in scenarios
        if scenario.learning.uses_radio
        for _, link in links_of(scenario)
        if link.error_model != "error_free"
    ]


def computed_by(links: Iterable[LinkConfig]) -> str | None:
    """`fused kernels`, `Sionna under XLA`, or how many links each of them computes; None without a link."""
    engines: list[str] = [link.engine for link in links]
    found = [(words, engines.count(engine)) for engine, words in _WORDS.items() if engine in engines]
    if len(found) == 1:
        return found[0][0]
    return ", ".join(f"{count} of {len(engines)} links by {words}" for words, count in found) or None
