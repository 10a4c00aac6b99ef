"""Privacy loss of one round of analog FLMC: Zhang et al. 2022, (17), (20) and (21).

A device sends its clipped gradient entries, |g| <= l, at received amplitude A in real Gaussian noise of power N0. For
the worst pair of data sets the entries differ by 2 l, and the loss over m entries is Gaussian,

    L ~ N(x, 2 x),   x = 2 m A^2 l^2 / N0,

which is unbounded. A^2 l^2 and noise_power N0 are powers at the receiver, in one unit; epsilon and losses are in nats.
The exact delta of that Gaussian mechanism is `superposition.gaussian.gaussian_delta` at distance mu = sqrt(2 x).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.errors import PrivacyError, require_count, require_positive, require_probability

AnalogTail = Literal["corrected", "printed"]


def analog_delta(
    epsilon: float,
    *,
    amplitude: ArrayLike,
    dimension: int,
    gradient_bound: float,
    noise_power: float,
    tail: AnalogTail = "corrected",
) -> NDArray[np.float64]:
    """delta = max(0, 1 - T(2 m A^2 l^2 / N0)) for amplitudes of any shape; Zhang et al. 2022 (11) with (21).

    T(x) = c [erf((eps - x) / (2 sqrt x)) - erf((-eps - x) / (2 sqrt x))], c = 1/2 with tail 'corrected', which makes T
    the probability of |L| <= eps; 'printed' has c = 1. Relative accuracy is kept for tiny delta ('corrected').
    Raises PrivacyError.
    """
    require_count(dimension=dimension)
    require_positive(gradient_bound=gradient_bound, noise_power=noise_power)
    values = np.asarray(amplitude, dtype=np.float64)
    if not np.all(np.isfinite(values) & (values >= 0)):
        raise PrivacyError(
            "an amplitude is negative or not finite, but each must be finite and >= 0",
            "give received amplitudes A, without their signs",
        )
    # Beyond sqrt(1e300) the square overflows, and there is no privacy.
    ratio = np.minimum(values * gradient_bound / math.sqrt(noise_power), 1e150)
    multiple = _multiple(tail)
    outside = _outside(2.0 * dimension * ratio**2, epsilon)
    return np.asarray(np.maximum(0.0, multiple * outside - (multiple - 1.0)), dtype=np.float64)


@lru_cache(maxsize=1024)
def analog_amplitude_cap(
    epsilon: float,
    delta: float,
    *,
    dimension: int,
    gradient_bound: float,
    noise_power: float,
    tail: AnalogTail = "corrected",
) -> float:
    """sqrt(N0 T^-1(1 - delta) / (2 m l^2)), privacy term of Zhang et al. 2022 (20). Raises PrivacyError."""
    require_probability(delta=delta)
    require_count(dimension=dimension)
    require_positive(gradient_bound=gradient_bound, noise_power=noise_power)
    # From delta, because 1 - delta rounds a tiny delta to 0.
    multiple = _multiple(tail)
    x = _outside_inverse((multiple - 1.0) / multiple + delta / multiple, epsilon)
    return math.sqrt(noise_power * x / (2.0 * dimension)) / gradient_bound


def _multiple(tail: AnalogTail) -> float:
    """Ratio of the selected T(x) to the probability Pr(|L| <= epsilon)."""
    multiples = {"corrected": 1.0, "printed": 2.0}
    if tail not in multiples:
        raise PrivacyError(f"analog tail is {tail!r}, but it must be 'corrected' or 'printed'", "choose one")
    return multiples[tail]


def _outside(x: ArrayLike, epsilon: float) -> NDArray[np.float64]:
    """Pr(|L| > epsilon) for L ~ N(x, 2 x), by erfc so that tiny probabilities keep their digits."""
    from scipy.special import erfc

    require_positive(epsilon=epsilon)
    values = np.asarray(x, dtype=np.float64)
    # At x = 0 the loss is 0; the least normal number avoids a division by 0.
    root = 2.0 * np.sqrt(np.maximum(values, 1e-300))
    above, below = (epsilon - values) / root, (epsilon + values) / root
    return np.asarray(0.5 * (erfc(above) + erfc(below)), dtype=np.float64)


def _outside_inverse(outside: float, epsilon: float) -> float:
    """x with Pr(|L| > epsilon) = outside, solved on logarithms of both sides."""
    from scipy.optimize import brentq

    require_positive(epsilon=epsilon)
    target = math.log(outside)

    def miss(log_x: float) -> float:
        reached = float(_outside(math.exp(log_x), epsilon))
        return (math.log(reached) if reached > 0 else -1e3) - target

    low = high = math.log(epsilon)
    while miss(low) > 0:
        low -= 1.0
    while miss(high) < 0:
        high += 1.0
    return math.exp(float(brentq(miss, low, high, xtol=1e-13, rtol=1e-13)))
