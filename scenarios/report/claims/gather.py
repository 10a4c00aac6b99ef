"""From the ledgers of a run folder to claims, a point of the sweep at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, get_args

from privacy.errors import PrivacyError
from privacy.events.claims import Accountant, Claim
from privacy.events.merging import side_by_side

if TYPE_CHECKING:
    from fl.results import PrivacyAccount
    from privacy.events.events import Relation
    from scenarios.plan.points import Plan, Point
    from scenarios.store.store import Store

DEFAULT_DELTA = 1e-5

ACCOUNTANTS: tuple[Accountant, ...] = tuple(name for name in get_args(Accountant) if name != "paper")

_PREFERRED: tuple[Accountant, ...] = ("exact", "pld", "renyi", "basic", "advanced", "paper")
"""Who is believed first where epsilon and delta are the same."""


@dataclass(frozen=True, kw_only=True)
class PointClaims:
    """A point, how many of its trials have an account, and what is claimed of the worst of them.

    `left_out`: sentences of accountants that could not say anything; `ended_early`: how many of the trials failed, so
    that their run is of fewer rounds.
    """

    point: Point
    trials: int
    claims: tuple[Claim, ...]
    left_out: tuple[str, ...] = ()
    ended_early: int = 0


def gather_claims(
    store: Store,
    plan: Plan,
    *,
    task_ids: Sequence[Sequence[str]],
    delta: float | None = None,
    accountants: Sequence[Accountant] = ACCOUNTANTS,
    relation: Relation | None = None,
) -> Iterator[PointClaims]:
    """Claims of every point that has an account, in the order of the plan; `delta` None: the scenario's, or 1e-5.

    Failed trials count: what they sent is out. PrivacyError for a relation that the ledgers cannot be read in.
    """
    for point, ids in zip(plan.points, task_ids, strict=True):
        accounts = store.read_accounts(ids)
        if accounts:
            found = claims_of(
                point,
                list(accounts.values()),
                delta=delta if delta is not None else scenario_delta(point),
                accountants=accountants,
                relation=relation,
            )
            records = store.read_tasks(list(accounts))
            yield replace(found, ended_early=sum(one.failure is not None for one in records.values()))


def claims_of(
    point: Point,
    accounts: Sequence[PrivacyAccount],
    *,
    delta: float,
    accountants: Sequence[Accountant],
    relation: Relation | None = None,
) -> PointClaims:
    """What holds for every device of every trial of a point: published claims first, then one accountant's after the
    other."""
    from privacy.accounting import account_claims, refusals
    from privacy.accounting.claiming import SCOPES

    ledger = side_by_side([one.ledger for one in accounts])
    found: list[Claim] = list(_worst(claim for one in accounts for claim in one.published))
    left_out: list[str] = []
    for accountant in accountants:
        try:
            made = account_claims(ledger, delta=delta, accountant=accountant, relation=relation)
        except PrivacyError as error:
            left_out.append(str(error))
            continue
        found.extend(made)
        if {claim.scope for claim in made} != set(SCOPES):
            refused = refusals(ledger, delta=delta, accountants=(accountant,), relation=relation)
            left_out.extend(f"no {scope} claim by {name}: {reason}" for (name, scope), reason in refused.items())
    if ledger.coordinates == 1:  # an upload that is released in one piece has no single numbers to claim of
        found = [claim for claim in found if claim.accountant == "paper" or claim.scope != "coordinate"]
    if left_out and not any(claim.accountant != "paper" for claim in found):
        raise PrivacyError(left_out[0])
    return PointClaims(point=point, trials=len(accounts), claims=tuple(found), left_out=tuple(left_out))


def scenario_delta(point: Point) -> float:
    """delta as the scenario's own privacy part says it, else 1e-5."""
    privacy = point.scenario.privacy
    if privacy == "none":
        return DEFAULT_DELTA
    delta = getattr(privacy, "delta", None) if privacy.budget is None else privacy.budget.delta
    return DEFAULT_DELTA if delta is None else delta


def strongest(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Of the proved claims with the same scope and credits the smallest epsilon, then delta; published ones stay.

    Epsilons that agree to a millionth are one: a closed form is not beaten by the grid that was laid over it.
    """
    best: dict[tuple[str, bool, bool], Claim] = {}
    for claim in claims:
        key = (claim.scope, claim.channel_credited, claim.sampling_credited)
        if claim.accountant != "paper" and (key not in best or _rank(claim) < _rank(best[key])):
            best[key] = claim
    return (*(claim for claim in claims if claim.accountant == "paper"), *best.values())


def _rank(claim: Claim) -> tuple[float, float, int]:
    digits = claim.epsilon if math.isinf(claim.epsilon) else float(f"{claim.epsilon:.6g}")
    return digits, claim.delta, _PREFERRED.index(claim.accountant)


def _worst(claims: Iterator[Claim]) -> Iterator[Claim]:
    """Claims that differ in their numbers alone as one with the larger numbers."""
    found: dict[Claim, tuple[float, float]] = {}
    for claim in claims:
        bare = replace(claim, epsilon=0.0, delta=0.0)
        epsilon, delta = found.get(bare, (-math.inf, 0.0))
        found[bare] = (max(epsilon, claim.epsilon), max(delta, claim.delta))
    for bare, (epsilon, delta) in found.items():
        yield replace(bare, epsilon=epsilon, delta=delta)
