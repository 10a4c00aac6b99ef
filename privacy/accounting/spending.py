"""The dominating device of a ledger, whose loss bounds that of every device, with equal events grouped.

The order of releases does not matter for composition. The releases of every device are sorted from least to most
private, and the largest over devices is taken rank by rank. An epsilon of this device then holds for all devices.
Rounds without a release come last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from privacy.errors import PrivacyError
from privacy.events.events import Event, Floats, Kind, Ledger, NoRelease, Spending, Unprotected
from privacy.events.noise_events import FlippedBit, GaussianNoise, LaplaceNoise, PureEpsilon
from privacy.events.sampling import SampledRelease
from privacy.events.stated import stated_event

MOST_DISTINCT = 200
"""Most distinct values before they are rounded, towards less privacy, to a relative grid."""

FIRST_STEP = 1e-3
"""Relative step of that grid, doubled until few enough values remain."""


def event_of(kind: Kind, parameter: float, facts: Mapping[str, Any]) -> Event:
    """The event of one release with the `parameter` of its `Kind`.

    Noise of zero strength is `Unprotected`; infinite noise, or epsilon 0, is `NoRelease`. Raises PrivacyError for a
    parameter that is NaN or out of range, an unknown kind, or a missing fact.
    """
    if kind == "none":
        return NoRelease()
    if kind == "unprotected":
        return Unprotected()
    value = _checked(kind, np.array([[parameter]]))[0, 0]
    if math.isnan(value):
        raise PrivacyError(f"parameter of a {kind} release is {value}", "give a number, or none where nothing was sent")
    if kind == "gaussian":
        if value == 0.0:
            return Unprotected()
        return NoRelease() if math.isinf(value) else GaussianNoise(noise_multiplier=float(value))
    if kind == "flipped-bits":
        if value in (0.0, 1.0):
            return Unprotected()
        return NoRelease() if value == 0.5 else FlippedBit(flip_probability=float(value))
    if kind == "superposed-bits":
        return _superposed(float(value), facts)
    if kind == "superposed-levels":
        return _rounded_to_levels(float(value), facts)
    if value == 0.0:
        return NoRelease()
    if math.isinf(value):
        return Unprotected()
    if kind == "stated":
        return stated_event(float(value), facts)
    return LaplaceNoise(epsilon=float(value)) if kind == "laplace" else PureEpsilon(epsilon=float(value))


def spendings(ledger: Ledger, *, credited: bool, sampling: bool = False) -> tuple[Spending, ...]:
    """All releases of the dominating device, least private first, with or without channel noise.

    With `sampling`, if `credits_sampling`, every round with a sender counts for every device, with the worst parameter
    of that round, as a `SampledRelease` of the whole upload. This needs a known sum over an upload. Raises PrivacyError
    for a parameter out of range.
    """
    sampling = sampling and credits_sampling(ledger)
    ranks = _dominating(ledger, credited=credited, sampling=sampling)
    if not ranks.size or not ledger.coordinates:
        return ()
    if ledger.kind == "unprotected":
        return (Spending(event=Unprotected(), count=ranks.size * ledger.coordinates),)
    spent = []
    for parameter, rounds in _grouped(ledger.kind, ranks):
        event = event_of(ledger.kind, parameter, ledger.facts)
        whole = _upload(event, ledger.coordinates) if sampling else None
        if whole is not None and ledger.sampled is not None:
            spent.append(Spending(event=SampledRelease(event=whole, rate=ledger.sampled), count=rounds))
        else:
            spent.append(Spending(event=event, count=rounds * ledger.coordinates))
    return tuple(one for one in spent if not isinstance(one.event, NoRelease))


def worst_release(ledger: Ledger, *, credited: bool) -> Event:
    """The least private single release of any device, without sampling; NoRelease if nothing was sent."""
    keys = _keys(ledger.kind, _column(ledger, credited=credited))
    if not ledger.coordinates or not np.any(keys > -np.inf):
        return NoRelease()
    return event_of(ledger.kind, float(_parameters(ledger.kind, keys.max())), ledger.facts)


def rounds_sent(ledger: Ledger, *, sampling: bool = False) -> int:
    """Most rounds in which one device sent; with `sampling`, rounds in which any device sent."""
    sent = ~np.isnan(ledger.parameter)
    if not sent.size or ledger.kind == "none":
        return 0
    anybody = sampling and credits_sampling(ledger)
    return int(sent.any(axis=1).sum() if anybody else sent.sum(axis=0).max())


def combined(ledgers: Sequence[Ledger], *, credited: bool, sampling: bool = False) -> tuple[Spending, ...]:
    """The sum of several ledgers of one trial; see `check_alike`."""
    check_alike(ledgers)
    return tuple(one for ledger in ledgers for one in spendings(ledger, credited=credited, sampling=sampling))


def check_alike(ledgers: Sequence[Ledger]) -> None:
    """Raise PrivacyError unless all ledgers have neighbours of one kind."""
    if not ledgers:
        raise PrivacyError("there is no ledger, but a claim is made from at least one", "give what the run released")
    units, relations = {one.unit for one in ledgers}, {one.relation for one in ledgers}
    if len(units) > 1 or len(relations) > 1:
        differ = f"{', '.join(sorted(units))}; {', '.join(sorted(relations))}"
        raise PrivacyError(
            f"ledgers differ in neighbours ({differ}), and their losses do not add up", "account for each by itself"
        )


def credits_sampling(ledger: Ledger) -> bool:
    """Return True if a ledger is `sampled` and neighbours are devices under replace-one.

    A fixed number of devices takes part: another device replaces the one left out, which is not add-or-remove-one. A
    device takes part with all its samples, so that the unit cannot be a sample.
    """
    known = ledger.kind not in ("none", "unprotected")
    return known and ledger.sampled is not None and ledger.unit == "device" and ledger.relation == "replace-one"


def _upload(event: Event, coordinates: int) -> Event | None:
    """All numbers of one upload as one event, exact or dominating; None if neither is known."""
    if isinstance(event, Unprotected | NoRelease):
        return None
    exact = event.repeated(coordinates)
    if exact is None and math.isfinite(event.pure_epsilon()):
        return PureEpsilon(epsilon=event.pure_epsilon()).repeated(coordinates)
    return exact


def _column(ledger: Ledger, *, credited: bool) -> Floats:
    return ledger.parameter if credited or ledger.uncredited is None else ledger.uncredited


def _checked(kind: Kind, parameter: Floats) -> Floats:
    """The parameter, NaN for no release; raises PrivacyError for a parameter out of range."""
    high = 1.0 if kind == "flipped-bits" else math.inf
    bad = (parameter < 0.0) | (parameter > high)
    if np.any(bad):
        limit = "in [0, 1]" if kind == "flipped-bits" else "0 or more"
        raise PrivacyError(f"parameter of a {kind} release is {parameter[bad][0]}, but it must be {limit}.")
    return parameter


def _keys(kind: Kind, parameter: Floats) -> Floats:
    """A key per parameter that rises with the loss; -inf for no release."""
    if kind == "none":
        return np.full(parameter.shape, -np.inf)
    if kind == "unprotected":
        return np.where(np.isnan(parameter), -np.inf, 0.0)
    checked = _checked(kind, parameter)
    if kind == "gaussian":
        keys = -checked
    elif kind == "flipped-bits":
        keys = -np.minimum(checked, 1.0 - checked)
    else:
        keys = checked
    return np.where(np.isnan(keys), -np.inf, keys)


def _parameters(kind: Kind, keys: Floats) -> Floats:
    return -keys if kind in ("gaussian", "flipped-bits") else keys


def _dominating(ledger: Ledger, *, credited: bool, sampling: bool) -> Floats:
    """Parameters of the dominating device, least private first, without rounds of no release."""
    keys = _keys(ledger.kind, _column(ledger, credited=credited))
    if not keys.size:
        return np.empty(0)
    ranks = np.sort(keys.max(axis=1)) if sampling else np.sort(keys, axis=0).max(axis=1)
    return _parameters(ledger.kind, ranks[ranks > -np.inf][::-1])


def _grouped(kind: Kind, ranks: Floats) -> list[tuple[float, int]]:
    """Distinct parameters with their counts, least private first; many are rounded towards more loss."""
    keys = _keys(kind, ranks)
    step = FIRST_STEP
    while np.unique(keys).size > MOST_DISTINCT:
        keys = _keys(kind, _rounded(kind, ranks, step))
        step *= 2.0
    values, counts = np.unique(keys, return_counts=True)
    return [(float(_parameters(kind, v)), int(n)) for v, n in zip(values[::-1], counts[::-1], strict=True)]


def _rounded(kind: Kind, ranks: Floats, step: float) -> Floats:
    """Every parameter at the next point of a relative grid on the side of more loss."""
    with np.errstate(divide="ignore"):
        if kind == "gaussian":
            return _on_grid(ranks, step, np.floor)
        if kind == "flipped-bits":
            odds = _on_grid(np.log1p(-ranks) - np.log(ranks), step, np.ceil)
            return np.asarray(np.minimum(expit(-odds), ranks))
    return _on_grid(ranks, step, np.ceil)


def _on_grid(values: Floats, step: float, way: np.ufunc) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", over="ignore"):
        near = np.exp(way(np.log(values) / step) * step)
    return np.asarray(np.minimum(near, values) if way is np.floor else np.maximum(near, values))


def _superposed(amplitude: float, facts: Mapping[str, Any]) -> Event:
    if "entry_bound" not in facts:
        raise PrivacyError("a ledger of superposed bits has no fact 'entry_bound'", "give a l, the largest log odds")
    bound = float(facts["entry_bound"])
    if amplitude == 0.0 or bound == 0.0:
        return NoRelease()
    if math.isinf(amplitude):
        # Without noise the randomness of the quantizer remains.
        return Unprotected() if math.isinf(bound) else PureEpsilon(epsilon=bound)
    from privacy.events.superposed import SuperposedBit

    return SuperposedBit(amplitude=amplitude, entry_bound=bound)


def _rounded_to_levels(amplitude: float, facts: Mapping[str, Any]) -> Event:
    if missing := [name for name in ("levels", "share") if name not in facts]:
        raise PrivacyError(f"a ledger of superposed levels has no fact {missing[0]!r}", "give L = 2^b, and l / r")
    levels, share = int(facts["levels"]), float(facts["share"])
    if amplitude == 0.0:
        return NoRelease()
    if math.isinf(amplitude):
        # Without noise two levels are randomized response; of more the ends share none.
        bounded = levels == 2 and share < 1.0
        return PureEpsilon(epsilon=math.log1p(share) - math.log1p(-share)) if bounded else Unprotected()
    from privacy.events.levels import SuperposedLevels

    return SuperposedLevels(amplitude=amplitude, levels=levels, share=share)
