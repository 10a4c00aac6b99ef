"""Means and rates with their 95 % intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phy.measure import counts as measurement

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Mean:
    """Mean over `trials` independent trials and its t interval; no interval from one trial."""

    mean: float
    low: float | None
    high: float | None
    trials: int


@dataclass(frozen=True, kw_only=True)
class Rate:
    """`errors` among `total` observations, and the Clopper-Pearson interval of the rate.

    The interval takes the observations as independent; errors in bursts need a wider one.
    """

    errors: int
    total: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """Errors per observation."""
        return self.errors / self.total


def mean_interval(values: NDArray[np.float64], *, confidence: float = CONFIDENCE) -> Mean:
    """Mean of `values` `[n]`, n >= 1, with the two-sided Student t interval of n - 1 degrees of freedom."""
    from scipy import special  # slow to import, and only the report needs it

    n = int(values.size)
    if n < 2 or not np.all(np.isfinite(values)):
        with np.errstate(invalid="ignore"):  # inf - inf
            return Mean(mean=float(np.mean(values)), low=None, high=None, trials=n)
    mean = float(np.mean(values))
    t = float(special.stdtrit(n - 1, 0.5 + confidence / 2))
    half = t * float(np.std(values, ddof=1)) / float(np.sqrt(n))
    return Mean(mean=mean, low=mean - half, high=mean + half, trials=n)


def rate_interval(*, errors: int, total: int, confidence: float = CONFIDENCE) -> Rate:
    """Clopper-Pearson interval of `errors` among `total` observations; ValueError without any."""
    if total == 0:
        raise ValueError(f"{errors} errors among {total} observations have no rate")
    low, high = measurement.rate_interval(errors, total, confidence=confidence)
    return Rate(errors=errors, total=total, low=float(low), high=float(high))
