"""A trial's privacy account as what a store can keep: arrays, and JSON for the rest."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.results import PrivacyAccount
from privacy.events.claims import Claim
from privacy.events.events import Ledger


def account_arrays(account: PrivacyAccount | None) -> dict[str, NDArray[np.float64]]:
    """The columns of the ledger, by name."""
    if account is None:
        return {}
    ledger = account.ledger
    arrays = {"parameter": ledger.parameter}
    return arrays if ledger.uncredited is None else {**arrays, "uncredited": ledger.uncredited}


def account_text(account: PrivacyAccount) -> str:
    """Everything but the columns; an infinite epsilon is written as a word, which JSON has no number for."""
    # Not `asdict`, which copies every value, deeply: claims hold plain ones.
    claims = [{**vars(claim), "epsilon": _number(claim.epsilon)} for claim in account.published]
    # Pickled, because 1, 1.0 and True are equal and have other texts.
    return _text(pickle.dumps({"ledger": account.ledger.to_dict(), "published": claims}))


@lru_cache(maxsize=16)
def _text(pickled: bytes) -> str:
    """Trials of a point mostly share their text."""
    return json.dumps(pickle.loads(pickled), sort_keys=True, allow_nan=False)


def account_from(text: str, arrays: Mapping[str, NDArray[Any]]) -> PrivacyAccount:
    """What the two above were made of."""
    ledger, published = _parsed(text)
    return PrivacyAccount(
        ledger=Ledger.from_dict(ledger, parameter=arrays["parameter"], uncredited=arrays.get("uncredited")),
        published=published,
    )


@lru_cache(maxsize=16)
def _parsed(text: str) -> tuple[dict[str, Any], tuple[Claim, ...]]:
    """Trials of a point mostly share their text."""
    plain = json.loads(text)
    published = (
        Claim(**{**one, "epsilon": float(one["epsilon"]), "assumptions": tuple(one["assumptions"])})
        for one in plain["published"]
    )
    return plain["ledger"], tuple(published)


def _number(value: float) -> float | str:
    return value if np.isfinite(value) else "inf"
