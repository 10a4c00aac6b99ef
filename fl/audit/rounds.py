"""Which rounds of a run a game is played in: where rounds release unlike amounts, those that release most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl.tasks.base import LearningError


@dataclass(frozen=True, kw_only=True)
class PlayedRounds:
    """`indices` of the run's `num_rounds` rounds, ascending; `why` these and no others, in words."""

    indices: tuple[int, ...]
    num_rounds: int
    why: str

    def describe(self) -> str:
        """Such as `rounds 3 to 5 of 10, where most is released`; counted from 1."""
        first, last = self.indices[0] + 1, self.indices[-1] + 1
        if first == last:
            which = f"round {first}"
        elif last - first + 1 == len(self.indices):
            which = f"rounds {first} to {last}"
        else:
            which = f"{len(self.indices)} rounds from {first} to {last}"
        return f"{which} of {self.num_rounds}, {self.why}" if self.num_rounds > 1 else which


def weakest_rounds(released: NDArray[np.float64], *, count: int) -> PlayedRounds:
    """The `count` rounds of a run in which most is released, by `released` `[num_rounds]`: the first ones among equals.

    Raises LearningError for more rounds than there are.
    """
    if not 1 <= count <= len(released):
        raise LearningError(f"a game of {count} rounds does not fit a run of {len(released)}; play fewer")
    if np.all(released == released[0]):
        return PlayedRounds(indices=tuple(range(count)), num_rounds=len(released), why="all of them alike")
    chosen = np.sort(np.argsort(-released, kind="stable")[:count])
    return PlayedRounds(
        indices=tuple(int(one) for one in chosen), num_rounds=len(released), why="where most is released"
    )
