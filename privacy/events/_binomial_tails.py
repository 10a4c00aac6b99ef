"""Tails of the privacy loss of n flipped bits, at any n, as sums of ratios without overflow and cancellation.

The loss of n releases of randomised response is eps (n - 2 B) with B ~ Binomial(n, p), p = 1 / (1 + e^eps), and

    delta(x) = sum over b <= b* of P(B = b) (1 - e^(x - eps (n - 2 b))),    b* the last b whose loss is above x.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import expit, rel_entr

Floats = NDArray[np.float64]

SPREADS = 16.0
"""Standard deviations kept on either side of the mean: the mass e^-128 beyond them is bounded, not dropped."""

ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


def flip_delta(epsilon: Floats, *, epsilon_each: float, count: int) -> Floats:
    """delta of `count` randomised responses of `epsilon_each` at every epsilon >= 0, of the same shape."""
    wanted = np.asarray(epsilon, np.float64)
    first, upto, faded, beyond = _tables(epsilon_each, count)
    with np.errstate(over="ignore"):
        last = np.ceil((count - wanted / epsilon_each) / 2.0) - 1.0
    position = np.clip(last - first, 0, upto.size - 1).astype(np.int64)
    # Losses fall by 2 eps from b to b + 1; what is summed up to the end of the table fades further beyond it.
    past = np.maximum(last - first - (upto.size - 1), 0.0)
    below = np.minimum(wanted - epsilon_each * (count - 2.0 * last), 0.0)
    inside = upto[position] * (1.0 + ROUNDING) - np.exp(below - 2.0 * epsilon_each * past) * faded[position] + beyond
    outside = np.exp(-_divergence(np.maximum(last, 0.0), epsilon_each=epsilon_each, count=count))
    delta = np.where(last >= first, inside, np.where(last >= 0.0, outside, 0.0))
    return np.asarray(np.clip(delta, 0.0, 1.0))


@lru_cache(maxsize=4)
def _tables(epsilon_each: float, count: int) -> tuple[float, Floats, Floats, float]:
    """(first b, P(B <= b), sum over j <= b of P(B = j) e^(-2 eps (b - j)), bound of P(B < first))."""
    flip = float(expit(-epsilon_each))
    mean, spread = count * flip, math.sqrt(count * flip * (1.0 - flip))
    first = max(math.floor(mean - SPREADS * spread - SPREADS), 0)
    last = min(math.ceil(mean + SPREADS * spread + 4.0 * SPREADS), count)
    b = np.arange(first, last, dtype=np.float64)
    # Ratios P(B = b + 1) / P(B = b), normalised at the end, need no factorial of a large number. The few b left out
    # above have the least loss, and the normalisation counts them with a larger one.
    weight = np.concatenate([[0.0], np.cumsum(np.log((count - b) / (b + 1.0)) - epsilon_each)])
    probability = np.exp(weight - weight.max())
    probability /= probability.sum()
    faded = lfilter([1.0], [1.0, -math.exp(-2.0 * epsilon_each)], probability)
    upto = np.minimum(np.cumsum(probability), 1.0)
    left_out = np.float64(first - 1)
    beyond = math.exp(-float(_divergence(left_out, epsilon_each=epsilon_each, count=count))) if first else 0.0
    return float(first), upto, faded, beyond


def _divergence(b: Floats | np.float64, *, epsilon_each: float, count: int) -> Floats:
    """n KL(b / n, p), whose negative is Chernoff's bound of ln P(B <= b) for b <= n p."""
    share, flip = b / count, float(expit(-epsilon_each))
    stay = float(expit(epsilon_each))
    return np.asarray(count * np.maximum(rel_entr(share, flip) + rel_entr(1.0 - share, stay), 0.0))
