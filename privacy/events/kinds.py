"""The event of one release, by the kind of a ledger and its parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from privacy.errors import PrivacyError
from privacy.events.events import Event, Floats, Kind, NoRelease, Unprotected
from privacy.events.noise_events import FlippedBit, GaussianNoise, LaplaceNoise, PureEpsilon
from privacy.events.stated import stated_event


def event_of(kind: Kind, parameter: float, facts: Mapping[str, Any]) -> Event:
    """The event of one release with the `parameter` of its `Kind`.

    Noise of zero strength is `Unprotected`; infinite noise, or epsilon 0, is `NoRelease`. Raises PrivacyError for a
    parameter that is NaN or out of range, an unknown kind, or a missing fact.
    """
    if kind == "none":
        return NoRelease()
    if kind == "unprotected":
        return Unprotected()
    value = checked_parameter(kind, np.array([[parameter]]))[0, 0]
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


def checked_parameter(kind: Kind, parameter: Floats) -> Floats:
    """The parameter, NaN for no release; raises PrivacyError for a parameter out of range."""
    high = 1.0 if kind == "flipped-bits" else math.inf
    bad = (parameter < 0.0) | (parameter > high)
    if np.any(bad):
        limit = "in [0, 1]" if kind == "flipped-bits" else "0 or more"
        raise PrivacyError(f"parameter of a {kind} release is {parameter[bad][0]}, but it must be {limit}.")
    return parameter


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
