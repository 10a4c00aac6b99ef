"""Trials of learning as arrays and texts of a batch: many results in a few large arrays.

The arrays of a blob, one row per trial: `metrics/NAME`; `TABLE/NAME` for each table of `fl.results.TrialResult`;
`ledger/NAME`, the columns of the privacy ledger. `account` says which of `accounts`, texts in `detail`, is whose.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from fl.results import PrivacyAccount, TrialResult
from privacy.events.claims import Claim
from privacy.events.events import Ledger
from scenarios.store.blobs import Blob, BlobError

SeriesTable = Literal["rounds", "link", "privacy", "bursts", "devices", "pictures"]
SERIES_TABLES: tuple[SeriesTable, ...] = ("rounds", "link", "privacy", "bursts", "devices", "pictures")

_MOST_ROWS = 1000
_MOST_BYTES = 1 << 26
"""Bytes of the arrays of a blob, before they are deflated, unless one trial has more."""
_ACCOUNT = TypeAdapter(tuple[dict[str, Any], tuple[Claim, ...]])
_KINDS = (np.dtype(np.int64), np.dtype(np.float64))


def grouped(results: Iterable[TrialResult]) -> Iterator[tuple[list[TrialResult], list[str], dict[str, NDArray[Any]]]]:
    """Yield trials whose arrays have the same names and shapes, the texts of their accounts and their arrays.

    Each group has a size that a reader can hold. Raises ValueError for an array that is neither int64 nor float64, or a
    metric that is not a number.
    """
    groups: dict[object, list[tuple[TrialResult, dict[str, NDArray[Any]]]]] = {}
    for one in results:
        arrays = _arrays(one)
        alike = tuple(one.metrics), tuple((name, array.dtype, array.shape) for name, array in arrays.items())
        groups.setdefault((alike, one.account is None), []).append((one, arrays))
    for group in groups.values():
        size = sum(array.nbytes for array in group[0][1].values())
        step = max(1, min(_MOST_ROWS, _MOST_BYTES // max(size, 1)))
        for start in range(0, len(group), step):
            some, tables = map(list, zip(*group[start : start + step], strict=True))
            yield some, *_stacked(some, tables)


def _stacked(
    results: list[TrialResult], tables: list[dict[str, NDArray[Any]]]
) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """Return the texts of accounts, and all arrays, one row per trial."""
    # Plus zero: without minus zero, as tables show numbers.
    arrays = {
        f"metrics/{name}": np.array([float(one.metrics[name]) + 0.0 for one in results]) for name in results[0].metrics
    }
    for name, first in tables[0].items():
        if first.dtype not in _KINDS:
            raise ValueError(f"{name} has type {first.dtype}; int64 and float64 can be stored")
        arrays[name] = np.array([table[name] for table in tables])
    accounts = {id(one.account): account_text(one.account) for one in results if one.account is not None}
    lines = list(dict.fromkeys(accounts.values()))
    if lines:
        arrays["account"] = np.array([lines.index(accounts[id(one.account)]) for one in results])
    return lines, arrays


def table_of(blob: Blob, table: str, *, rows: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a table by name, one row per trial. Raises BlobError for any other blob."""
    prefix = f"{table}/"
    arrays = {name.removeprefix(prefix): blob.array(name) for name in blob.names if name.startswith(prefix)}
    for name, array in arrays.items():
        if array.dtype not in _KINDS or array.shape[:1] != (rows,) or (table == "metrics" and array.ndim > 1):
            raise BlobError(f"{table} {name} is not an array of numbers with one row for each of {rows} tasks")
    return arrays


def accounts_of(blob: Blob, rows: int) -> list[PrivacyAccount | None]:
    """Return the privacy account of each trial. Raises ValueError, LookupError or TypeError for any other blob."""
    if "account" not in blob.names:
        return [None] * rows
    texts, ledger = list(map(_ACCOUNT.validate_json, blob.detail["accounts"])), table_of(blob, "ledger", rows=rows)
    found: list[PrivacyAccount | None] = []
    for row, which in enumerate(blob.array("account").tolist()):
        columns = {name: array[row] for name, array in ledger.items()}
        about, published = texts[which]
        found.append(PrivacyAccount(ledger=Ledger.from_dict(about, **columns), published=published))
    return found


def account_text(account: PrivacyAccount) -> str:
    """Return all of an account but the columns of its ledger, as JSON.

    Equal for equal accounts, so that trials of a sweep point share one text.
    """
    # Not `asdict`, which copies every value, deeply: claims hold plain ones.
    return json.dumps([account.ledger.to_dict(), [vars(claim) for claim in account.published]], sort_keys=True)


def ledger_columns(account: PrivacyAccount | None) -> dict[str, NDArray[np.float64]]:
    """Return the columns of the ledger by name."""
    if account is None:
        return {}
    columns = {"parameter": account.ledger.parameter, "uncredited": account.ledger.uncredited}
    return {name: array for name, array in columns.items() if array is not None}


def _arrays(result: TrialResult) -> dict[str, NDArray[Any]]:
    """Return all arrays of a trial by table and name."""
    tables = [(table, getattr(result, table)) for table in SERIES_TABLES] + [("ledger", ledger_columns(result.account))]
    return {f"{table}/{name}": array for table, arrays in tables for name, array in arrays.items()}
