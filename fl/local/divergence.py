"""Models that went where numbers end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.update_kernels import look_and_subtract_rows, look_at_rows
from fl.tasks.base import LearningError

_DIVERGED = 1e18
"""Beyond this squares overflow single precision, in which devices train."""


class DivergedError(LearningError):
    """Training went where numbers end: the trial has failed, others need not."""


def check_finite(weights: NDArray[np.float32], *, devices: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """||w||^2 of the rows of `weights` `[K, M]`; DivergedError for NaN, infinity or numbers beyond `_DIVERGED`."""
    bad, squares = look_at_rows(weights, limit=_DIVERGED)
    _refuse(bad, devices=devices)
    return squares


def checked_updates_from(
    weights: NDArray[np.float32], base: NDArray[np.float32], *, devices: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """`check_finite` of `weights` `[K, M]`, and these less `base`, `[M]` or `[K, M]`, while they are at hand."""
    bad, squares, updates = look_and_subtract_rows(weights, base, limit=_DIVERGED)
    _refuse(bad, devices=devices)
    return squares, updates


def _refuse(bad: NDArray[np.bool_], *, devices: NDArray[np.int64] | None) -> None:
    if bad.any():
        whose = "the server's model" if devices is None else f"the model of device {devices[int(np.argmax(bad))]}"
        raise DivergedError(
            f"{whose} has diverged or is not a number; lower local.learning_rate, or set receiver_limit where bits "
            "arrive wrong"
        )
