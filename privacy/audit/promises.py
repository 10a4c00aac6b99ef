"""Upper bounds on epsilon that stand beside the lower bound of an audit: none, by an accountant, or of a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from privacy.accounting.composition import condensed, exact_epsilon
from privacy.accounting.loss_distributions import pld_epsilon
from privacy.config import BudgetConfig
from privacy.events.claims import Accountant, Claim, Scope
from privacy.events.events import Spending, Unit

claim = partial(Claim, relation="replace-one")
"""A claim about replacing one unit."""


def nothing_promised(*, scope: Scope, unit: Unit) -> Claim:
    """Return the claim of a scheme without privacy: infinity."""
    source = "no privacy was asked for"
    return claim(
        epsilon=math.inf, delta=0.0, accountant="paper", standing="proved", scope=scope, unit=unit, source=source
    )


def accounted(spent: Sequence[Spending], *, delta: float, **labels: Any) -> Claim:
    """Return the smallest epsilon at `delta` of all releases that an accountant proves: exact or by PLD, basic at 0."""
    accountant: Accountant = "basic"
    if delta == 0.0:
        epsilon = math.fsum(one.count * one.event.pure_epsilon() for one in spent)
    else:
        left = condensed(spent)
        closed = not left or (len(left) == 1 and left[0].count == 1)
        accountant = "exact" if closed else "pld"
        epsilon = (exact_epsilon if closed else pld_epsilon)(spent, delta=delta)
    return claim(epsilon=epsilon, delta=delta, accountant=accountant, standing="proved", **labels)


def of_the_budget(budget: BudgetConfig | None, *, num_rounds: int, **labels: Any) -> tuple[Claim, ...]:
    """Return what a budget promises of the whole run, and so of any of its rounds and numbers; nothing without one."""
    if budget is None:
        return ()
    source = f"budget for all {num_rounds:,} round{'s' * (num_rounds != 1)}"
    promised = {"epsilon": budget.epsilon, "delta": budget.delta, "accountant": budget.accountant}
    return (claim(**labels | {"scope": "run", "standing": "proved", "source": source} | promised),)
