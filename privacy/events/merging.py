"""Merge the ledgers of several trials: each trial adds its devices, and a claim holds for the worst device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from privacy.errors import PrivacyError
from privacy.events.events import Ledger


def side_by_side(ledgers: Sequence[Ledger]) -> Ledger:
    """One ledger with the devices of all, `[most rounds, sum of devices]`; shorter ledgers end with no release.

    A ledger without channel noise has `uncredited` equal to `parameter`. Raises PrivacyError for no ledger, and for
    ledgers that differ in more than their columns: epsilons of different neighbours cannot be compared or added.
    """
    if not ledgers:
        raise PrivacyError("there is no ledger to account for", "run the scenario first")
    first = ledgers[0]
    for other in ledgers[1:]:
        for name in ("kind", "unit", "relation", "coordinates", "per_number", "facts", "sampled"):
            if getattr(other, name) != getattr(first, name):
                raise PrivacyError(
                    f"ledgers differ in {name} ({getattr(first, name)} and {getattr(other, name)})",
                    "account for them one by one",
                )
    rounds = max(len(one.parameter) for one in ledgers)
    credited = any(one.uncredited is not None for one in ledgers)
    own = [one.parameter if one.uncredited is None else one.uncredited for one in ledgers]
    return replace(
        first,
        parameter=_columns([one.parameter for one in ledgers], rounds=rounds),
        uncredited=_columns(own, rounds=rounds) if credited else None,
        credit_failure=max(one.credit_failure for one in ledgers),
        assumptions=tuple(dict.fromkeys(sentence for one in ledgers for sentence in one.assumptions)),
        credit_assumptions=tuple(dict.fromkeys(sentence for one in ledgers for sentence in one.credit_assumptions)),
    )


def _columns(parts: Sequence[NDArray[np.float64]], *, rounds: int) -> NDArray[np.float64]:
    out = np.full((rounds, sum(part.shape[1] for part in parts)), np.nan)
    start = 0
    for part in parts:
        out[: len(part), start : start + part.shape[1]] = part
        start += part.shape[1]
    return out
