"""Laws of uploads: two neighbouring inputs, the likelihood ratio of what is received, and the claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.base.arrays import F64, I64, U8
from fl.base.words import plural
from phy.fading.block_taps import UplinkContext
from privacy.audit.promises import accounted, claim, nothing_promised, of_the_budget
from privacy.config import BudgetConfig
from privacy.events.claims import Claim, Scope
from privacy.events.events import Spending, Unit
from privacy.events.noise_events import PureEpsilon

if TYPE_CHECKING:
    from fl.schemes.coders.coder import Encoder

FAR = 1e3
"""Beyond any clipping."""

CREDITED = ("the bit errors credited to the channel are there, and independent",)

Scores = tuple[F64, F64]
"""Log-likelihood ratios `[games]`, and features `[games, n]` for an attacker that learns the law."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """K rows (devices of the link) of `num_values` numbers, of which `places` are games in the rows `audited`.

    Where bits err together (`channel_credit.errors_together`) each row holds one game. Of devices that share their
    resources (NOMA) one of each group is a game.
    """

    num_rows: int
    num_values: int
    places: I64
    audited: I64

    @property
    def count(self) -> int:
        """Games in one batch."""
        return len(self.audited) * len(self.places)


@dataclass(frozen=True, kw_only=True)
class ReceivedGames:
    """One round of a batch of games at the server.

    - `bits` int8 `[games, bits per game]`: +-1, 0 where nothing was received;
    - `payload` uint8 `[K, num_bytes]`: all rows, packed;
    - `coder`: that of the devices, in this round.
    """

    bits: NDArray[np.int8]
    payload: U8
    places: Places
    coder: Encoder
    context: UplinkContext


@dataclass(frozen=True, kw_only=True)
class Law:
    """Neighbouring uploads of one device, the score of what is received, and the epsilon that is claimed.

    - `epsilon`: pure, of each of `responses` independent groups of bits, None: no guarantee; `proved`, `source`: its
      standing and origin; `exact_epsilon`: in closed form, where that differs;
    - `upload`: a game is a whole upload of so many numbers; None: one number, or one `block` of equal numbers;
    - `spacing`: numbers from one game to the next; `bits_per_value`: at most;
    - `known`: the score is the likelihood ratio of the bits, apart from what fading and decoders add; `gaussian`: the
      trade-off curve is that of two Gaussians;
    - `note`: the settings that are audited, in words;
    - `coder`: coder of so many numbers at the settings that promise least; None: the scheme's own.
    """

    epsilon: float | None
    source: str = "declared by the scheme"
    proved: bool = True
    exact_epsilon: float | None = None
    responses: int = 1
    assumptions: tuple[str, ...] = ()
    channel_credited: bool = False
    upload: int | None = None
    block: int = 1
    spacing: int = 1
    bits_per_value: int = 1
    far: float = FAR
    known: bool = True
    gaussian: bool = False
    note: str = ""
    unit: Unit = "device"
    coder: Callable[[int], Encoder] | None = None

    @property
    def scope(self) -> Scope:
        """Scope of the difference between the two worlds."""
        return "coordinate" if self.upload is None else "round"

    @property
    def worlds(self) -> str:
        """The two worlds, in words."""
        part = "one number" if self.block == 1 else "one block of 2"
        return f"{part if self.upload is None else 'the whole upload'} of one device at either end of its range"

    def ends(self, round_index: int, *, devices: I64) -> tuple[ArrayLike, ArrayLike]:
        """Return the numbers of the null and of the alternative, broadcast to `[len(devices), games of a row]`."""
        return -self.far, self.far

    def released(self, num_rounds: int) -> F64:
        """Return how much each round releases `[num_rounds]`, on any scale; the rounds with the most are played."""
        return np.zeros(num_rounds)

    def score(self, received: ReceivedGames) -> Scores:
        """Return scores and features: the sum of bits that are more often +1 in the alternative."""
        total = received.bits.sum(axis=1, dtype=np.float64)
        return total, total[:, None]

    def claims(
        self, delta: float, *, played: Sequence[int], num_rounds: int, budget: BudgetConfig | None
    ) -> tuple[Claim, ...]:
        """Return the upper bounds on epsilon of the rounds `played`, of a run of `num_rounds` with `budget`."""
        if self.epsilon is None:
            return (nothing_promised(scope=self.scope, unit=self.unit),)
        labels: dict[str, Any] = {
            "unit": self.unit,
            "scope": self.scope,
            "assumptions": CREDITED if self.channel_credited else self.assumptions,
            "channel_credited": self.channel_credited,
        }
        count = len(played) * self.responses
        found = [
            claim(
                epsilon=count * self.epsilon,
                delta=0.0,
                accountant="basic" if count > 1 else "paper",
                standing="proved" if self.proved else "as published",
                source=self.source,
                **labels,
            )
        ]
        found += of_the_budget(budget, num_rounds=num_rounds, **labels)
        exact = self.epsilon if self.proved else self.exact_epsilon
        if exact is not None and not (self.proved and delta == 0.0):
            spent = (Spending(event=PureEpsilon(epsilon=exact), count=count),)
            source = "the worst of such responses" if self.proved else "worst case in closed form"
            found.append(accounted(spent, delta=delta, source=source, **labels))
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class LearntLaw(Law):
    """The law of a scheme that states none: two uploads of a device, told apart by their bits.

    They are opposite in the first number, the others 0, if epsilon is that of a number; else opposite in all numbers,
    with signs that alternate, so that a scheme that subtracts the mean leaves them apart.
    """

    per_number: bool
    proved: bool = False
    known: bool = False

    @property
    def scope(self) -> Scope:
        return "coordinate" if self.per_number else "round"

    @property
    def worlds(self) -> str:
        return (
            f"two uploads of {plural(self.upload or 1, 'number')} of one device, opposite in "
            f"{'one' if self.per_number else 'all'}"
        )

    def ends(self, round_index: int, *, devices: I64) -> tuple[ArrayLike, ArrayLike]:
        place = np.arange(self.upload or 1)
        numbers = self.far * ((place == 0) if self.per_number else 1.0 - 2.0 * (place % 2))
        return -numbers, numbers

    def score(self, received: ReceivedGames) -> Scores:
        """See `Law.score`: the bits themselves are the features; the score has nothing but their sum."""
        bits = received.bits.astype(np.float64)
        return bits.sum(axis=1), bits
