"""Superposition: all devices add up in the air, and the receiver sees one noisy sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
from phy.config import LinkConfig
from phy.link import Superposition, check_payload
from phy.modulation import modulator
from phy.power import decide_amplitude
from phy.random import RECEIVER, Purpose
from phy.streaming import Cut, Program, stream


@dataclass(frozen=True, kw_only=True)
class _Chain:
    """What of a superposition is compiled in; `trials` sums of `devices` each in one chunk."""

    modulation: str
    fading: Fading
    trials: int
    devices: int
    columns: int


@lru_cache(maxsize=64)
def _compiled(chain: _Chain) -> Any:
    """The chain over chunks: payload in, received sums and numbers of active devices out."""
    import tensorflow as tf
    from sionna.phy.channel import ApplyFlatFadingChannel

    apply_channel = ApplyFlatFadingChannel()
    modem = None if chain.modulation == "analog" else modulator(chain.modulation)
    rows = chain.trials * chain.devices
    shape = (chain.trials, chain.devices)

    # Two compiled calls: fused into its readers, XLA would draw every value once per reader.
    @tf.function(jit_compile=True, autograph=False)
    def draw(start: Any, rows_in: Any, block: Any, numbers: Any) -> Any:
        channel_key, csi_key, device, gain, _, noise_key = rows_in
        receiver = tf.fill([chain.trials], tf.constant(RECEIVER, tf.uint32))
        noise = draw_normals(noise_key, receiver, tf.cast(tf.range(chain.columns), tf.uint32) + start)
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
    def carry(payload: Any, noise: Any, taps: Any, estimate: Any, rows_in: Any, numbers: Any) -> Any:
        gain, level = tf.reshape(rows_in[3], [rows]), rows_in[4]
        weights = precoding_weights(estimate, gain, numbers[CUTOFF], chain.fading.policy)
        weights = tf.reshape(weights, [*shape, chain.fading.columns])
        symbols = tf.cast(payload, tf.complex64) if modem is None else modem.modulate(payload)
        sent = tf.cast(level, tf.complex64)[:, None, None] * weights * symbols
        # Devices are the transmit antennas of one receive antenna.
        through = tf.transpose(tf.reshape(taps, [*shape, chain.fading.columns]), [0, 2, 1])[:, :, None, :]
        faded = apply_channel(tf.transpose(sent, [0, 2, 1]), through)[..., 0]
        active = tf.reduce_sum(tf.cast(tf.abs(weights) > 0.0, tf.int32), axis=1)
        return faded + tf.cast(numbers[NOISE_STD], tf.complex64) * noise, active

    def run(payload: Any, start: Any, valid: Any, rows_in: Any, block: Any, numbers: Any) -> Any:
        del valid  # nothing is counted over the air
        noise, taps, estimate = draw(start, rows_in, block, numbers)
        return carry(payload, noise, taps, estimate, rows_in, numbers)

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
            ),
            outputs=(tf.complex64, tf.int32),
        )
    )


class SuperpositionLink:
    """Over-the-air aggregation in complex baseband, phases compensated by each device's channel estimate.

    `payload_bound` is the largest magnitude of an amplitude (1 for BPSK): the power constraint holds for
    the worst block, as in Zhang et al. 2022 (20).
    """

    def __init__(self, config: LinkConfig, *, num_devices: int, num_symbols: int, payload_bound: float = 1.0) -> None:
        self.num_devices = num_devices
        self.num_symbols = num_symbols
        self.config = config
        self._payload_bound = payload_bound
        self._channel = FlatChannel(
            config,
            num_devices=num_devices,
            num_symbols=num_symbols,
            packet_symbols=8 * config.packet_size_bytes,
        )

    def superpose(
        self, payload: NDArray[Any], *, context: UplinkContext, caps: Mapping[str, ArrayLike]
    ) -> Superposition:
        """See `AirUplink.superpose`. Raises LinkError for a payload of another shape."""
        num_trials, analog = len(context.trials), self.config.modulation == "analog"
        width = self.num_symbols if analog else -(-self.num_symbols // 8)
        check_payload(payload, expected=(num_trials, self.num_devices, width), dtype="fc" if analog else "u")
        channel = self._channel
        decision = decide_amplitude(
            channel.block_gains(context),
            max_power=self.config.max_power,
            payload_power=self._payload_bound**2,
            caps=caps,
        )
        cut = Cut(
            rows=num_trials,
            symbols=self.num_symbols,
            rows_per_chunk=max(CHUNK_SYMBOLS // (channel.columns * self.num_devices), 1),
            columns=channel.columns,
        )
        chain = _Chain(
            modulation=self.config.modulation,
            fading=channel.spec,
            trials=cut.rows_per_chunk,
            devices=self.num_devices,
            columns=cut.columns,
        )
        per_device = (array.reshape(num_trials, self.num_devices, -1) for array in channel.rows(context))
        channel_key, csi_key, device, gain = per_device
        received, active = _compiled(chain)(
            cut.chunks(
                payload.astype(np.complex64) if analog else payload,
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
                cut.by_row(decision.level.astype(np.float32)),
                cut.by_row(context.keys(Purpose.NOISE)),
            ),
            *channel.numbers.feed(),
        )
        num_active = cut.join(np.asarray(active)).astype(np.int64)
        return Superposition(
            received=cut.join(np.asarray(received))[:, : self.num_symbols],
            num_active=num_active[:, : self.num_symbols] if channel.varies else num_active[:, :1],
            decision=decision,
        )
