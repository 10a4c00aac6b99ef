"""Exact (epsilon, delta) of a Gaussian mechanism in terms of mu, the distance of its means over the noise's deviation.

Balle and Wang, ICML 2018, Theorem 8: delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.errors import require_positive, require_probability


def gaussian_delta(epsilon: float, distance: ArrayLike) -> NDArray[np.float64]:
    """The smallest delta at `epsilon` > 0 for every distance mu >= 0 (any shape). Raises PrivacyError."""
    from scipy.special import log_ndtr

    require_positive(epsilon=epsilon)
    mu = np.asarray(distance, dtype=np.float64)
    # At mu = 0 nothing is released; the least distance avoids a division by 0.
    held = np.maximum(mu, 1e-150)
    first = log_ndtr(held / 2.0 - epsilon / held)
    second = epsilon + log_ndtr(-held / 2.0 - epsilon / held)
    with np.errstate(invalid="ignore"):
        delta = np.exp(first) * -np.expm1(np.minimum(second - first, 0.0))
    return np.asarray(np.where(np.isfinite(first), delta, 0.0), dtype=np.float64)


@lru_cache(maxsize=1024)
def gaussian_cap(epsilon: float, delta: float) -> float:
    """The largest distance mu with which a Gaussian mechanism is (epsilon, delta)-DP. Raises PrivacyError."""
    from scipy.optimize import brentq

    require_positive(epsilon=epsilon)
    require_probability(delta=delta)

    def miss(log_mu: float) -> float:
        reached = float(gaussian_delta(epsilon, math.exp(log_mu)))
        return (math.log(reached) if reached > 0.0 else -1e3) - math.log(delta)

    low = high = 0.5 * math.log(epsilon)
    while miss(low) > 0.0:
        low -= 1.0
    while miss(high) < 0.0:
        high += 1.0
    return math.exp(float(brentq(miss, low, high, xtol=1e-13, rtol=1e-13)))
