"""What a game is: two neighbouring worlds, one sent over the link, and what the attacker makes of what arrived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from phy.numerics.random import Purpose, seed_sequence
from privacy.events.claims import Claim, Scope
from privacy.events.events import Unit

Listener = Literal["server", "outsider", "seed-leaked"]
"""Who listens: whoever has all the server has, the shared seed of codebooks and dither too; someone who hears the air
and has no seed; the server once the seed of the devices' own randomness has leaked as well."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Games played together.

    - `alternative` bool `[n]`: the world each was played in;
    - `score` float64 `[n]`: log-likelihood ratio of what arrived, or what grows with it;
    - `observed` float32 `[n, features]`: what arrived, for an attacker that has to learn the law.
    """

    alternative: NDArray[np.bool_]
    score: NDArray[np.float64]
    observed: NDArray[np.float32]


class Game(Protocol):
    """Neighbouring worlds of one scheme over one link.

    - `scope`, `unit`: of what the worlds differ in; `worlds`: which they are, in words;
    - `law_known`: whether `Batch.score` is the likelihood ratio of the whole chain, or of it without what fades,
      estimates or decoders add;
    - `gaussian`: whether the trade-off curve is that of two Gaussians;
    - `rounds`: that one game lasts; `when`: which of the run's, in words.
    """

    scope: Scope
    unit: Unit
    worlds: str
    law_known: bool
    gaussian: bool
    rounds: int
    when: str

    def play(self, number: int) -> Batch:
        """Batch `number`: its keys are its own."""
        ...

    def claims(self, delta: float) -> tuple[Claim, ...]:
        """Upper bounds on the epsilon of one game that hold, or are said to hold, at `delta`; asked for after play."""
        ...


@dataclass(frozen=True, kw_only=True)
class GameFacts:
    """Facts of a game that was played, see `Game`."""

    scope: Scope
    unit: Unit
    worlds: str
    rounds: int
    when: str


def draw_worlds(seed: int, number: int, count: int) -> NDArray[np.bool_]:
    """A fair coin for every game of batch `number`, bool `[count]`."""
    drawn = np.random.Generator(np.random.Philox(seed_sequence(seed, number, Purpose.ATTACK)))
    return drawn.integers(0, 2, count).astype(np.bool_)
