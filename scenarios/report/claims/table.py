"""Claims as rows of text: no epsilon without its labels, no assumption without its footnote."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scenarios.plan.points import Plan, value_of
from scenarios.schema.labels.labels import plain_label, setting_cell

if TYPE_CHECKING:
    from privacy.events.claims import Claim
    from scenarios.report.claims.gather import PointClaims

HEADS = ("scope", "ε", "δ", "of δ for evidence", "accountant", "neighbours differ in", "channel", "standing", "source")
NUMERIC = (False, True, True, True, False, False, False, False, False)


@dataclass(frozen=True, kw_only=True)
class ClaimTable:
    """Heads and rows of text, and the footnotes that the numbers in brackets behind `standing` refer to."""

    heads: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    footnotes: tuple[str, ...]


def claim_table(plan: Plan, found: Sequence[PointClaims]) -> ClaimTable:
    """All claims of all points, the sweep's settings in front."""
    notes: list[str] = []
    rows = []
    for one in found:
        settings = tuple(setting_cell(path, value_of(one.point, path)) for path in plan.swept_paths)
        rows += [(*settings, *claim_cells(claim, notes=notes)) for claim in one.claims]
    return ClaimTable(
        heads=(*map(plain_label, plan.swept_paths), *HEADS),
        numeric=(*(False for _ in plan.swept_paths), *NUMERIC),
        rows=tuple(rows),
        footnotes=tuple(notes),
    )


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
