"""Upper bounds on the epsilon of a game, each with its label: as published, and what is proved in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from privacy.accounting.composition import condensed, exact_epsilon
from privacy.accounting.loss_distributions import pld_epsilon
from privacy.config import BudgetConfig
from privacy.events.claims import Accountant, Claim, Scope, Standing
from privacy.events.events import Spending, Unit

_BISECTIONS = 60
_LARGEST = 1e6


def claim(
    epsilon: float,
    *,
    delta: float,
    accountant: Accountant,
    standing: Standing,
    scope: Scope,
    unit: Unit,
    source: str,
    assumptions: tuple[str, ...] = (),
    order: float | None = None,
    channel_credited: bool = False,
) -> Claim:
    """A `Claim` for replacing one unit."""
    return Claim(
        epsilon=epsilon,
        delta=delta,
        accountant=accountant,
        relation="replace-one",
        unit=unit,
        scope=scope,
        standing=standing,
        source=source,
        assumptions=assumptions,
        order=order,
        channel_credited=channel_credited,
    )


def nothing_promised(*, scope: Scope, unit: Unit) -> Claim:
    """What a scheme without privacy claims: infinity."""
    return claim(
        math.inf,
        delta=0.0,
        accountant="paper",
        standing="proved",
        scope=scope,
        unit=unit,
        source="no privacy was asked for",
    )


def accounted(
    spent: Sequence[Spending],
    *,
    delta: float,
    scope: Scope,
    unit: Unit,
    source: str,
    assumptions: tuple[str, ...] = (),
    channel_credited: bool = False,
) -> Claim:
    """The smallest epsilon at `delta` of all releases that an accountant proves: exact or by PLD, basic at 0."""
    accountant: Accountant = "basic"
    if delta == 0.0:
        epsilon = math.fsum(one.count * one.event.pure_epsilon() for one in spent)
    else:
        left = condensed(spent)
        closed = not left or (len(left) == 1 and left[0].count == 1)
        accountant = "exact" if closed else "pld"
        epsilon = (exact_epsilon if closed else pld_epsilon)(spent, delta=delta)
    return claim(
        epsilon,
        delta=delta,
        accountant=accountant,
        standing="proved",
        scope=scope,
        unit=unit,
        source=source,
        assumptions=assumptions,
        channel_credited=channel_credited,
    )


def of_the_budget(
    budget: BudgetConfig,
    *,
    num_rounds: int,
    unit: Unit,
    assumptions: tuple[str, ...] = (),
    channel_credited: bool = False,
) -> Claim:
    """What a budget promises of the whole run, and so of any of its rounds and numbers."""
    return claim(
        budget.epsilon,
        delta=budget.delta,
        accountant=budget.accountant,
        standing="proved",
        scope="run",
        unit=unit,
        source=f"budget for all {num_rounds:,} rounds",
        assumptions=assumptions,
        channel_credited=channel_credited,
    )


def smallest_epsilon(spent: Callable[[float], float], *, delta: float) -> float:
    """The epsilon > 0 from which on `spent(epsilon)` <= `delta`, to a relative 1e-9; math.inf where there is none.

    `spent` falls as epsilon grows.
    """
    low, high = 1e-9, 1e-3
    while spent(high) > delta:
        low, high = high, 4.0 * high
        if high > _LARGEST:
            return math.inf
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if spent(middle) <= delta else (middle, high)
    return high
