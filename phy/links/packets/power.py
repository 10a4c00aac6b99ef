"""Power control of a packet link: one weight per packet, from the mean gain that the packet meets.

With g = gain * sqrt(mean |h|^2) over the packet's symbols, carriers and antennas, a packet is sent with amplitude
`level * w`, w as in `power` with g for |h^|: 1 (fixed, closed loop), 1 / g (inversion), or 1 / g where
g^2 reaches the cutoff and 0 below it (truncated inversion). Over a flat channel with one antenna that holds still in a
packet, g is |h|. The transmitter knows g.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phy.config import PowerConfig
from phy.fading.gains import BlockGains


def packet_weights(
    mean_gain: NDArray[np.float64], large_scale_gain: NDArray[np.float64], power: PowerConfig
) -> NDArray[np.float64]:
    """w of every packet, `[..., num_packets]`, from g of the same shape; `large_scale_gain` broadcasts against it."""
    if power.policy in ("fixed", "closed-loop"):
        return np.ones_like(mean_gain)
    inverse = 1.0 / np.maximum(mean_gain, 1e-15)
    if power.policy == "inversion":
        return inverse
    cutoff = 10.0 ** (power.cutoff_db / 10.0)
    return np.where(mean_gain**2 >= cutoff * large_scale_gain**2, inverse, 0.0)


def gains_of_packets(
    mean_gain: NDArray[np.float64], weights: NDArray[np.float64], uses: NDArray[np.int64]
) -> BlockGains:
    """Gains for `decide_amplitude`, from arrays `[num_trials, num_devices, num_packets]`.

    `uses` `[num_packets]`: channel uses of each packet, by which it weighs in means over the block.
    """
    reached = mean_gain * weights
    peak = reached.max(axis=-1)
    return BlockGains(
        weight_power=(weights**2 * uses).sum(axis=-1) / uses.sum(),
        gain_sum=(reached * uses).sum(axis=-1),
        gain_peak=peak,
        arrival_peak=peak,
        active_symbols=((weights > 0) * uses).sum(axis=-1).astype(float),
    )
