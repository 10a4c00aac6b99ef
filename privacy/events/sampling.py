"""Privacy amplification by sampling: a listener does not know the participants of a release."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privacy.errors import PrivacyError
from privacy.events.events import Event, Floats, NoRelease

_CELLS = 4096
_NEGLIGIBLE = 45.0
_LARGEST_ORDER = 300.0


@dataclass(frozen=True, kw_only=True)
class SampledRelease(Event):
    """`event` with probability `rate`, otherwise the release of another unit in its place.

    delta'(ln(1 + q (e^x - 1))) = q delta(x), Balle, Barthe and Gaboardi 2018: Theorem 8, each unit by its own coin, for
    add-or-remove-one; Theorem 11, a fixed number drawn without replacement, for replace-one. The Renyi divergence D' is
    the smaller of two bounds that hold for both: joint convexity, e^((a-1) D') <= 1 + q (e^((a-1) D) - 1), which falls
    as q, and `renyi_of_profile`, which falls as q^2. All releases of one unit in a round must be one event here,
    because the unit takes part with all of them or none. Raises PrivacyError unless 0 < rate <= 1.
    """

    event: Event
    rate: float

    def __post_init__(self) -> None:
        """Raise PrivacyError for an invalid rate."""
        if not 0.0 < self.rate <= 1.0:
            raise PrivacyError(
                f"rate is {self.rate}, but it is the share that takes part", "give one in (0, 1], or NoRelease for 0"
            )

    def pure_epsilon(self) -> float:
        return float(_mixed(np.float64(self.event.pure_epsilon()), self.rate))

    def delta(self, epsilon: Floats) -> Floats:
        mixed, q = np.asarray(epsilon, np.float64), self.rate
        small = np.log1p(np.expm1(np.minimum(mixed, 1.0)) / q)
        large = mixed - np.log(q) + np.log1p(-(1.0 - q) * np.exp(-np.maximum(mixed, 1.0)))
        return np.asarray(q * self.event.delta(np.where(mixed < 1.0, small, large)))

    def renyi(self, order: Floats) -> Floats:
        order = np.asarray(order, np.float64)
        convex = np.minimum(self._convex(order), self.pure_epsilon())
        # Beyond the last bend of the profile both bounds are equal, and larger exponents overflow.
        tried = np.isfinite(convex) & (order <= _LARGEST_ORDER) & (self.rate < 1.0)
        found = np.array(convex)
        for place in np.argwhere(tried):
            one = float(order[tuple(place)])
            beyond = float(self._convex(np.float64(2.0 * one)))
            found[tuple(place)] = min(
                found[tuple(place)], renyi_of_profile(self.delta, one, largest=self.pure_epsilon(), at_twice=beyond)
            )
        return np.asarray(found)

    def _convex(self, order: Floats | np.float64) -> Floats:
        return np.asarray(_mixed((order - 1.0) * self.event.renyi(np.asarray(order)), self.rate) / (order - 1.0))

    def repeated(self, count: int) -> Event | None:
        """See `Event.repeated`: no closed form."""
        if count != int(count) or count < 0:
            raise PrivacyError(f"count is {count}, but a release happens a whole number of times", "give 0 or more")
        return NoRelease() if count == 0 else self if count == 1 else None


def renyi_of_profile(profile: Callable[[Floats], Floats], order: float, *, largest: float, at_twice: float) -> float:
    """A bound [nats] on the Renyi divergence of order a > 1 of all pairs with a privacy profile, in both directions.

        e^((a-1) D) = 1 + a (a - 1) int_0^inf (e^((a-1) x) + e^(-a x)) delta(x) dx

    (Sason and Verdu, "f-divergence inequalities", IEEE Trans. Inf. Theory 2016, Proposition 3). delta falls in x: its
    value at the left end of every cell of a grid bounds the integral. `largest`: loss beyond which delta is 0; where it
    is math.inf, delta(x) <= e^((2a-1) (D_2a - x)) bounds the rest, with `at_twice` a bound on the divergence of order
    2 a.
    """
    a, rest = order, -math.inf
    end = largest
    if math.isinf(end):
        end = max(((2.0 * a - 1.0) * at_twice + _NEGLIGIBLE) / a, 1e-12)
        rest = math.log(2.0 / a) + (2.0 * a - 1.0) * at_twice - a * end
    grid = np.unique(np.concatenate([[0.0], np.geomspace(end * 1e-9, end, _CELLS), np.linspace(0.0, end, _CELLS)]))
    left, width = grid[:-1], np.diff(grid)
    with np.errstate(divide="ignore"):
        weight = np.logaddexp(
            (a - 1.0) * grid[1:] + np.log(-np.expm1(-(a - 1.0) * width)) - math.log(a - 1.0),
            -a * left + np.log(-np.expm1(-a * width)) - math.log(a),
        )
        cells = weight + np.log(profile(left))
    total = math.log(a * (a - 1.0)) + float(np.logaddexp(np.logaddexp.reduce(cells), rest))
    return float(np.logaddexp(0.0, total)) / (a - 1.0) * (1.0 + 1e-12)


def _mixed(exponent: Floats | np.float64, q: float) -> Floats:
    """ln(1 + q (e^x - 1)) for x >= 0, without overflow."""
    small = np.log1p(q * np.expm1(np.minimum(exponent, 1.0)))
    return np.asarray(np.where(exponent < 1.0, small, exponent + np.log(q + (1.0 - q) * np.exp(-exponent))))
