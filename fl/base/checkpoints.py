"""The seam between learning and the storage of checkpoints.

All draws are functions of (seed, trial, round, purpose, device), so that the number of rounds done is the random
position. A checkpoint holds the rest: what a round hands on to the next, and what rounds have left in the recorder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fl.base.errors import LearningError
from fl.base.results import TrialResult
from phy.links.link import LinkError

State = Mapping[str, Any]
"""Nested mappings of names to NumPy arrays of numbers, int, float, str or None, and nothing else."""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """The state after `rounds_done` rounds."""

    rounds_done: int
    state: State


class Checkpoints(Protocol):
    """Keeps states of what is computed at the moment: one trial, or trials side by side."""

    def saved(self) -> Saved | None:
        """Return the last state, None if there is none that can be read."""

    def refuse(self, saved: Saved, why: str) -> None:
        """Take note that a state is not one of these trials; `why` is the reason."""

    def due(self, rounds_done: int) -> bool:
        """Return whether to save a state after so many rounds; asked after every round but the last."""

    def save(self, rounds_done: int, state: State) -> None:
        """Save the state, whose arrays change after the call. Does not raise an error where it cannot be saved."""


class Kept:
    """Base of what rounds change, in the attributes `kept`.

    They are arrays, arrays by name, whole numbers, None, or objects with a state.
    """

    kept: ClassVar[tuple[str, ...]] = ()

    def state(self) -> State:
        """Return what rounds have changed; later rounds may change its arrays in place."""
        own = ((name.lstrip("_"), getattr(self, name)) for name in self.kept)
        return {name: one.state() if hasattr(one, "state") else one for name, one in own}

    def restore(self, state: State) -> None:
        """Go on from a state. Raises LearningError or KeyError for the state of others; it may then be half changed."""
        for attribute in self.kept:
            name, here = attribute.lstrip("_"), getattr(self, attribute)
            if hasattr(here, "restore"):
                here.restore(state[name])
            elif isinstance(here, int):
                setattr(self, attribute, kept_number(state, name, most=1 << 62))
            elif isinstance(here, dict):
                found = {key: kept_array(state[name], key, like=here[key]) for key in {**here, **state[name]}}
                setattr(self, attribute, found)
            elif here is not None:
                setattr(self, attribute, kept_array(state, name, like=here))


class Trials(Kept, ABC):
    """Trials that are computed together: all of an algorithm that runs them side by side, of every other one alone.

    `ended`: no round is left to compute, because a budget is spent.
    """

    ended = False

    @abstractmethod
    def round(self, index: int) -> None:
        """Compute one round of all of them. Raises LearningError where they cannot go on."""

    @abstractmethod
    def results(self, failure: str | None) -> list[TrialResult]:
        """Return one result per trial; `failure`: the reason why the last round raised an error, if one did."""


def resumed(build: Callable[[], Trials], *, num_rounds: int, checkpoints: Checkpoints | None) -> tuple[Trials, int]:
    """Return what `build()` makes, set to a saved state that fits it, and the rounds done; without one 0 rounds.

    A checkpoint may come from any run: one that does not fit is refused.
    """
    saved = None if checkpoints is None else checkpoints.saved()
    if checkpoints is None or saved is None:
        return build(), 0
    found = build()
    try:
        if not 0 < saved.rounds_done <= num_rounds:
            raise LearningError(f"{saved.rounds_done} of {num_rounds} rounds cannot have been done")
        found.restore(saved.state)
    except (LearningError, LinkError, LookupError, TypeError, ValueError, AttributeError) as error:
        checkpoints.refuse(saved, str(error))
        return build(), 0
    return found, saved.rounds_done


def kept_array(state: State, name: str, *, like: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of the array `name`. Raises LearningError for another shape or type than those of `like`."""
    found = state[name]
    here = getattr(found, "dtype", type(found).__name__), getattr(found, "shape", "")
    if here != (like.dtype, like.shape):
        raise LearningError(f"{name} is {here[0]} {here[1]}, and {like.dtype} {like.shape} is needed")
    return np.array(found)


def kept_number(state: State, name: str, *, most: int) -> int:
    """Return the whole number `name`, 0 to `most`. Raises LearningError for anything else."""
    found = state[name]
    if not isinstance(found, int) or not 0 <= found <= most:
        raise LearningError(f"{name} is {found!r}, and no number within 0 to {most}")
    return found
