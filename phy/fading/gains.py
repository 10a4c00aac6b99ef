"""Amplitude gains of devices: large-scale gains, listed or from positions in a cell, and gains of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from phy.config.channel import ChannelConfig


@dataclass(frozen=True, kw_only=True)
class BlockGains:
    """Gains of one block on which power control decides, `[num_trials, num_devices]` float64 each.

    - `weight_power`: mean of |w|^2 over the block, silent symbols included;
    - `gain_sum`, `gain_peak`: sum and largest value of |h^ w| over the block's active symbols;
    - `arrival_peak`: largest |h w| with the true tap, unknown to power control;
    - `active_symbols`: number of symbols in which the device is not silent.
    """

    weight_power: NDArray[np.float64]
    gain_sum: NDArray[np.float64]
    gain_peak: NDArray[np.float64]
    arrival_peak: NDArray[np.float64]
    active_symbols: NDArray[np.float64]

    def without(self, silent: Sequence[int]) -> BlockGains:
        """Return the gains where the devices `silent` send nothing; without any, these gains themselves."""
        if not silent:
            return self
        active = self.active_symbols.copy()
        active[:, list(silent)] = 0.0
        return replace(self, gain_sum=np.where(active > 0.0, self.gain_sum, 0.0), active_symbols=active)


def device_gains(
    channel: ChannelConfig, *, num_devices: int, seed: int, trials: tuple[int, ...]
) -> NDArray[np.float32]:
    """Root-mean-square amplitude gain h, `[num_trials, num_devices]`. Raises ValueError as `check_gains` does."""
    listed = np.broadcast_to(np.asarray(channel.gains(num_devices), np.float32), (len(trials), num_devices))
    if channel.traced:
        from phy.traces.clock import trace_gains

        recorded = trace_gains(channel, num_devices=num_devices, seed=seed, trials=trials)
        return np.asarray(listed * recorded, np.float32)
    if channel.cell is None:
        return np.ascontiguousarray(listed)
    from phy.fading.cell import place_devices

    placed = place_devices(channel.cell, channel, num_devices=num_devices, trials=trials, seed=seed)
    return np.asarray(listed * placed.gain, np.float32)


def check_gains(channel: ChannelConfig, *, num_devices: int) -> None:
    """Raise ValueError where `device_gains` cannot give every device a gain, before any round is on the air."""
    channel.gains(num_devices)
    if channel.cell is not None:
        from phy.fading.cell import check_cell

        check_cell(channel.cell, channel, num_devices=num_devices)
