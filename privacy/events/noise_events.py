"""Events of noise that is there by design or by nature: Gaussian, Laplace, randomised response and all it dominates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, expit, ndtr

from privacy.errors import PrivacyError, require_count, require_positive
from privacy.events.events import Event, Floats, NoRelease

LARGEST_COUNT = 200_000_000_000
"""Most bits whose losses are summed exactly: the table of one sum then takes 100 MB."""

_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class GaussianNoise(Event):
    """N(0, sigma^2 I) on a vector; `noise_multiplier` is sigma over the l2 distance of neighbours.

    With mu = 1 / noise_multiplier: delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), Balle and Wang 2018, Theorem
    8; Renyi order alpha: alpha mu^2 / 2, Mironov 2017, Proposition 7; n releases are one of mu sqrt(n), Dong, Roth and
    Su 2022. Raises PrivacyError unless the multiplier is finite and above 0.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        """Raise PrivacyError for an invalid noise multiplier."""
        require_positive(noise_multiplier=self.noise_multiplier)

    def pure_epsilon(self) -> float:
        return math.inf

    def delta(self, epsilon: Floats) -> Floats:
        epsilon, mu = np.asarray(epsilon, np.float64), 1.0 / self.noise_multiplier
        near, far = mu / 2.0 - epsilon / mu, -mu / 2.0 - epsilon / mu
        # e^eps phi(far) = phi(near), and Phi = phi times Mills' ratio: nothing overflows, and tails stay exact.
        density = np.exp(-0.5 * near * near) * math.sqrt(0.5)
        half_pi = math.sqrt(0.5)
        lost = density * half_pi * erfcx(-far * half_pi)
        with np.errstate(over="ignore", invalid="ignore"):
            tail = density * half_pi * erfcx(-near * half_pi)
        kept = np.where(near > 0.0, ndtr(near), tail)
        return np.asarray(np.clip(kept * (1.0 + _ROUNDING) - lost, 0.0, 1.0))

    def renyi(self, order: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.asarray(order, np.float64) / self.noise_multiplier / self.noise_multiplier / 2.0)

    def repeated(self, count: int) -> Event:
        return _none_or_one(self, count) or GaussianNoise(noise_multiplier=self.noise_multiplier / math.sqrt(count))


@dataclass(frozen=True, kw_only=True)
class LaplaceNoise(Event):
    """Laplace noise on one number; `epsilon` is the distance of neighbours over the scale.

    delta = 1 - e^((x - eps) / 2) at x <= eps; Renyi by Mironov 2017, Proposition 6. Raises PrivacyError unless epsilon
    is finite and above 0.
    """

    epsilon: float

    def __post_init__(self) -> None:
        """Raise PrivacyError for an invalid epsilon."""
        _require_epsilon(self.epsilon)

    def pure_epsilon(self) -> float:
        return self.epsilon

    def delta(self, epsilon: Floats) -> Floats:
        return np.asarray(-np.expm1(np.minimum(np.asarray(epsilon, np.float64) - self.epsilon, 0.0) / 2.0))

    def renyi(self, order: Floats) -> Floats:
        a = np.asarray(order, np.float64)
        inside = (a - 1.0) * np.expm1(self.epsilon * (1.0 - 2.0 * a)) / (2.0 * a - 1.0)
        return np.asarray(np.minimum(self.epsilon * (1.0 + _ROUNDING) + np.log1p(inside) / (a - 1.0), self.epsilon))

    def repeated(self, count: int) -> Event | None:
        """See `Event.repeated`: no closed form."""
        return _none_or_one(self, count)


@dataclass(frozen=True, kw_only=True)
class PureEpsilon(Event):
    """A release of unknown law whose privacy loss is at most `epsilon`.

    Randomised response with keep probability e^eps / (1 + e^eps) dominates it, alone and in any composition (Kairouz,
    Oh and Viswanath 2015): delta = (1 - e^(x - eps)) / (1 + e^-eps) at x <= eps, and Renyi order a is
    ln(cosh((a - 1/2) eps) / cosh(eps / 2)) / (a - 1). Raises PrivacyError unless epsilon is finite and above 0.
    """

    epsilon: float

    def __post_init__(self) -> None:
        """Raise PrivacyError for an invalid epsilon."""
        _require_epsilon(self.epsilon)

    def pure_epsilon(self) -> float:
        return self.epsilon

    def delta(self, epsilon: Floats) -> Floats:
        return _response_delta(epsilon, self.epsilon)

    def renyi(self, order: Floats) -> Floats:
        return _response_renyi(order, self.epsilon)

    def repeated(self, count: int) -> Event | None:
        return _repeated_flips(self, count)


@dataclass(frozen=True, kw_only=True)
class FlippedBit(Event):
    """One bit that is wrong with `flip_probability` p, independent of all others: epsilon = |ln((1 - p) / p)|.

    p and 1 - p give the same epsilon. Raises PrivacyError unless 0 < p < 1.
    """

    flip_probability: float

    def __post_init__(self) -> None:
        """Raise PrivacyError for an invalid probability."""
        if not 0.0 < self.flip_probability < 1.0:
            raise PrivacyError(
                f"flip_probability is {self.flip_probability}, but it must lie strictly between 0 and 1",
                "give such a probability, or enter Unprotected",
            )

    def pure_epsilon(self) -> float:
        return abs(math.log1p(-self.flip_probability) - math.log(self.flip_probability))

    def delta(self, epsilon: Floats) -> Floats:
        return _response_delta(epsilon, self.pure_epsilon())

    def renyi(self, order: Floats) -> Floats:
        return _response_renyi(order, self.pure_epsilon())

    def repeated(self, count: int) -> Event | None:
        return _repeated_flips(self, count)


@dataclass(frozen=True, kw_only=True)
class RepeatedFlips(Event):
    """`count` randomised responses of `epsilon_each`: the loss is eps (n - 2 Binomial(n, 1 / (1 + e^eps))), exactly.

    Raises PrivacyError unless epsilon is finite and above 0 and the count a whole number up to 2e11.
    """

    epsilon_each: float
    count: int

    def __post_init__(self) -> None:
        """Raise PrivacyError for an invalid epsilon or count."""
        _require_epsilon(self.epsilon_each)
        require_count(count=self.count)
        if self.count > LARGEST_COUNT:
            raise PrivacyError(
                f"count is {self.count}, but at most {LARGEST_COUNT} flips are summed exactly",
                "account for them by renyi or advanced composition",
            )

    def pure_epsilon(self) -> float:
        return self.count * self.epsilon_each

    def delta(self, epsilon: Floats) -> Floats:
        from privacy.events._binomial_tails import flip_delta

        return flip_delta(epsilon, epsilon_each=self.epsilon_each, count=self.count)

    def renyi(self, order: Floats) -> Floats:
        return np.asarray(self.count * _response_renyi(order, self.epsilon_each))

    def repeated(self, count: int) -> Event | None:
        return _repeated_flips(self, count)


def _response_delta(epsilon: Floats, largest: float) -> Floats:
    below = np.minimum(np.asarray(epsilon, np.float64) - largest, 0.0)
    return np.asarray(-np.expm1(below) * float(expit(largest)))


def _response_renyi(order: Floats, largest: float) -> Floats:
    a = np.asarray(order, np.float64)
    divergence = (_log_cosh((a - 0.5) * largest) - _log_cosh(np.float64(largest / 2.0))) / (a - 1.0)
    return np.asarray(np.clip(divergence, 0.0, largest))


def _log_cosh(x: Floats | np.float64) -> Floats:
    """ln cosh(x) for x >= 0, exact for tiny and for huge x."""
    small = np.log1p(2.0 * np.sinh(np.minimum(x, 1.0) / 2.0) ** 2)
    return np.asarray(np.where(x < 1.0, small, x + np.log1p(np.exp(-2.0 * x)) - math.log(2.0)))


def _repeated_flips(event: PureEpsilon | FlippedBit | RepeatedFlips, count: int) -> Event | None:
    known = _none_or_one(event, count)
    if known is not None:
        return known
    each, already = (event.epsilon_each, event.count) if isinstance(event, RepeatedFlips) else (event.pure_epsilon(), 1)
    if each == 0.0:
        return NoRelease()
    return RepeatedFlips(epsilon_each=each, count=already * count) if already * count <= LARGEST_COUNT else None


def _none_or_one(event: Event, count: int) -> Event | None:
    """NoRelease for no release, the event itself for one release; None for more."""
    if count != int(count) or count < 0:
        raise PrivacyError(f"count is {count}, but a release happens a whole number of times", "give 0 or more")
    return NoRelease() if count == 0 else event if count == 1 else None


def _require_epsilon(epsilon: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0.0):
        raise PrivacyError(
            f"epsilon is {epsilon}, but a noisy release has one that is finite and above 0",
            "enter NoRelease for 0 and Unprotected for infinity",
        )
