"""Flat fading: one complex tap per device and coherence block, drawn by counter, known perfectly or not.

    h   = gain * g,  g = 1, CN(0, 1), sqrt(K/(K+1)) + sqrt(1/(K+1)) CN(0, 1), or of `phy.fading.quantile_table`
    h^  = h + gain sqrt(v) CN(0, 1),  v the relative variance of the estimation error

Sionna applies the taps (`ApplyFlatFadingChannel`); they are drawn here because Sionna's generator is one
stream for a whole tensor, which would tie a trial's channel to the trials that share its batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from phy.config import LinkConfig
from phy.config.fading import FadingLaw
from phy.config.power import PowerPolicy
from phy.fading.gains import BlockGains, arrival_gains, check_gains
from phy.fading.quantile_table import quantile_table, table_taps
from phy.numerics.lazy_tensorflow import tf
from phy.numerics.random import Purpose, complex_normal, round_keys, threefry
from phy.numerics.streaming import pad_rows

CHUNK_SYMBOLS = 1 << 16
"""Symbols in one compiled call: big enough to hide the call, small enough for the second-level cache."""

_GAIN_TAPS = 1 << 14


@dataclass(frozen=True, kw_only=True)
class UplinkContext:
    """Seed, trials and round of a transmission: all random numbers derive from them.

    `silent`: devices that do not send in this round, in any trial. Links with shared resources keep them off the air.
    Links with separate resources may simulate them, without an effect on the others.
    """

    seed: int
    trials: tuple[int, ...]
    round_index: int = 0
    silent: tuple[int, ...] = ()

    def keys(self, purpose: Purpose, *, same_every_round: bool = False) -> NDArray[np.uint32]:
        """Keys `[num_trials, 2]` of one purpose in this round (or for the whole run)."""
        return round_keys(self.seed, self.trials, purpose, 0 if same_every_round else self.round_index + 1)


DrawKind = Literal["constant", "scattered", "fixed-and-scattered", "table"]
"""Way to draw taps: g above, from left to right."""


def draw_kind(law: FadingLaw) -> DrawKind:
    """Return the way to draw taps of a law."""
    if law.rician_k is None:
        return "table"
    if not law.fades:
        return "constant"
    return "fixed-and-scattered" if law.rician_k else "scattered"


@dataclass(frozen=True, kw_only=True)
class Fading:
    """Compiled part of a channel: the way to draw taps; `columns` taps per row (1: one per round)."""

    kind: DrawKind
    perfect_csi: bool
    policy: PowerPolicy
    columns: int


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Scalars of a channel, fed to compiled code in this order, so that other values need no other code."""

    block_symbols: int
    law: FadingLaw
    csi_std: float
    cutoff: float
    noise_std: float

    def feed(self) -> tuple[np.uint32, NDArray[np.float32]]:
        """(block length, the rest with the table of the law, if it has one, behind it)."""
        rest = np.array([self.law.rician_k or 0.0, self.csi_std, self.cutoff, self.noise_std], np.float32)
        if self.law.rician_k is None:
            rest = np.concatenate([rest, quantile_table(self.law).ravel()])
        return np.uint32(self.block_symbols), rest


RICIAN_K, CSI_STD, CUTOFF, NOISE_STD, TABLE = range(5)
"""Places in the second part of `Numbers.feed`."""


def draw_words(key: Any, device: Any, position: Any) -> tuple[Any, Any]:
    """Two words `[rows, columns]` for keys `[rows, 2]`, devices `[rows]` and positions `[columns]` (TensorFlow)."""
    return threefry((key[:, 0, None], key[:, 1, None]), (position[None, :], device[:, None]), tf.bitwise)


def draw_normals(key: Any, device: Any, position: Any) -> Any:
    """CN(0, 1) `[rows, columns]`, arguments as in `draw_words`."""
    return complex_normal(draw_words(key, device, position))


def draw_taps(
    spec: Fading, channel_key: Any, csi_key: Any, device: Any, gain: Any, start: Any, block: Any, numbers: Any
) -> tuple[Any, Any]:
    """(h, h^) `[rows, spec.columns]` complex64 from symbol `start` on (TensorFlow)."""

    def root(value: Any) -> Any:
        return tf.cast(tf.sqrt(value), tf.complex64)

    position = (tf.cast(tf.range(spec.columns), tf.uint32) + start) // block
    scale = tf.cast(gain, tf.complex64)[:, None]
    if spec.kind == "constant":
        taps = tf.repeat(scale, spec.columns, axis=1)
    elif spec.kind == "table":
        table = tf.reshape(numbers[TABLE:], [-1, 4])
        taps = scale * table_taps(draw_words(channel_key, device, position), table)
    else:
        scattered = draw_normals(channel_key, device, position)
        if spec.kind == "fixed-and-scattered":
            k = numbers[RICIAN_K]
            scattered = root(k / (k + 1.0)) + scattered * root(1.0 / (k + 1.0))
        taps = scale * scattered
    if spec.perfect_csi:
        return taps, taps
    error = draw_normals(csi_key, device, position)
    return taps, taps + scale * tf.cast(numbers[CSI_STD], tf.complex64) * error


def precoding_weights(estimate: Any, gain: Any, cutoff: Any, policy: PowerPolicy) -> Any:
    """Weight w of `phy.links.power` for channel estimates `[rows, columns]` complex64, same shape (TensorFlow)."""
    power = tf.maximum(tf.math.real(estimate) ** 2 + tf.math.imag(estimate) ** 2, np.float32(1e-30))
    if policy.kernel is None:
        amplitude = policy.amplitude(tf.sqrt(power), gain[:, None], tf)
        return tf.math.conj(estimate) * tf.cast(amplitude * tf.math.rsqrt(power), tf.complex64)
    if policy.kernel == "constant":
        return tf.math.conj(estimate) * tf.cast(tf.math.rsqrt(power), tf.complex64)
    inverse = tf.math.conj(estimate) * tf.cast(1.0 / power, tf.complex64)
    if policy.silences:
        return tf.where(power >= cutoff * (gain**2)[:, None], inverse, tf.zeros_like(inverse))
    return inverse


@lru_cache(maxsize=64)
def _gains_kernel(spec: Fading) -> Any:
    # Two compiled calls: in one call, XLA copies the drawing into every term of a sum over few columns,
    # and compiles for minutes.
    @tf.function(jit_compile=True, autograph=False)
    def draw(channel_key: Any, csi_key: Any, device: Any, gain: Any, start: Any, block: Any, numbers: Any) -> Any:
        return draw_taps(spec, channel_key, csi_key, device, gain, start, block, numbers)

    @tf.function(jit_compile=True, autograph=False)
    def measure(taps: Any, estimate: Any, gain: Any, numbers: Any, valid: Any) -> Any:
        weights = precoding_weights(estimate, gain, numbers[CUTOFF], spec.policy)
        counted = tf.cast(tf.range(spec.columns) < valid, tf.float32)[None, :]
        power = tf.math.real(weights * tf.math.conj(weights)) * counted
        reached = tf.abs(estimate * weights) * counted
        return tf.stack(
            [
                tf.reduce_sum(power, axis=1),
                tf.reduce_sum(reached, axis=1),
                tf.reduce_sum(tf.cast(power > 0.0, tf.float32), axis=1),
                tf.reduce_max(reached, axis=1),
                tf.reduce_max(tf.abs(taps * weights) * counted, axis=1),
            ]
        )

    @tf.function(autograph=False)
    def kernel(
        channel_key: Any, csi_key: Any, device: Any, gain: Any, start: Any, block: Any, numbers: Any, valid: Any
    ) -> Any:
        taps, estimate = draw(channel_key, csi_key, device, gain, start, block, numbers)
        return measure(taps, estimate, gain, numbers, valid)

    return kernel


class FlatChannel:
    """The taps of one link configuration, always the same for the same context.

    `measure` computes the gains of a block for power control, by default with TensorFlow.
    """

    def __init__(
        self,
        config: LinkConfig,
        *,
        num_devices: int,
        num_symbols: int,
        packet_symbols: int,
        measure: Callable[[FlatChannel, UplinkContext], BlockGains] | None = None,
    ) -> None:
        channel = config.channel
        check_gains(config, num_devices=num_devices)
        perfect = config.csi_error_variance == 0.0
        drawn = channel.fades or not perfect
        self.num_devices = num_devices
        self.num_symbols = num_symbols
        self.columns = min(-(-num_symbols // 8) * 8, CHUNK_SYMBOLS)
        self.varies = channel.coherence in ("symbol", "packet") and drawn
        self.same_every_round = channel.coherence == "run" or not drawn
        self.spec = Fading(
            kind=draw_kind(channel.law),
            perfect_csi=perfect,
            policy=config.control.compiled,
            columns=self.columns if self.varies else 1,
        )
        self.numbers = Numbers(
            block_symbols={"symbol": 1, "packet": packet_symbols}.get(channel.coherence, 1 << 31),
            law=channel.law,
            csi_std=config.csi_error_variance**0.5,
            cutoff=10.0 ** (config.power.cutoff_db / 10.0),
            noise_std=(2.0 * channel.noise_power) ** 0.5,
        )
        self._link = config
        self._measure = measure or measure_gains
        self._last: tuple[tuple[object, ...], BlockGains] | None = None
        self._last_rows: (
            tuple[tuple[object, ...], tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]] | None
        ) = None
        self._last_gains: tuple[tuple[int, tuple[int, ...]], NDArray[np.float32]] | None = None

    def rows(
        self, context: UplinkContext, *, first_device: int = 0, count: int | None = None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """(channel key, CSI key, device number, gain) of every (trial, device) row, trial by trial; read-only.

        `count` devices from `first_device` on, all if left out.
        """
        last = self.num_devices if count is None else first_device + count
        block = 0 if self.same_every_round else context.round_index
        which = (context.seed, context.trials, block, first_device, last)
        if self._last_rows is None or self._last_rows[0] != which:
            self._last_rows = (which, self._rows(context, first_device, last))
        return self._last_rows[1]

    def _rows(
        self, context: UplinkContext, first_device: int, last: int
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        num_trials = len(context.trials)
        channel_key, csi_key = (
            np.repeat(context.keys(p, same_every_round=self.same_every_round), last - first_device, axis=0)
            for p in (Purpose.CHANNEL, Purpose.CSI)
        )
        device = np.tile(np.arange(first_device, last, dtype=np.uint32), num_trials)
        rows = channel_key, csi_key, device, self.gains(context)[:, first_device:last].ravel()
        for array in rows:
            array.setflags(write=False)
        return rows

    def gains(self, context: UplinkContext) -> NDArray[np.float32]:
        """Gain of each device of each trial `[num_trials, num_devices]`, kept as long as trials stay the same."""
        which = (context.seed, context.trials)
        if self._last_gains is None or self._last_gains[0] != which:
            gains = arrival_gains(self._link, num_devices=self.num_devices, seed=context.seed, trials=context.trials)
            self._last_gains = (which, gains)
        return self._last_gains[1]

    def block_gains(self, context: UplinkContext) -> BlockGains:
        """Gains for power control of this round; taps are drawn in chunks and not kept."""
        which = (context.seed, context.trials, 0 if self.same_every_round else context.round_index)
        if self._last is None or self._last[0] != which:
            self._last = (which, self._measure(self, context))
        return self._last[1]


def measure_gains(channel: FlatChannel, context: UplinkContext) -> BlockGains:
    """Compute `FlatChannel.block_gains` by TensorFlow."""
    rows = channel.rows(context)
    total = np.zeros((5, len(rows[0])))
    kernel = _gains_kernel(channel.spec)
    block, numbers = channel.numbers.feed()
    step = max(_GAIN_TAPS // channel.spec.columns, 1)
    for first in range(0, len(rows[0]), step):
        part = slice(first, first + step)
        used = len(rows[0][part])
        padded = [pad_rows(array[part], step) for array in rows]
        for start in range(0, channel.num_symbols if channel.varies else 1, channel.spec.columns):
            valid = np.int32(min(channel.spec.columns, channel.num_symbols - start))
            found = np.asarray(kernel(*padded, np.uint32(start), block, numbers, valid))[:, :used]
            total[:3, part] += found[:3]
            total[3:, part] = np.maximum(total[3:, part], found[3:])
    total[:3] *= 1 if channel.varies else channel.num_symbols
    power, reached, active, peak, arrival = total.reshape(5, len(context.trials), channel.num_devices)
    return BlockGains(
        weight_power=power / channel.num_symbols,
        gain_sum=reached,
        gain_peak=peak,
        arrival_peak=arrival,
        active_symbols=active,
    )
