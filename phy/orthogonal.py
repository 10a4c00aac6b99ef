"""Orthogonal access: modulate, fade, add noise, equalise, decide, count; one resource per device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.channels import FlatChannel, Grid, UplinkContext, pad_rows, precoding_weights
from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.link import Reception, check_payload
from phy.measurement import LinkCounts, count_errors, mask_padding
from phy.modulation import modulator
from phy.power import AmplitudeDecision, decide_amplitude
from phy.random import Purpose, complex_normal, threefry, uniform_words


@lru_cache(maxsize=64)
def noise_kernel(grid: Grid) -> Any:
    """Compiled `(key [rows, 2], device [rows], start) -> CN(0, 1) [rows, columns]` complex64.

    A call of its own, because fused into its readers XLA draws every value once per reader.
    """
    import tensorflow as tf

    @tf.function(jit_compile=True, autograph=False)
    def kernel(key: Any, device: Any, start: Any) -> Any:
        position = (tf.cast(tf.range(grid.columns), tf.uint32) + start)[None, :]
        return complex_normal(
            threefry((key[:, 0, None], key[:, 1, None]), (position, device[:, None]), tf.bitwise)
        )

    return kernel


@dataclass(frozen=True, kw_only=True)
class _Chunk:
    """Static shape of one compiled orthogonal chunk."""

    modulation: str
    policy: str
    grid: Grid


@lru_cache(maxsize=64)
def transmit_kernel(chunk: _Chunk) -> Any:
    """Compiled chain of one chunk: packed bits in, received packed bits and three energies out."""
    import tensorflow as tf
    from sionna.phy.channel import ApplyFlatFadingChannel

    modem = modulator(chunk.modulation)
    apply_channel = ApplyFlatFadingChannel()

    @tf.function(jit_compile=True, autograph=False)
    def kernel(
        payload: Any,
        taps: Any,
        estimate: Any,
        noise: Any,
        level: Any,
        gain: Any,
        cutoff: Any,
        noise_std: Any,
        valid: Any,
    ) -> Any:
        weights = tf.cast(level, tf.complex64)[:, None] * precoding_weights(
            estimate, gain, cutoff, chunk.policy
        )
        sent = weights * modem.modulate(payload)
        through = tf.broadcast_to(taps, sent.shape)[..., None, None]
        faded = apply_channel(sent[..., None], through)[..., 0]
        received = faded + tf.cast(noise_std, tf.complex64) * noise
        reference = weights * estimate
        silent = tf.math.real(reference * tf.math.conj(reference)) == 0.0
        equalised = received * tf.math.reciprocal(tf.where(silent, tf.ones_like(reference), reference))
        counted = tf.cast(tf.range(chunk.grid.columns) < valid, tf.float32)[None, :]
        energies = [
            tf.reduce_sum((tf.math.real(v) ** 2 + tf.math.imag(v) ** 2) * counted, axis=1)
            for v in (sent, faded, noise)
        ]
        return modem.detect(equalised), *energies

    return kernel


class OrthogonalLink:
    """Every device on its own resource: hard decisions, received bits, measured counts.

    `num_bits` is the payload of one device in one round. A partly filled last symbol is padded with zero
    bits that travel but are not counted.
    """

    def __init__(self, config: LinkConfig, *, num_devices: int, num_bits: int) -> None:
        self.num_devices = num_devices
        self.num_bits = num_bits
        self.num_bytes = -(-num_bits // 8)
        self.config = config
        self._bits_per_symbol = BITS_PER_SYMBOL[config.modulation]
        self._channel = self._channel_for(num_bits)
        self._noise_std = np.float32(np.sqrt(2.0 * config.channel.noise_power))

    def _channel_for(self, num_bits: int) -> FlatChannel:
        return FlatChannel(
            self.config,
            num_devices=self.num_devices,
            num_symbols=-(-num_bits // self._bits_per_symbol),
            packet_symbols=-(-8 * self.config.packet_size_bytes // self._bits_per_symbol),
        )

    def decide(self, context: UplinkContext, caps: Mapping[str, ArrayLike]) -> AmplitudeDecision:
        """Power control of this round's block."""
        return decide_amplitude(
            self._channel.block_gains(context, self._channel.grid.rows),
            max_power=self.config.max_power,
            payload_power=1.0,
            caps=caps,
        )

    def send(
        self, payload: NDArray[np.uint8], *, context: UplinkContext, caps: Mapping[str, ArrayLike]
    ) -> Reception:
        """See `DigitalUplink.send`. Raises LinkError for a payload of another shape."""
        check_payload(payload, expected=(len(context.trials), self.num_devices, self.num_bytes), dtype="u")
        decision = self.decide(context, caps)
        received, counts = self._carry(
            mask_padding(payload, self.num_bits),
            self._channel,
            self.num_bits,
            Purpose.NOISE,
            context,
            decision,
        )
        return Reception(payload=received, counts=counts, decision=decision)

    def probe(self, num_bits: int, *, context: UplinkContext, caps: Mapping[str, ArrayLike]) -> LinkCounts:
        """See `DigitalUplink.probe`: the payload's taps and power, noise of its own."""
        words = uniform_words(
            context.keys(Purpose.PROBE_BITS), num_devices=self.num_devices, num_words=-(-num_bits // 32)
        )
        known = mask_padding(np.ascontiguousarray(words).view(np.uint8)[..., : -(-num_bits // 8)], num_bits)
        channel = self._channel_for(num_bits)
        return self._carry(
            known, channel, num_bits, Purpose.PROBE_NOISE, context, self.decide(context, caps)
        )[1]

    def _carry(
        self,
        payload: NDArray[np.uint8],
        channel: FlatChannel,
        num_bits: int,
        noise_purpose: Purpose,
        context: UplinkContext,
        decision: AmplitudeDecision,
    ) -> tuple[NDArray[np.uint8], LinkCounts]:
        num_trials = len(context.trials)
        grid = channel.grid
        chunk_bytes = grid.columns * self._bits_per_symbol // 8
        num_chunks = -(-channel.num_symbols // grid.columns)
        rows_in = payload.reshape(num_trials * self.num_devices, -1)
        rows_in = np.pad(rows_in, ((0, 0), (0, num_chunks * chunk_bytes - rows_in.shape[1])))
        rows_out = np.empty_like(rows_in)
        energy = np.zeros((3, len(rows_in)))
        channel_key, csi_key, noise_key = channel.rows(context, (Purpose.CHANNEL, Purpose.CSI, noise_purpose))
        device, gain = channel.device_columns(num_trials)
        level = np.repeat(decision.level.astype(np.float32), self.num_devices)
        transmit = transmit_kernel(
            _Chunk(modulation=self.config.modulation, policy=channel.policy, grid=grid)
        )
        draw_noise = noise_kernel(grid)
        for first in range(0, len(rows_in), grid.rows):
            part = slice(first, first + grid.rows)
            used = len(device[part])
            channel_part, csi_part, noise_part, device_part, gain_part, level_part = (
                pad_rows(a[part], grid.rows) for a in (channel_key, csi_key, noise_key, device, gain, level)
            )
            for index in range(num_chunks):
                start = index * grid.columns
                columns = slice(index * chunk_bytes, (index + 1) * chunk_bytes)
                if index == 0 or channel.varies:
                    taps, estimate = channel.taps((channel_part, csi_part), device_part, gain_part, start)
                received, *energies = transmit(
                    pad_rows(rows_in[part, columns], grid.rows),
                    taps,
                    estimate,
                    draw_noise(noise_part, device_part, np.uint32(start)),
                    level_part,
                    gain_part,
                    channel.cutoff,
                    self._noise_std,
                    np.int32(min(grid.columns, channel.num_symbols - start)),
                )
                rows_out[part, columns] = np.asarray(received)[:used]
                energy[:, part] += np.stack(energies)[:, :used]
        return self._account(payload, rows_out, energy, num_bits, channel.num_symbols, decision)

    def _account(
        self,
        payload: NDArray[np.uint8],
        rows_out: NDArray[np.uint8],
        energy: NDArray[np.float64],
        num_bits: int,
        num_symbols: int,
        decision: AmplitudeDecision,
    ) -> tuple[NDArray[np.uint8], LinkCounts]:
        """Received bits without padding, and the counts observed on them; silent devices observe nothing."""
        active = decision.active
        received = rows_out[:, : payload.shape[-1]].reshape(payload.shape)
        received = mask_padding(received, num_bits) * active[..., None].astype(np.uint8)
        bit_errors, packet_errors, num_packets = count_errors(
            payload, received, num_bits=num_bits, packet_bytes=self.config.packet_size_bytes
        )
        on_air = active.astype(np.int64)
        transmit, signal, noise = (e.reshape(active.shape) * on_air for e in energy)
        return received, LinkCounts(
            bits=on_air * num_bits,
            bit_errors=bit_errors * on_air,
            packets=on_air * num_packets,
            packet_errors=packet_errors * on_air,
            symbols=on_air * num_symbols,
            transmit_energy=transmit,
            signal_energy=signal,
            noise_energy=noise * float(self._noise_std) ** 2,
        )
