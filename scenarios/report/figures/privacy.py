"""Privacy over the rounds of a run: the epsilon proved for all rounds up to each one, from the ledgers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from privacy.errors import PrivacyError
from privacy.events.claims import Accountant
from privacy.events.events import Ledger, Relation
from privacy.events.merging import side_by_side
from scenarios.plan.points import Plan, Point
from scenarios.report.answers.proofs import Proved, best_proof, scenario_delta
from scenarios.store.store import Store

MOST_ROUNDS = 25
"""Rounds at which a figure has epsilon, spread evenly: every one takes an account of its own."""

ACCOUNTANTS: tuple[Accountant, ...] = ("exact", "pld", "renyi")


@dataclass(frozen=True, kw_only=True)
class SpentByRound:
    """What is proved of a sweep point after each of `rounds`, for the worst device of `trials` trials."""

    point: Point
    trials: int
    rounds: tuple[int, ...]
    proved: tuple[Proved, ...]


def spent_by_round(
    store: Store,
    plan: Plan,
    *,
    delta: float | None = None,
    most: int = MOST_ROUNDS,
    accountants: Sequence[Accountant] = ACCOUNTANTS,
    relation: Relation | None = None,
) -> Iterator[SpentByRound]:
    """Yield the epsilon of all rounds so far for every sweep point that has a ledger; equal ledgers count once.

    At least the first and the last round are among the at most `most` ones. `delta` None: the scenario's, or 1e-5.
    Raises PrivacyError for a relation that the ledgers cannot be read in.
    """
    known: dict[bytes, SpentByRound] = {}
    for point, ids in zip(plan.points, plan.task_ids, strict=True):
        accounts = [*store.read_accounts(ids).values()]
        if not accounts:
            continue
        wanted = scenario_delta(point) if delta is None else delta
        key = pickle.dumps((accounts, wanted))
        if key not in known:
            ledger = side_by_side([one.ledger for one in accounts])
            last = len(ledger.parameter)
            rounds = np.unique(np.linspace(1, last, min(last, max(most, 2))).round().astype(int)).tolist()
            proved = tuple(
                _proved(first_rounds(ledger, number), delta=wanted, accountants=accountants, relation=relation)
                for number in rounds
            )
            known[key] = SpentByRound(point=point, trials=len(accounts), rounds=tuple(rounds), proved=proved)
        yield replace(known[key], point=point)


def first_rounds(ledger: Ledger, number: int) -> Ledger:
    """Return the ledger of the first `number` rounds."""
    own = ledger.uncredited
    return replace(ledger, parameter=ledger.parameter[:number], uncredited=None if own is None else own[:number])


def _proved(ledger: Ledger, *, delta: float, accountants: Sequence[Accountant], relation: Relation | None) -> Proved:
    from privacy.accounting import account_claims

    claims, refused = [], []
    for accountant in accountants:
        try:
            claims += account_claims(ledger, delta=delta, accountant=accountant, relation=relation)
        except PrivacyError as error:
            refused.append(error)
    if refused and not claims:
        raise refused[0]
    return best_proof(claims)
