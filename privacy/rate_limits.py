"""Confidence limits of a counted rate."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def rate_limit(errors: ArrayLike, trials: ArrayLike, *, level: float) -> NDArray[np.float64]:
    """Return the rate at which `errors` or more of `trials` have probability `level`; counts broadcast.

    This gives the limits of Clopper and Pearson (Biometrika 1934) that each fail with probability a: the lower limit
    at level a, the upper limit at level 1 - a and one error more. The rate is 0 for no error, 1 for more than `trials`.
    """
    from scipy.special import betaincinv

    k, n = np.broadcast_arrays(np.asarray(errors, np.float64), np.asarray(trials, np.float64))
    inside = (k > 0.0) & (k < n + 1.0)
    rate = betaincinv(np.where(inside, k, 1.0), np.where(inside, n - k + 1.0, 1.0), level)
    return np.where(inside, rate, np.where(k > 0.0, 1.0, 0.0))
