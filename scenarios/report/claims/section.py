"""Privacy section of the report page: the strongest claims of the ledgers beside the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from privacy.errors import PrivacyError
from scenarios.report.claims.gather import gather_claims, strongest
from scenarios.report.claims.table import claim_table
from scenarios.report.html import Part

if TYPE_CHECKING:
    from scenarios.plan.points import Plan
    from scenarios.store.store import Store

MOST_POINTS = 60
"""Beyond this many points the page leaves accounting, some tenths of a second each, to `phyloop privacy`."""

MOST_ROWS = 40
"""Of a table that is not folded."""


LEAD = (
    "For the worst device of all trials. “As published” is the figure of the paper. “Proved” follows from the releases "
    "of every round under the numbered assumptions. “Credited”: errors or noise of the channel count towards privacy "
    "up to their lower confidence limit, and δ includes the probability that this limit is wrong. The table has the "
    "smallest ε of the accountants exact, PLD and Rényi. For another accountant, δ or neighbour relation: "
)


def claim_parts(store: Store, plan: Plan, *, task_ids: Sequence[Sequence[str]], folder: str) -> list[Part]:
    """Claims of every point of which something protected was released, with their footnotes; nothing without one."""
    if not _protected(store, plan, task_ids):
        return []
    lead = Part(soft=f"{LEAD}`phyloop privacy {folder}`.")
    if len(plan.points) > MOST_POINTS:
        return [lead, Part(text=f"{len(plan.points)} points are left to the command.")]
    try:
        found = [
            replace(one, claims=strongest(one.claims))
            for one in gather_claims(store, plan, task_ids=task_ids, accountants=("exact", "pld", "renyi"))
        ]
    except PrivacyError as error:
        return [lead, Part(text=str(error))]
    table, footnotes = claim_table(plan, found)
    fold = f"{len(table.rows)} claims" if len(table.rows) > MOST_ROWS else ""
    return [lead, Part(table=table, fold=fold), Part(items=[("", note) for note in footnotes], numbered=True)]


def _protected(store: Store, plan: Plan, task_ids: Sequence[Sequence[str]]) -> bool:
    """Whether any point has noise or a claim; one trial of each tells."""
    for point, ids in zip(plan.points, task_ids, strict=True):
        for account in store.read_accounts(ids[:1]).values():
            if account.published or (point.scenario.privacy is not None and account.ledger.kind != "unprotected"):
                return True
    return False
