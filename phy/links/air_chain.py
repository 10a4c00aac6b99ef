"""Interface of the chains of superposition over flat channels: symbols in, noisy sums out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.fading.gains import BlockGains
from phy.links.antennas import CombinedTaps
from phy.links.power import AmplitudeDecision


@dataclass(frozen=True, kw_only=True)
class OnAir:
    """Transmission of all devices in one round.

    - `payload` `[num_trials, num_devices, ...]`: packed bits uint8 for BPSK, else one amplitude per symbol, real or
      complex;
    - `decision`: power control of the round;
    - `own` `[num_trials, num_devices]` float32 of `phy.links.jamming.own_amplitude`, None if all follow power control;
    - `clipping_reference` `[num_trials, num_devices]` float32: mean power above which amplifiers clip, zeros without
      clipping;
    - `combined`: of `combine`, None for a server with one antenna.
    """

    payload: NDArray[Any]
    decision: AmplitudeDecision
    own: NDArray[np.float32] | None
    clipping_reference: NDArray[np.float32]
    combined: CombinedTaps | None = None


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """Received sums of one round.

    - `received` `[num_trials, num_symbols]` complex64: sums in noise;
    - `num_active` int64 `[num_trials, num_symbols]`, or `[num_trials, 1]` if taps hold for the round: number of devices
      not silenced by the cutoff;
    - `energy_j` `[num_trials, num_devices]` float64: sum of |A w x|^2 over symbols, times their length [J].
    """

    received: NDArray[np.complex64]
    num_active: NDArray[np.int64]
    energy_j: NDArray[np.float64]


class AirChain(Protocol):
    """Weighting, fading, sum and noise of one configuration in one engine.

    Every random number is a function of (seed, trial, purpose, round, device, position). All engines therefore see the
    same fades and noise, and differ by float32 rounding alone.
    """

    def measure_gains(self, channel: FlatChannel, context: UplinkContext) -> BlockGains:
        """Return the gains on which power control bases its decision for this round."""
        ...

    def combine(self, channel: FlatChannel, context: UplinkContext) -> CombinedTaps:
        """Return the channels behind the combiner of several antennas in this round."""
        ...

    def add_up(self, sent: OnAir, channel: FlatChannel, *, context: UplinkContext) -> Arrivals:
        """Return the noisy sums of `sent` over `channel`."""
        ...
