"""Superposition over flat channels in Sionna's blocks under XLA."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from phy.coding.modulation import modulator
from phy.config import ImpairmentsConfig, LinkConfig
from phy.engines.fused.flat.antennas import combined_taps
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
from phy.frontends.impairments import draw_offsets, impair_stream
from phy.links.air_chain import AirChain, Arrivals, OnAir
from phy.links.antennas import CombinedTaps
from phy.links.jamming import with_own_amplitude
from phy.links.packets.layout import impairment_keys
from phy.links.policies.fixed import Fixed
from phy.numerics.random import RECEIVER, Purpose
from phy.numerics.streaming import Cut, Program, stream


@dataclass(frozen=True, kw_only=True)
class _Chain:
    """Compiled part of a superposition; `trials` sums of `devices` each in one chunk.

    `combined`: blocks of the channels behind a combiner of antennas, 0 where taps are drawn here. `phase_blocks`:
    residual phases change from coherence block to coherence block; `symbol_s` is 0 where it plays no part; `own`: some
    devices do not follow power control.
    """

    modulation: str
    fading: Fading
    impairments: ImpairmentsConfig
    phase_blocks: bool
    symbol_s: float
    own: bool
    combined: int
    trials: int
    devices: int
    columns: int


@lru_cache(maxsize=64)
def _compiled(chain: _Chain) -> Any:
    """The chain over chunks: payload in, received sums, numbers of active devices and energies sent out."""
    from sionna.phy.channel import ApplyFlatFadingChannel

    apply_channel = ApplyFlatFadingChannel()
    modem = None if chain.modulation == "analog" else modulator(chain.modulation)
    rows = chain.trials * chain.devices
    shape = (chain.trials, chain.devices)

    # Two compiled calls: fused into its readers, XLA would draw every value once per reader.
    @tf.function(jit_compile=True, autograph=False)
    def draw(start: Any, rows_in: Any, block: Any, numbers: Any) -> Any:
        channel_key, csi_key, device, gain, _, noise_key = rows_in[:6]
        receiver = tf.fill([chain.trials], tf.constant(RECEIVER, tf.uint32))
        position = tf.cast(tf.range(chain.columns), tf.uint32) + start
        noise = draw_normals(noise_key, receiver, position)
        if chain.combined:
            of_symbol = tf.minimum(tf.cast(position // block, tf.int32), chain.combined - 1)
            of_tap = of_symbol[: chain.fading.columns]
            taps, estimate = (tf.reshape(tf.gather(given, of_tap, axis=2), [rows, -1]) for given in rows_in[-3:-1])
            return noise * tf.cast(tf.gather(rows_in[-1], of_symbol, axis=1), tf.complex64), taps, estimate
        return noise, *draw_taps(
            chain.fading,
            tf.reshape(channel_key, [rows, 2]),
            tf.reshape(csi_key, [rows, 2]),
            tf.reshape(device, [rows]),
            tf.reshape(gain, [rows]),
            start,
            block,
            numbers,
        )

    @tf.function(jit_compile=True, autograph=False)
    def draw_wrong(start: Any, impairment_key: Any, block: Any) -> Any:
        position = tf.cast(tf.range(chain.columns), tf.uint32) + start
        return draw_offsets(
            impairment_key,
            config=chain.impairments,
            sample_s=chain.symbol_s,
            block=position // block if chain.phase_blocks else None,
        )

    @tf.function(jit_compile=True, autograph=False)
    def carry(
        payload: Any,
        start: Any,
        valid: Any,
        noise: Any,
        taps: Any,
        estimate: Any,
        offsets: Any,
        rows_in: Any,
        numbers: Any,
    ) -> Any:
        gain, level = tf.reshape(rows_in[3], [rows]), rows_in[4]
        weights = precoding_weights(estimate, gain, numbers[CUTOFF], chain.fading.policy)
        weights = tf.reshape(weights, [*shape, chain.fading.columns])
        symbols = tf.cast(payload, tf.complex64) if modem is None else modem.modulate(payload)
        factor = tf.cast(level, tf.complex64)[:, None, None] * weights
        if chain.own:
            in_phase = precoding_weights(estimate, gain, numbers[CUTOFF], Fixed())
            factor = with_own_amplitude(factor, tf.reshape(in_phase, weights.shape), rows_in[8])
            weights = tf.where(rows_in[8][:, :, None] < 0.0, tf.zeros_like(weights), weights)
        sent = factor * symbols
        sent = impair_stream(sent, offsets, config=chain.impairments, start=start, symbol_power=rows_in[7])
        counted = tf.cast(tf.range(chain.columns) < valid, tf.float32)
        energy = tf.reduce_sum((tf.math.real(sent) ** 2 + tf.math.imag(sent) ** 2) * counted, axis=2)
        # Devices are the transmit antennas of one receive antenna.
        through = tf.transpose(tf.reshape(taps, [*shape, chain.fading.columns]), [0, 2, 1])[:, :, None, :]
        faded = apply_channel(tf.transpose(sent, [0, 2, 1]), through)[..., 0]
        active = tf.reduce_sum(tf.cast(tf.abs(weights) > 0.0, tf.int32), axis=1)
        return faded + tf.cast(numbers[NOISE_STD], tf.complex64) * noise, active, tf.transpose(energy)

    def run(payload: Any, start: Any, valid: Any, rows_in: Any, block: Any, numbers: Any) -> Any:
        noise, taps, estimate = draw(start, rows_in, block, numbers)
        offsets = draw_wrong(start, rows_in[6], block)
        return carry(payload, start, valid, noise, taps, estimate, offsets, rows_in, numbers)

    width = chain.columns if modem is None else chain.columns // 8
    per_trial_key, per_device_key = ((chain.trials, 2), tf.uint32), ((*shape, 2), tf.uint32)
    return stream(
        Program(
            run=run,
            payload=((*shape, width), tf.uint8 if modem else tf.complex64),
            rows=(
                per_device_key,
                per_device_key,
                (shape, tf.uint32),
                (shape, tf.float32),
                ((chain.trials,), tf.float32),
                per_trial_key,
                per_device_key,
                (shape, tf.float32),
                *[(shape, tf.float32)] * chain.own,
                *([((*shape, chain.combined), tf.complex64)] * 2 if chain.combined else []),
                *([((chain.trials, chain.combined), tf.float32)] if chain.combined else []),
            ),
            outputs=(tf.complex64, tf.int32, tf.float32),
        )
    )


class SionnaAir(AirChain):
    """`AirChain` of links of one configuration; the only one with impaired transmitters."""

    def __init__(self, config: LinkConfig) -> None:
        self._config = config

    def measure_gains(self, channel: FlatChannel, context: UplinkContext) -> BlockGains:
        return measure_gains(channel, context)

    def combine(self, channel: FlatChannel, context: UplinkContext) -> CombinedTaps:
        return combined_taps(channel, context, link=self._config)

    def add_up(self, sent: OnAir, channel: FlatChannel, *, context: UplinkContext) -> Arrivals:
        num_trials, num_devices = sent.payload.shape[:2]
        config, impairments = self._config, self._config.impairments
        analog = config.modulation == "analog"
        cut = Cut(
            rows=num_trials,
            symbols=channel.num_symbols,
            rows_per_chunk=max(CHUNK_SYMBOLS // (channel.columns * num_devices), 1),
            columns=channel.columns,
        )
        chain = _Chain(
            modulation=config.modulation,
            fading=channel.spec,
            impairments=impairments,
            phase_blocks=impairments.phase_error_deg > 0.0 and config.channel.coherence in ("symbol", "packet"),
            symbol_s=config.symbol_s if impairments.cfo_hz > 0.0 else 0.0,
            own=sent.own is not None,
            combined=0 if sent.combined is None else sent.combined.channel.shape[2],
            trials=cut.rows_per_chunk,
            devices=num_devices,
            columns=cut.columns,
        )
        per_device = (array.reshape(num_trials, num_devices, -1) for array in channel.rows(context))
        channel_key, csi_key, device, gain = per_device
        given = sent.combined
        received, active, energy = _compiled(chain)(
            cut.chunks(
                sent.payload.astype(np.complex64) if analog else sent.payload,
                cut.columns if analog else cut.columns // 8,
            ),
            cut.block(),
            cut.start(),
            cut.valid(),
            (
                cut.by_row(channel_key),
                cut.by_row(csi_key),
                cut.by_row(device[..., 0]),
                cut.by_row(gain[..., 0]),
                cut.by_row(sent.decision.level.astype(np.float32)),
                cut.by_row(context.keys(Purpose.NOISE)),
                cut.by_row(impairment_keys(context, num_devices=num_devices)),
                cut.by_row(sent.clipping_reference),
                *([] if sent.own is None else [cut.by_row(sent.own)]),
                *([] if given is None else map(cut.by_row, (given.channel, given.estimate, given.noise_amplitude))),
            ),
            *channel.numbers.feed(),
        )
        num_active = cut.join(np.asarray(active)).astype(np.int64)
        return Arrivals(
            received=cut.join(np.asarray(received))[:, : channel.num_symbols],
            num_active=num_active[:, : channel.num_symbols] if channel.varies else num_active[:, :1],
            energy_j=cut.add_up(np.asarray(energy)).T * config.symbol_s,
        )
