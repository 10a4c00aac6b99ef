"""Claims as rows of text: no epsilon without its labels, no assumption without its footnote."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scenarios.plan.points import Plan
from scenarios.report.settings import point_table

if TYPE_CHECKING:
    from privacy.events.claims import Claim
    from scenarios.report.claims.gather import PointClaims
    from scenarios.report.tables.table import Table

HEADS = ("scope", "ε", "δ", "of δ for evidence", "accountant", "neighbours differ in", "channel", "standing", "source")


def claim_table(plan: Plan, found: Sequence[PointClaims]) -> tuple[Table, tuple[str, ...]]:
    """All claims of all points, and the footnotes that the numbers in brackets behind `standing` refer to."""
    notes: list[str] = []
    rows = [(one.point, claim_cells(claim, notes=notes)) for one in found for claim in one.claims]
    return point_table(plan, HEADS, rows, left=(HEADS[0], *HEADS[4:])), tuple(notes)


def claim_cells(claim: Claim, *, notes: list[str]) -> tuple[str, ...]:
    """One claim in the columns of `HEADS`; assumptions not yet among `notes` are added there."""
    marks = []
    for sentence in claim.assumptions:
        if sentence not in notes:
            notes.append(sentence)
        marks.append(f"[{notes.index(sentence) + 1}]")
    return (
        f"{claim.scope}, sampled" if claim.sampling_credited else claim.scope,
        "none" if math.isinf(claim.epsilon) else f"{claim.epsilon:.4g}",
        f"{claim.delta:.3g}" if claim.order is None else f"Rényi order {claim.order:g}",
        f"{claim.delta_evidence:.3g}" if claim.delta_evidence else "",
        claim.accountant,
        f"{claim.unit}, {claim.relation}",
        "credited" if claim.channel_credited else "not credited",
        ", given ".join(filter(None, (claim.standing, " ".join(marks)))),
        claim.source,
    )
