"""Moments of a posterior, and samples dealt to devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl.base.arrays import F64


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """First two moments of the target, exact or from a long reference chain.

    `mean` `[num_trials, m]`, `covariance` `[num_trials, m, m]`, float64.
    """

    mean: F64
    covariance: F64


def split_evenly(rows: F64, num_devices: int) -> F64:
    """Rows `[n, ...]` dealt to devices in order, sizes differing by one at most; `[num_devices, ceil, ...]`.

    Missing rows are zeros, which add nothing to a sum.
    """
    size = -(-len(rows) // num_devices)
    if len(rows) == size * num_devices:
        return rows.reshape(num_devices, size, *rows.shape[1:])
    out = np.zeros((num_devices, size, *rows.shape[1:]))
    for device, part in enumerate(np.array_split(rows, num_devices)):
        out[device, : len(part)] = part
    return out
