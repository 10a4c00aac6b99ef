"""`phyloop privacy`: claims from the ledgers of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from rich.console import Console
from rich.markup import escape

from privacy.errors import PrivacyError
from privacy.events.events import Relation
from scenarios.files.replacement import writing
from scenarios.plan.points import Plan, value_of
from scenarios.report.claims import (
    ACCOUNTANTS,
    FlippingTable,
    PointClaims,
    claim_table,
    flipping_tables,
    gather_claims,
    strongest,
)
from scenarios.report.settings import setting_in_words
from scenarios.report.tables.table import Table, csv_row
from scenarios.schema.errors import ScenarioError
from scenarios.store.store import Store
from scenarios.studies.learning import LearningStudy

if TYPE_CHECKING:
    from privacy.events.claims import Accountant, Claim

CSV_COLUMNS = (
    "scope",
    "epsilon",
    "delta",
    "delta_evidence",
    "renyi_order",
    "accountant",
    "unit",
    "relation",
    "channel_credited",
    "sampling_credited",
    "standing",
    "source",
    "assumptions",
    "trials",
)


def account_run(
    folder: Path,
    *,
    delta: float | None,
    accountants: Sequence[str],
    relation: str | None,
    everything: bool,
    csv_file: Path | None,
) -> None:
    """Account for a run from its ledgers, without running anything again. ScenarioError for what cannot be."""
    chosen = _known(folder, accountants)
    relations = get_args(Relation)
    if relation is not None and relation not in relations:
        raise ScenarioError(
            file=folder, problem=f"--relation {relation} is not known", remedy=f"choose from {', '.join(relations)}"
        )
    if delta is not None and not 0.0 <= delta < 1.0:
        raise ScenarioError(
            file=folder, problem=f"--delta is {delta:g}, which is no probability", remedy="give one such as 1e-5"
        )
    with Store.open_existing(folder) as store:
        if (kind := store.identity["study"]) != Store.study:
            raise ScenarioError(
                file=folder,
                problem=f"holds results of phyloop {kind}, which sends no updates to account for",
                remedy="name the folder of a learning run",
            )
        study = LearningStudy.reload(store)
        plan, task_ids = study.plan, study.task_ids
        try:
            found = tuple(
                gather_claims(
                    store,
                    plan,
                    task_ids=task_ids,
                    delta=delta,
                    accountants=chosen,
                    relation=cast(Relation | None, relation),
                )
            )
            flipping = tuple(flipping_tables(store, plan, task_ids=task_ids, delta=delta))
        except PrivacyError as error:
            raise ScenarioError(file=folder, problem=str(error), remedy="choose other options") from error
    if not found:
        raise ScenarioError(
            file=folder,
            problem="holds no ledger: nothing was sent, or it was written before ledgers were kept",
            remedy="run the scenario into a new folder",
        )
    _show(plan, found, everything=everything, asked=bool(accountants))
    for one in flipping:
        _show_flipping(plan, one)
    if csv_file is not None:
        _write_csv(csv_file, plan, found)


def _known(folder: Path, names: Sequence[str]) -> tuple[Accountant, ...]:
    unknown = [name for name in names if name not in ACCOUNTANTS]
    if unknown:
        raise ScenarioError(
            file=folder,
            problem=f"--accountant {unknown[0]} is not known",
            remedy=f"choose from {', '.join(ACCOUNTANTS)}",
        )
    return tuple(name for name in ACCOUNTANTS if name in names) if names else ACCOUNTANTS


def _show(plan: Plan, found: Sequence[PointClaims], *, everything: bool, asked: bool) -> None:
    """`asked`: accountants were named, so that what one of them could not say is missed."""
    shown = found if everything else [_shortened(one) for one in found]
    table, footnotes = claim_table(plan, shown)
    console = Console()
    most = max(one.trials for one in found)
    console.print(
        f"[bold]{plan.points[0].scenario.name}[/bold]: what holds for the worst device of {most} "
        f"trial{'s' if most != 1 else ''}, all rounds together where the scope is run",
        highlight=False,
    )
    table.print()
    for number, sentence in enumerate(footnotes, start=1):
        console.print(f"\\[{number}] {sentence}.", highlight=False)
    if any(math.isinf(claim.epsilon) for one in shown for claim in one.claims):
        console.print("ε none: ε = ∞, no guarantee at this δ.", highlight=False)
    early = sum(one.ended_early for one in found)
    if early:
        console.print(
            f"{early} of {sum(one.trials for one in found)} trials failed before their last round: what they had sent "
            "by then counts, and a whole run would release more.",
            highlight=False,
        )
    for sentence in dict.fromkeys(sentence for one in found for sentence in one.left_out):
        if everything or asked:
            console.print(f"left out: {sentence}", highlight=False, markup=False)


def _show_flipping(plan: Plan, one: FlippingTable) -> None:
    setting = setting_in_words(plan, one.point)
    console = Console()
    console.print(
        f"\n{escape(setting) + ': ' if setting else ''}bits wrong with probability {one.flip_probability:.4g} at least",
        highlight=False,
    )
    rows = tuple(
        (
            row.what,
            "none" if math.isinf(row.claim.epsilon) else f"{row.claim.epsilon:.4g}",
            f"{row.claim.delta:.3g}",
            row.claim.standing,
            row.worth,
        )
        for row in one.rows
    )
    heads = ("what is counted", "ε", "δ", "standing", "worth")
    Table(columns=heads, rows=rows, left=[head for head in heads if head not in "εδ"]).print()


def _shortened(one: PointClaims) -> PointClaims:
    return replace(one, claims=strongest(one.claims), left_out=())


def _write_csv(path: Path, plan: Plan, found: Sequence[PointClaims]) -> None:
    heads = (*plan.swept_paths, *CSV_COLUMNS)
    rows = (
        (*(value_of(one.point, swept) for swept in plan.swept_paths), *_fields(claim), one.trials)
        for one in found
        for claim in one.claims
    )
    with writing(path.parent, "claims"):
        path.write_text("".join(map(csv_row, [heads, *rows])), encoding="utf-8", newline="\r\n")


def _fields(claim: Claim) -> tuple[object, ...]:
    return (
        claim.scope,
        "inf" if math.isinf(claim.epsilon) else claim.epsilon,
        claim.delta,
        claim.delta_evidence,
        "" if claim.order is None else claim.order,
        claim.accountant,
        claim.unit,
        claim.relation,
        claim.channel_credited,
        claim.sampling_credited,
        claim.standing,
        claim.source,
        "; ".join(claim.assumptions),
    )
