"""Trials of learning as blobs, for the store and for what workers send: many results in a few large arrays.

The arrays of a blob, one row per trial unless said otherwise: `trial`; `metrics/NAME`; `TABLE/NAME` for each table of
`fl.results.TrialResult`; `ledger/NAME`, the columns of the privacy ledger. `accounts` holds the texts of all different
accounts, one per line, and `account` says which is whose. Why trials failed is in `about`, by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fl.results import PrivacyAccount, TrialResult
from scenarios.store.accounts import account_arrays, account_from, account_text
from scenarios.store.blobs import Blob, BlobError, pack, rows_of

SeriesTable = Literal["rounds", "link", "privacy", "bursts", "devices", "pictures"]
SERIES_TABLES: tuple[SeriesTable, ...] = ("rounds", "link", "privacy", "bursts", "devices", "pictures")
METRICS, LEDGER, ACCOUNT, ACCOUNTS, TRIAL, FAILURES = "metrics", "ledger", "account", "accounts", "trial", "failures"

_MOST_ROWS = 1000
_MOST_BYTES = 1 << 26
"""Bytes of the arrays of a blob, before they are deflated, unless one trial has more."""
_KINDS = (np.dtype(np.int64), np.dtype(np.float64))

Tables = dict[str, Mapping[str, NDArray[Any]]]


def alike(results: Iterable[TrialResult]) -> list[list[TrialResult]]:
    """Group trials whose arrays have the same names and shapes, so that each group makes one blob."""
    groups: dict[object, list[TrialResult]] = {}
    for one in results:
        shape = tuple(
            [
                (table, name, array.dtype, array.shape)
                for table, some in _tables(one).items()
                for name, array in some.items()
            ]
        )
        groups.setdefault((tuple(one.metrics), one.account is None, shape), []).append(one)
    return [some for group in groups.values() for some in _cut(group)]


def pack_trials(results: Sequence[TrialResult], *, about: Mapping[str, Any] | None = None) -> bytes:
    """Return the blob of trials that are alike; `about` is kept with it.

    Raises ValueError for an array that is neither int64 nor float64, or a metric that is no number.
    """
    tables = [_tables(one) for one in results]
    arrays: dict[str, NDArray[Any] | Sequence[NDArray[Any]]] = {TRIAL: np.array([one.trial for one in results])}
    for name in results[0].metrics:
        # Without minus zero, as tables show numbers.
        arrays[f"{METRICS}/{name}"] = np.array([float(one.metrics[name]) + 0.0 for one in results])
    for table, first in tables[0].items():
        for name, array in first.items():
            if array.dtype not in _KINDS:
                raise ValueError(f"{name} has type {array.dtype}; int64 and float64 can be stored")
            arrays[f"{table}/{name}"] = [one[table][name] for one in tables]
    if accounts := {id(one.account): one.account for one in results if one.account is not None}:
        texts = {number: account_text(account) for number, account in accounts.items()}
        lines = list(dict.fromkeys(texts.values()))
        order = {line: number for number, line in enumerate(lines)}
        arrays[ACCOUNT] = np.array([order[texts[id(one.account)]] for one in results])
        arrays[ACCOUNTS] = np.frombuffer("\n".join(lines).encode(), np.uint8)
    failures = {str(row): one.failure for row, one in enumerate(results) if one.failure is not None}
    return pack(arrays, about={**(about or {}), FAILURES: failures})


def unpack_trials(blob: Blob) -> list[TrialResult]:
    """Return the trials of a blob, without what is not stored (`on_air`). Raises BlobError for any other blob."""
    trials = blob.array(TRIAL).tolist()
    tables: dict[str, Any] = {table: table_of(blob, table, rows=len(trials)) for table in SERIES_TABLES}
    accounts = accounts_of(blob, rows=len(trials))
    failures = blob.about.get(FAILURES, {})
    metrics = {name: values.tolist() for name, values in table_of(blob, METRICS, rows=len(trials)).items()}
    results = []
    for row, trial in enumerate(trials):
        of_trial: dict[str, Any] = {
            table: {name: array[row] for name, array in arrays.items()} for table, arrays in tables.items()
        }
        numbers = {name: values[row] for name, values in metrics.items()}
        why = failures.get(str(row))
        results.append(TrialResult(trial=trial, metrics=numbers, account=accounts[row], failure=why, **of_trial))
    return results


def table_of(blob: Blob, table: str, *, rows: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a table by name, one row per trial. Raises BlobError for any other blob."""
    arrays = rows_of(blob, f"{table}/", rows=rows)
    for name, array in arrays.items():
        if array.dtype not in _KINDS:
            raise BlobError(f"{table} {name} has type {array.dtype}")
    return arrays


def accounts_of(blob: Blob, *, rows: int) -> list[PrivacyAccount | None]:
    """Return the privacy account of each trial. Raises ValueError, LookupError or TypeError for any other blob."""
    if ACCOUNT not in blob.names:
        return [None] * rows
    lines = blob.array(ACCOUNTS).tobytes().decode().split("\n")
    ledger = table_of(blob, LEDGER, rows=rows)
    which = blob.array(ACCOUNT).tolist()
    return [
        account_from(lines[which[row]], {name: array[row] for name, array in ledger.items()}) for row in range(rows)
    ]


def _tables(result: TrialResult) -> Tables:
    return {
        **{table: getattr(result, table) for table in SERIES_TABLES},
        LEDGER: account_arrays(result.account),
    }


def _cut(group: list[TrialResult]) -> list[list[TrialResult]]:
    """Cut a group into pieces of a size that a reader can hold."""
    each = sum(array.nbytes for arrays in _tables(group[0]).values() for array in arrays.values())
    size = max(1, min(_MOST_ROWS, _MOST_BYTES // max(each, 1)))
    return [group[start : start + size] for start in range(0, len(group), size)]
