"""Claims on the privacy of a run, from the ledgers in its folder: `phyloop privacy` and `phyloop.epsilon`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from phy.config.conflict import listing
from privacy.errors import PrivacyError
from privacy.events.events import Relation
from scenarios.plan.points import Plan, value_of
from scenarios.report.claims import ACCOUNTANTS, FlippingTable, PointClaims, flipping_tables, gather_claims
from scenarios.report.figures.privacy import SpentByRound, spent_by_round
from scenarios.schema.errors import ScenarioError
from scenarios.studies.folders import study_in

CSV_COLUMNS = (
    *("scope", "epsilon", "delta", "delta_evidence", "renyi_order", "accountant", "unit", "relation"),
    *("channel_credited", "sampling_credited", "standing", "source", "assumptions", "trials"),
)


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """Claims of every sweep point that sent something, and the lines of bit flipping."""

    plan: Plan
    claims: tuple[PointClaims, ...]
    flipping: tuple[FlippingTable, ...]
    spent: tuple[SpentByRound, ...] = ()

    @property
    def columns_by_round(self) -> tuple[str, ...]:
        """Column names of `rows_by_round`."""
        return (*self.plan.swept_paths, "round", "epsilon", "delta", "unit", "relation", "trials")

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names of `rows`."""
        return (*self.plan.swept_paths, *CSV_COLUMNS)

    def rows_by_round(self) -> Iterator[dict[str, object]]:
        """A row per sweep point and round: the epsilon proved for all rounds up to it."""
        for one in self.spent:
            settings = {path: value_of(one.point, path) for path in self.plan.swept_paths}
            for number, proved in zip(one.rounds, one.proved, strict=True):
                yield {**settings, "round": number, **vars(proved), "trials": one.trials}

    def rows(self) -> Iterator[dict[str, object]]:
        """A row per claim: the settings of its sweep point, the claim, and the number of trials."""
        for one in self.claims:
            settings = {path: value_of(one.point, path) for path in self.plan.swept_paths}
            for claim in one.claims:
                words = {"renyi_order": claim.order, "assumptions": "; ".join(claim.assumptions)}
                yield {**settings, **vars(claim), **words, "trials": one.trials}


def account(
    folder: Path, *, delta: float | None, accountants: Sequence[str], relation: str | None, most_rounds: int = 0
) -> Accounts:
    """Account for a run from its ledgers, without running anything again.

    `delta` None: that of the scenario, or 1e-5; no accountant: all of them; `relation` None: that of each ledger. With
    `most_rounds` above 0 also the epsilon of all rounds so far, at that many rounds at most. Raises ScenarioError for
    other names and values, and for a folder without a ledger.
    """
    relations = () if relation is None else (relation,)
    for key, given, known in (
        ("--accountant", accountants, ACCOUNTANTS),
        ("--relation", relations, get_args(Relation)),
    ):
        if unknown := [name for name in given if name not in known]:
            remedy = f"choose {listing(known)}"
            raise ScenarioError(file=folder, key=key, value=unknown[0], problem="is not known", remedy=remedy)
    if delta is not None and not 0.0 <= delta < 1.0:
        problem, remedy = "is no probability below 1", "give for example 1e-5"
        raise ScenarioError(file=folder, key="--delta", value=delta, problem=problem, remedy=remedy)
    study: Any = study_in(folder)
    if (kind := study.store.study) not in ("run", "flower"):
        problem = f"holds results of phyloop {kind}, which sends no updates to account for"
        raise ScenarioError(file=folder, problem=problem, remedy="name the folder of a learning run or of a Flower app")
    plan, chosen = study.plan, tuple(name for name in ACCOUNTANTS if name in accountants) or ACCOUNTANTS
    options: Any = {"delta": delta, "accountants": chosen, "relation": relation}
    with study.store.open_existing(folder) as store:
        try:
            found = tuple(gather_claims(store, plan, **options))
            flipping = tuple(flipping_tables(store, plan, delta=delta))
            rounds = tuple(spent_by_round(store, plan, most=most_rounds, **options)) if most_rounds else ()
        except PrivacyError as error:
            raise ScenarioError(file=folder, problem=str(error), remedy="choose other options") from error
    if not found:
        problem = "holds no ledger: nothing was sent, or it was written before ledgers were kept"
        raise ScenarioError(file=folder, problem=problem, remedy="run the scenario into a new folder")
    return Accounts(plan=plan, claims=found, flipping=flipping, spent=rounds)
