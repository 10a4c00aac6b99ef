"""The flat uncoded chain in TensorFlow: Sionna maps, fades and decides, XLA compiles, chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from phy.coding.modulation import modulator
from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.fading.block_taps import (
    CHUNK_SYMBOLS,
    CUTOFF,
    NOISE_STD,
    Fading,
    FlatChannel,
    UplinkContext,
    draw_normals,
    draw_taps,
    measure_gains,
    precoding_weights,
)
from phy.fading.gains import BlockGains
from phy.links.flat_chain import FlatChain, Load, flat_reception
from phy.links.link import Reception
from phy.links.power import AmplitudeDecision
from phy.measure.burstiness import measure_bursts
from phy.measure.counts import count_errors, mask_padding
from phy.numerics.random import Purpose, random_bits
from phy.numerics.streaming import Cut, Program, stream
from phy.stages import Watched

_BYTES_AT_ONCE = 1 << 23
"""Payload handed to TensorFlow in one call, where one chunk of rows is not more."""


@dataclass(frozen=True, kw_only=True)
class _Chain:
    """Compiled part of an orthogonal link; `rows` devices of all trials in one chunk."""

    modulation: str
    fading: Fading
    rows: int
    columns: int


def _draw(chain: _Chain, start: Any, rows: Any, block: Any, numbers: Any) -> tuple[Any, Any, Any]:
    """(noise of unit power, h, h^) of each row from symbol `start` on."""
    channel_key, csi_key, device, gain, _, noise_key = rows
    noise = draw_normals(noise_key, device, tf.cast(tf.range(chain.columns), tf.uint32) + start)
    return noise, *draw_taps(chain.fading, channel_key, csi_key, device, gain, start, block, numbers)


def _receive(
    chain: _Chain, symbols: Any, noise: Any, taps: Any, estimate: Any, rows: Any, numbers: Any
) -> tuple[Any, Any, Any, Any]:
    """(sent, faded, equalised, silent) symbols of each row."""
    gain, level = rows[3:5]
    weights = tf.cast(level, tf.complex64)[:, None] * precoding_weights(
        estimate, gain, numbers[CUTOFF], chain.fading.policy
    )
    sent = weights * symbols
    through = tf.broadcast_to(taps, sent.shape)[..., None, None]
    faded = _flat_fading()(sent[..., None], through)[..., 0]
    received = faded + tf.cast(numbers[NOISE_STD], tf.complex64) * noise
    reference = weights * estimate
    silent = tf.abs(reference) == 0.0
    return sent, faded, received * tf.math.reciprocal(tf.where(silent, tf.ones_like(reference), reference)), silent


@lru_cache(maxsize=1)
def _flat_fading() -> Any:
    from sionna.phy.channel import ApplyFlatFadingChannel

    return ApplyFlatFadingChannel()


@lru_cache(maxsize=64)
def _compiled(chain: _Chain) -> Any:
    """The chain over chunks: packed bits in, received packed bits and energies (sent, faded, noise) out."""
    modem = modulator(chain.modulation)
    keys = ((chain.rows, 2), tf.uint32)
    per_row = (chain.rows,)

    # Three compiled calls: fused into its readers, XLA would compute every value once per reader.
    @tf.function(jit_compile=True, autograph=False)
    def draw(start: Any, rows: Any, block: Any, numbers: Any) -> Any:
        return _draw(chain, start, rows, block, numbers)

    @tf.function(jit_compile=True, autograph=False)
    def carry(payload: Any, noise: Any, taps: Any, estimate: Any, valid: Any, rows: Any, numbers: Any) -> Any:
        symbols = modem.modulate(payload)
        sent, faded, equalised, _ = _receive(chain, symbols, noise, taps, estimate, rows, numbers)
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


def _scrambling(load: Load, context: UplinkContext, *, num_devices: int) -> NDArray[np.uint8]:
    return random_bits(
        context.keys(Purpose.SCRAMBLING),
        num_devices=num_devices,
        num_bits=load.num_bits,
        first_device=load.first_device,
    )


def _per_row(
    load: Load, context: UplinkContext, decision: AmplitudeDecision, *, num_devices: int
) -> tuple[NDArray[Any], ...]:
    """(channel key, CSI key, device, gain, level, noise key) of each row."""
    level = np.repeat(decision.level.astype(np.float32), num_devices)
    noise_key = np.repeat(context.keys(load.noise), num_devices, axis=0)
    return *load.channel.rows(context, first_device=load.first_device, count=num_devices), level, noise_key


class SionnaChain(FlatChain):
    """`FlatChain` of links of one configuration, in TensorFlow."""

    def __init__(self, config: LinkConfig) -> None:
        self._modulation = config.modulation
        self._config = config
        self._packet_bytes = config.packet_size_bytes
        self._bits_per_symbol = BITS_PER_SYMBOL[config.modulation]

    def measure_gains(self, channel: FlatChannel, context: UplinkContext) -> BlockGains:
        return measure_gains(channel, context)

    def carry(
        self, payload: NDArray[np.uint8], load: Load, *, context: UplinkContext, decision: AmplitudeDecision
    ) -> Reception:
        sent = mask_padding(payload, load.num_bits)
        if not load.known:
            scrambling = _scrambling(load, context, num_devices=payload.shape[1])
            sent ^= scrambling
        received, energy = self._receive(sent, load, context, decision)
        received = mask_padding(received, load.num_bits)
        bit_errors, packet_errors, _ = count_errors(
            sent, received, num_bits=load.num_bits, packet_bytes=self._packet_bytes
        )
        bursts = None
        if not load.known:
            bursts = measure_bursts(
                sent,
                received,
                num_bits=load.num_bits,
                packet_bits=8 * self._packet_bytes,
                bits_per_symbol=self._bits_per_symbol,
                present=decision.active,
            )
            received ^= scrambling
        return flat_reception(
            load,
            decision,
            config=self._config,
            payload=received * decision.active[..., None].astype(np.uint8),
            bit_errors=bit_errors,
            packet_errors=packet_errors,
            energies=energy,
            bursts=bursts,
        )

    def watch(
        self,
        payload: NDArray[np.uint8],
        load: Load,
        *,
        num_symbols: int,
        context: UplinkContext,
        decision: AmplitudeDecision,
    ) -> Watched:
        """Symbols and channel of the first `num_symbols` symbols; a row is a device of a trial, other arguments as in
        `carry`."""
        channel, num_devices, bits = load.channel, payload.shape[1], self._bits_per_symbol
        columns = -(-num_symbols // 8) * 8
        sent = mask_padding(payload, load.num_bits) ^ _scrambling(load, context, num_devices=num_devices)
        packed = sent.reshape(-1, sent.shape[-1])[:, : columns * bits // 8]
        packed = np.pad(packed, ((0, 0), (0, columns * bits // 8 - packed.shape[1])))
        fading = replace(channel.spec, columns=columns if channel.varies else 1)
        chain = _Chain(modulation=self._modulation, fading=fading, rows=len(packed), columns=columns)
        modem = modulator(self._modulation)
        rows = tuple(map(tf.constant, _per_row(load, context, decision, num_devices=num_devices)))
        block, numbers = map(tf.constant, channel.numbers.feed())
        noise, taps, estimate = _draw(chain, tf.constant(np.uint32(0)), rows, block, numbers)
        symbols = modem.modulate(packed)
        *_, equalised, silent = _receive(chain, symbols, noise, taps, estimate, rows, numbers)
        wrong = np.unpackbits(packed ^ modem.detect(equalised).numpy(), axis=-1, count=num_symbols * bits)
        wrong[:, load.num_bits :] = 0
        gain = tf.cast(rows[3], tf.complex64)[:, None]
        shown = (symbols, tf.where(silent, np.complex64(complex(np.nan, np.nan)), equalised))
        seen = (tf.broadcast_to(one / gain, symbols.shape)[:, None] for one in (taps, estimate))
        sent_symbols, equalised, true, known = (one[..., :num_symbols].numpy()[:, None] for one in (*shown, *seen))
        return Watched(sent_symbols, equalised, wrong[:, None].astype(bool), true, known)

    def _receive(
        self, sent: NDArray[np.uint8], load: Load, context: UplinkContext, decision: AmplitudeDecision
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        channel, (num_trials, num_devices) = load.channel, sent.shape[:2]
        rows = num_trials * num_devices
        rows_per_chunk = max(CHUNK_SYMBOLS // channel.columns, 1)
        chain = _Chain(modulation=self._modulation, fading=channel.spec, rows=rows_per_chunk, columns=channel.columns)
        payload, per_row = sent.reshape(rows, -1), _per_row(load, context, decision, num_devices=num_devices)
        received, energy = np.empty_like(payload), np.empty((3, rows))
        # Whole chunks of rows at a time: what TensorFlow holds of a payload stays bounded.
        step = rows_per_chunk * max(_BYTES_AT_ONCE // (rows_per_chunk * payload.shape[1]), 1)
        for first in range(0, rows, step):
            part = slice(first, min(first + step, rows))
            cut = Cut(
                rows=part.stop - first,
                symbols=channel.num_symbols,
                rows_per_chunk=rows_per_chunk,
                columns=channel.columns,
            )
            chunks, energies = _compiled(chain)(
                cut.chunks(payload[part], cut.columns * self._bits_per_symbol // 8),
                cut.block(),
                cut.start(),
                cut.valid(),
                tuple(cut.by_row(array[part]) for array in per_row),
                *channel.numbers.feed(),
            )
            energy[:, part] = cut.add_up(np.asarray(energies))
            received[part] = cut.join(np.asarray(chunks))[:, : payload.shape[1]]
        return received.reshape(sent.shape), energy.reshape(3, num_trials, num_devices)
