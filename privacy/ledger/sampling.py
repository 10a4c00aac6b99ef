"""Privacy by sampling: a release in which whoever listens cannot tell who took part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privacy.errors import PrivacyError
from privacy.ledger.events import Event, Floats, NoRelease


@dataclass(frozen=True, kw_only=True)
class SampledRelease:
    """`event` with probability `rate`, else whatever somebody else in its place releases.

    delta'(ln(1 + q (e^x - 1))) = q delta(x), Balle, Barthe and Gaboardi 2018: Theorem 8, each unit by its own coin, for
    add-or-remove-one; Theorem 11, a fixed number drawn without replacement, for replace-one. The Renyi divergence is
    bounded by joint convexity alone, e^((a-1) D') <= 1 + q (e^((a-1) D) - 1), which holds for both but falls as q, not
    as q^2: the accountant `pld` does better. All that one unit releases in a round must be one event here, for it takes
    part with all of it or nothing. Raises PrivacyError unless 0 < rate <= 1.
    """

    event: Event
    rate: float

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        if not 0.0 < self.rate <= 1.0:
            raise PrivacyError(
                f"rate is {self.rate}, but it is the share that takes part; give one in (0, 1], or NoRelease for 0."
            )

    def pure_epsilon(self) -> float:
        """See `Event.pure_epsilon`."""
        return float(_mixed(np.float64(self.event.pure_epsilon()), self.rate))

    def delta(self, epsilon: Floats) -> Floats:
        """See `Event.delta`."""
        mixed, q = np.asarray(epsilon, np.float64), self.rate
        small = np.log1p(np.expm1(np.minimum(mixed, 1.0)) / q)
        large = mixed - np.log(q) + np.log1p(-(1.0 - q) * np.exp(-np.maximum(mixed, 1.0)))
        return np.asarray(q * self.event.delta(np.where(mixed < 1.0, small, large)))

    def renyi(self, order: Floats) -> Floats:
        """See `Event.renyi`."""
        order = np.asarray(order, np.float64)
        convex = _mixed((order - 1.0) * self.event.renyi(order), self.rate) / (order - 1.0)
        return np.asarray(np.minimum(convex, self.pure_epsilon()))

    def repeated(self, count: int) -> Event | None:
        """See `Event.repeated`: no closed form."""
        if count != int(count) or count < 0:
            raise PrivacyError(f"count is {count}, but a release happens a whole number of times; give 0 or more.")
        return NoRelease() if count == 0 else self if count == 1 else None


def _mixed(exponent: Floats | np.float64, q: float) -> Floats:
    """ln(1 + q (e^x - 1)) for x >= 0, without overflow."""
    small = np.log1p(q * np.expm1(np.minimum(exponent, 1.0)))
    return np.asarray(np.where(exponent < 1.0, small, exponent + np.log(q + (1.0 - q) * np.exp(-exponent))))
