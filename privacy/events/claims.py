"""A privacy claim: epsilon and delta with accountant, scope, neighbours and assumptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from privacy.events.events import Relation, Unit

Accountant = Literal["basic", "advanced", "renyi", "pld", "exact", "paper"]
"""`basic` and `advanced` composition (Dwork and Roth 2014; Kairouz, Oh and Viswanath 2015), `renyi` (Mironov 2017) and
`pld`, privacy-loss distributions, by dp-accounting; `exact` where the sum has a closed form; `paper`: as printed."""

Scope = Literal["coordinate", "round", "run"]
"""Scope of an epsilon: one number of one upload, one upload, or all uploads of the run."""

Standing = Literal["proved", "not proved", "as published"]
"""`not proved`: the run breaks an assumption."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """(epsilon, delta) with its labels; epsilon in nats, math.inf for no guarantee.

    `delta` includes `delta_evidence`, the cost of evidence from measurements. `order` is set for Renyi DP only, whose
    epsilon has no delta. `assumptions`: sentences that the claim needs; `source`: paper and equation.
    `channel_credited`: channel noise counts; `sampling_credited`: random participation counts.
    """

    epsilon: float
    delta: float
    accountant: Accountant
    relation: Relation
    unit: Unit
    scope: Scope
    standing: Standing
    source: str
    assumptions: tuple[str, ...] = ()
    delta_evidence: float = 0.0
    order: float | None = None
    channel_credited: bool = False
    sampling_credited: bool = False

    def label(self) -> str:
        """All labels in one line, to be printed with every epsilon."""
        parts = [self.accountant, f"{self.unit}, {self.relation}", f"per {self.scope}", self.standing]
        if self.order is not None:
            parts.append(f"Renyi order {self.order:g}")
        if self.channel_credited:
            parts.append("channel noise credited")
        if self.sampling_credited:
            parts.append("sampling credited")
        return "; ".join(parts)
