"""Conflict: a combination of valid keys that cannot be simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fl.config import FedAvgConfig, ReconstructionConfig
from phy.config import LinkConfig
from scenarios.schema.errors import problem_and_remedy
from scenarios.schema.schema import Scenario

Where = Callable[[str], tuple[Path | str | None, int | None] | None]
"""Dotted path -> file and line of the key, or None for a key that the user left out."""


@dataclass(frozen=True)
class Conflict:
    """A combination of keys, in `listed` separated by spaces. The error names the first key that the user wrote."""

    listed: str
    problem: str
    remedy: str

    @property
    def keys(self) -> tuple[str, ...]:
        """Dotted paths, the likeliest to be wrong first."""
        return tuple(self.listed.split())

    @staticmethod
    def of(keys: str, sentence: object, *, usual: str = "change one of them") -> Conflict:
        """The conflict of a sentence `problem; remedy`; `usual` is the remedy of a sentence without one."""
        return Conflict(keys, *problem_and_remedy(sentence, usual=usual))


def value_of_key(scenario: Scenario, key: str) -> Any:
    """The value of a key, None for a section: the error then names the key alone."""
    value: Any = scenario
    for part in key.split("."):
        value = getattr(value, part, None)
    return None if isinstance(value, BaseModel) else value


def links_of(scenario: Scenario) -> Iterator[tuple[str, LinkConfig]]:
    """Path and config of the uplink, and of the downlink if it is a link."""
    yield "link", scenario.link
    learning = scenario.learning
    if isinstance(learning, FedAvgConfig) and learning.downlink != "ideal":
        yield "learning.downlink", learning.downlink


def attacked(scenario: Scenario) -> Scenario:
    """Replace an attack on uploads by the round of federated averaging that it attacks; keep other scenarios."""
    learning = scenario.learning
    if not isinstance(learning, ReconstructionConfig):
        return scenario
    return scenario.model_copy(update={"learning": learning.one_round})
