"""Calibrate every round from a budget for the whole run, and stop when it is spent.

Every result is on the safe side, and the accountant of the run confirms it: all rounds together stay within
(epsilon, delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from scipy.special import expit

from privacy.accounting.accountants import account
from privacy.errors import PlainRemedy, PrivacyError, require_count, require_positive
from privacy.events.claims import Accountant
from privacy.events.events import Event, Floats, Kind, NoRelease, Spending
from privacy.events.kinds import event_of
from privacy.evidence import confidence_for

Schedule = Literal["uniform", "increasing", "decreasing"]

STAGES = 10
"""Most distinct weights of a schedule: each needs its own event."""

RATIO = 4.0
"""Ratio of the largest to the smallest weight of a schedule."""

ENOUGH = 4e-3
"""Share of epsilon that a calibration may leave unspent."""

_TRIES = 60
_LEAST_FLIPS = 1e-12
"""Flips are drawn with a resolution of 2^-43: rarer flips are not guaranteed."""

_NO_FACTS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class RunBudget:
    """The budget of all rounds together, and its accountant.

    `evidence`: probability per round of less channel noise than counted, which costs `delta`. Raises PrivacyError for
    an epsilon that is not finite and above 0, a delta outside [0, 1), and evidence below 0.
    """

    epsilon: float
    delta: float
    accountant: Accountant = "pld"
    evidence: float = 0.0

    def __post_init__(self) -> None:
        """Raise PrivacyError for an invalid budget."""
        require_positive(epsilon=self.epsilon)
        if not 0.0 <= self.delta < 1.0:
            raise PrivacyError(f"delta is {self.delta}, but it is a probability", "give one in [0, 1), such as 1e-5")
        if not self.evidence >= 0.0:
            raise PrivacyError(f"evidence is {self.evidence}, but it is a probability per round", "give 0 or more")

    def left(self, num_rounds: int) -> float:
        """delta for the mechanism after the evidence of `num_rounds` rounds; below 0 if the evidence costs more."""
        if self.evidence == 0.0:
            return self.delta
        rest = self.delta - num_rounds * self.evidence
        return rest if rest > 0.0 else -1.0


def would_exceed(
    spent: Sequence[Spending], one_more: Spending, *, epsilon: float, delta: float, accountant: Accountant
) -> bool:
    """Return True if `one_more` brings the sum above epsilon at `delta`; call this before sending.

    Releases may depend on channels and clocks, but not on earlier releases: such a choice needs a privacy filter.
    Raises PrivacyError as `account` does.
    """
    require_positive(epsilon=epsilon)
    return account((*spent, one_more), delta=delta, accountant=accountant) > epsilon


def rounds_that_fit(event: Event, *, coordinates: int, most: int, budget: RunBudget) -> int:
    """Number of rounds of `coordinates` releases of `event` within the budget, from 0 to `most`.

    Bisection with log2(`most`) calls of the accountant, once for all trials. Raises PrivacyError as `account` does.
    """
    if coordinates == 0 or isinstance(event, NoRelease):
        return most
    known: Any = event  # a frozen dataclass, which can be hashed
    return _fitting(known, coordinates, most, budget)


@lru_cache(maxsize=1024)
def _fitting(event: Any, coordinates: int, most: int, budget: RunBudget) -> int:
    def fits(rounds: int) -> bool:
        delta = budget.left(rounds)
        if delta < 0.0:
            return False
        spent = Spending(event=event, count=(rounds - 1) * coordinates)
        one_more = Spending(event=event, count=coordinates)
        limits = {"epsilon": budget.epsilon, "delta": delta}
        return not would_exceed((spent,), one_more, accountant=budget.accountant, **limits)

    if most < 1 or not fits(1):
        return 0
    if fits(most):
        return most
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def schedule_weights(schedule: Schedule, *, num_rounds: int, ratio: float = RATIO) -> Floats:
    """Weights of the rounds `[num_rounds]`, of mean 1: shares of the budget times the number of rounds.

    `increasing` and `decreasing` are geometric from the first to the last, which is `ratio` times the first or the
    first `ratio` times the last, in at most ten stages. Raises PrivacyError for a ratio below 1 and for no round.
    """
    require_count(num_rounds=num_rounds)
    if not (math.isfinite(ratio) and ratio >= 1.0):
        raise PrivacyError(f"ratio is {ratio}, but it is that of the largest weight to the least", "give 1 or more")
    stages = min(num_rounds, STAGES)
    stage = np.arange(num_rounds) * stages // num_rounds
    exponent = stage / max(stages - 1, 1)
    weights = np.ones(num_rounds) if schedule == "uniform" else ratio**exponent
    if schedule == "decreasing":
        weights = weights[::-1]
    return np.asarray(weights / weights.mean())


def calibrated(
    kind: Kind, *, budget: RunBudget, coordinates: int, weights: Floats, facts: Mapping[str, Any] = _NO_FACTS
) -> Floats:
    """The ledger parameter of every round that spends the budget, `[num_rounds]` float64.

    With a weight w_r for every round and one strength s for all, the strength of a round is x_r = s sqrt(w_r), for the
    squares of small losses add up: a `gaussian` noise multiplier 1 / x_r (the squares of whose inverses add up exactly,
    Dong, Roth and Su 2022), epsilon x_r of `laplace` and `pure`, log odds x_r of `flipped-bits`, p_r = 1 / (1 + e^x_r),
    amplitude x_r of `superposed-bits` and `superposed-levels`, strength x_r of `stated`. s is the largest of which the
    accountant finds at most
    epsilon, to 0.4 %.

    math.inf if the budget allows any amplitude. Flips are at least as frequent as 1e-12, which then spends less.
    Raises PrivacyError if no strength fits, for weights that are not positive, and as `account` does.
    """
    weights = np.asarray(weights, np.float64)
    if weights.ndim != 1 or not weights.size or not np.all(np.isfinite(weights) & (weights > 0.0)):
        raise PrivacyError("the weights of a schedule must be positive numbers, one per round", "give at least one")
    if kind in ("none", "unprotected"):
        raise PrivacyError(f"releases of kind {kind} have no parameter for a budget to set", "protect them first")
    values, counts = np.unique(weights, return_counts=True)
    found = _strength(
        kind,
        budget,
        coordinates,
        tuple(zip(values.tolist(), counts.tolist(), strict=True)),
        tuple(sorted(facts.items())),
    )
    return parameters(kind, found * np.sqrt(weights))


def parameters(kind: Kind, strength: Floats) -> Floats:
    """The ledger parameter of a strength; see `calibrated`."""
    if kind == "gaussian":
        return np.asarray(1.0 / strength)
    if kind == "flipped-bits":
        return np.asarray(np.maximum(expit(-strength), _LEAST_FLIPS))
    return np.asarray(strength)


@lru_cache(maxsize=256)
def _strength(
    kind: Kind,
    budget: RunBudget,
    coordinates: int,
    weights: tuple[tuple[float, int], ...],
    facts: tuple[tuple[str, Any], ...],
) -> float:
    values, counts = np.array([w for w, _ in weights]), [n for _, n in weights]
    delta = budget.left(sum(counts))
    if delta < 0.0:
        remedies: tuple[PlainRemedy, ...] = ("raise delta above that",)
        if budget.delta > 0.0:
            enough = confidence_for(0.1 * budget.delta, num_rounds=sum(counts))
            remedies = {"confidence": float(f"{enough:.10g}")}, "a larger delta"
        raise PrivacyError(
            f"delta is {budget.delta:g}, but evidence of the channel's noise costs {budget.evidence:.1e} in each of "
            f"{sum(counts)} rounds",
            *remedies,
            keys="confidence budget.delta",
        )

    def spent(strength: float) -> float:
        found = parameters(kind, strength * np.sqrt(values))
        released = [
            Spending(event=event_of(kind, float(one), dict(facts)), count=n * coordinates)
            for one, n in zip(found, counts, strict=True)
        ]
        kept = [one for one in released if not isinstance(one.event, NoRelease)]
        return account(kept, delta=delta, accountant=budget.accountant) if kept else 0.0

    if kind in ("superposed-bits", "superposed-levels") and spent(math.inf) <= budget.epsilon:
        return math.inf
    most = math.log(1.0 / _LEAST_FLIPS) / math.sqrt(values.max()) if kind == "flipped-bits" else math.inf
    start = _guess(kind, delta, budget.epsilon, coordinates * float(values @ counts), dict(facts))
    return _largest(spent, budget.epsilon, start=start, most=most)


def _guess(kind: Kind, delta: float, epsilon: float, total: float, facts: Mapping[str, Any]) -> float:
    """First guess for Gaussian losses, which sums of many small losses resemble: mu^2 adds up over rounds."""
    # mu of (epsilon, delta)-DP: mu^2 / 2 + mu sqrt(2 ln(1 / delta)) = epsilon, nearly.
    tail = math.sqrt(2.0 * math.log(1.0 / max(delta, 1e-300)))
    mu = math.sqrt(tail * tail + 2.0 * epsilon) - tail
    each = mu / math.sqrt(max(total, 1e-300))
    if kind == "superposed-bits":
        return each / (2.0 * max(math.tanh(facts["entry_bound"] / 2.0), 1e-6))
    return each / (2.0 * facts["share"]) if kind == "superposed-levels" else each


def _largest(spent: Callable[[float], float], epsilon: float, *, start: float, most: float) -> float:
    """The largest strength that spends at most epsilon, to `ENOUGH`, by bracketing."""
    low, high, at = 0.0, math.inf, min(start, most)
    known: dict[float, float] = {}
    for _ in range(_TRIES):
        share = known[at] = spent(at) / epsilon
        if share <= 1.0:
            low = at
            if share >= 1.0 - ENOUGH or at >= most:
                return low
        else:
            high = at
        if math.isfinite(high) and high - low <= 1e-12 * high:
            break
        at = min(_next(low, high, at, known), most)
    if low > 0.0:
        return low
    raise PrivacyError(
        f"no parameter stays within epsilon {epsilon:g} over the run with this accountant", "raise epsilon, or delta"
    )


def _next(low: float, high: float, at: float, known: Mapping[float, float]) -> float:
    """Along the chord of ln(share) over ln(strength), a little below 1; else halving, doubling or a tenth."""
    if low == 0.0:
        return at / max(min(known[at], 1e3), 2.0)
    if math.isinf(high):
        return at * min(max(math.exp(-0.7 * math.log(max(known[at], 1e-300))), 1.02), 4.0)
    middle = math.sqrt(low * high)
    if not 0.0 < known[low] < known[high] < math.inf:
        return middle
    slope = math.log(high / low) / math.log(known[high] / known[low])
    wanted = low * math.exp(slope * (math.log1p(-ENOUGH / 2.0) - math.log(known[low])))
    inside = low * (high / low) ** 0.02 < wanted < high / (high / low) ** 0.02
    return float(wanted) if inside else middle
