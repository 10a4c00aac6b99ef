"""Exact (epsilon, delta) of a round in which every entry is one of several amplitudes, in Gaussian noise.

A device sends each of its m gradient entries as A x_j, with probability p_j where the gradient is one, and q_j where
it is the other of the worst two. In noise of power 1 one entry is received as

    P = sum_j p_j N(A x_j, 1)    or    Q = sum_j q_j N(A x_j, 1),

and m entries, drawn independently, as P^m or Q^m. The round is (epsilon, delta)-DP just where the hockey-stick
divergence is at most delta both ways, with the loss L = ln dP^m/dQ^m:

    delta(epsilon) = E_P[(1 - e^(epsilon - L))_+].

*Other devices add nothing*: a listener who knows what the others sent subtracts it, and the law of the rest is above;
one who does not knows less. So neither K nor the others' gains enter, and A / sqrt(N0) is the device's own received
amplitude over the noise, whatever the fading. *More power never hides more*: noise added at the receiver turns A into
any smaller one, so that delta rises with A.

Unlike `superposed.SuperposedBit`, an event of one entry for the ledger, this is a whole round, precise enough to
search an amplitude with. Zhang et al. 2022, (15) with the others' symbols cancelled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Protocol

from privacy.errors import PrivacyError, require_count, require_positive, require_probability

_NEXT_TO_NOTHING = 1e-300
_ROUNDED = 1.0 - 1e-12
"""An epsilon that equals the bound of the loss up to rounding is at it."""
_SATURATED = 1e4
"""Distance of the ends of a pair, over the noise, from which on more amplitude tells nothing new."""


class Spent(Protocol):
    """delta of a round as `round_delta` and `round_tail` count it."""

    def __call__(self, pair: LevelPair, epsilon: float, /, *, amplitude: float, dimension: int) -> float:
        """Return delta in [0, 1]."""
        ...


@dataclass(frozen=True, kw_only=True)
class LevelPair:
    """What one entry sends under the two gradients that are worst to tell apart.

    `levels` x_j rise, in units of the received amplitude A; `one` p_j and `other` q_j are their probabilities, which
    add up to 1 each. The odds p_j / q_j must rise with the level, as for any quantizer that sends a larger gradient
    higher: then so does the loss with what is received. Raises PrivacyError for anything else.
    """

    levels: tuple[float, ...]
    one: tuple[float, ...]
    other: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raise PrivacyError for levels that do not rise, for probabilities that are none, and for odds that fall."""
        if not len(self.levels) == len(self.one) == len(self.other) >= 2:
            counts = f"{len(self.levels)}, {len(self.one)} and {len(self.other)}"
            raise PrivacyError(f"levels, one and other have {counts} numbers", "give equally many, 2 or more")
        if not all(math.isfinite(x) for x in self.levels) or any(not low < high for low, high in pairwise(self.levels)):
            raise PrivacyError(f"levels are {self.levels}, but they must be finite and rise", "sort them")
        for name, law in (("one", self.one), ("other", self.other)):
            if not all(0.0 <= p <= 1.0 for p in law) or abs(math.fsum(law) - 1.0) > 1e-9:
                raise PrivacyError(f"{name} is {law}, but probabilities are 0 to 1 and add up to 1", "give such")
        held = [(p, q) for p, q in zip(self.one, self.other, strict=True) if p > 0.0 or q > 0.0]
        if any(p * r > s * q * (1.0 + 1e-9) for (p, q), (s, r) in pairwise(held)):
            raise PrivacyError("the odds of a level fall from one level to the next", "give `one` the higher levels")

    @property
    def swapped(self) -> LevelPair:
        """The pair with its laws exchanged, levels turned round so that odds rise again."""
        return LevelPair(levels=tuple(-x for x in reversed(self.levels)), one=self.other[::-1], other=self.one[::-1])

    @property
    def span(self) -> float:
        """The largest distance of two levels."""
        return self.levels[-1] - self.levels[0]

    @property
    def loss_bound(self) -> float:
        """The largest loss of one entry at any amplitude, in nats; math.inf where a level has probability 0 once."""
        pairs = list(zip(self.one, self.other, strict=True))
        odds = [math.inf if min(p, q) == 0.0 else abs(math.log(p / q)) for p, q in pairs if max(p, q) > 0.0]
        return max(odds)


def one_bit_pair(*, entry_bound: float) -> LevelPair:
    """-1 and +1 with log odds of at most `entry_bound` b = a l [nats]; Zhang et al. 2022 (8). Raises PrivacyError."""
    require_positive(entry_bound=entry_bound)
    low = math.exp(-entry_bound) / (1.0 + math.exp(-entry_bound))
    return LevelPair(levels=(-1.0, 1.0), one=(low, 1.0 - low), other=(1.0 - low, low))


@lru_cache(maxsize=4096)
def round_delta(pair: LevelPair, epsilon: float, *, amplitude: float, dimension: int) -> float:
    """The smallest delta with which a round of m entries keeps `epsilon` >= 0 [nats]; from above, to 1e-4 relative.

    Below 1e-17 m it is rounding. `amplitude` A >= 0 in the unit of sqrt(noise power); math.inf: no noise. Raises
    PrivacyError for values out of range.
    """
    from privacy.mechanisms.superposition._composed_loss import hockey_stick

    _check(epsilon, amplitude, dimension)
    if amplitude == 0.0 or epsilon >= dimension * pair.loss_bound * _ROUNDED:
        return 0.0
    ways = {pair, pair.swapped}
    return max(hockey_stick(way, epsilon, amplitude=amplitude, dimension=dimension) for way in ways)


@lru_cache(maxsize=4096)
def round_tail(pair: LevelPair, epsilon: float, *, amplitude: float, dimension: int) -> float:
    """Pr(|L| > epsilon) of a round of m entries, the larger of both ways; to 1e-5 relative, arguments as `round_delta`.

    What Zhang et al. 2022 (11) asks with (15) freed of the others' symbols, for the worst data sets: at least
    `round_delta`, since (1 - e^(epsilon - L))_+ is at most 1 where L > epsilon. Raises PrivacyError.
    """
    from privacy.mechanisms.superposition._composed_loss import upper_tail

    _check(epsilon, amplitude, dimension)
    if amplitude == 0.0 or epsilon >= dimension * pair.loss_bound * _ROUNDED:
        return 0.0
    tail = partial(upper_tail, epsilon=epsilon, amplitude=amplitude, dimension=dimension)
    back = pair.swapped
    # L < -epsilon one way is L > epsilon the other way, under the same law.
    ways = [tail(one, under_other=False) + tail(other, under_other=True) for one, other in {(pair, back), (back, pair)}]
    return min(1.0, max(ways))


@lru_cache(maxsize=4096)
def round_epsilon(pair: LevelPair, delta: float, *, amplitude: float, dimension: int) -> float:
    """The smallest epsilon >= 0 [nats] that a round of m entries keeps with `delta`; from above, to 1e-4 relative.

    What a round truly spends, whatever an equation of a paper says. Arguments as of `round_delta`; math.inf where no
    epsilon is enough. Raises PrivacyError.
    """
    from scipy.optimize import brentq

    require_probability(delta=delta)
    _check(0.0, amplitude, dimension)

    def spent(epsilon: float) -> float:
        return round_delta(pair, epsilon, amplitude=amplitude, dimension=dimension)

    if spent(0.0) <= delta:
        return 0.0
    high, most = 1e-3, dimension * pair.loss_bound
    while high < most and spent(high) > delta:
        high *= 2.0
        if high > 1e6:
            return math.inf
    low, high = high / 2.0 if high > 1e-3 else 0.0, min(high, most)
    if spent(high) > delta:
        return high

    def margin(epsilon: float) -> float:
        return math.log(max(spent(epsilon), _NEXT_TO_NOTHING)) - math.log(delta)

    root = float(brentq(margin, low, high, xtol=1e-9, rtol=1e-7))
    step = 1e-7 * max(root, 1e-6)
    while spent(root) > delta:
        root, step = root + step, 2.0 * step
    return min(root, most)


@lru_cache(maxsize=1024)
def largest_amplitude(
    pair: LevelPair, *, epsilon: float, delta: float, dimension: int, spent: Spent = round_delta
) -> float:
    """The largest received amplitude A at which a round of m entries is (epsilon, delta)-DP.

    In the unit of sqrt(noise power), from below; math.inf where no amplitude breaks it, as for epsilon of m times the
    largest loss of an entry. By `spent`, which is `round_delta` or `round_tail`; by the latter, which need not rise,
    the first crossing. Raises PrivacyError.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtri

    from privacy.mechanisms.superposition.gaussian import gaussian_cap

    require_positive(epsilon=epsilon)
    require_probability(delta=delta)
    require_count(dimension=dimension)
    if epsilon >= dimension * pair.loss_bound * _ROUNDED:
        return math.inf

    def at(log_amplitude: float) -> float:
        return spent(pair, epsilon, amplitude=math.exp(log_amplitude), dimension=dimension)

    def margin(log_amplitude: float) -> float:
        # The Gaussian quantile of delta is nearly a straight line in ln A.
        return float(ndtri(min(max(at(log_amplitude), _NEXT_TO_NOTHING), 1.0 - 1e-16))) - goal

    goal = float(ndtri(delta))
    # Levels at the two ends, with no draw between them, are the most that a pair can tell: a Gaussian mechanism.
    low = math.log(gaussian_cap(epsilon, delta) / (pair.span * math.sqrt(dimension)))
    while margin(low) > 0.0:
        low -= 0.2
    high = low + 0.2
    while margin(high) <= 0.0:
        if math.exp(high) > _SATURATED / pair.span:
            return math.inf
        low, high = high, high + 0.2
    root = float(brentq(margin, low, high, xtol=1e-8))
    step = 1e-8
    while at(root) > delta:
        root, step = root - step, 2.0 * step
    return math.exp(root)


def _check(epsilon: float, amplitude: float, dimension: int) -> None:
    if not (math.isfinite(epsilon) and epsilon >= 0.0):
        raise PrivacyError(f"epsilon is {epsilon}, but it must be finite and >= 0", "give one in nats")
    if not amplitude >= 0.0:
        raise PrivacyError(f"amplitude is {amplitude}, but it must be >= 0", "give the received one over sqrt(noise)")
    require_count(dimension=dimension)
