"""Transmit powers of devices as numbers, one per device.

Devices whose P0 differ are simulated as devices of one P0, that of the strongest, with gains that differ: device k with
P_k and gain h_k arrives as one with P0 and gain h_k sqrt(P_k / P0), under every power policy, with every cap. Only what
a device sends is then P_k / P0 of what is simulated.

With `transmit_power_dbm` the simulated noise keeps `channel.noise_power`. Powers in watts are those simulated times

    k T B F / (2 N0),   B the sampling rate of the link.

On a grid P0 stands for all subcarriers; the transmit power is spread over those in use alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phy.config.link import LinkConfig, noise_bandwidth_hz
from phy.config.power import BOLTZMANN_J_K, NOISE_TEMPERATURE_K


def strongest_db(link: LinkConfig) -> float:
    """10 log10(P0 / N0) of the strongest device [dB]."""
    return max(link.power.limits_db(noise_bandwidth_hz(link)))


def limits_db(link: LinkConfig, num_devices: int) -> NDArray[np.float64]:
    """10 log10(P_k / N0) `[num_devices]` [dB]; ValueError if a list has another length."""
    key, written = link.power.written
    if isinstance(written, tuple) and len(written) != num_devices:
        raise ValueError(f"power.{key} has length {len(written)}, num_devices is {num_devices}")
    return np.broadcast_to(np.array(link.power.limits_db(noise_bandwidth_hz(link))), (num_devices,))


def power_shares(link: LinkConfig, num_devices: int) -> NDArray[np.float64]:
    """P_k / P0 `[num_devices]`, exactly 1 for the strongest."""
    return np.asarray(10.0 ** ((limits_db(link, num_devices) - strongest_db(link)) / 10.0))


def listed_gains(link: LinkConfig, num_devices: int) -> NDArray[np.float64]:
    """`channel.gain` of each device times sqrt(P_k / P0), `[num_devices]`."""
    return np.asarray(np.array(link.channel.gains(num_devices)) * np.sqrt(power_shares(link, num_devices)))


def watts(link: LinkConfig) -> float:
    """Received power in watts per unit of simulated power; 1 where N0 is `channel.noise_power` [W]."""
    if link.power.transmit_power_dbm is None:
        return 1.0
    noise_w = BOLTZMANN_J_K * NOISE_TEMPERATURE_K / link.channel_use_s * 10.0 ** (link.power.noise_figure_db / 10.0)
    return float(noise_w / (2.0 * link.channel.noise_power))


def sent_watts(link: LinkConfig, num_devices: int) -> NDArray[np.float64]:
    """Transmit power in watts per unit of simulated power, `[num_devices]`."""
    return power_shares(link, num_devices) * watts(link)
