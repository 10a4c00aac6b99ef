"""Trials of learning as batches of a store: many results in a few large arrays.

The content of a blob, arrays with one row per trial: `metrics`, each table of `TrialResult`, `ledger`, the
columns of the privacy ledger; and `account`, the text of the rest of the account, which all trials of a batch share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from fl.base.results import PrivacyAccount, TrialResult
from privacy.events.claims import Claim
from privacy.events.events import Ledger
from scenarios.store.blobs import Blob, BlobError, Part, pack
from scenarios.store.rows import Batch, Row

SeriesTable = Literal["rounds", "link", "privacy", "bursts", "devices", "pictures"]
SERIES_TABLES: tuple[SeriesTable, ...] = get_args(SeriesTable)

_ACCOUNT = TypeAdapter(tuple[dict[str, Any], tuple[Claim, ...]])
_ROUND_BY_ROUND: tuple[SeriesTable, ...] = ("rounds", "link", "privacy", "devices")
_KINDS = (np.dtype(np.int64), np.dtype(np.float64))


def pack_trials(results: Mapping[str, TrialResult], *, physics: Mapping[str, Any], seconds: float) -> list[Part]:
    """Return rows of a store for trials of one sweep point, by identity; trials share one if their shapes are equal.

    `physics` is everything that determined the numbers; `seconds` is the wall time of all trials. Raises ValueError for
    an array that is neither int64 nor float64, or a metric that is not a number.
    """
    groups: dict[tuple[Any, ...], list[tuple[str, TrialResult, dict[str, dict[str, NDArray[Any]]]]]] = {}
    for task_id, one in results.items():
        tables = {name: dict(getattr(one, name)) for name in SERIES_TABLES} | {"ledger": ledger_columns(one.account)}
        shapes = [(table, name, a.dtype, a.shape) for table, of in tables.items() for name, a in of.items()]
        account = "" if one.account is None else account_text(one.account)
        groups.setdefault((account, *one.metrics, *shapes), []).append((task_id, one, tables))
    parts = []
    for (account, *_), group in groups.items():
        ids, some, tables = zip(*group, strict=True)
        # Plus zero: without minus zero, as tables show numbers.
        metrics = {name: np.array([float(one.metrics[name]) + 0.0 for one in some]) for name in some[0].metrics}
        content: dict[str, Any] = {"physics": physics, "account": account, "metrics": metrics}
        for table, columns in tables[0].items():
            content[table] = {name: np.array([each[table][name] for each in tables]) for name in columns}
            if wrong := [name for name, array in content[table].items() if array.dtype not in _KINDS]:
                raise ValueError(f"{wrong[0]} has type {columns[wrong[0]].dtype}; int64 and float64 can be stored")
        failures = {row: one.failure for row, one in enumerate(some) if one.failure is not None}
        batch = Batch(
            ids=list(ids),
            numbers=[one.trial for one in some],
            # Names of files that are not text end up in errors.
            failures={row: reason.encode(errors="replace").decode() for row, reason in failures.items()},
            seconds=seconds / len(results),
        )
        parts += pack(Row(batch=batch).plain(), content)
    return parts


def table_of(blob: Blob, table: str, *, rows: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a table by name, one row per trial. Raises BlobError for any other blob."""
    arrays: dict[str, NDArray[Any]] = blob.read(table)
    for name, array in arrays.items():
        if array.dtype not in _KINDS or array.shape[:1] != (rows,) or (table == "metrics" and array.ndim > 1):
            raise BlobError(f"{table} {name} is not an array of numbers with one row for each of {rows} tasks")
    if table in _ROUND_BY_ROUND and len({array.shape for array in arrays.values()}) > 1:
        raise BlobError(f"the arrays of {table} differ in their numbers of rounds or devices")
    return arrays


def accounts_of(blob: Blob, rows: int) -> list[PrivacyAccount | None]:
    """Return the privacy account of each trial. Raises ValueError, LookupError or TypeError for any other blob."""
    if not (text := blob.read("account")):
        return [None] * rows
    about, published = _ACCOUNT.validate_json(text)
    columns = table_of(blob, "ledger", rows=rows)
    ledgers = [Ledger.from_dict(about, **{name: array[row] for name, array in columns.items()}) for row in range(rows)]
    return [PrivacyAccount(ledger=one, published=published) for one in ledgers]


def account_text(account: PrivacyAccount) -> str:
    """Return all of an account but the columns of its ledger, as JSON: equal for equal accounts."""
    # Not `asdict`, which copies every value, deeply: claims hold plain ones.
    return json.dumps([account.ledger.to_dict(), [vars(claim) for claim in account.published]], sort_keys=True)


def ledger_columns(account: PrivacyAccount | None) -> dict[str, NDArray[np.float64]]:
    """Return the columns of the ledger by name."""
    if account is None:
        return {}
    columns = {"parameter": account.ledger.parameter, "uncredited": account.ledger.uncredited}
    return {name: array for name, array in columns.items() if array is not None}
