"""Values of `auto` and of keys that are left out, and the links of a scenario."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config.model import Model
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
    return with_code_digest(scenario.model_copy(update={"learning": learning.resolved(), "link": link}))


def with_code_digest(scenario: Scenario) -> Scenario:
    """Copy the digest of the file of the user's own model from `code`, if it has one."""
    function = own_function(scenario)
    if function is None or (digest := scenario.code.get(function.partition(":")[0])) is None:
        return scenario
    model = getattr(scenario.learning, "model", None)
    assert model is not None
    pinned = scenario.learning.model_copy(update={"model": model.model_copy(update={"digest": digest})})
    return scenario.model_copy(update={"learning": pinned})


def own_function(scenario: Scenario) -> str | None:
    """Return `module:function` of the user's own model; None without one."""
    model: Model | None = getattr(scenario.learning, "model", None)
    return None if model is None else model.own_function


def links_of(scenario: Scenario) -> Iterator[tuple[str, LinkConfig]]:
    """Path and config of the uplink, and of the downlink if it is a link."""
    yield "link", scenario.link
    yield from scenario.learning.links().items()
