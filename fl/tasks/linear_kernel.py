"""Gradients of quadratic losses: one small matrix-vector product per device, all in one pass over the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.compiled import kernel, read_only


@kernel
def _subtract_products(curvature: Any, offset: Any, theta: Any, out: Any) -> None:
    num_trials, rows, size = curvature.shape
    for trial in range(num_trials):
        for row in range(rows):
            total = 0.0
            for column in range(size):
                total += curvature[trial, row, column] * theta[trial, column]
            out[trial, row] = total - offset[trial, row]


def quadratic_gradients(
    curvature: NDArray[np.float64], offset: NDArray[np.float64], theta: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A theta - b, `[num_trials, rows]` float64, of A `[num_trials, rows, m]`, b `[num_trials, rows]`, theta
    `[num_trials, m]`; a trial's numbers do not depend on the others.
    """
    out = np.empty(offset.shape)
    _subtract_products(read_only(curvature), read_only(offset), read_only(theta), out)
    return out
