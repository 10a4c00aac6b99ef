"""Flat fading: one complex tap per device and coherence block, drawn by counter, known perfectly or not.

    h   = gain * g,  g = 1 (constant), CN(0, 1) (Rayleigh),
          sqrt(K/(K+1)) + sqrt(1/(K+1)) CN(0, 1) (Rician)
    h^  = h + gain sqrt(v) CN(0, 1),  v the relative variance of the estimation error

Sionna applies the taps (`ApplyFlatFadingChannel`); they are drawn here because Sionna's generator is one
stream for a whole tensor, which would tie a trial's channel to the trials that share its batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config import LinkConfig
from phy.power import BlockGains
from phy.random import Purpose, complex_normal, round_keys, threefry

CHUNK_SYMBOLS = 1 << 16
"""Symbols in one compiled call: big enough to hide the call, small enough for the second-level cache."""


@dataclass(frozen=True, kw_only=True)
class UplinkContext:
    """Which round of which trials is on the air: everything random derives from it."""

    seed: int
    trials: tuple[int, ...]
    round_index: int = 0

    def keys(self, purpose: Purpose, *, coherent_over_run: bool = False) -> NDArray[np.uint32]:
        """Keys `[num_trials, 2]` of one purpose in this round (or for the whole run)."""
        return round_keys(self.seed, self.trials, purpose, 0 if coherent_over_run else self.round_index + 1)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Fixed shape of a compiled call: `rows` of (trial, device) times `columns` of symbols."""

    rows: int
    columns: int


@lru_cache(maxsize=64)
def tap_kernel(fading: str, perfect_csi: bool, grid: Grid) -> Any:
    """Compiled `(channel_key, csi_key, device, gain, start, block_symbols, rician_k, csi_std) -> (h, h^)`."""
    import tensorflow as tf

    @tf.function(jit_compile=True, autograph=False)
    def kernel(
        channel_key: Any,
        csi_key: Any,
        device: Any,
        gain: Any,
        start: Any,
        block: Any,
        rician_k: Any,
        csi_std: Any,
    ) -> Any:
        position = (tf.cast(tf.range(grid.columns), tf.uint32) + start) // block

        def draw(key: Any) -> Any:
            words = threefry(
                (key[:, 0, None], key[:, 1, None]), (position[None, :], device[:, None]), tf.bitwise
            )
            return complex_normal(words)

        scale = tf.cast(gain, tf.complex64)[:, None]
        if fading == "constant":
            taps = tf.broadcast_to(scale, [grid.rows, grid.columns])
        else:
            scattered = draw(channel_key)
            if fading == "rician":
                fixed = tf.cast(tf.sqrt(rician_k / (rician_k + 1.0)), tf.complex64)
                scattered = fixed + scattered * tf.cast(tf.sqrt(1.0 / (rician_k + 1.0)), tf.complex64)
            taps = scale * scattered
        if perfect_csi:
            return taps, taps
        return taps, taps + scale * tf.cast(csi_std, tf.complex64) * draw(csi_key)

    return kernel


def precoding_weights(estimate: Any, gain: Any, cutoff: Any, policy: str) -> Any:
    """Weight w of `phy.power` for channel estimates `[rows, columns]` complex64, same shape (TensorFlow)."""
    import tensorflow as tf

    power = tf.maximum(tf.math.real(estimate) ** 2 + tf.math.imag(estimate) ** 2, np.float32(1e-30))
    if policy == "fixed":
        return tf.math.conj(estimate) * tf.cast(tf.math.rsqrt(power), tf.complex64)
    inverse = tf.math.conj(estimate) * tf.cast(1.0 / power, tf.complex64)
    if policy == "truncated-inversion":
        return tf.where(power >= cutoff * (gain**2)[:, None], inverse, tf.zeros_like(inverse))
    return inverse


@lru_cache(maxsize=64)
def _gains_kernel(policy: str, grid: Grid) -> Any:
    import tensorflow as tf

    @tf.function(jit_compile=True, autograph=False)
    def kernel(estimate: Any, gain: Any, cutoff: Any, valid: Any) -> Any:
        weights = precoding_weights(estimate, gain, cutoff, policy)
        counted = tf.cast(tf.range(grid.columns) < valid, tf.float32)[None, :]
        power = tf.math.real(weights * tf.math.conj(weights)) * counted
        reached = tf.abs(estimate * weights) * counted
        return (
            tf.reduce_sum(power, axis=1),
            tf.reduce_sum(reached, axis=1),
            tf.reduce_max(reached, axis=1),
            tf.reduce_sum(tf.cast(power > 0.0, tf.float32), axis=1),
        )

    return kernel


class FlatChannel:
    """Draws the taps of one link configuration, chunk by chunk, always the same for the same context."""

    def __init__(
        self, config: LinkConfig, *, num_devices: int, num_symbols: int, packet_symbols: int
    ) -> None:
        channel = config.channel
        self.policy = config.power.policy
        self.num_devices = num_devices
        self.num_symbols = num_symbols
        self.coherent_over_run = channel.coherence == "run"
        self.varies = channel.coherence in ("symbol", "packet") and (channel.fades or config.csi != "perfect")
        block = {"symbol": 1, "packet": packet_symbols}.get(channel.coherence, 1 << 31)
        self._fading = channel.fading
        self._perfect_csi = config.csi_error_variance == 0.0
        self._gains = np.asarray(channel.gains(num_devices), np.float32)
        self.cutoff = np.float32(10.0 ** (config.power.cutoff_db / 10.0))
        self._block = np.uint32(block)
        self._rician_k = np.float32(10.0 ** (channel.rician_k_db / 10.0))
        self._csi_std = np.float32(np.sqrt(config.csi_error_variance))
        columns = min(-(-num_symbols // 8) * 8, CHUNK_SYMBOLS)
        self.grid = Grid(rows=max(CHUNK_SYMBOLS // columns, 1), columns=columns)
        self.tap_columns = columns if self.varies else 1
        self._same_every_round = self.coherent_over_run or (not channel.fades and self._perfect_csi)
        self._last: tuple[tuple[int, tuple[int, ...], int], BlockGains] | None = None

    def with_grid(self, rows: int) -> Grid:
        """Shape of the tap arrays that go with `rows` rows of payload."""
        return Grid(rows=rows, columns=self.tap_columns)

    def rows(self, context: UplinkContext, purposes: tuple[Purpose, ...]) -> list[NDArray[np.uint32]]:
        """Keys of each purpose repeated for every (trial, device) row, `[num_trials * num_devices, 2]`."""
        return [
            np.repeat(
                context.keys(
                    p, coherent_over_run=self.coherent_over_run and p in (Purpose.CHANNEL, Purpose.CSI)
                ),
                self.num_devices,
                axis=0,
            )
            for p in purposes
        ]

    def taps(
        self,
        keys: tuple[NDArray[np.uint32], NDArray[np.uint32]],
        device: NDArray[np.uint32],
        gain: NDArray[np.float32],
        start: int,
    ) -> Any:
        """(h, h^) of the rows given, `[rows, tap_columns]` complex64 tensors, from symbol `start` on."""
        kernel = tap_kernel(self._fading, self._perfect_csi, self.with_grid(len(device)))
        return kernel(*keys, device, gain, np.uint32(start), self._block, self._rician_k, self._csi_std)

    def device_columns(self, num_trials: int) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """Device number and gain of every (trial, device) row."""
        device = np.tile(np.arange(self.num_devices, dtype=np.uint32), num_trials)
        return device, np.tile(self._gains, num_trials)

    def block_gains(self, context: UplinkContext, rows: int) -> BlockGains:
        """What power control sees of this round's block; taps are drawn in chunks of `rows` and forgotten."""
        which = (context.seed, context.trials, 0 if self._same_every_round else context.round_index)
        if self._last is None or self._last[0] != which:
            self._last = (which, self._measure_gains(context, rows))
        return self._last[1]

    def _measure_gains(self, context: UplinkContext, rows: int) -> BlockGains:
        channel_key, csi_key = self.rows(context, (Purpose.CHANNEL, Purpose.CSI))
        device, gain = self.device_columns(len(context.trials))
        total = np.zeros((4, len(device)))
        kernel = _gains_kernel(self.policy, self.with_grid(rows))
        for first in range(0, len(device), rows):
            part = slice(first, first + rows)
            used = len(device[part])
            channel_part, csi_part, device_part, gain_part = (
                pad_rows(a[part], rows) for a in (channel_key, csi_key, device, gain)
            )
            for start in range(0, self.num_symbols if self.varies else 1, self.tap_columns):
                valid = min(self.tap_columns, self.num_symbols - start)
                _, estimate = self.taps((channel_part, csi_part), device_part, gain_part, start)
                power, reached, peak, active = kernel(estimate, gain_part, self.cutoff, np.int32(valid))
                total[:2, part] += np.stack([power, reached])[:, :used]
                total[2, part] = np.maximum(total[2, part], np.asarray(peak)[:used])
                total[3, part] += np.asarray(active)[:used]
        shape = (len(context.trials), self.num_devices)
        repeat = 1 if self.varies else self.num_symbols
        return BlockGains(
            weight_power=(total[0] * repeat / self.num_symbols).reshape(shape),
            gain_sum=(total[1] * repeat).reshape(shape),
            gain_peak=total[2].reshape(shape),
            active_symbols=(total[3] * repeat).reshape(shape),
        )


def pad_rows(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """The array with its first axis filled up to `rows` by copies of its last row.

    Compiled calls have one shape: then nothing is traced again, and no value depends on how many
    neighbours it has.
    """
    missing = rows - len(array)
    return array if missing == 0 else np.concatenate([array, np.repeat(array[-1:], missing, axis=0)])
