"""Means and rates with their 95 % intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from phy.measure import counts as measurement
from scenarios.report.tables.quantities import NEVER_NEGATIVE, SHARES

CONFIDENCE = 0.95

_SAME = 1e-12
"""Relative width of an interval around one value that every trial has."""

_SMALL_COUNT, _LARGE_COUNT = 1e3, 1e15
"""Between these a whole number that every trial has is a count, shown with all its digits."""


@dataclass(frozen=True, kw_only=True)
class Mean:
    """Mean over `trials` independent trials and its t interval; no interval from one trial."""

    mean: float
    low: float | None
    high: float | None
    trials: int

    def __str__(self) -> str:
        """`mean [low, high]`, digits as the interval allows; the mean alone without an interval or of equal values."""
        if self.mean.is_integer() and _SMALL_COUNT <= abs(self.mean) <= _LARGE_COUNT and self.low in (None, self.mean):
            return f"{self.mean:,.0f}"
        if self.low is None or self.high is None:
            return f"{self.mean:.4g}"
        if self.high - self.low <= _SAME * abs(self.mean):
            return f"{self.mean:.6g}"
        return with_interval(self.mean, low=self.low, high=self.high)

    def within(self, quantity: str) -> Mean:
        """The same mean with the part of its interval that the quantity can take."""
        low, high = self.low, self.high
        if low is not None and quantity in (*NEVER_NEGATIVE, *SHARES):
            low = max(low, 0.0)
        if high is not None and quantity in SHARES:
            high = min(high, 1.0)
        return replace(self, low=low, high=high)


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

    def __str__(self) -> str:
        """See `rate_text`."""
        return rate_text(self.value if self.errors else None, low=self.low, high=self.high)


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


def rate_text(rate: float | None, *, low: float, high: float) -> str:
    """`rate [low, high]`; for None, no error, only `< high`."""
    return f"< {high:.2g}" if rate is None else with_interval(rate, low=low, high=high)


def with_interval(value: float, *, low: float, high: float) -> str:
    """`value [low, high]`; significant digits such that the interval shows two of its own, 3 to 8."""
    width, digits = high - low, 4
    if width > 0 and value != 0 and math.isfinite(value):
        digits = min(max(2 + math.floor(math.log10(abs(value))) - math.floor(math.log10(width)), 3), 8)
    # Alternate form: it keeps trailing zeros, which are digits that were measured.
    shown, bottom, top = (f"{number:#.{digits}g}".rstrip(".") for number in (value, low, high))
    return f"{shown} [{bottom}, {top}]"
