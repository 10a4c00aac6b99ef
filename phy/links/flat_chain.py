"""The seam between a link over flat channels and the engine that computes its symbols: bits in, bits and counts out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.links.power import AmplitudeDecision, BlockGains
from phy.measure.burstiness import Burstiness
from phy.numerics.random import Purpose


@dataclass(frozen=True, kw_only=True)
class Load:
    """What goes on the air: `num_bits` of each device over `channel`.

    `known` bits are those of a probe: random already, hence not scrambled, with noise of their own, and nobody asks
    how their errors lie together. A payload is scrambled as on any real link: bits of one sign would use a few points
    of a large constellation only, with another power and another error rate. Rows are the devices of the channel from
    `first_device` on, as many as there are payloads.
    """

    channel: FlatChannel
    num_bits: int
    known: bool = False
    first_device: int = 0

    @property
    def noise(self) -> Purpose:
        """Whose noise this load meets."""
        return Purpose.PROBE_NOISE if self.known else Purpose.NOISE


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What came of it, each `[num_trials, num_devices]` unless said otherwise.

    - `received` `[num_trials, num_devices, num_bytes]` uint8, padding zero and all zero for silent devices;
    - `bit_errors`, `packet_errors` int64, without meaning for silent devices;
    - `energies` `[3, num_trials, num_devices]` float64: sums over symbols of what was sent and of what arrived, and of
      noise of unit power;
    - `bursts` of devices that are not silent, None for known bits.
    """

    received: NDArray[np.uint8]
    bit_errors: NDArray[np.int64]
    packet_errors: NDArray[np.int64]
    energies: NDArray[np.float64]
    bursts: Burstiness | None


class FlatChain(Protocol):
    """Modulate, fade, add noise, equalise, decide, count: one configuration's chain in one engine.

    Every number follows from (seed, trial, purpose, round, device, position), so engines meet the same fades and the
    same noise and differ by float32 rounding alone.
    """

    def measure_gains(self, channel: FlatChannel, context: UplinkContext) -> BlockGains:
        """What power control sees of this round's block."""
        ...

    def random_bits(self, context: UplinkContext, load: Load, *, num_devices: int) -> NDArray[np.uint8]:
        """Packed bits of a probe `[num_trials, num_devices, ceil(num_bits / 8)]`, the same in every engine.

        They are those of `num_devices` devices from `load.first_device` on.
        """
        ...

    def carry(
        self, payload: NDArray[np.uint8], load: Load, *, context: UplinkContext, decision: AmplitudeDecision
    ) -> Carried:
        """Carry packed bits `[num_trials, num_devices, num_bytes]`; bits beyond `load.num_bits` are ignored."""
        ...
