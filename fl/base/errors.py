"""Errors of learning, and what all posteriors share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F64


class LearningError(Exception):
    """A state of learning that cannot be: the sentence says which and what to do."""


class DivergedError(LearningError):
    """Training went where numbers end: the trial has failed, others need not."""


def of_shape(found: NDArray[Any], shape: tuple[int, ...], *, whose: str) -> NDArray[Any]:
    """Return `found`, which `whose` method gave. Raises LearningError for another shape."""
    if np.shape(found) != shape:
        problem = f"{whose} gives an array of shape {np.shape(found)}, and {shape} is needed"
        raise LearningError(f"{problem}; phyloop check-plugin tests the plug-ins")
    return found


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
