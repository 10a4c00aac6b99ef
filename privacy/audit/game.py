"""A lower bound on epsilon from the scores of many games: one half selects the threshold, the other half judges it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.audit.limits import Form, epsilon_lower, gaussian_epsilon, mu_lower, renyi_lower
from privacy.errors import PrivacyError

FEWEST_GAMES = 20
"""Least games per world and half; fewer give no bound at a useful confidence."""

_MOST_THRESHOLDS = 4096


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """Result of the judged half of the games: epsilon is at least `epsilon_lower` at `delta`, with `confidence`.

    - `num_null`, `num_alternative`: judged games of either world; `false_positives`, `false_negatives`: the attacker's
      errors among them when it says "alternative" to scores of `threshold` or more;
    - `form`: see `privacy.audit.limits.Form`; `mu_lower`: of the Gaussian trade-off curve, whatever the form.
    """

    num_null: int
    num_alternative: int
    false_positives: int
    false_negatives: int
    threshold: float
    delta: float
    confidence: float
    form: Form
    epsilon_lower: float
    mu_lower: float

    def renyi_lower(self, order: float) -> float:
        """The Renyi divergence of `order` that the same errors prove, with the same confidence."""
        counts = (self.false_positives, self.false_negatives, self.num_null, self.num_alternative)
        return float(renyi_lower(*counts, order=order, confidence=self.confidence))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def halves(alternative: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks `[n]` of the games to choose by and of those to judge by: every other game of each world."""
    choose = np.zeros(len(alternative), np.bool_)
    for world in (False, True):
        choose[np.flatnonzero(alternative == world)[::2]] = True
    return choose, ~choose


def judge(
    scores: NDArray[np.float64],
    alternative: NDArray[np.bool_],
    *,
    delta: float,
    confidence: float,
    form: Form = "direct",
) -> AuditResult:
    """The lower bound from `scores` `[n]` of games; high scores speak for the alternative.

    `alternative` `[n]` is the world of each game. One half of the games (`halves`) selects the threshold with the
    highest bound, and the other half judges it. Raises PrivacyError for too few games, for scores that are not numbers,
    and as `epsilon_lower` and `gaussian_epsilon` do.
    """
    if scores.shape != alternative.shape or scores.ndim != 1 or np.isnan(scores).any():
        raise PrivacyError("scores must be numbers, one for every game", "give [num_games] without NaN")
    choose, held = halves(alternative)
    null, other = np.sort(scores[choose & ~alternative]), np.sort(scores[choose & alternative])
    judged_null, judged_other = scores[held & ~alternative], scores[held & alternative]
    fewest = min(len(judged_null), len(judged_other))
    if fewest < FEWEST_GAMES:
        raise PrivacyError(
            f"{fewest} games of one world are left to judge, but at least {FEWEST_GAMES} are needed",
            f"play at least {8 * FEWEST_GAMES} games",
        )
    if form == "gaussian" and not 0.0 < delta < 1.0:
        gaussian_epsilon(1.0, delta=delta)
    sizes = (len(judged_null), len(judged_other))
    thresholds = _candidates(np.concatenate([null, other]))
    # Errors of the selecting half, scaled to the number of judged games.
    wrong = (len(null) - np.searchsorted(null, thresholds)) * (sizes[0] / len(null))
    missed = np.searchsorted(other, thresholds) * (sizes[1] / len(other))
    gain = _bound(wrong, missed, *sizes, delta=delta, confidence=confidence, form=form)
    # Without any bound, select the threshold with the least errors.
    best = int(np.lexsort((wrong / sizes[0] + missed / sizes[1], -gain))[0])
    threshold = float(thresholds[best])
    false_positives = int(np.count_nonzero(judged_null >= threshold))
    false_negatives = int(np.count_nonzero(judged_other < threshold))
    errors = (false_positives, false_negatives, *sizes)
    mu = float(mu_lower(*errors, confidence=confidence))
    direct = float(epsilon_lower(*errors, delta=delta, confidence=confidence))
    return AuditResult(
        num_null=sizes[0],
        num_alternative=sizes[1],
        false_positives=false_positives,
        false_negatives=false_negatives,
        threshold=threshold,
        delta=delta,
        confidence=confidence,
        form=form,
        epsilon_lower=direct if form == "direct" else gaussian_epsilon(mu, delta=delta),
        mu_lower=mu,
    )


def _bound(
    wrong: ArrayLike, missed: ArrayLike, num_null: int, num_other: int, *, delta: float, confidence: float, form: Form
) -> NDArray[np.float64]:
    """The bound that selects a threshold; epsilon of the Gaussian form grows with mu."""
    if form == "gaussian":
        return mu_lower(wrong, missed, num_null, num_other, confidence=confidence)
    return epsilon_lower(wrong, missed, num_null, num_other, delta=delta, confidence=confidence)


def _candidates(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Observed scores, thinned out evenly by rank if there are many, and one above all."""
    seen = np.unique(scores)
    if len(seen) > _MOST_THRESHOLDS:
        # Keep all scores at both ends: the best threshold often lies among the rarest scores.
        edge = _MOST_THRESHOLDS // 4
        middle = np.unique(np.linspace(edge, len(seen) - edge, _MOST_THRESHOLDS // 2).astype(int))
        seen = np.concatenate([seen[:edge], seen[middle[:-1]], seen[-edge:]])
    return np.append(seen, math.inf)
