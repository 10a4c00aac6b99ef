"""Values of `auto` and of keys that are left out, and the links of a scenario."""

from __future__ import annotations

from collections.abc import Iterator

from phy.config import LinkConfig
from phy.engines.choice import with_engine
from scenarios.schema.schema import Scenario


def resolve_auto(scenario: Scenario) -> Scenario:
    """Make access, modulation, code rate, engine and derived defaults of learning explicit.

    The link of an algorithm without a radio keeps `auto`, which then has no meaning.
    """
    learning, link = scenario.learning, scenario.link
    if learning.access is not None:
        access = learning.access if link.access == "auto" else link.access
        link = with_engine(link.resolve(access=access, modulation=learning.modulation_over(access)))
    privacy = scenario.privacy
    if privacy != "none":
        privacy = privacy.settled(num_rounds=learning.rounds, counts=link.error_model != "error_free")
    return scenario.model_copy(update={"learning": learning.resolved(), "link": link, "privacy": privacy})


def links_of(scenario: Scenario) -> Iterator[tuple[str, LinkConfig]]:
    """Path and config of the uplink, and of the downlink if it is a link."""
    yield "link", scenario.link
    yield from scenario.learning.links().items()
