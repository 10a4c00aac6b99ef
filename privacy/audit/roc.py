"""Membership scores: the area under the curve, and the true positive rate at a low false positive rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privacy.errors import PrivacyError, require_probability
from privacy.rate_limits import rate_limit


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate and the two-sided limits around it."""

    value: float
    low: float
    high: float


def area_under_curve(scores: NDArray[Any], member: NDArray[np.bool_], *, confidence: float = 0.95) -> Interval:
    """P(score of a member > score of a non-member) + 1/2 P(equal), 1/2 for no information; `scores`, `member` `[n]`.

    The estimate is that of Mann and Whitney. Its limits are the areas A at a distance of z standard errors, with Hanley
    and McNeil's variance at A,

        (A (1 - A) + (n1 - 1)(A / (2 - A) - A^2) + (n0 - 1)(2 A^2 / (1 + A) - A^2)) / (n1 n0),

    Newcombe 2006, method 5: valid also for an estimate of 1, where its own variance is 0. Raises PrivacyError for
    scores that are not finite, and without members or non-members.
    """
    from scipy.stats import norm, rankdata

    num_members, num_others = _counted(scores, member)
    require_probability(confidence=confidence)
    ranks = rankdata(scores)
    found = (ranks[member].sum() - num_members * (num_members + 1) / 2.0) / (num_members * num_others)
    z = float(norm.ppf(0.5 + confidence / 2.0))

    def too_far(area: float) -> bool:
        return bool(abs(area - found) > z * _standard_error(area, num_members, num_others))

    return Interval(value=float(found), low=_edge(float(found), 0.0, too_far), high=_edge(float(found), 1.0, too_far))


def true_positive_rate(
    scores: NDArray[Any], member: NDArray[np.bool_], *, false_positive_rate: float = 0.01, confidence: float = 0.95
) -> Interval:
    """Share of members whose score exceeds that of all but `false_positive_rate` of the non-members (rounded down).

    Two-sided limits of Clopper and Pearson for a fixed threshold. Raises PrivacyError as `area_under_curve` does.
    """
    num_members, num_others = _counted(scores, member)
    require_probability(confidence=confidence)
    others = np.sort(scores[~member])
    allowed = int(false_positive_rate * num_others)
    hits = int((scores[member] > others[num_others - 1 - allowed]).sum())
    tail = (1.0 - confidence) / 2.0
    return Interval(
        value=hits / num_members,
        low=float(rate_limit(hits, num_members, level=tail)),
        high=float(rate_limit(hits + 1, num_members, level=1.0 - tail)),
    )


def _counted(scores: NDArray[Any], member: NDArray[np.bool_]) -> tuple[int, int]:
    num_members = int(member.sum())
    num_others = len(member) - num_members
    if not (num_members and num_others):
        raise PrivacyError(
            f"{num_members} members and {num_others} non-members have a score, but one of each is needed",
            "play more games",
        )
    if not np.isfinite(scores).all():
        raise PrivacyError("a score is NaN or infinite and cannot be ranked", "give an unknown score the value 0")
    return num_members, num_others


def _standard_error(area: float, num_members: int, num_others: int) -> float:
    """Hanley and McNeil 1982, the law of scores unknown."""
    above = area / (2.0 - area) - area**2
    below = 2.0 * area**2 / (1.0 + area) - area**2
    spread = area * (1.0 - area) + (num_members - 1) * above + (num_others - 1) * below
    return float(np.sqrt(max(spread, 0.0) / (num_members * num_others)))


def _edge(near: float, far: float, too_far: Callable[[float], bool]) -> float:
    """The point between `near` and `far` at which `too_far` becomes true; `far` if it stays false."""
    if not too_far(far):
        return far
    for _ in range(60):
        middle = (near + far) / 2.0
        near, far = (near, middle) if too_far(middle) else (middle, far)
    return near
