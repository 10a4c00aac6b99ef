"""Amplitude gains of devices: large-scale gains, listed or from positions in a cell, and gains of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from phy.config.channel import ChannelConfig
from phy.config.levels import limits_db, power_shares
from phy.config.link import LinkConfig


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


def arrival_gains(link: LinkConfig, *, num_devices: int, seed: int, trials: tuple[int, ...]) -> NDArray[np.float32]:
    """Gains h_k sqrt(P_k / P0) with which devices of unequal P_k are simulated, see `phy.config.levels`.

    `[num_trials, num_devices]`; raises ValueError as `check_gains` does.
    """
    absolute = link.power.transmit_power_dbm is not None
    gains = device_gains(link.channel, num_devices=num_devices, seed=seed, trials=trials, absolute=absolute)
    return np.asarray(gains * np.sqrt(power_shares(link, num_devices)), np.float32)


def device_gains(
    channel: ChannelConfig, *, num_devices: int, seed: int, trials: tuple[int, ...], absolute: bool = False
) -> NDArray[np.float32]:
    """Root-mean-square amplitude gain h, `[num_trials, num_devices]`. Raises ValueError as `check_gains` does.

    `absolute`: in a cell, all of the path loss and not what it exceeds that at the reference distance by.
    """
    listed = np.broadcast_to(np.asarray(channel.gains(num_devices), np.float32), (len(trials), num_devices))
    if channel.traced:
        from phy.traces.clock import trace_gains

        recorded = trace_gains(channel, num_devices=num_devices, seed=seed, trials=trials)
        return np.asarray(listed * recorded, np.float32)
    if channel.cell is None:
        return np.ascontiguousarray(listed)
    from phy.fading.cell import place_devices

    placed = place_devices(channel.cell, channel, num_devices=num_devices, trials=trials, seed=seed)
    own = 10.0 ** (-(placed.path_loss_db + placed.shadowing_db) / 20.0) if absolute else placed.gain
    return np.asarray(listed * own, np.float32)


def check_gains(link: LinkConfig, *, num_devices: int) -> None:
    """Raise ValueError where `arrival_gains` cannot give every device a gain, before any round is on the air."""
    channel = link.channel
    channel.gains(num_devices)
    limits_db(link, num_devices)
    if channel.cell is not None:
        from phy.fading.cell import check_cell

        check_cell(channel.cell, channel, num_devices=num_devices)
