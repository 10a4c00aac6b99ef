"""Differences of two sweep points, trial by trial.

Trials of the same number share data, fading and noise across sweep points. Differences are therefore paired: mean and
t interval of the differences trial by trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scenarios.report.tables.summaries import FEWEST_TRIALS, Mean, mean_interval

ROUNDING = 1e-6
"""Relative difference of two numbers that were computed in single precision in another order."""

Values = Mapping[int, float]
"""The quantity of one sweep point by trial."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Paired difference of two sweep points; `mean` None without a common trial."""

    mean: Mean | None

    @classmethod
    def of(cls, one: Values, other: Values) -> Difference:
        """Return `one` less `other`, over the trials that both have; 0 where they differ by rounding alone."""
        pairs = np.array([(one[trial], other[trial]) for trial in one.keys() & other.keys()]).reshape(-1, 2)
        apart = np.where(np.isclose(pairs[:, 0], pairs[:, 1], rtol=ROUNDING, atol=0.0), 0.0, pairs[:, 0] - pairs[:, 1])
        return cls(mean=mean_interval(apart) if len(pairs) else None)

    @property
    def verdict(self) -> str:
        """`yes` where the interval does not contain zero, `no` where it does, `equal`; empty of few trials."""
        if self.mean is None or self.mean.low is None or self.mean.high is None or self.mean.trials < FEWEST_TRIALS:
            return ""
        if self.mean.low == self.mean.high == 0.0:
            return "equal"
        return "yes" if self.mean.low > 0.0 or self.mean.high < 0.0 else "no"


def largest_clear(differences: Mapping[str, Difference]) -> tuple[str, str]:
    """Return a phrase on the largest clear difference, and its key; if none is clear, on the largest one.

    The mappings' keys name the settings. Both are empty without a difference.
    """
    known = {key: one.mean for key, one in differences.items() if one.mean is not None and np.isfinite(one.mean.mean)}
    clear = {key: mean for key, mean in known.items() if differences[key].verdict == "yes"}
    if not known:
        return "", ""
    key = max(clear or known, key=lambda one: abs(known[one].mean))
    return f"the largest {'clear one' if clear else 'one, not clear,'} is {known[key]}", key
