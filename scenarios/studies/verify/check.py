"""One comparison of a measurement with a known answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, nan

from phy.measure.monte_carlo import ClusteredCounts, estimate_rate

FAMILY = 0.999
"""Confidence in the table as a whole: a faultless simulator fails somewhere in one run of a thousand."""
MAX_CHECKS = 125
"""Checks that share it (Bonferroni); tests hold the reference checks to this number."""
CONFIDENCE = 1.0 - (1.0 - FAMILY) / MAX_CHECKS
"""Confidence of the interval of each check."""
MIN_ERRORS = 30
"""Below it the spread of bursts is not known well enough to widen an interval by it."""
_FARTHEST_DB = 40.0


@dataclass(frozen=True, kw_only=True)
class Check:
    """`measured` in `[low, high]`, which has to meet the band `expected`; counts None where nothing is counted.

    `resolves` names the smallest difference that is surely noticed, tolerances included; `enough`: the interval is as
    narrow as the reference check asks.
    """

    what: str
    measured: float
    low: float
    high: float
    expected: tuple[float, float]
    resolves: str
    enough: bool = True
    errors: int | None = None
    observations: int | None = None
    problem: str | None = None

    @property
    def passed(self) -> bool:
        """True if interval and band meet, and nothing is missing."""
        return self.verdict == "pass"

    @property
    def verdict(self) -> str:
        """`pass`, or what is wrong."""
        if self.problem is not None:
            return f"FAIL: {self.problem}"
        if not self.enough:
            return "FAIL: too little data"
        if self.low <= self.expected[1] and self.high >= self.expected[0]:
            return "pass"
        return "FAIL: too high" if self.low > self.expected[1] else "FAIL: too low"


def broken(problem: str) -> Check:
    """Return the check of something that could not be measured."""
    return Check(what="run", measured=nan, low=nan, high=nan, expected=(nan, nan), resolves="", problem=problem)


def exact(what: str, found: float, known: float, *, tolerance: float) -> Check:
    """Return the check of a number without randomness, known to `tolerance`."""
    return Check(
        what=what,
        measured=found,
        low=found,
        high=found,
        expected=(known - tolerance, known + tolerance),
        resolves=f"{tolerance:g}",
    )


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Known error rate of a link: `rate(shift_db)` if the link were better by `shift_db`, falling in it.

    The measured rate may be better than `rate(0)` by `better_db` and worse by `worse_db`.
    """

    what: str
    packets: bool
    rate: Callable[[float], float]
    better_db: float = 0.0
    worse_db: float = 0.0
    device: int | None = None

    def shift_db(self, rate: float) -> float:
        """Return how much better the link must be to have this error rate, to a thousandth [dB]."""
        low, high = -_FARTHEST_DB, _FARTHEST_DB
        while high - low > 1e-3:
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.rate(middle) > rate else (low, middle)
        return (low + high) / 2.0

    def width_db(self, counts: ClusteredCounts) -> float:
        """Return the width of the interval of the error rate, as a shift of the link [dB]; infinite without data."""
        if counts.errors < MIN_ERRORS or counts.clusters < 2:
            return float("inf")
        found = estimate_rate(counts, confidence=CONFIDENCE)
        return self.shift_db(found.low) - self.shift_db(found.high)

    def check(self, counts: ClusteredCounts, *, resolves_db: float, where: str) -> Check:
        """Compare counts with this reference."""
        found = estimate_rate(counts, confidence=CONFIDENCE)
        width = self.width_db(counts)
        resolved = width + max(self.better_db, self.worse_db)
        return Check(
            what=f"{where}: {self.what}",
            measured=nan if found.rate is None else found.rate,
            low=found.low,
            high=found.high,
            expected=(self.rate(self.better_db), self.rate(-self.worse_db)),
            resolves=f"{resolved:.2f} dB" if isfinite(resolved) else "nothing",
            enough=width <= resolves_db,
            errors=counts.errors,
            observations=counts.observations,
        )
