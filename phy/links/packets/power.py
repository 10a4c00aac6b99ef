"""Power control of a packet link: one weight per packet, from the mean gain that the packet meets.

With g = gain * sqrt(mean |h|^2) over the packet's symbols, carriers and antennas, a packet is sent with amplitude
`level * w`, w the `PowerPolicy.amplitude` of g. Over a flat channel with one antenna that holds still in a
packet, g is |h|. The transmitter knows g.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phy.fading.gains import BlockGains


def gains_of_packets(
    mean_gain: NDArray[np.float64], weights: NDArray[np.float64], uses: NDArray[np.float64]
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
