"""What a round asks of all updates at once, in one pass over each: lengths, and weighted sums in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl.base.arrays import F32, F64, I64, Bools
from fl.base.errors import DivergedError
from phy.numerics.compiled import inlined, kernel, read_only
from phy.numerics.workers import run_tasks

_COLUMNS = 512
_DIVERGED = 1e18
"""Beyond this squares overflow single precision, in which devices train."""


@inlined
def _square(values: Any) -> Any:
    total = 0.0
    for i in range(len(values)):
        total += np.float64(values[i]) * np.float64(values[i])
    return total


@inlined
def _beyond(values: Any, limit: Any) -> Any:
    """Count numbers of at least the limit in size, NaN included."""
    count = np.int64(0)
    for i in range(len(values)):
        count += not abs(values[i]) < limit
    return count


@inlined
def _add(weight: Any, values: Any, out: Any) -> None:
    for i in range(len(out)):
        out[i] += weight * np.float64(values[i])


@kernel
def _look(values: Any, limit: Any, beyond: Any, squares: Any, first: Any, last: Any) -> None:
    for row in range(first, last):
        beyond[row], squares[row] = _beyond(values[row], limit), _square(values[row])


@kernel
def _sum_up(weights: Any, values: Any, out: Any, first: Any, last: Any) -> None:
    for tile in range(first, last):
        columns = slice(tile * _COLUMNS, min((tile + 1) * _COLUMNS, len(out)))
        for row in range(len(weights)):
            _add(weights[row], values[row, columns], out[columns])


def look_at_rows(values: F32, *, limit: float) -> tuple[Bools, F64]:
    """Return a mask `[K]` of the rows of `[K, M]` with a magnitude of `limit` or more, or NaN, and ||.||^2 of each."""
    rows, seen = read_only(values), len(values)
    beyond, squares = np.zeros(seen, np.int64), np.zeros(seen)
    run_tasks(
        lambda first, last: _look(rows, np.float32(limit), beyond, squares, first, last),
        num_tasks=seen,
        cost_us=3e-4 * rows.size,
    )
    return beyond > 0, squares


def add_weighted_rows(values: F32, weights: F64, *, out: F64) -> None:
    """`out` `[M]` += sum_k q_k x_k of `values` `[K, M]`, row after row: blocks of rows change no bit."""
    rows, amounts = read_only(values), read_only(weights)
    run_tasks(
        lambda first, last: _sum_up(amounts, rows, out, first, last),
        num_tasks=-(-len(out) // _COLUMNS),
        cost_us=3e-4 * rows.size,
    )


def check_finite(weights: F32, *, devices: I64 | None) -> F64:
    """||w||^2 of the rows of `weights` `[K, M]`; DivergedError for NaN, infinity or numbers beyond `_DIVERGED`."""
    bad, squares = look_at_rows(weights, limit=_DIVERGED)
    if bad.any():
        whose = "the server's model" if devices is None else f"the model of device {devices[int(np.argmax(bad))]}"
        raise DivergedError(
            f"{whose} has diverged or is not a number",
            "lower local.learning_rate, or set receiver_limit where bits arrive wrong",
        )
    return squares
