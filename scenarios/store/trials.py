"""Trials of learning as arrays and texts of a batch: many results in a few large arrays.

The arrays of a blob, one row per trial: `metrics/NAME`; `TABLE/NAME` for each table of `fl.results.TrialResult`;
`ledger/NAME`, the columns of the privacy ledger. `account` says which of `accounts`, texts in `about`, is whose.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fl.results import PrivacyAccount, TrialResult
from privacy.events.claims import Claim
from privacy.events.events import Ledger
from scenarios.store.blobs import Arrays, Blob, BlobError

SeriesTable = Literal["rounds", "link", "privacy", "bursts", "devices", "pictures"]
SERIES_TABLES: tuple[SeriesTable, ...] = ("rounds", "link", "privacy", "bursts", "devices", "pictures")

_MOST_ROWS = 1000
_MOST_BYTES = 1 << 26
"""Bytes of the arrays of a blob, before they are deflated, unless one trial has more."""
_KINDS = (np.dtype(np.int64), np.dtype(np.float64))


def alike(results: Iterable[TrialResult]) -> list[list[TrialResult]]:
    """Group trials whose arrays have the same names and shapes, each group of a size that a reader can hold."""
    groups: dict[object, list[TrialResult]] = {}
    for one in results:
        tables = [(table, name, a.dtype, a.shape) for table, some in _tables(one).items() for name, a in some.items()]
        groups.setdefault((tuple(one.metrics), one.account is None, tuple(tables)), []).append(one)
    pieces = []
    for group in groups.values():
        each = sum(array.nbytes for arrays in _tables(group[0]).values() for array in arrays.values())
        size = max(1, min(_MOST_ROWS, _MOST_BYTES // max(each, 1)))
        pieces += [group[start : start + size] for start in range(0, len(group), size)]
    return pieces


def arrays_of(results: Sequence[TrialResult]) -> tuple[list[str], Arrays]:
    """Return the texts of accounts and the arrays of trials that are alike, for `scenarios.store.blobs.pack`.

    Raises ValueError for an array that is neither int64 nor float64, or a metric that is not a number.
    """
    tables = [_tables(one) for one in results]
    # Plus zero: without minus zero, as tables show numbers.
    arrays: dict[str, NDArray[Any] | Sequence[NDArray[Any]]] = {
        f"metrics/{name}": np.array([float(one.metrics[name]) + 0.0 for one in results]) for name in results[0].metrics
    }
    for table, first in tables[0].items():
        for name, array in first.items():
            if array.dtype not in _KINDS:
                raise ValueError(f"{name} has type {array.dtype}; int64 and float64 can be stored")
            arrays[f"{table}/{name}"] = [one[table][name] for one in tables]
    accounts = {id(one.account): one.account for one in results if one.account is not None}
    texts = {number: account_text(account) for number, account in accounts.items()}
    lines = list(dict.fromkeys(texts.values()))
    if lines:
        arrays["account"] = np.array([lines.index(texts[id(one.account)]) for one in results])
    return lines, arrays


def table_of(blob: Blob, table: str, *, rows: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a table by name, one row per trial. Raises BlobError for any other blob."""
    prefix = f"{table}/"
    arrays = {name.removeprefix(prefix): blob.array(name) for name in blob.names if name.startswith(prefix)}
    for name, array in arrays.items():
        if array.dtype not in _KINDS or array.shape[:1] != (rows,):
            raise BlobError(f"{table} {name} is not an array of numbers with one row for each of {rows} tasks")
    return arrays


def accounts_of(blob: Blob, rows: int) -> list[PrivacyAccount | None]:
    """Return the privacy account of each trial. Raises ValueError, LookupError or TypeError for any other blob."""
    if "account" not in blob.names:
        return [None] * rows
    lines, ledger = blob.about["accounts"], table_of(blob, "ledger", rows=rows)
    found: list[PrivacyAccount | None] = []
    for row, which in enumerate(blob.array("account").tolist()):
        about, published = _parsed(lines[which])
        columns = {name: array[row] for name, array in ledger.items()}
        found.append(PrivacyAccount(ledger=Ledger.from_dict(about, **columns), published=published))
    return found


def account_text(account: PrivacyAccount) -> str:
    """Return all of an account but the columns of its ledger, as JSON; infinity is a word, as JSON has no such number.

    Equal for equal accounts, so that trials of a sweep point share one text.
    """
    # Not `asdict`, which copies every value, deeply: claims hold plain ones.
    claims = [
        {**vars(claim), "epsilon": claim.epsilon if math.isfinite(claim.epsilon) else "inf"}
        for claim in account.published
    ]
    return json.dumps({"ledger": account.ledger.to_dict(), "published": claims}, sort_keys=True, allow_nan=False)


@lru_cache(maxsize=16)
def _parsed(text: str) -> tuple[dict[str, Any], tuple[Claim, ...]]:
    plain = json.loads(text)
    published = (
        Claim(**{**one, "epsilon": float(one["epsilon"]), "assumptions": tuple(one["assumptions"])})
        for one in plain["published"]
    )
    return plain["ledger"], tuple(published)


def ledger_columns(account: PrivacyAccount | None) -> dict[str, NDArray[np.float64]]:
    """Return the columns of the ledger by name."""
    if account is None:
        return {}
    columns = {"parameter": account.ledger.parameter, "uncredited": account.ledger.uncredited}
    return {name: array for name, array in columns.items() if array is not None}


def _tables(result: TrialResult) -> dict[str, Mapping[str, NDArray[Any]]]:
    return {**{table: getattr(result, table) for table in SERIES_TABLES}, "ledger": ledger_columns(result.account)}
