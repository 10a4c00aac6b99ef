"""Large-scale amplitude gain of every device: listed, or from where it stands in a cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phy.config import ChannelConfig


def device_gains(
    channel: ChannelConfig, *, num_devices: int, seed: int, trials: tuple[int, ...]
) -> NDArray[np.float32]:
    """Root-mean-square amplitude gain h, `[num_trials, num_devices]`. Raises ValueError as `check_gains` does."""
    listed = np.broadcast_to(np.asarray(channel.gains(num_devices), np.float32), (len(trials), num_devices))
    if channel.cell is None:
        return np.ascontiguousarray(listed)
    from phy.fading.cell import large_scale_gains

    relative = large_scale_gains(channel.cell, channel, num_devices=num_devices, trials=trials, seed=seed)
    return np.asarray(listed * relative, np.float32)


def check_gains(channel: ChannelConfig, *, num_devices: int) -> None:
    """Raise ValueError where `device_gains` cannot give every device a gain, before any round is on the air."""
    channel.gains(num_devices)
    if channel.cell is not None:
        from phy.fading.cell import check_cell

        check_cell(channel.cell, channel, num_devices=num_devices)
