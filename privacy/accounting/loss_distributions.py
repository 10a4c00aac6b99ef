"""The accountant `pld`: privacy-loss distributions of all events, composed by `dp-accounting`, pessimistic throughout.

Events with closed sums are summed first. Each other event becomes a distribution on a grid by connecting the dots of
its profile (Doroshenko et al. 2022), an upper bound that improves with a finer grid: the step is halved until the
result no longer changes. n equal events need about 2 log2(n) convolutions over all kinds of event together: the
composed distribution is squared and convolved with each event whose count has that binary digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from privacy.accounting.composition import condensed, exposed, renyi_epsilon
from privacy.accounting.inversion import epsilon_of_event
from privacy.errors import PrivacyError
from privacy.events.events import Event, Floats, Spending

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

ROUNDING, ROUNDING_EACH = 1e-13, 1e-18
"""Rounding errors of Fourier transforms in delta, in all and per event (about 1e-19 was measured), added to delta."""

TAIL_SHARE = 1e-4
"""Share of delta that all tails cut off may cost."""

FEW_POINTS, MANY_POINTS = 1 << 13, 1 << 21

LONG = 1 << 13

FINE = 0.2
"""Step over the standard deviation of one event. A step s adds up to s^2 / 12 to the mean of a loss, v / 2 for small
ones: less than 1 %. Fewer events of larger losses have grids that are refined until it no longer matters."""

ENOUGH = 3e-3
"""Relative change of the answer, when the step is halved, below which it is fine enough: a third of that is left."""

_REACH = 9.0
_NEXT_TO_NOTHING = 1e-12
_BEYOND = 1e300


def pld_epsilon(spent: Sequence[Spending], *, delta: float) -> float:
    """The smallest epsilon >= 0 that the composed distribution keeps with `delta`, within 1 % above the true one.

    Raises PrivacyError for a delta that rounding comes near to, where anything must be composed numerically.
    """
    if exposed(spent):
        return math.inf
    left = condensed(spent)
    if not left:
        return 0.0
    if len(left) == 1 and left[0].count == 1:
        return epsilon_of_event(left[0].event, delta=delta)
    rounding = _rounding(left)
    if delta < 10.0 * rounding:
        raise PrivacyError(
            f"delta is {delta:g}, but the accountant 'pld' computes "
            f"{sum(one.count for one in left)} events to {rounding:.1g}",
            "give at least ten times that, or use renyi",
        )
    # A coarse grid may exceed the sum of all losses, or the Renyi bound of the same distribution.
    largest = min(math.fsum(one.count * one.event.pure_epsilon() for one in left), renyi_epsilon(left, delta=delta))

    def smallest(pmf: PLDPmf) -> float:
        return min(_smallest_epsilon(pmf, delta=delta - rounding), largest)

    return _refined(left, tail=delta * TAIL_SHARE, answer=smallest)


def pld_delta(spent: Sequence[Spending], *, epsilon: float) -> float:
    """delta of the composed distribution at `epsilon` >= 0, at most 1 and never below what rounding may hide."""
    if exposed(spent):
        return 1.0
    left = condensed(spent)
    if not left:
        return 0.0
    if len(left) == 1 and left[0].count == 1:
        return float(left[0].event.delta(np.array([epsilon]))[0])

    rounding = _rounding(left)

    def largest(pmf: PLDPmf) -> float:
        return min(_delta(pmf, epsilon) + rounding, 1.0)

    found = _refined(left, tail=1e-4 * TAIL_SHARE, answer=largest)
    # The tails were cut for a delta of 1e-4: a far smaller delta consists of tails only.
    return _refined(left, tail=max(found, rounding) * TAIL_SHARE, answer=largest) if found < 1e-4 else found


def _refined(left: Sequence[Spending], *, tail: float, answer: Callable[[PLDPmf], float]) -> float:
    """`answer` of the composed distribution on finer and finer grids, until it no longer falls."""
    total = sum(one.count for one in left)
    moments = [_moments(one.event, tail=tail / total) for one in left]
    variance = math.fsum(one.count * v for one, (v, _) in zip(left, moments, strict=True))
    width = 2.0 * _REACH * math.sqrt(variance) + max(reach for _, reach in moments)
    step = min(FINE * math.sqrt(variance / total), width / FEW_POINTS)
    # If all losses together are below the tails, any grid is fine enough.
    step = max(step, width / MANY_POINTS) or _NEXT_TO_NOTHING
    best = answer(_composed(left, step=step, tail=tail))
    while width / step < MANY_POINTS / 4:
        step /= 2.0
        finer = answer(_composed(left, step=step, tail=tail))
        settled = not finer < (1.0 - ENOUGH) * best
        best = min(best, finer)
        if settled:
            break
    return best


def _rounding(left: Sequence[Spending]) -> float:
    return ROUNDING + ROUNDING_EACH * sum(one.count for one in left)


def _composed(left: Sequence[Spending], *, step: float, tail: float) -> PLDPmf:
    total = sum(one.count for one in left)
    each = [_distribution(one.event, step=step, tail=tail / total / 4.0) for one in left]
    digits = max(one.count for one in left).bit_length()
    composed: PLDPmf | None = None
    for digit in reversed(range(digits)):
        # A cut here counts 2^digit times; a smaller share than that of rounding allows no cut.
        cut = max(tail, _rounding(left)) / (4.0 * digits * 2.0**digit)
        met = [pmf for pmf, one in zip(each, left, strict=True) if one.count >> digit & 1]
        if composed is not None:
            met.append(_met(composed, composed, cut=cut))
        composed = _all_of(met, cut=cut / max(len(met), 1))
    if composed is None:
        raise PrivacyError("there is no release to compose", "give at least one")
    return composed


def _all_of(pmfs: list[PLDPmf], *, cut: float) -> PLDPmf | None:
    """Convolve all, in pairs of similar size."""
    while len(pmfs) > 1:
        pmfs.sort(key=lambda pmf: pmf.size, reverse=True)
        pairs = [_met(pmfs[i], pmfs[i + 1], cut=cut) for i in range(0, len(pmfs) - 1, 2)]
        pmfs = pairs + pmfs[len(pmfs) - len(pmfs) % 2 :]
    return pmfs[0] if pmfs else None


def _met(one: PLDPmf, other: PLDPmf, *, cut: float) -> PLDPmf:
    # Cut tails of long distributions only: in short ones they are below rounding, whose sum may be negative.
    return one.compose(other, cut if one.size + other.size > LONG else 0.0)


def _distribution(event: Event, *, step: float, tail: float) -> PLDPmf:
    from dp_accounting.pld import pld_pmf

    low, high = _range(event, tail=tail)
    first, last = math.floor(low / step), math.ceil(high / step)
    grid = np.arange(first, max(last, first + 1) + 1)
    profile = np.minimum.accumulate(_profile(event, np.asarray(grid * step, np.float64)))
    with np.errstate(over="ignore"):
        return pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, profile).to_dense_pmf()


def _profile(event: Event, epsilon: Floats) -> Floats:
    """delta at any epsilon: delta(-x) = 1 - e^-x (1 - delta(x)), since an event is the worse of two directions."""
    size = np.abs(epsilon)
    above = np.clip(event.delta(size), 0.0, 1.0)
    return np.where(epsilon >= 0.0, above, -np.expm1(-size) + np.exp(-size) * above)


def _range(event: Event, *, tail: float) -> tuple[float, float]:
    """Losses beyond which the mass is less than `tail`; lower losses are raised, higher losses become infinite."""
    high = epsilon_of_event(event, delta=tail)
    low = -min(high, math.log(1.0 / tail))
    if math.isfinite(high) and 1.0 - float(event.delta(np.array([0.0]))[0]) < tail:
        ladder = np.linspace(0.0, high, 1025)
        for _ in range(2):
            inside = max(int(np.argmax(1.0 - event.delta(ladder) > tail)) - 1, 0)
            ladder = np.linspace(ladder[inside], ladder[inside + 1], 1025)
        low = float(ladder[0])
    return low, high


def _moments(event: Event, *, tail: float) -> tuple[float, float]:
    """Approximate variance of the loss and length of its range; both 0 for a negligible loss."""
    low, high = _range(event, tail=tail)
    if not high > low:
        return 0.0, 0.0
    grid = np.linspace(low, high, 1025)
    profile = _profile(event, grid)
    # Pr(L > x) = delta(x) - delta'(x).
    above = np.clip(profile - np.gradient(profile, grid), 0.0, 1.0)
    falling = np.minimum.accumulate(np.concatenate([[1.0], above, [0.0]]))
    weight = -np.diff(falling)
    between = np.append(grid, high)
    mean = float(np.sum(weight * between))
    return float(np.sum(weight * (between - mean) ** 2)), high - low


def _delta(pmf: PLDPmf, epsilon: float) -> float:
    """delta of the distribution; a negative mass of infinite loss, from rounding, counts as 0."""
    return float(pmf.get_delta_for_epsilon(epsilon)) - min(float(pmf.get_delta_for_epsilon(_BEYOND)), 0.0)


def _smallest_epsilon(pmf: PLDPmf, *, delta: float) -> float:
    """By bisection, because dp-accounting's own inversion sets e^-loss to 0 from 745 on."""
    if _delta(pmf, 0.0) <= delta:
        return 0.0
    if _delta(pmf, _BEYOND) > delta:
        return math.inf
    kept = delta + min(float(pmf.get_delta_for_epsilon(_BEYOND)), 0.0)
    low, high = 0.0, 1e-6
    while float(pmf.get_delta_for_epsilon(high)) > kept:
        low, high = high, 8.0 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2.0
        if float(pmf.get_delta_for_epsilon(middle)) <= kept:
            high = middle
        else:
            low = middle
    return high
