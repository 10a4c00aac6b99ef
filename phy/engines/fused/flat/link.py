"""The flat uncoded chain in fused kernels: what `phy.engines.sionna.flat` does, without ever storing a symbol."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.engines.fused.flat.bursts import count_bursts
from phy.engines.fused.flat.carry import Carry, CarryRows, carry
from phy.engines.fused.flat.gains import SumTaps, measure_gains, sum_taps
from phy.engines.fused.flat.taps import tap_law
from phy.engines.fused.symbols import mapping
from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.fading.gains import BlockGains
from phy.links.flat_chain import FlatChain, Load, flat_reception
from phy.links.link import Reception
from phy.links.power import AmplitudeDecision
from phy.numerics.compiled import read_only
from phy.numerics.random import Purpose
from phy.numerics.workers import available_threads


class FusedChain(FlatChain):
    """`FlatChain` of links of one configuration, on `threads` threads, all cores if left out.

    `carry` and `sum_taps` may be those of another processor.
    """

    def __init__(
        self, config: LinkConfig, *, threads: int | None = None, carry: Carry = carry, sum_taps: SumTaps = sum_taps
    ) -> None:
        self._points = mapping(config.modulation)
        self._config = config
        self._packet_bytes = config.packet_size_bytes
        self._bits_per_symbol = BITS_PER_SYMBOL[config.modulation]
        self._threads = threads or available_threads()
        self._carry, self._sum_taps = carry, sum_taps

    def measure_gains(self, channel: FlatChannel, context: UplinkContext) -> BlockGains:
        return measure_gains(channel, context, threads=self._threads, sum_taps=self._sum_taps)

    def carry(
        self, payload: NDArray[np.uint8], load: Load, *, context: UplinkContext, decision: AmplitudeDecision
    ) -> Reception:
        sent = read_only(payload.reshape(-1, payload.shape[-1]))
        received, energies = self._carry(
            self._rows(sent, load, context, decision),
            num_bits=load.num_bits,
            points=self._points,
            law=tap_law(load.channel),
            scrambled=not load.known,
            threads=self._threads,
        )
        bit_errors, packet_errors, bursts = count_bursts(
            sent,
            received,
            num_bits=load.num_bits,
            packet_bytes=self._packet_bytes,
            bits_per_symbol=self._bits_per_symbol,
            active=decision.active,
            threads=self._threads,
        )
        received[~decision.active.ravel()] = 0
        return flat_reception(
            load,
            decision,
            config=self._config,
            payload=received.reshape(payload.shape),
            bit_errors=bit_errors,
            packet_errors=packet_errors,
            energies=energies.reshape(-1, *decision.active.shape),
            bursts=None if load.known else bursts,
        )

    @staticmethod
    def _rows(sent: NDArray[np.uint8], load: Load, context: UplinkContext, decision: AmplitudeDecision) -> CarryRows:
        num_devices = decision.active.shape[1]
        channel_key, csi_key, device, gain = load.channel.rows(
            context, first_device=load.first_device, count=num_devices
        )
        noise_key, scrambling_key = (
            np.repeat(context.keys(purpose), num_devices, axis=0) for purpose in (load.noise, Purpose.SCRAMBLING)
        )
        return CarryRows(
            payload=sent,
            keys=read_only(np.concatenate([channel_key, csi_key, noise_key, scrambling_key], axis=1)),
            device=read_only(device),
            gain=read_only(gain),
            level=read_only(np.repeat(decision.level.astype(np.float32), num_devices)),
        )
