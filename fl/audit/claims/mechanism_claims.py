"""What is claimed of rounds of bit flipping and of the Gaussian mechanism, by what each of them was given."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fl.audit.claims.claims import accounted, claim, of_the_budget
from privacy.accounting.spending import event_of
from privacy.config import BitFlippingBudget, BitFlippingConfig, GaussianBudget, GaussianConfig
from privacy.events.claims import Claim, Scope
from privacy.events.events import Spending
from privacy.events.published import WEIGHED_BITS
from privacy.mechanisms.sound_bit_flipping import epsilon_from_renyi

CREDITED = ("the bit errors credited to the channel are there, and independent",)


def gaussian_claims(
    privacy: GaussianConfig | GaussianBudget,
    *,
    multipliers: Sequence[float],
    asked_delta: float,
    num_rounds: int,
    scope: Scope,
    delta: float,
    assumptions: tuple[str, ...] = (),
) -> tuple[Claim, ...]:
    """Claims over rounds with noise `multipliers`, of a run of `num_rounds` asked for at `asked_delta`.

    `assumptions`: what the sensitivity rests on, for games are of models that far apart.
    """
    found = []
    if isinstance(privacy, GaussianConfig):
        found.append(
            claim(
                privacy.epsilon,
                delta=asked_delta,
                accountant="paper",
                standing="as published",
                scope="run",
                unit="sample",
                source=f"asked for, all {num_rounds} rounds, Li et al. 2025 (23)",
                assumptions=assumptions,
            )
        )
    if privacy.budget is not None:
        found.append(of_the_budget(privacy.budget, num_rounds=num_rounds, unit="sample", assumptions=assumptions))
    exact = accounted(
        [Spending(event=event_of("gaussian", one, {}), count=n) for one, n in Counter(multipliers).items()],
        delta=delta,
        scope=scope,
        unit="sample",
        source=f"Gaussian mechanism, {_counted(len(multipliers))}",
        assumptions=assumptions,
    )
    return (*found, exact)


def flipping_claims(
    privacy: BitFlippingConfig | BitFlippingBudget,
    *,
    rates: Sequence[float],
    bits: int,
    num_rounds: int,
    delta: float,
) -> tuple[Claim, ...]:
    """Claims over one weight of `bits` in rounds with `rates` of wrong bits: response bit by bit, which holds.

    Theorem 1 adds up over rounds, so that its share of these is known.
    """
    credited = privacy.channel == "native"
    assumptions = CREDITED if credited else ()
    common: dict[str, Any] = {
        "unit": "sample",
        "scope": "coordinate",
        "channel_credited": credited,
        "assumptions": assumptions,
    }
    found = []
    if isinstance(privacy, BitFlippingConfig):
        share = privacy.epsilon * len(rates) / num_rounds
        source = f"Li et al. 2025, Theorem 1, {len(rates)} of {num_rounds} rounds"
        published: dict[str, Any] = {**common, "accountant": "paper", "standing": "as published"}
        published["assumptions"] = (WEIGHED_BITS, *assumptions)
        epsilon = epsilon_from_renyi(order=privacy.order, epsilon=share, delta=delta) if delta > 0.0 else math.inf
        found = [
            claim(epsilon, delta=delta, source=f"{source}, from Renyi DP of order {privacy.order:g}", **published),
            claim(share, delta=0.0, order=privacy.order, source=source, **published),
        ]
    if privacy.budget is not None:
        found.append(
            of_the_budget(
                privacy.budget,
                num_rounds=num_rounds,
                unit="sample",
                assumptions=assumptions,
                channel_credited=credited,
            )
        )
    counts = Counter(rates)
    # A block cipher garbles the bits of a block together: they are no independent responses any more.
    if privacy.cipher != "aes":
        found.append(
            accounted(
                [Spending(event=event_of("flipped-bits", one, {}), count=n * bits) for one, n in counts.items()],
                delta=delta,
                source=f"randomized response of {bits} bits of one weight",
                **common,
            )
        )
    return tuple(found)


def _counted(rounds: int) -> str:
    return f"{rounds} round{'s' if rounds > 1 else ''}"
