"""All accountants: epsilon for a delta, delta for an epsilon, or the reason for no result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from privacy.accounting.composition import (
    advanced_delta,
    advanced_epsilon,
    basic_delta,
    basic_epsilon,
    exact_delta,
    exact_epsilon,
    exposed,
    merged,
    renyi_delta,
    renyi_epsilon,
)
from privacy.accounting.loss_distributions import pld_delta, pld_epsilon
from privacy.errors import PrivacyError, require_probability
from privacy.events.claims import Accountant
from privacy.events.events import Event, Spending

ACCOUNTANTS: tuple[Accountant, ...] = ("basic", "advanced", "renyi", "pld", "exact")
"""Accountants that compose events; `paper`, the claim of a paper, composes none."""

SOURCES: Mapping[Accountant, str] = {
    "basic": "Dwork and Roth 2014, Theorem 3.16",
    "advanced": "Kairouz, Oh and Viswanath 2015, Theorem 3.5",
    "renyi": "Mironov 2017, Proposition 1, and Canonne, Kamath and Steinke 2020, Proposition 12, by dp-accounting",
    "pld": "Doroshenko et al. 2022, Algorithm 1, by dp-accounting",
    "exact": "privacy profile of the sum in closed form, such as Balle and Wang 2018, Theorem 8",
}

_EPSILON: Mapping[Accountant, Callable[..., float]] = {
    "advanced": advanced_epsilon,
    "renyi": renyi_epsilon,
    "pld": pld_epsilon,
    "exact": exact_epsilon,
}
_DELTA: Mapping[Accountant, Callable[..., float]] = {
    "basic": basic_delta,
    "advanced": advanced_delta,
    "renyi": renyi_delta,
    "pld": pld_delta,
    "exact": exact_delta,
}


def account(spent: Sequence[Spending], *, delta: float, accountant: Accountant) -> float:
    """The epsilon [nats] of all spendings together at `delta`, by one accountant; math.inf for no guarantee.

    delta 0 needs pure losses and `basic` or `exact`. Raises PrivacyError for an unknown accountant, an event that the
    accountant cannot treat, a delta outside [0, 1), and delta 0 under approximate privacy.
    """
    _require_known(accountant)
    if delta != 0.0:
        require_probability(delta=delta)
    if exposed(spent):
        return math.inf
    if accountant == "basic":
        return basic_epsilon(spent)
    if delta == 0.0:
        boundless = unbounded(spent)
        if boundless is not None:
            raise PrivacyError(
                f"delta is 0, but for {boundless!r} only approximate privacy can hold", "give a delta such as 1e-5"
            )
        if accountant != "exact":
            raise PrivacyError(f"delta is 0, but the accountant {accountant!r} needs one above 0", "use basic")
        return merged(spent).pure_epsilon()
    return _EPSILON[accountant](spent, delta=delta)


def spent_delta(spent: Sequence[Spending], *, epsilon: float, accountant: Accountant) -> float:
    """The delta, at most 1, of all spendings together at `epsilon` [nats], by one accountant.

    Raises PrivacyError for an unknown accountant, an event that it cannot treat, and an epsilon that is negative or not
    finite.
    """
    _require_known(accountant)
    if not (math.isfinite(epsilon) and epsilon >= 0.0):
        raise PrivacyError(f"epsilon is {epsilon}, but it must be finite and >= 0", "give such an epsilon")
    return _DELTA[accountant](spent, epsilon=epsilon)


def refusal(spent: Sequence[Spending], *, delta: float, accountant: Accountant) -> str | None:
    """The reason why the accountant cannot treat these spendings, in a sentence; None if it can."""
    try:
        account(spent, delta=delta, accountant=accountant)
    except PrivacyError as reason:
        return str(reason)
    return None


def unbounded(spent: Sequence[Spending]) -> Event | None:
    """The first event without an epsilon at delta 0; None if all losses are bounded."""
    return next((one.event for one in spent if one.count and math.isinf(one.event.pure_epsilon())), None)


def _require_known(accountant: str) -> None:
    if accountant not in ACCOUNTANTS:
        raise PrivacyError(
            f"accountant is {accountant!r}, but it must be one of {', '.join(ACCOUNTANTS)}", "choose one"
        )
