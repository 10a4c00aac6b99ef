"""The seam between superposition over flat channels and the engine that computes its symbols: symbols in, sums out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.links.power import AmplitudeDecision, BlockGains


@dataclass(frozen=True, kw_only=True)
class OnAir:
    """What all devices put on the air in one round.

    - `payload` `[num_trials, num_devices, ...]`: packed bits uint8 for BPSK, else one amplitude per symbol, real or
      complex;
    - `decision`: how strongly;
    - `jamming` `[num_trials, num_devices]` float32 of `phy.links.jamming.jamming_amplitude`, None where nobody may jam;
    - `clipping_reference` `[num_trials, num_devices]` float32: mean power above which amplifiers clip, zeros where none
      does.
    """

    payload: NDArray[Any]
    decision: AmplitudeDecision
    jamming: NDArray[np.float32] | None
    clipping_reference: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """What came of it.

    - `received` `[num_trials, num_symbols]` complex64: sums in noise;
    - `num_active` int64 `[num_trials, num_symbols]`, `[num_trials, 1]` where taps hold for the round: how many devices
      did not cut a symbol off;
    - `energy_j` `[num_trials, num_devices]` float64: sum of |A w x|^2 over symbols, times their length [J].
    """

    received: NDArray[np.complex64]
    num_active: NDArray[np.int64]
    energy_j: NDArray[np.float64]


class AirChain(Protocol):
    """Weight, fade, add up, add noise: one configuration's chain in one engine.

    Every number follows from (seed, trial, purpose, round, device, position), so engines meet the same fades and the
    same noise and differ by float32 rounding alone.
    """

    def measure_gains(self, channel: FlatChannel, context: UplinkContext) -> BlockGains:
        """What power control sees of this round's block."""
        ...

    def add_up(self, sent: OnAir, channel: FlatChannel, *, context: UplinkContext) -> Arrivals:
        """What the receiver has of `sent` over `channel`."""
        ...
