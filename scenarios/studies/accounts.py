"""Claims on the privacy of a run, from the ledgers in its folder: `phyloop privacy` and `phyloop.epsilon`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from privacy.errors import PrivacyError
from privacy.events.events import Relation
from scenarios.plan.points import Plan, value_of
from scenarios.report.claims import ACCOUNTANTS, FlippingTable, PointClaims, flipping_tables, gather_claims
from scenarios.schema.errors import ScenarioError, listing
from scenarios.studies.folders import study_in

if TYPE_CHECKING:
    from privacy.events.claims import Accountant
    from scenarios.studies.flower.study import FlowerStudy
    from scenarios.studies.learning import LearningStudy

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

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names of `rows`."""
        return (*self.plan.swept_paths, *CSV_COLUMNS)

    def rows(self) -> Iterator[dict[str, object]]:
        """A row per claim: the settings of its sweep point, the claim, and the number of trials."""
        for one in self.claims:
            settings = {path: value_of(one.point, path) for path in self.plan.swept_paths}
            for claim in one.claims:
                words = {"renyi_order": claim.order, "assumptions": "; ".join(claim.assumptions)}
                yield {**settings, **vars(claim), **words, "trials": one.trials}


def account(folder: Path, *, delta: float | None, accountants: Sequence[str], relation: str | None) -> Accounts:
    """Account for a run from its ledgers, without running anything again.

    `delta` None: that of the scenario, or 1e-5; no accountant: all of them; `relation` None: that of each ledger.
    Raises ScenarioError for other names and values, and for a folder without a ledger.
    """
    chosen = _known(folder, accountants)
    relations = get_args(Relation)
    if relation is not None and relation not in relations:
        raise ScenarioError(
            file=folder, key="--relation", value=relation, problem="is not known", remedy=f"choose {listing(relations)}"
        )
    if delta is not None and not 0.0 <= delta < 1.0:
        raise ScenarioError(
            file=folder, key="--delta", value=delta, problem="is no probability below 1", remedy="give for example 1e-5"
        )
    study = cast("LearningStudy | FlowerStudy", study_in(folder))
    if (kind := study.store.study) not in ("run", "flower"):
        raise ScenarioError(
            file=folder,
            problem=f"holds results of phyloop {kind}, which sends no updates to account for",
            remedy="name the folder of a learning run or of a Flower app",
        )
    plan = study.plan
    with study.store.open_existing(folder) as store:
        try:
            found = tuple(
                gather_claims(
                    store,
                    plan,
                    delta=delta,
                    accountants=chosen,
                    relation=cast(Relation | None, relation),
                )
            )
            flipping = tuple(flipping_tables(store, plan, delta=delta))
        except PrivacyError as error:
            raise ScenarioError(file=folder, problem=str(error), remedy="choose other options") from error
    if not found:
        raise ScenarioError(
            file=folder,
            problem="holds no ledger: nothing was sent, or it was written before ledgers were kept",
            remedy="run the scenario into a new folder",
        )
    return Accounts(plan=plan, claims=found, flipping=flipping)


def _known(folder: Path, names: Sequence[str]) -> tuple[Accountant, ...]:
    unknown = [name for name in names if name not in ACCOUNTANTS]
    if unknown:
        raise ScenarioError(
            file=folder,
            key="--accountant",
            value=unknown[0],
            problem="is not known",
            remedy=f"choose {listing(ACCOUNTANTS)}",
        )
    return tuple(name for name in ACCOUNTANTS if name in names) if names else ACCOUNTANTS
