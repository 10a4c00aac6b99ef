"""What FLMC asks of every number of every trial in every round, each in one pass: comparisons alone, no arithmetic."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.fused.compiled import kernel, read_only


@kernel
def _clip(values: Any, bound: Any, out: Any, lost: Any) -> None:
    for row in range(len(values)):
        found = False
        for i in range(values.shape[1]):
            value = values[row, i]
            found |= np.isnan(value)
            # Written so that NaN stays what it is.
            if value > bound:
                value = bound
            if value < -bound:
                value = -bound
            out[row, i] = value
        lost[row] = found


@kernel
def _any_nan(values: Any, out: Any) -> None:
    for row in range(len(values)):
        found = False
        for i in range(values.shape[1]):
            found |= np.isnan(values[row, i])
        out[row] = found


@kernel
def _all_below(values: Any, limit: Any, out: Any) -> None:
    for row in range(len(values)):
        below = True
        for i in range(values.shape[1]):
            below &= abs(values[row, i]) < limit
        out[row] = below


def clipped(values: NDArray[np.float64], bound: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values clipped to |v| <= `bound` > 0, of the same shape, and `rows_with_nan` of them; NaN stays NaN."""
    out, lost = np.empty(values.shape), np.empty(len(values), np.bool_)
    flat = (len(values), prod(values.shape[1:]))
    _clip(read_only(values).reshape(flat), float(bound), out.reshape(flat), lost)
    return out, lost


def rows_with_nan(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether anything of `values[row]` is NaN, `[num_rows]`."""
    return _of_rows(_any_nan, values)


def rows_below(values: NDArray[np.float64], limit: float) -> NDArray[np.bool_]:
    """Whether all of `values[row]` are below `limit` in magnitude, `[num_rows]`; NaN is not."""
    return _of_rows(_all_below, values, float(limit))


def _of_rows(kernel_of_rows: Any, values: NDArray[np.float64], *limit: float) -> NDArray[np.bool_]:
    out = np.empty(len(values), np.bool_)
    kernel_of_rows(read_only(values).reshape(len(values), prod(values.shape[1:])), *limit, out)
    return out
