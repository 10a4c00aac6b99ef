"""An epsilon with all it needs to be understood: who added it up, over what, for whom, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from privacy.events.events import Relation, Unit

Accountant = Literal["basic", "advanced", "renyi", "pld", "exact", "paper"]
"""`basic` and `advanced` composition (Dwork and Roth 2014; Kairouz, Oh and Viswanath 2015), `renyi` (Mironov 2017) and
`pld`, privacy-loss distributions, by dp-accounting; `exact` where the sum has a closed form; `paper`: as printed."""

Scope = Literal["coordinate", "round", "run"]
"""What the epsilon covers: one number of one upload, one upload, or all uploads of the run."""

Standing = Literal["proved", "as published"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """(epsilon, delta) with its labels; epsilon in nats, math.inf where none holds.

    `delta` counts what was paid for evidence from measurements as well; `delta_evidence` says how much of it that is.
    `order` is set for Renyi DP alone, whose epsilon has no delta. `assumptions`: sentences without which the claim is
    void; `source`: paper and equation. `channel_credited`: whether noise of the channel counts; `sampling_credited`:
    whether not knowing who took part does.
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
        """Everything but the numbers, in one line: an epsilon is never printed without it."""
        parts = [self.accountant, f"{self.unit}, {self.relation}", f"per {self.scope}", self.standing]
        if self.order is not None:
            parts.append(f"Renyi order {self.order:g}")
        if self.channel_credited:
            parts.append("channel noise credited")
        if self.sampling_credited:
            parts.append("sampling credited")
        return "; ".join(parts)
