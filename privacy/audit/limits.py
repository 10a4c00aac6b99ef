"""Lower bounds on epsilon from the counted errors of an attacker.

There are two neighbouring data sets, null and alternative. An attacker sees the output of one of them and names it.
With alpha the probability of a false positive and beta of a false negative, (eps, delta)-DP implies (Kairouz, Oh and
Viswanath 2015)

    alpha + e^eps beta >= 1 - delta   and   beta + e^eps alpha >= 1 - delta,

so that eps >= max(ln((1 - delta - alpha) / beta), ln((1 - delta - beta) / alpha)). Upper limits of Clopper and Pearson
replace both rates, each at (1 - confidence) / 2, so that both hold together (Bonferroni; Nasr et al. 2021).

Error probabilities of independent games may differ: the limits then hold for their mean (Hoeffding 1956), and the two
inequalities, which are linear, hold for means.

`gaussian` form: a mechanism whose trade-off curve is that of N(0, 1) against N(mu, 1) has mu = Phi^-1(1 - alpha) -
Phi^-1(beta) at every threshold (Nasr et al. 2023; Dong, Roth and Su 2022). It is a lower bound for that law only.
`renyi`: a decision is post-processing, so that the divergence of the two decisions is at most that of the mechanism.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.errors import PrivacyError, require_positive, require_probability
from privacy.rate_limits import rate_limit

Floats = NDArray[np.float64]

Form = Literal["direct", "gaussian"]
"""Conversion of the two limits to an epsilon: by the two inequalities, or by a Gaussian trade-off curve."""

_LARGEST_EPSILON = 1e6


def error_limits(
    false_positives: ArrayLike, false_negatives: ArrayLike, num_null: int, num_alternative: int, *, confidence: float
) -> tuple[Floats, Floats]:
    """Upper limits of alpha and beta that hold together with `confidence`; counts broadcast, float64.

    Clopper and Pearson 1934, one-sided, each at 1 - (1 - confidence) / 2. Raises PrivacyError for counts that cannot
    be, or a confidence outside (0, 1).
    """
    require_probability(confidence=confidence)
    level = (1.0 - confidence) / 2.0
    alpha = _upper("false_positives", false_positives, num_null, level)
    beta = _upper("false_negatives", false_negatives, num_alternative, level)
    return alpha, beta


def epsilon_lower(
    false_positives: ArrayLike,
    false_negatives: ArrayLike,
    num_null: int,
    num_alternative: int,
    *,
    delta: float,
    confidence: float,
) -> Floats:
    """The largest eps >= 0 that the errors refute at `delta`, in nats, of the shape of the counts.

    For an (eps, delta)-DP mechanism the result exceeds eps with probability at most 1 - `confidence` (Nasr et al.
    2021). Raises PrivacyError as `error_limits` does, and for a delta outside [0, 1).
    """
    _require_delta(delta)
    alpha, beta = error_limits(false_positives, false_negatives, num_null, num_alternative, confidence=confidence)
    return np.maximum(_log_ratio(1.0 - delta - alpha, beta), _log_ratio(1.0 - delta - beta, alpha))


def mu_lower(
    false_positives: ArrayLike, false_negatives: ArrayLike, num_null: int, num_alternative: int, *, confidence: float
) -> Floats:
    """Phi^-1(1 - alpha) - Phi^-1(beta) at the upper limits, at least 0; Nasr et al. 2023. For Gaussian trade-offs."""
    from scipy.special import ndtri

    alpha, beta = error_limits(false_positives, false_negatives, num_null, num_alternative, confidence=confidence)
    return np.asarray(np.maximum(-ndtri(alpha) - ndtri(beta), 0.0))


def gaussian_epsilon(mu: float, *, delta: float) -> float:
    """The eps at which mu-Gaussian DP has delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2); 0 at least, in nats.

    Dong, Roth and Su 2022, Corollary 2.13. math.inf for mu = inf. Raises PrivacyError for a mu that is negative, and
    for delta 0, at which no Gaussian mechanism has an epsilon.
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    if not mu >= 0.0:
        raise PrivacyError(f"mu is {mu}, but it is a distance of two Gaussians", "give 0 or more")
    if mu == 0.0:
        return 0.0
    if not 0.0 < delta < 1.0:
        raise PrivacyError(
            f"delta is {delta}, at which a Gaussian mechanism has no epsilon", "give one above 0, below 1"
        )
    if math.isinf(mu):
        return math.inf

    def excess(epsilon: float) -> float:
        first, second = log_ndtr(-epsilon / mu + mu / 2.0), epsilon + log_ndtr(-epsilon / mu - mu / 2.0)
        return float(math.exp(first) * -math.expm1(min(second - first, 0.0))) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    high = mu * mu / 2.0 + mu
    while excess(high) > 0.0:
        high *= 2.0
        if high > _LARGEST_EPSILON:
            return math.inf
    return float(brentq(excess, 0.0, high, xtol=1e-12))


def renyi_lower(
    false_positives: ArrayLike,
    false_negatives: ArrayLike,
    num_null: int,
    num_alternative: int,
    *,
    order: float,
    confidence: float,
) -> Floats:
    """The largest Renyi divergence of `order` > 1 that the errors prove, in nats: D(1 - beta || alpha), or the other.

    ln(p^a q^(1-a) + (1-p)^a (1-q)^(1-a)) / (a - 1) of the two decisions at the upper limits of alpha and beta; it grows
    as either rate falls. Raises PrivacyError as `error_limits` does, and for an order that is not above 1.
    """
    if not (math.isfinite(order) and order > 1.0):
        raise PrivacyError(f"order is {order}, but a Renyi order must be finite and above 1", "2 is usual")
    alpha, beta = error_limits(false_positives, false_negatives, num_null, num_alternative, confidence=confidence)
    told_apart = alpha + beta < 1.0
    forward = _binary_renyi(1.0 - beta, alpha, order)
    backward = _binary_renyi(1.0 - alpha, beta, order)
    return np.where(told_apart, np.maximum(forward, backward), 0.0)


def _binary_renyi(p: Floats, q: Floats, order: float) -> Floats:
    """Of Bernoulli(p) from Bernoulli(q), in log space."""
    with np.errstate(divide="ignore", invalid="ignore"):
        yes = order * np.log(p) + (1.0 - order) * np.log(q)
        no = order * np.log1p(-p) + (1.0 - order) * np.log1p(-q)
        found = np.logaddexp(yes, no) / (order - 1.0)
    return np.where(np.isfinite(found), np.maximum(found, 0.0), 0.0)


def _log_ratio(numerator: Floats, denominator: Floats) -> Floats:
    safe = np.where(numerator > denominator, numerator, denominator)
    return np.asarray(np.log(safe) - np.log(denominator))


def _upper(name: str, errors: ArrayLike, count: int, level: float) -> Floats:
    seen = np.asarray(errors, np.float64)
    require_positive(games=count)
    if not np.all((seen >= 0.0) & (seen <= count)):
        raise PrivacyError(f"{name} are not within 0 to {count}, the games that were played", "count them again")
    return rate_limit(seen + 1.0, count, level=1.0 - level)


def _require_delta(delta: float) -> None:
    if not 0.0 <= delta < 1.0:
        raise PrivacyError(f"delta is {delta}, but it is a probability below 1", "give one from 0 on, such as 0.01")
