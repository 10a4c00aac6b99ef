"""The Gaussian mechanism, the baseline of Li et al. 2025: w~ = w + N(0, sigma^2 I) on every device in every round (23).

Two standard deviations for one budget of (epsilon, delta) DP over K rounds: the one that the paper prints, which spends
epsilon / K in each round by the classic bound and adds up, and the smallest that `dp-accounting` finds. K rounds of the
Gaussian mechanism are exactly one round at sigma / sqrt(K) (Dong, Roth and Su, "Gaussian differential privacy", JRSS B
2022), so that its exact calculus of one round (Balle and Wang, ICML 2018) serves for all; nothing is discretised.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.errors import PrivacyError, require_count, require_positive, require_probability


def sensitivity(*, learning_rate: float, clip: float, num_samples: ArrayLike, steps: int = 1) -> NDArray[np.float64]:
    """2 eta G / |D_n| times `steps`, the l2 distance of models that one sample more makes, `[K]`; Li et al. 2025 (13).

    For one step of full-batch descent with per-sample clipping this is a bound. For more it is the paper's reading at
    best: the gradients of the common samples are then taken at different models, and only the per-sample clip bounds
    what comes of that. `num_samples` int `[K]`. Raises PrivacyError for values out of range.
    """
    require_positive(learning_rate=learning_rate, clip=clip)
    require_count(steps=steps)
    samples = np.asarray(num_samples, dtype=np.float64)
    if not np.all(np.isfinite(samples) & (samples >= 1.0)):
        raise PrivacyError("a device has no samples, but (13) divides by their number", "give each at least 1")
    return np.asarray(2.0 * learning_rate * clip * steps / samples)


def delta_from_renyi(*, order: float, epsilon: float, epsilon_prime: float) -> float:
    """delta = e^((lam-1)(eps-eps')) / (lam-1) (1 - 1/lam)^lam, at most 1, of (lam, eps) Renyi DP at epsilon_prime.

    Canonne, Kamath and Steinke 2020, as Li et al. 2025, VII-B cite it: 0.25 at lam = 2, eps' = eps. Raises PrivacyError
    for values out of range.
    """
    if not (math.isfinite(order) and order > 1.0):
        raise PrivacyError(f"order is {order}, but a Renyi order must be finite and above 1", "2 is usual")
    require_positive(epsilon=epsilon, epsilon_prime=epsilon_prime)
    logarithm = (order - 1.0) * (epsilon - epsilon_prime) - math.log(order - 1.0) + order * math.log1p(-1.0 / order)
    return math.exp(min(logarithm, 0.0))


def printed_sigma(*, sensitivity: ArrayLike, num_rounds: int, epsilon: float, delta: float) -> NDArray[np.float64]:
    """sigma = Dw K sqrt(2 ln(1.25 / delta)) / eps, of the shape of Dw; Li et al. 2025, after (23).

    The classic bound behind it holds for eps / K < 1 only; `spent_epsilon` returns the true epsilon. Raises
    PrivacyError for values out of range.
    """
    distance = _check(sensitivity, num_rounds=num_rounds, delta=delta)
    require_positive(epsilon=epsilon)
    return np.asarray(distance * num_rounds * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon)


def calibrated_sigma(*, sensitivity: ArrayLike, num_rounds: int, epsilon: float, delta: float) -> NDArray[np.float64]:
    """The smallest sigma for which all K rounds together are (eps, delta) DP, of the shape of Dw, by `dp-accounting`.

    Dw sqrt(K) times the noise multiplier of one round, which is good to 1e-8. Raises PrivacyError for values out of
    range.
    """
    distance = _check(sensitivity, num_rounds=num_rounds, delta=delta)
    require_positive(epsilon=epsilon)
    return np.asarray(distance * math.sqrt(num_rounds) * _multiplier(float(epsilon), float(delta)))


def spent_epsilon(*, sigma: ArrayLike, sensitivity: ArrayLike, num_rounds: int, delta: float) -> NDArray[np.float64]:
    """The smallest eps for which K rounds at `sigma` are (eps, delta) DP, broadcast over Dw, by `dp-accounting`.

    math.inf for sigma = 0, and 0 where even (0, delta) DP holds. Raises PrivacyError for values out of range.
    """
    distance = _check(sensitivity, num_rounds=num_rounds, delta=delta)
    deviation = np.asarray(sigma, dtype=np.float64)
    if not np.all(np.isfinite(deviation) & (deviation >= 0.0)):
        raise PrivacyError("sigma is negative or not finite, but a standard deviation must be finite and at least 0.")
    ratio = deviation / (distance * math.sqrt(num_rounds))
    # Devices differ in |D_n| only, so that many have equal values.
    distinct, where = np.unique(ratio.ravel(), return_inverse=True)
    spent = np.array([_epsilon(float(one), float(delta)) for one in distinct], dtype=np.float64)
    return spent[where].reshape(ratio.shape)


def _check(sensitivity: ArrayLike, *, num_rounds: int, delta: float) -> NDArray[np.float64]:
    require_count(num_rounds=num_rounds)
    require_probability(delta=delta)
    distance = np.asarray(sensitivity, dtype=np.float64)
    if not np.all(np.isfinite(distance) & (distance > 0.0)):
        raise PrivacyError("a sensitivity is not finite and above 0", "give 2 eta G / |D_n|, one per device")
    return distance


@lru_cache(maxsize=1024)
def _multiplier(epsilon: float, delta: float) -> float:
    import dp_accounting

    # In the far tail the logarithm of a difference is -inf, as intended.
    with np.errstate(divide="ignore"):
        return float(dp_accounting.get_sigma_gaussian(epsilon, delta))


@lru_cache(maxsize=4096)
def _epsilon(ratio: float, delta: float) -> float:
    import dp_accounting

    with np.errstate(divide="ignore"):
        return float(dp_accounting.get_epsilon_gaussian(ratio, delta))
