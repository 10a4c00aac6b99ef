"""Accountants `basic` and `advanced` (from pure epsilons), `exact`, and `renyi`.

Each takes spendings and returns epsilon for a delta, or delta for an epsilon; epsilon `math.inf` and delta 1 mean no
guarantee. PrivacyError names an event that the accountant cannot treat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from privacy.accounting.inversion import epsilon_of_event
from privacy.errors import PrivacyError
from privacy.events.events import Event, Floats, NoRelease, Spending, Unprotected
from privacy.events.noise_events import GaussianNoise

ORDERS: Floats = 1.0 + np.geomspace(0.0101, 1e7, 28)
"""Renyi orders tried first: dp-accounting converts none up to 1.01, and tiny losses need large orders."""

BETWEEN = 6
"""Orders tried next on either side of the best order."""


def basic_epsilon(spent: Sequence[Spending]) -> float:
    """The sum of the pure epsilons, with delta 0; Dwork and Roth 2014, Theorem 3.16."""
    if exposed(spent):
        return math.inf
    return math.fsum(count * loss for loss, count in _pure(spent, "basic"))


def basic_delta(spent: Sequence[Spending], *, epsilon: float) -> float:
    """0 from the sum of the pure epsilons on, otherwise 1 (no guarantee)."""
    return 0.0 if epsilon >= basic_epsilon(spent) else 1.0


def advanced_epsilon(spent: Sequence[Spending], *, delta: float) -> float:
    """Heterogeneous advanced composition; Kairouz, Oh and Viswanath 2015, Theorem 3.5.

    With M = sum eps tanh(eps / 2) and V = sum eps^2: the smallest of sum eps, M + sqrt(2 V ln(1 / delta)) and
    M + sqrt(2 V ln(e + sqrt(V) / delta)). The first is basic composition, the smallest for few releases.
    """
    if exposed(spent):
        return math.inf
    mean, squares = _moments(spent)
    inside = min(math.log(1.0 / delta), math.log(math.e + math.sqrt(squares) / delta))
    return min(basic_epsilon(spent), mean + math.sqrt(2.0 * squares * inside))


def advanced_delta(spent: Sequence[Spending], *, epsilon: float) -> float:
    """The smallest delta for which `advanced_epsilon` is at most `epsilon`, else 1."""
    if exposed(spent):
        return 1.0
    mean, squares = _moments(spent)
    if epsilon >= basic_epsilon(spent):
        return 0.0
    if epsilon <= mean:
        return 1.0 if squares > 0.0 else 0.0
    exponent = (epsilon - mean) ** 2 / (2.0 * squares) if squares > 0.0 else math.inf
    first = math.exp(-exponent)
    second = math.sqrt(squares) * first / -math.expm1(1.0 - exponent) if exponent > 1.0 else 1.0
    return min(first, second, 1.0)


def renyi_epsilon(spent: Sequence[Spending], *, delta: float) -> float:
    """Renyi divergences added at every order, Mironov 2017, Proposition 1, then converted at the best order.

    The conversion is Canonne, Kamath and Steinke 2020, Proposition 12, as in `dp-accounting`, which takes a second to
    import.
    """

    def converted(orders: Floats, loss: Floats) -> tuple[float, float]:
        found = [
            # Bretagnolle and Huber: delta <= sqrt(1 - exp(-D)) at epsilon 0.
            0.0 if delta**2 + math.expm1(-d) > 0.0 else d + math.log1p(-1.0 / o) - math.log(delta * o) / (o - 1.0)
            for o, d in zip(orders, loss, strict=True)
        ]
        best = int(np.argmin(found))
        return max(0.0, found[best]), orders[best]

    return _best_order(spent, worst=math.inf, convert=converted)


def renyi_delta(spent: Sequence[Spending], *, epsilon: float) -> float:
    """delta by the sum and conversion of `renyi_epsilon`, in `dp-accounting`."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

    return _best_order(spent, worst=1.0, convert=lambda orders, loss: compute_delta(orders, loss, epsilon))


def renyi_limits(orders: Floats, *, epsilon: float, delta: float) -> Floats:
    """The divergence of each order that gives epsilon at delta: Canonne, Kamath and Steinke 2020, Proposition 12.

    epsilon = D + ln(1 - 1/o) - (ln delta + ln o) / (o - 1). Below 0 where an order gives nothing.
    """
    if delta == 0.0:
        return np.full(orders.shape, -1.0)
    return np.asarray(epsilon - np.log1p(-1.0 / orders) + (np.log(delta) + np.log(orders)) / (orders - 1.0))


def exact_epsilon(spent: Sequence[Spending], *, delta: float) -> float:
    """By the closed form of the sum; see `merged`."""
    return math.inf if exposed(spent) else epsilon_of_event(merged(spent), delta=delta)


def exact_delta(spent: Sequence[Spending], *, epsilon: float) -> float:
    """By the closed form of the sum; see `merged`."""
    return 1.0 if exposed(spent) else float(merged(spent).delta(np.array([epsilon]))[0])


def merged(spent: Sequence[Spending]) -> Event:
    """All spendings as one event; PrivacyError names the first event that has no closed sum with the rest."""
    left = condensed(spent)
    if not left:
        return NoRelease()
    if len(left) > 1 or left[0].count > 1:
        odd = next((one for one in left if one.count > 1), left[-1])
        raise PrivacyError(
            f"the accountant 'exact' has no closed form for {odd.count} of {odd.event!r} among {len(left)} kinds of "
            "release",
            {"accountant": "pld"},
            keys="budget.accountant",
        )
    return left[0].event


def condensed(spent: Sequence[Spending]) -> tuple[Spending, ...]:
    """The same releases in fewer events by closed forms: equal events joined, all Gaussian noise in one event."""
    counts: dict[Event, int] = {}
    for one in spent:
        if one.count and not isinstance(one.event, NoRelease):
            counts[one.event] = counts.get(one.event, 0) + one.count
    gaussian = [(event, n) for event, n in counts.items() if isinstance(event, GaussianNoise)]
    left = []
    if gaussian:
        # mu^2 adds up, mu = 1 / noise multiplier; Dong, Roth and Su 2022, Corollary 3.3.
        strength = math.hypot(*(math.sqrt(n) / event.noise_multiplier for event, n in gaussian))
        only = gaussian[0][0].repeated(gaussian[0][1]) if len(gaussian) == 1 else None
        left.append(Spending(event=only or GaussianNoise(noise_multiplier=1.0 / strength), count=1))
    for event, n in counts.items():
        if not isinstance(event, GaussianNoise):
            whole = event.repeated(n)
            left.append(Spending(event=event, count=n) if whole is None else Spending(event=whole, count=1))
    return tuple(left)


def exposed(spent: Sequence[Spending]) -> bool:
    """Return True if any release has no epsilon."""
    return any(one.count and isinstance(one.event, Unprotected) for one in spent)


def _pure(spent: Sequence[Spending], accountant: str) -> list[tuple[float, int]]:
    losses = [(one.event.pure_epsilon(), one.count) for one in spent if one.count]
    for one in spent:
        if one.count and math.isinf(one.event.pure_epsilon()):
            raise PrivacyError(
                f"the accountant {accountant!r} adds up pure epsilons, but {type(one.event).__name__} has none",
                {"accountant": "renyi"},
                keys="budget.accountant",
            )
    return losses


def _moments(spent: Sequence[Spending]) -> tuple[float, float]:
    losses = _pure(spent, "advanced")
    mean = math.fsum(count * loss * math.tanh(loss / 2.0) for loss, count in losses)
    return mean, math.fsum(count * loss * loss for loss, count in losses)


def _best_order(
    spent: Sequence[Spending], *, worst: float, convert: Callable[[Floats, Floats], tuple[float, float]]
) -> float:
    """The least result of any order; every order is valid, so that a few are enough where they are slow."""
    found, orders = worst, ORDERS
    for _ in range(2):
        loss = np.zeros_like(orders)
        for one in spent:
            if one.count:
                loss = loss + one.count * one.event.renyi(orders)
        finite = np.isfinite(loss)
        if not finite.any():
            break
        value, best = convert(orders[finite], loss[finite])
        found = min(found, float(value))
        place = int(np.argmin(np.abs(ORDERS - best)))
        ends = ORDERS[max(place - 1, 0)], ORDERS[min(place + 1, ORDERS.size - 1)]
        orders = 1.0 + np.geomspace(ends[0] - 1.0, ends[1] - 1.0, 2 * BETWEEN + 1)[1:-1]
    return found
