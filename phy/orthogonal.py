"""Orthogonal access: modulate, fade, add noise, equalise, decide, count; one resource per device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.burstiness import measure_bursts
from phy.channels import (
    CHUNK_SYMBOLS,
    CUTOFF,
    NOISE_STD,
    Fading,
    FlatChannel,
    UplinkContext,
    draw_normals,
    draw_taps,
    precoding_weights,
)
from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.link import Reception, check_payload, round_airtime
from phy.measurement import LinkCounts, count_errors, mask_padding
from phy.modulation import modulator
from phy.power import AmplitudeDecision, decide_amplitude
from phy.random import Purpose, random_bits
from phy.streaming import Cut, Program, stream

_BYTES_AT_ONCE = 1 << 23
"""Payload handed to TensorFlow in one call, where one chunk of rows is not more."""


@dataclass(frozen=True, kw_only=True)
class _Chain:
    """What of an orthogonal link is compiled in."""

    modulation: str
    fading: Fading
    rows: int
    columns: int


@lru_cache(maxsize=64)
def _compiled(chain: _Chain) -> Any:
    """The chain over chunks: packed bits in, received packed bits and energies (sent, faded, noise) out."""
    import tensorflow as tf
    from sionna.phy.channel import ApplyFlatFadingChannel

    modem = modulator(chain.modulation)
    apply_channel = ApplyFlatFadingChannel()
    keys = ((chain.rows, 2), tf.uint32)
    per_row = (chain.rows,)

    # Three compiled calls: fused into its readers, XLA would compute every value once per reader.
    @tf.function(jit_compile=True, autograph=False)
    def draw(start: Any, rows: Any, block: Any, numbers: Any) -> Any:
        channel_key, csi_key, device, gain, _, noise_key = rows
        noise = draw_normals(noise_key, device, tf.cast(tf.range(chain.columns), tf.uint32) + start)
        return noise, *draw_taps(chain.fading, channel_key, csi_key, device, gain, start, block, numbers)

    @tf.function(jit_compile=True, autograph=False)
    def carry(payload: Any, noise: Any, taps: Any, estimate: Any, valid: Any, rows: Any, numbers: Any) -> Any:
        gain, level = rows[3:5]
        weights = tf.cast(level, tf.complex64)[:, None] * precoding_weights(
            estimate, gain, numbers[CUTOFF], chain.fading.policy
        )
        sent = weights * modem.modulate(payload)
        through = tf.broadcast_to(taps, sent.shape)[..., None, None]
        faded = apply_channel(sent[..., None], through)[..., 0]
        received = faded + tf.cast(numbers[NOISE_STD], tf.complex64) * noise
        reference = weights * estimate
        silent = tf.abs(reference) == 0.0
        equalised = received * tf.math.reciprocal(tf.where(silent, tf.ones_like(reference), reference))
        counted = tf.cast(tf.range(chain.columns) < valid, tf.float32)[None, :]
        energies = [
            tf.reduce_sum((tf.math.real(v) ** 2 + tf.math.imag(v) ** 2) * counted, axis=1) for v in (sent, faded, noise)
        ]
        return equalised, tf.stack(energies)

    @tf.function(jit_compile=True, autograph=False)
    def decide(equalised: Any) -> Any:
        return modem.detect(equalised)

    def run(payload: Any, start: Any, valid: Any, rows: Any, block: Any, numbers: Any) -> Any:
        noise, taps, estimate = draw(start, rows, block, numbers)
        equalised, energies = carry(payload, noise, taps, estimate, valid, rows, numbers)
        return decide(equalised), energies

    return stream(
        Program(
            run=run,
            payload=((chain.rows, chain.columns * modem.bits_per_symbol // 8), tf.uint8),
            rows=(keys, keys, (per_row, tf.uint32), (per_row, tf.float32), (per_row, tf.float32), keys),
            outputs=(tf.uint8, tf.float32),
        )
    )


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
        self._last_probe: tuple[tuple[object, ...], LinkCounts] | None = None

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
            self._channel.block_gains(context),
            max_power=self.config.max_power,
            payload_power=1.0,
            caps=caps,
        )

    def send(self, payload: NDArray[np.uint8], *, context: UplinkContext, caps: Mapping[str, ArrayLike]) -> Reception:
        """See `DigitalUplink.send`. Raises LinkError for a payload of another shape."""
        check_payload(payload, expected=(len(context.trials), self.num_devices, self.num_bytes), dtype="u")
        decision = self.decide(context, caps)
        # Scrambled, as on any real link: bits of one sign would use a few points of a large constellation
        # only, with another power and another error rate.
        scrambling = random_bits(context.keys(Purpose.SCRAMBLING), num_devices=self.num_devices, num_bits=self.num_bits)
        sent = mask_padding(payload, self.num_bits) ^ scrambling
        received, counts = self._carry(
            sent,
            self._channel,
            self.num_bits,
            Purpose.NOISE,
            context,
            decision,
        )
        descrambled = (received ^ scrambling) * decision.active[..., None].astype(np.uint8)
        bursts = measure_bursts(
            sent,
            received,
            num_bits=self.num_bits,
            packet_bits=8 * self.config.packet_size_bytes,
            bits_per_symbol=self._bits_per_symbol,
            present=decision.active,
        )
        return Reception(
            payload=descrambled,
            counts=counts,
            decision=decision,
            bursts=bursts,
            round_airtime_s=round_airtime(counts.airtime_s, one_after_another=self.config.multiplexing == "tdma"),
        )

    def probe(
        self, num_bits: int, *, context: UplinkContext, caps: Mapping[str, ArrayLike], again: bool = False
    ) -> LinkCounts:
        """See `DigitalUplink.probe`: the payload's taps and power, noise of its own.

        A channel that is the same in every round is probed once, unless `again` is asked for.
        """
        if again or not self._channel.same_every_round:
            return self._probe(num_bits, context, caps)
        which = (
            num_bits,
            context.seed,
            context.trials,
            *((n, np.asarray(c).tobytes()) for n, c in caps.items()),
        )
        if self._last_probe is None or self._last_probe[0] != which:
            self._last_probe = (which, self._probe(num_bits, context, caps))
        return self._last_probe[1]

    def _probe(self, num_bits: int, context: UplinkContext, caps: Mapping[str, ArrayLike]) -> LinkCounts:
        return self._carry(
            random_bits(context.keys(Purpose.PROBE_BITS), num_devices=self.num_devices, num_bits=num_bits),
            self._channel_for(num_bits),
            num_bits,
            Purpose.PROBE_NOISE,
            context,
            self.decide(context, caps),
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
        rows = len(context.trials) * self.num_devices
        rows_per_chunk = max(CHUNK_SYMBOLS // channel.columns, 1)
        level = np.repeat(decision.level.astype(np.float32), self.num_devices)
        noise_key = np.repeat(context.keys(noise_purpose), self.num_devices, axis=0)
        chain = _Chain(
            modulation=self.config.modulation,
            fading=channel.spec,
            rows=rows_per_chunk,
            columns=channel.columns,
        )
        sent, per_row = payload.reshape(rows, -1), (*channel.rows(context), level, noise_key)
        rows_out, energy = np.empty_like(sent), np.empty((3, rows))
        # Whole chunks of rows at a time: what TensorFlow holds of a payload stays bounded.
        step = rows_per_chunk * max(_BYTES_AT_ONCE // (rows_per_chunk * sent.shape[1]), 1)
        for first in range(0, rows, step):
            part = slice(first, min(first + step, rows))
            cut = Cut(
                rows=part.stop - first,
                symbols=channel.num_symbols,
                rows_per_chunk=rows_per_chunk,
                columns=channel.columns,
            )
            received, energies = _compiled(chain)(
                cut.chunks(sent[part], cut.columns * self._bits_per_symbol // 8),
                cut.block(),
                cut.start(),
                cut.valid(),
                tuple(cut.by_row(array[part]) for array in per_row),
                *channel.numbers.feed(),
            )
            energy[:, part] = cut.add_up(np.asarray(energies))
            rows_out[part] = cut.join(np.asarray(received))[:, : sent.shape[1]]
        return self._account(payload, rows_out, energy, num_bits, channel, decision)

    def _account(
        self,
        payload: NDArray[np.uint8],
        rows_out: NDArray[np.uint8],
        energy: NDArray[np.float64],
        num_bits: int,
        channel: FlatChannel,
        decision: AmplitudeDecision,
    ) -> tuple[NDArray[np.uint8], LinkCounts]:
        """Received bits without padding, and the counts observed on them; silent devices observe nothing."""
        active = decision.active
        received = rows_out.reshape(payload.shape)
        received = mask_padding(received, num_bits) * active[..., None].astype(np.uint8)
        bit_errors, packet_errors, num_packets = count_errors(
            payload, received, num_bits=num_bits, packet_bytes=self.config.packet_size_bytes
        )
        on_air = active.astype(np.int64)
        transmit, signal, noise = (e.reshape(active.shape) * on_air for e in energy)
        nothing = np.zeros_like(on_air)
        return received, LinkCounts(
            bits=on_air * num_bits,
            bit_errors=bit_errors * on_air,
            packets=on_air * num_packets,
            packet_errors=packet_errors * on_air,
            symbols=on_air * channel.num_symbols,
            transmit_energy=transmit,
            signal_energy=signal,
            noise_energy=noise * channel.numbers.noise_std**2,
            dropped=nothing,
            retransmissions=nothing,
            raw_bits=on_air * num_bits,
            raw_bit_errors=bit_errors * on_air,
            airtime_s=np.asarray(on_air * channel.num_symbols * self.config.symbol_s, float),
            energy_j=transmit * self.config.symbol_s,
        )
