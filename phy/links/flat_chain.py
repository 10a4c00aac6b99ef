"""Interface of the chains of an orthogonal link over flat channels: bits in, received bits and counts out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from phy.config import LinkConfig
from phy.config.levels import sent_watts, watts
from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.fading.gains import BlockGains
from phy.links.link import Reception, round_airtime
from phy.links.power import AmplitudeDecision
from phy.measure.burstiness import Burstiness
from phy.measure.counts import LinkCounts
from phy.numerics.random import Purpose


@dataclass(frozen=True, kw_only=True)
class Load:
    """Settings of one transmission: `num_bits` of each device over `channel`.

    A payload is scrambled as on real links: without that, equal bits would use a few points of a large constellation
    only, with another power and another error rate. `known` bits are those of a probe: they are random, hence not
    scrambled, have a noise stream of their own, and no burst counts. Rows are the devices of the channel from
    `first_device` on, as many as there are payloads.
    """

    channel: FlatChannel
    num_bits: int
    known: bool = False
    first_device: int = 0

    @property
    def noise(self) -> Purpose:
        """Random stream of the noise."""
        return Purpose.PROBE_NOISE if self.known else Purpose.NOISE


def flat_reception(
    load: Load,
    decision: AmplitudeDecision,
    *,
    config: LinkConfig,
    payload: NDArray[np.uint8],
    bit_errors: NDArray[np.int64],
    packet_errors: NDArray[np.int64],
    energies: NDArray[np.float64],
    bursts: Burstiness | None,
) -> Reception:
    """Return the reception of one transmission with its counts, which are zero for silent devices.

    - `payload` `[num_trials, num_devices, num_bytes]` uint8, padding zero and all zero for silent devices;
    - `bit_errors`, `packet_errors` `[num_trials, num_devices]`, without meaning for silent devices;
    - `energies` `[3, num_trials, num_devices]`: sums over symbols of the transmitted energy, the received energy,
      and the energy of noise of unit power;
    - `bursts`: error pattern of active devices, None for known bits.
    """
    on_air = decision.active.astype(np.int64)
    transmit, signal, noise = (energy * on_air for energy in energies)
    nothing, first = np.zeros_like(on_air), load.first_device
    sent_w = sent_watts(config, load.channel.num_devices)[first : first + on_air.shape[1]]
    airtime_s = np.asarray(on_air * load.channel.num_symbols * config.symbol_s, float)
    counts = LinkCounts(
        bits=on_air * load.num_bits,
        bit_errors=bit_errors * on_air,
        packets=on_air * -(-load.num_bits // (8 * config.packet_size_bytes)),
        packet_errors=packet_errors * on_air,
        symbols=on_air * load.channel.num_symbols,
        transmit_energy=transmit * sent_w,
        signal_energy=signal * watts(config),
        noise_energy=noise * load.channel.numbers.noise_std**2 * watts(config),
        dropped=nothing,
        retransmissions=nothing,
        raw_bits=on_air * load.num_bits,
        raw_bit_errors=bit_errors * on_air,
        airtime_s=airtime_s,
        energy_j=transmit * config.symbol_s * sent_w,
    )
    return Reception(
        payload=payload,
        counts=counts,
        decision=decision,
        bursts=bursts,
        round_airtime_s=round_airtime(airtime_s, one_after_another=config.multiplexing == "tdma"),
    )


class FlatChain(Protocol):
    """Modulation, fading, noise, equalisation, decision and counting of one configuration in one engine.

    Every random number is a function of (seed, trial, purpose, round, device, position). All engines therefore see the
    same fades and noise, and differ by float32 rounding alone.
    """

    def measure_gains(self, channel: FlatChannel, context: UplinkContext) -> BlockGains:
        """Return the gains on which power control bases its decision for this round."""
        ...

    def carry(
        self, payload: NDArray[np.uint8], load: Load, *, context: UplinkContext, decision: AmplitudeDecision
    ) -> Reception:
        """Carry packed bits `[num_trials, num_devices, num_bytes]`; bits beyond `load.num_bits` are ignored."""
        ...
