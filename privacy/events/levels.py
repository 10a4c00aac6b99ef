"""One gradient entry as a stochastic level over the superposition, tightly: FLMC with more than one bit per entry.

A device rounds g in [-l, l] to one of L = 2^b levels c_j = 2 j / (L - 1) - 1, j = 0 .. L - 1, in units of the range
r >= l, without a bias: with u = (L - 1) (1 + g / r) / 2 and j = min(floor(u), L - 2) it sends c_(j+1) with probability
u - j, else c_j. In the unit of sqrt(noise power) the law of what is received is

    P_g = (1 - u + j) N(A c_j, 1) + (u - j) N(A c_(j+1), 1).

The worst pair is P = P_l against Q = P_(-l):

- *Ends are worst.* Levels have a monotone likelihood ratio in g, and the Gaussian density keeps it (Karlin 1968, basic
  composition formula): ln P_g' / P_g rises in y for g' > g, so that the best test is a threshold, whose hockey-stick
  divergence P_g'(y > t) - e^eps P_g(y > t) rises in g' and falls in g.
- *Other devices add nothing, entries and rounds compose*: as in `privacy.events.superposed`.

With r = l the ends are levels and nothing is drawn there: P = N(A, 1), Q = N(-A, 1), the Gaussian mechanism of noise
multiplier 1 / (2 A), as for an analog amplitude. One bit with l / r = tanh(b / 2) is `SuperposedBit` of entry bound b.

As *bit planes* the b bits of j travel as symbols of their own, +-a_p each. Level j and its mirror image L - 1 - j
differ in all b of them, no pair in more, and for b >= 2 the middle levels lie within [-l, l] for every r <= (L - 1) l.
The pair of a middle level and its mirror image then dominates all mixtures by joint convexity, and the law is exactly
the Gaussian mechanism of noise multiplier 1 / (2 sqrt(sum_p a_p^2)): see `plane_noise_multiplier`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from privacy.errors import PrivacyError
from privacy.events._renyi_sum import renyi_moment
from privacy.events.events import Event, Floats, NoRelease
from privacy.mechanisms.superposition.levels import LevelPair

_REACH = 10.0  # Pr(|z| > 10) is 2e-23
_NODES = 1 << 17
_ROUNDING = 1e-10
"""Relative error of the quadrature, added so that the result is an upper bound."""
_HALVINGS = 90
_ULPS = 8.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class SuperposedLevels(Event):
    """P against Q of the module's head: `levels` L >= 2, at the received amplitude A of the outermost ones.

    `amplitude` A >= 0 in the unit of sqrt(noise power), finite. `share` l / r in (0, 1): what gradients reach of the
    range of the levels. Raises PrivacyError for values out of range.
    """

    amplitude: float
    levels: int
    share: float

    def __post_init__(self) -> None:
        """Raise PrivacyError for NaN and values out of range."""
        if not 0.0 <= self.amplitude < math.inf:
            raise PrivacyError(
                f"amplitude is {self.amplitude}, but it must be finite and >= 0",
                "give the received amplitude over sqrt(noise)",
            )
        if self.levels < 2:
            raise PrivacyError(f"levels is {self.levels}, but a quantizer has at least 2", "give 2^b for b bits")
        if not 0.0 < self.share <= 1.0:
            raise PrivacyError(f"share is {self.share}, but it is l / r in (0, 1]", "give r of at least l")

    def _law(self) -> tuple[float, float, float]:
        """Lower level, upper level, and the probability of the upper one, of a gradient at l; levels in A."""
        low, high, upper = _end(self.levels, self.share)
        return self.amplitude * low, self.amplitude * high, upper

    def pure_epsilon(self) -> float:
        """Two levels: ln((1 + l/r) / (1 - l/r)), approached as y grows. More: math.inf, as Gaussian tails part."""
        if self.amplitude == 0.0:
            return 0.0
        if self.levels > 2 or self.share == 1.0:
            return math.inf
        return math.log1p(self.share) - math.log1p(-self.share)

    def loss(self, received: Floats) -> Floats:
        """ln P / Q at what is received over sqrt(noise power), of any shape [nats]; it is odd and rises."""
        y = np.asarray(received, np.float64)
        return np.asarray(self._log_density(y) - self._log_density(-y))

    def _log_density(self, y: Floats) -> Floats:
        """ln P(y), up to the constant of the normal density."""
        low, high, upper = self._law()
        with np.errstate(divide="ignore"):
            below, above = np.log1p(-upper), np.log(upper)
        return np.asarray(np.logaddexp(below - 0.5 * (y - low) ** 2, above - 0.5 * (y - high) ** 2))

    def delta(self, epsilon: Floats) -> Floats:
        """Pr_P(y > t) - e^eps Pr_Q(y > t) at the threshold t where the loss reaches eps, by bisection.

        The derivative in t is 0 there, so that t needs half the digits. Raises PrivacyError below 0.
        """
        from scipy.special import log_ndtr, ndtr

        eps = np.asarray(epsilon, np.float64)
        if not np.all(eps >= 0.0):
            raise PrivacyError("an epsilon is negative or NaN, but a privacy profile starts at 0", "give 0 or more")
        inside = eps < self.pure_epsilon()
        if self.amplitude == 0.0 or not inside.any():
            return np.zeros_like(eps)
        at = np.where(inside, eps, 0.0)
        low, high, upper = self._law()
        bottom, top = np.zeros_like(at), np.ones_like(at)
        for _ in range(60):
            short = (self.loss(top) < at) & (top < 1e150)
            if not short.any():
                break
            top = np.where(short, 2.0 * top, top)
        for _ in range(_HALVINGS):
            middle = 0.5 * (bottom + top)
            above = self.loss(middle) >= at
            bottom, top = np.where(above, bottom, middle), np.where(above, middle, top)
        kept = (1.0 - upper) * ndtr(low - top) + upper * ndtr(high - top)
        # e^eps stands with ln Pr, so that neither overflows alone; their weighted sum is at most 1.
        lost = (1.0 - upper) * np.exp(np.minimum(at + log_ndtr(-low - top), 700.0))
        lost = lost + upper * np.exp(np.minimum(at + log_ndtr(-high - top), 700.0))
        found = np.clip(kept * (1.0 + _ULPS) - lost, 0.0, 1.0)
        return np.asarray(np.where(inside, found, 0.0))

    def renyi(self, order: Floats) -> Floats:
        """Renyi divergence by quadrature, raised by 1e-10 relative, and never above 2 o A^2 of the outermost levels.

        Where the quadrature would need more than 2^17 nodes that bound answers alone. Raises PrivacyError unless every
        order is above 1.
        """
        orders = np.asarray(order, np.float64)
        if not np.all(orders > 1.0):
            raise PrivacyError("an order is not above 1, but a Renyi order must be", "2 is usual")
        if self.amplitude == 0.0:
            return np.zeros_like(orders)
        distinct, where = np.unique(orders, return_inverse=True)
        found = np.array([_renyi(self, float(one)) for one in distinct])
        return np.asarray(found[where]).reshape(orders.shape)

    def repeated(self, count: int) -> Event | None:
        """None beyond 1: sums of these losses have no closed form."""
        if count == 0:
            return NoRelease()
        return self if count == 1 else None


def _end(levels: int, share: float) -> tuple[float, float, float]:
    """Lower level, upper level, and the probability of the upper one, of a gradient at l."""
    top = levels - 1
    u = top * (1.0 + share) / 2.0
    j = min(math.floor(u), top - 1)
    return 2.0 * j / top - 1.0, 2.0 * (j + 1) / top - 1.0, u - j


def rounded_pair(*, levels: int, share: float) -> LevelPair:
    """P and Q of the module's head as the pair that `privacy.mechanisms.superposition.levels` composes exactly."""
    low, high, upper = _end(levels, share)
    one = {low: 1.0 - upper, high: upper}
    other = {-low: 1.0 - upper, -high: upper}
    places = tuple(sorted({*one, *other}))
    probabilities = [tuple(law.get(place, 0.0) for place in places) for law in (one, other)]
    return LevelPair(levels=places, one=probabilities[0], other=probabilities[1])


def plane_noise_multiplier(amplitudes: Sequence[float]) -> float:
    """1 / (2 sqrt(sum_p a_p^2)): one entry as bit planes, of received amplitudes a_p over sqrt(noise power).

    math.inf for no amplitude. Raises PrivacyError for amplitudes that are negative or not finite.
    """
    values = np.asarray(amplitudes, np.float64)
    if not np.all(np.isfinite(values) & (values >= 0.0)):
        raise PrivacyError("an amplitude is negative or not finite, but each must be finite and >= 0", "give them so")
    distance = 2.0 * math.sqrt(float(values @ values))
    return math.inf if distance == 0.0 else 1.0 / distance


@lru_cache(maxsize=4096)  # a run spends the same amplitude at many points
def _renyi(event: SuperposedLevels, order: float) -> float:
    a = event.amplitude
    bound = min(2.0 * order * a * a, event.pure_epsilon())
    if math.isinf(order) or event.share == 1.0:
        return bound
    high = (2.0 * order - 1.0) * a + _REACH
    # No bump is narrower than 1 / sqrt(1 + order A^2); the poles of the ratio lie at least pi / (2 A) off the line.
    step = min(0.25 / a, 0.7 / math.sqrt(1.0 + order * a * a))
    count = math.ceil((high + a + _REACH) / step)
    if count > _NODES:
        return bound
    y = np.linspace(-a - _REACH, high, count + 1)
    loss, log_q = event.loss(y), event._log_density(-y)
    width = (y[1] - y[0]) / math.sqrt(2.0 * math.pi)
    found = renyi_moment(loss, log_q, order=order, width=width)
    return min(found / (order - 1.0) * (1.0 + _ROUNDING), bound)
