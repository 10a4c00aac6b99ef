"""Devices that superpose at full power, whatever the others keep to.

Honest devices send A w(h^) x, with the level A held down by the weakest of them and by the caps. A jammer with the same
radio and the same P0 sends

    s_j = sqrt(P0) conj(h^_j) / |h^_j| x_j,   mean |x_j|^2 <= 1,

and arrives at |h_j| sqrt(P0) on the axis on which the receiver listens, turned by nothing but the error of its own
estimate. It wastes no power on inverting its channel, nor half of it on the other axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.links.link import LinkError
from phy.links.power import AmplitudeDecision

_POWER_ROUNDING = 1e-5


def jamming_amplitude(
    payload: NDArray[Any], jammers: NDArray[np.bool_] | None, *, max_power: float
) -> NDArray[np.float32] | None:
    """sqrt(P0) for a jammer and 0 for the others, `[num_trials, num_devices]`; None where nobody was asked to jam.

    Raises LinkError for `jammers` of another shape and for symbols of a jammer whose mean power is above 1.
    """
    if jammers is None:
        return None
    if jammers.shape != payload.shape[:2]:
        raise LinkError(
            f"jammers {jammers.shape} are to be trials and devices {payload.shape[:2]}; say of each who jams"
        )
    strongest = 1.0
    if payload.dtype != np.uint8 and jammers.any():
        strongest = float((np.abs(payload[jammers]) ** 2).mean(axis=1, dtype=np.float64).max())
    if not strongest < 1.0 + _POWER_ROUNDING:
        raise LinkError(
            f"symbols of a jammer have mean power {strongest:g}, with which it would exceed its P0; hand in 1 at most"
        )
    return np.asarray(jammers * max_power**0.5, np.float32)


def at_full_power(factor: Any, in_phase: Any, amplitude: Any) -> Any:
    """Of factors on symbols `[trials, devices, ...]` those of jammers replaced by `amplitude` times `in_phase`.

    `amplitude` `[trials, devices]` float32 as of `jamming_amplitude` (TensorFlow).
    """
    import tensorflow as tf

    wide = tf.reshape(amplitude, [*amplitude.shape, *[1] * (len(in_phase.shape) - 2)])
    return tf.where(wide > 0.0, tf.cast(wide, tf.complex64) * in_phase, factor)


def on_air(decision: AmplitudeDecision, jammers: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Who transmits, `[num_trials, num_devices]`: a jammer always does."""
    return decision.active if jammers is None else decision.active | jammers
