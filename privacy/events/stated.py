"""Releases whose loss the class of a mechanism states, by the events that the class builds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from privacy.errors import PrivacyError
from privacy.events.events import Event, Unprotected


class StatesEvents(Protocol):
    """A mechanism that builds the event of its releases."""

    def event(self, *, strength: float, num_values: int) -> Event | None:
        """Return one release of `num_values` numbers, or None if nothing is known of its loss."""
        ...

    @classmethod
    def model_validate_json(cls, json_data: str) -> StatesEvents:
        """Return the mechanism with the parameters of a ledger."""
        ...


STATING: dict[str, type[StatesEvents]] = {}
"""The classes that were imported last, by the words of a scenario."""


def stated_event(strength: float, facts: Mapping[str, Any]) -> Event:
    """Return the event of one upload: `facts` are the word, the parameters as JSON and the numbers of an upload.

    PrivacyError for a mechanism that this process has not imported, and for what is no event: nothing is proved then.
    """
    if missing := [name for name in ("mechanism", "parameters", "num_values") if name not in facts]:
        raise PrivacyError(f"a ledger of stated releases has no fact {missing[0]!r}", "give it")
    word = str(facts["mechanism"])
    if word not in STATING:
        problem = f"releases of mechanism {word} have a loss that its plug-in states, and the plug-in is not loaded"
        raise PrivacyError(problem, "name it in plugins: of the scenario")
    mechanism = STATING[word].model_validate_json(str(facts["parameters"]))
    found = mechanism.event(strength=strength, num_values=int(facts["num_values"]))
    if found is None:
        return Unprotected()
    lacking = [name for name in ("pure_epsilon", "delta", "renyi", "repeated") if not hasattr(found, name)]
    if lacking:
        problem = f"what mechanism {word} states is no event: {type(found).__name__} has no {lacking[0]}"
        raise PrivacyError(problem, "see privacy.events.events.Event")
    return found
