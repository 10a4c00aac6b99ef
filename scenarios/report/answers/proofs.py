"""The epsilon that is proved for all rounds of a sweep point, and if two sweep points are at equal privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privacy.events.claims import Claim
from privacy.evidence import USUAL_DELTA
from scenarios.plan.points import Point

EQUAL_PRIVACY = 1.25
"""Ratio of two proved epsilons up to which two sweep points are compared as if their privacy was equal."""


@dataclass(frozen=True, kw_only=True)
class Proved:
    """The smallest epsilon proved for the run, at `delta`, of what (`unit`), and in which neighbour `relation`.

    `epsilon` is infinite where none is proved.
    """

    epsilon: float
    delta: float = 0.0
    unit: str = ""
    relation: str = ""

    @property
    def number(self) -> str:
        """`12.3`, or `∞`."""
        return "∞" if math.isinf(self.epsilon) else f"{self.epsilon:.4g}"

    def __str__(self) -> str:
        """`12.3, δ = 1e-05`, or `∞`."""
        return self.number if math.isinf(self.epsilon) else f"{self.number}, δ = {self.delta:.3g}"


NOTHING = Proved(epsilon=math.inf)


def is_private(point: Point) -> bool:
    """Tell if a sweep point asks for privacy, by a mechanism or by an epsilon of its aggregation scheme."""
    scheme = point.scenario.learning.upload_scheme
    return point.scenario.mechanism is not None or (scheme is not None and scheme.own_epsilon is not None)


def scenario_delta(point: Point) -> float:
    """delta as the scenario's own privacy part says it, else 1e-5."""
    privacy, budget = point.scenario.mechanism, point.scenario.budget
    delta = getattr(privacy, "delta", None) if budget is None else budget.delta
    return USUAL_DELTA if delta is None else delta


def best_proof(claims: Sequence[Claim]) -> Proved:
    """Return the smallest proved epsilon of the whole run among claims."""
    held = (c for c in claims if c.scope == "run" and c.accountant != "paper" and c.standing == "proved")
    best = min(held, key=lambda claim: (float(f"{claim.epsilon:.6g}"), claim.delta), default=None)
    if best is None or math.isinf(best.epsilon):
        return NOTHING
    return Proved(epsilon=best.epsilon, delta=best.delta, unit=best.unit, relation=best.relation)


def spends_more(one: Proved | None, other: Proved | None) -> bool:
    """Tell if `one` has less privacy than `other` beyond `EQUAL_PRIVACY`, or if their epsilons cannot be compared.

    Epsilons at another delta, of another unit or neighbour relation are no measure of the same thing.
    """
    if one is None or other is None or math.isinf(other.epsilon):
        return False
    if math.isinf(one.epsilon):
        return True
    if (one.unit, one.relation) != (other.unit, other.relation):
        return True
    return one.epsilon > EQUAL_PRIVACY * other.epsilon or one.delta > EQUAL_PRIVACY * other.delta
