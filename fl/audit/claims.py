"""Upper bounds on the epsilon of a game, each with its label: as published, and what is proved in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable

from privacy.accounting.composition import exact_epsilon
from privacy.accounting.loss_distributions import pld_epsilon
from privacy.ledger.claims import Accountant, Claim, Scope, Standing
from privacy.ledger.events import Event, Spending, Unit

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
    event: Event,
    count: int,
    *,
    delta: float,
    scope: Scope,
    unit: Unit,
    source: str,
    assumptions: tuple[str, ...] = (),
    channel_credited: bool = False,
) -> Claim:
    """The smallest epsilon at `delta` of `count` releases that an accountant proves: exact or by PLD, basic at 0."""
    spent = (Spending(event=event, count=count),)
    whole = event.repeated(count)
    accountant: Accountant = "basic"
    epsilon = count * event.pure_epsilon()
    if delta > 0.0:
        accountant = "exact" if whole is not None else "pld"
        epsilon = exact_epsilon(spent, delta=delta) if whole is not None else pld_epsilon(spent, delta=delta)
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
