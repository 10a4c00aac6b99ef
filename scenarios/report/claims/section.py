"""Privacy section of the report page: the strongest claims of the ledgers beside the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from privacy.errors import PrivacyError
from scenarios.report.claims.gather import gather_claims, strongest
from scenarios.report.claims.table import claim_table
from scenarios.report.tables.text import Table

if TYPE_CHECKING:
    from scenarios.plan.points import Plan
    from scenarios.store.store import Store

MOST_POINTS = 60
"""Beyond this many points the page leaves accounting, some tenths of a second each, to `phyloop privacy`."""


@dataclass(frozen=True, kw_only=True)
class ClaimSection:
    """A table, its numbered footnotes, and a sentence where there is no table."""

    table: Table
    footnotes: tuple[str, ...]
    instead: str = ""


def claim_section(store: Store, plan: Plan, *, task_ids: Sequence[Sequence[str]]) -> ClaimSection | None:
    """Claims of every point of which something protected was released; None where nothing was."""
    if not _protected(store, plan, task_ids):
        return None
    empty = Table(columns=(), numeric=(), rows=())
    if len(plan.points) > MOST_POINTS:
        return ClaimSection(table=empty, footnotes=(), instead=f"{len(plan.points)} points are left to the command.")
    try:
        found = [
            replace(one, claims=strongest(one.claims))
            for one in gather_claims(store, plan, task_ids=task_ids, accountants=("exact", "pld", "renyi"))
        ]
    except PrivacyError as error:
        return ClaimSection(table=empty, footnotes=(), instead=str(error))
    table = claim_table(plan, found)
    return ClaimSection(
        table=Table(columns=table.heads, numeric=table.numeric, rows=table.rows), footnotes=table.footnotes
    )


def _protected(store: Store, plan: Plan, task_ids: Sequence[Sequence[str]]) -> bool:
    """Whether any point has noise or a claim; one trial of each tells."""
    for point, ids in zip(plan.points, task_ids, strict=True):
        for account in store.read_accounts(ids[:1]).values():
            if account.published or (point.scenario.privacy is not None and account.ledger.kind != "unprotected"):
                return True
    return False
