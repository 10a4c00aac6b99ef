"""Parts of a scenario that several checks look up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from phy.config import LinkConfig
from privacy.config import AnyPrivacyConfig
from scenarios.schema.schema import Scenario

Where = Callable[[str], tuple[Path | str | None, int | None] | None]
"""Dotted path -> file and line of the key, or None for a key that the user left out."""


def value_of_key(scenario: Scenario, key: str) -> Any:
    """The value of a key, None for a section: the error then names the key alone."""
    value: Any = scenario
    for part in key.split("."):
        value = getattr(value, part, None)
    return None if isinstance(value, BaseModel) else value


def mechanism_of(scenario: Scenario) -> AnyPrivacyConfig | None:
    """The privacy mechanism, None without one."""
    return None if scenario.privacy == "none" else scenario.privacy


def links_of(scenario: Scenario) -> Iterator[tuple[str, LinkConfig]]:
    """Path and config of the uplink, and of the downlink if it is a link."""
    yield "link", scenario.link
    yield from scenario.learning.links().items()


def attacked(scenario: Scenario) -> Scenario:
    """Replace an attack on uploads by the round of federated averaging that it attacks; keep other scenarios."""
    return scenario.model_copy(update={"learning": scenario.learning.played})
