"""Superposition: all devices add up in the air, and the receiver sees one noisy sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.channels import FlatChannel, Grid, UplinkContext, pad_rows, precoding_weights
from phy.config import LinkConfig
from phy.link import Superposition, check_payload
from phy.modulation import modulator
from phy.orthogonal import noise_kernel
from phy.power import decide_amplitude
from phy.random import RECEIVER, Purpose


@dataclass(frozen=True, kw_only=True)
class _Chunk:
    """Static shape of one compiled superposition chunk; `trials` rows of `devices` each."""

    modulation: str
    policy: str
    trials: int
    devices: int
    columns: int
    tap_columns: int


@lru_cache(maxsize=64)
def superposition_kernel(chunk: _Chunk) -> Any:
    """Compiled chain of one chunk: payload in, received sum `[trials, columns]` complex64 and active count out."""
    import tensorflow as tf
    from sionna.phy.channel import ApplyFlatFadingChannel

    apply_channel = ApplyFlatFadingChannel()
    shape = (chunk.trials, chunk.devices, chunk.columns)
    modem = None if chunk.modulation == "analog" else modulator(chunk.modulation)

    @tf.function(jit_compile=True, autograph=False)
    def kernel(
        payload: Any, taps: Any, estimate: Any, noise: Any, level: Any, gain: Any, cutoff: Any, noise_std: Any
    ) -> Any:
        symbols = tf.cast(payload, tf.complex64) if modem is None else modem.modulate(payload)
        weights = tf.reshape(
            precoding_weights(estimate, gain, cutoff, chunk.policy), [*shape[:2], chunk.tap_columns]
        )
        sent = tf.cast(level, tf.complex64)[:, None, None] * weights * symbols
        # [trials, columns, devices] transmit antennas through [trials, columns or 1, one receive antenna, devices]
        through = tf.transpose(tf.reshape(taps, [*shape[:2], chunk.tap_columns]), [0, 2, 1])[:, :, None, :]
        faded = apply_channel(tf.transpose(sent, [0, 2, 1]), through)[..., 0]
        active = tf.reduce_sum(tf.cast(tf.abs(weights) > 0.0, tf.int32), axis=1)
        return faded + tf.cast(noise_std, tf.complex64) * noise, active

    return kernel


class SuperpositionLink:
    """Over-the-air aggregation in complex baseband, phases compensated by each device's channel estimate.

    `payload_bound` is the largest magnitude of an amplitude (1 for BPSK): the power constraint holds for
    the worst block, as in Zhang et al. 2022 (20).
    """

    def __init__(
        self, config: LinkConfig, *, num_devices: int, num_symbols: int, payload_bound: float = 1.0
    ) -> None:
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
        self._trials_per_chunk = max(self._channel.grid.rows // num_devices, 1)
        self._noise_std = np.float32(np.sqrt(2.0 * config.channel.noise_power))

    def superpose(
        self, payload: NDArray[Any], *, context: UplinkContext, caps: Mapping[str, ArrayLike]
    ) -> Superposition:
        """See `AirUplink.superpose`. Raises LinkError for a payload of another shape."""
        num_trials, analog = len(context.trials), self.config.modulation == "analog"
        width = self.num_symbols if analog else -(-self.num_symbols // 8)
        check_payload(payload, expected=(num_trials, self.num_devices, width), dtype="fc" if analog else "u")
        if analog:
            payload = payload.astype(np.complex64 if payload.dtype.kind == "c" else np.float32)
        channel, step = self._channel, self._trials_per_chunk
        tap_rows = step * self.num_devices
        decision = decide_amplitude(
            channel.block_gains(context, tap_rows),
            max_power=self.config.max_power,
            payload_power=self._payload_bound**2,
            caps=caps,
        )
        columns = channel.grid.columns
        per_chunk = columns if analog else columns // 8
        num_chunks = -(-self.num_symbols // columns)
        payload = np.pad(payload, ((0, 0), (0, 0), (0, num_chunks * per_chunk - width)))
        received = np.empty((num_trials, num_chunks * columns), np.complex64)
        num_active = np.empty((num_trials, num_chunks * columns if channel.varies else 1), np.int64)
        tap_keys = channel.rows(context, (Purpose.CHANNEL, Purpose.CSI))
        device, gain = channel.device_columns(step)
        receiver = np.full(step, RECEIVER, np.uint32)
        noise_key = context.keys(Purpose.NOISE)
        level = decision.level.astype(np.float32)
        kernel = superposition_kernel(
            _Chunk(
                modulation=self.config.modulation,
                policy=channel.policy,
                trials=step,
                devices=self.num_devices,
                columns=columns,
                tap_columns=channel.tap_columns,
            )
        )
        draw_noise = noise_kernel(Grid(rows=step, columns=columns))
        for first in range(0, num_trials, step):
            part = slice(first, first + step)
            used = len(level[part])
            rows = slice(first * self.num_devices, (first + step) * self.num_devices)
            channel_part, csi_part = (pad_rows(key[rows], tap_rows) for key in tap_keys)
            noise_part, level_part = pad_rows(noise_key[part], step), pad_rows(level[part], step)
            for index in range(num_chunks):
                start = index * columns
                if index == 0 or channel.varies:
                    taps, estimate = channel.taps((channel_part, csi_part), device, gain, start)
                total, active = kernel(
                    pad_rows(payload[part, :, index * per_chunk : (index + 1) * per_chunk], step),
                    taps,
                    estimate,
                    draw_noise(noise_part, receiver, np.uint32(start)),
                    level_part,
                    gain,
                    channel.cutoff,
                    self._noise_std,
                )
                received[part, start : start + columns] = np.asarray(total)[:used]
                if channel.varies:
                    num_active[part, start : start + columns] = np.asarray(active)[:used]
                else:
                    num_active[part] = np.asarray(active)[:used]
        return Superposition(
            received=received[:, : self.num_symbols],
            num_active=num_active[:, : self.num_symbols],
            decision=decision,
        )
