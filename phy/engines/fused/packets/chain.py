"""Packet chain in fused kernels, for one device per resource, on a CPU."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from phy.config import CodingConfig
from phy.engines.fused.fading.fades import given_room
from phy.engines.fused.fading.rays import draw_rays, rays_of
from phy.engines.fused.fading.traces import TraceLines
from phy.engines.fused.impairments import impairments_of
from phy.engines.fused.packets.air import AirRows, carry_packets
from phy.engines.fused.packets.channel import line_powers, mean_powers
from phy.engines.fused.packets.codec import packet_codec
from phy.engines.fused.packets.plan import num_blocks, plan_waveform, recorded_lines_of
from phy.engines.fused.packets.soft import APP, HARD, MAXLOG
from phy.engines.fused.symbols import mapping
from phy.engines.fused.waveform.carriers import waveforms_of
from phy.engines.fused.waveform.recorded import RecordedWaves
from phy.links.packets.chain import Arrival, ChainSpec, Departure, PacketChain
from phy.numerics.compiled import read_only
from phy.numerics.packing import regroup
from phy.numerics.workers import available_threads

_BITS_AT_ONCE = 1 << 23
"""Coded bits of one call, or numbers of waves: 32 MiB of each."""
_MOST_ROWS, _FEWEST_ROWS = 8192, 16


class FusedPacketChain(PacketChain):
    """`PacketChain` of links that are `LinkConfig.fusible_packets`, on `threads` threads, all cores if left out."""

    def __init__(self, spec: ChainSpec, *, threads: int | None = None) -> None:
        config = spec.config
        self.bits_per_symbol = config.bits_per_symbol
        self._codec = packet_codec(
            config.coding,
            payload_bits=spec.payload_bits,
            bits_per_symbol=self.bits_per_symbol,
            crc=spec.crc,
            versions=spec.versions,
        )
        self.coded_bits, self.soft_bits = self._codec.plan.coded_bits, self._codec.soft_bits
        self._packets = spec.packets
        bits_of_row = self._packets * self.coded_bits
        self._combine = spec.combine
        exact = isinstance(config.coding, CodingConfig) and config.coding.demapper == "app" and self.bits_per_symbol > 2
        self._soft = APP if exact else MAXLOG if self._codec.soft or self._combine else HARD
        antennas = config.receiver.num_antennas
        self._rays = rays_of(config.channel, num_antennas=antennas)
        self._points = mapping(config.modulation)
        self._threads = threads or available_threads()
        self._plan, self.channel_uses, self.airtime_s = plan_waveform(
            config, num_symbols=bits_of_row // self.bits_per_symbol, num_devices=spec.num_devices
        )
        self._lines = recorded_lines_of(config, self._plan, threads=self._threads)
        blocks = num_blocks(config, spec.num_devices)
        mixes = config.mixes_carriers
        self._waveforms = None
        if mixes:
            self._waveforms = waveforms_of(config, self._plan, num_blocks=blocks, threads=self._threads)
        self._sent_over = (self._waveforms and self._waveforms.recorded) or self._lines
        waves = given_room(antennas) if self._rays else 0 if self._sent_over is None else self._sent_over.size
        self.rows = min(max(_BITS_AT_ONCE // max(bits_of_row, waves), _FEWEST_ROWS), _MOST_ROWS)
        width = self._plan.plane.width
        self._impairments = None if mixes else impairments_of(config, width=width, num_blocks=blocks)

    def send(
        self, payload: NDArray[np.uint8], departure: Departure, earlier_llrs: NDArray[np.float32] | None
    ) -> Arrival:
        count, bits = len(payload) * self._packets, self.coded_bits
        keys = (
            departure.channel_key[:, 0],
            departure.csi_key[:, 0],
            departure.noise_key,
            departure.impairment_key[:, 0],
        )
        carried = carry_packets(
            AirRows(
                keys=read_only(np.concatenate(keys, axis=1)),
                given=self._given(departure.channel_key[:, 0], departure.start_s, self._sent_over),
                amplitude=read_only(departure.amplitude[:, 0]),
                gain=read_only(departure.gain[:, 0]),
                start_s=read_only(departure.start_s),
            ),
            regroup(self._codec.encode(payload.reshape(count, -1)), rows=len(payload), num_bits=bits),
            num_bits=self._packets * bits,
            plan=self._plan,
            impairments=self._impairments,
            waveforms=self._waveforms,
            points=self._points,
            noise_power=float(departure.noise_power),
            soft=self._soft,
            threads=self._threads,
        )
        llrs = carried.llrs.reshape(count, carried.llrs.shape[1] // self._packets)
        own = soft = self._codec.soft_values(llrs)
        if earlier_llrs is not None:
            soft = own + earlier_llrs.reshape(own.shape)
            hard = np.packbits(soft > 0.0, axis=1)
        else:
            hard = regroup(carried.hard, rows=count, num_bits=bits * self._packets)
        received, accepted = self._codec.decode(hard, soft)
        return Arrival(
            received.reshape(payload.shape),
            accepted.reshape(len(payload), self._packets),
            carried.errors[:, None],
            carried.energies[..., None],
            own.reshape(len(payload), 1, -1) if self._combine else None,
        )

    def mean_power(self, channel_key: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.floating]:
        keys, given = read_only(channel_key[:, 0]), self._given(channel_key[:, 0], start_s, self._lines)
        return mean_powers(keys, given, read_only(start_s), plan=self._plan, threads=self._threads)[:, None]

    def carrier_powers(self, channel_key: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.floating]:
        keys, given = read_only(channel_key[:, 0]), self._given(channel_key[:, 0], start_s, self._lines)
        return line_powers(keys, given, read_only(start_s), plan=self._plan, threads=self._threads)

    def _given(
        self, keys: NDArray[np.uint32], start_s: NDArray[np.float32], recorded: TraceLines | RecordedWaves | None
    ) -> NDArray[np.float32]:
        """Waves of rays, or numbers of a recorded channel, `[rows, n]`; of no numbers for other channels."""
        if recorded is not None:
            return read_only(recorded.given(keys, start_s))
        return read_only(draw_rays(self._rays, read_only(keys), threads=self._threads))


@lru_cache(maxsize=32)
def fused_chain(spec: ChainSpec) -> FusedPacketChain:
    """Return the chain of a specification, built once."""
    return FusedPacketChain(spec)
