"""Devices of a superposition that do not follow the level: they jam, are too weak for it, or stay silent.

Honest devices send A w(h^) x. The weakest of them and the caps limit the level A. A jammer with the same radio and the
same P0 sends

    s_j = sqrt(P0) conj(h^_j) / |h^_j| x_j,   mean |x_j|^2 <= 1,

and arrives at amplitude |h_j| sqrt(P0) on the axis that the receiver uses, up to the phase error of its own estimate.
It spends no power on inverting its channel, and none on the other axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.links.link import LinkError
from phy.links.power import AmplitudeDecision
from phy.numerics.lazy_tensorflow import tf

_POWER_ROUNDING = 1e-5
_SILENT = np.float32(-1.0)


def own_amplitude(
    payload: NDArray[Any],
    jammers: NDArray[np.bool_] | None,
    *,
    max_power: float,
    silent: Sequence[int] = (),
    clipped: NDArray[np.float64] | None = None,
) -> NDArray[np.float32] | None:
    """sqrt(P0) for a jammer, -1 for a `silent` device, 0 for one that follows the level; None if all follow it.

    Devices that do not reach the level have their amplitude in `clipped`, as in `AmplitudeDecision`. The array is
    `[num_trials, num_devices]`.

    Raises LinkError for `jammers` of another shape and for symbols of a jammer whose mean power is above 1.
    """
    if jammers is None and not silent and clipped is None:
        return None
    if jammers is None:
        jammers = np.zeros(payload.shape[:2], bool)
    if jammers.shape != payload.shape[:2]:
        raise LinkError(
            f"jammers has shape {jammers.shape}, trials and devices are {payload.shape[:2]}", "give one entry each"
        )
    strongest = 1.0
    if payload.dtype != np.uint8 and jammers.any():
        strongest = float((np.abs(payload[jammers]) ** 2).mean(axis=1, dtype=np.float64).max())
    if not strongest < 1.0 + _POWER_ROUNDING:
        raise LinkError(
            f"symbols of a jammer have mean power {strongest:g} and exceed P0", "scale them to mean power 1 or less"
        )
    amplitude = np.asarray(jammers * max_power**0.5, np.float32)
    if clipped is not None:
        amplitude = np.where(jammers, amplitude, clipped.astype(np.float32))
    amplitude[:, list(silent)] = _SILENT
    return amplitude


def with_own_amplitude(factor: Any, in_phase: Any, amplitude: Any) -> Any:
    """Factors on symbols `[trials, devices, ...]`: `amplitude` times `in_phase` for jammers, 0 for silent devices.

    `amplitude` `[trials, devices]` float32 as from `own_amplitude` (TensorFlow).
    """
    wide = tf.reshape(amplitude, [*amplitude.shape, *[1] * (len(in_phase.shape) - 2)])
    kept = tf.where(wide < 0.0, tf.zeros_like(factor), factor)
    return tf.where(wide > 0.0, tf.cast(wide, tf.complex64) * in_phase, kept)


def on_air(decision: AmplitudeDecision, jammers: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Mask of transmitting devices, `[num_trials, num_devices]`: active devices and all jammers."""
    return decision.active if jammers is None else decision.active | jammers
