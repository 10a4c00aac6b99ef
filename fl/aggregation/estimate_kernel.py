"""The estimate of `fl.aggregation.estimates.sum_from_superposition` in one pass over what was received."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.compiled import exact_kernel, read_only


@exact_kernel
def _estimate(received: Any, amplitude: Any, num_active: Any, num_devices: Any, out: Any) -> None:
    each_symbol = num_active.shape[1] > 1
    for trial in range(len(out)):
        for i in range(out.shape[1]):
            active = num_active[trial, i if each_symbol else 0]
            real = np.float64(received[trial, 2 * i])
            audible = amplitude[trial] > 0.0 and active > 0
            scale = num_devices / np.float64(max(active, 1))
            out[trial, i] = real / amplitude[trial] * scale if audible else 0.0


def estimated_sums(
    received: NDArray[np.complex64],
    amplitude: NDArray[np.float64],
    num_active: NDArray[np.int64],
    *,
    num_devices: int,
) -> NDArray[np.float64]:
    """Re(y) / A times K / K_a, `[num_trials, num_symbols]`; zero where A or K_a is.

    `received` `[num_trials, num_symbols]`, `amplitude` `[num_trials]`, `num_active` `[num_trials, num_symbols or 1]`.
    """
    out = np.empty(received.shape)
    parts = np.ascontiguousarray(received).view(np.float32)
    _estimate(read_only(parts), read_only(amplitude), read_only(num_active), float(num_devices), out)
    return out
