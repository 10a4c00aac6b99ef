"""Transmitter impairments: clipping, timing offset, carrier-frequency offset and residual phase.

    s'(t) = exp(j (phi + 2 pi f t)) clip(s)(t - tau)

with s the baseband of one device. On the OFDM grid a delay tau within the prefix is a phase ramp over the carriers,
exp(-j 2 pi k spacing tau). A frequency offset acts on samples: it rotates a symbol and causes interference between its
carriers. Clipping limits the envelope and keeps the phase, so it may come before the other two.

Time counts from the first sample of the packet, its prefix included. Phases are fractions of a turn in 32-bit integers.
Their products wrap around like turns, so phases are exact after any time, unlike in single precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from phy.config import ImpairmentsConfig, OfdmConfig
from phy.frontends.windows import CLOCK_DRAW, CLOCK_PHASES
from phy.numerics.random import complex_normal, phasor, threefry

_PHASE, _DELAY, _FREQUENCY = range(3)
_TURN = 2.0**32


class Offsets(NamedTuple):
    """Offsets of one transmitter in one packet; None for an ideal part.

    - `phase` `[rows, users, blocks]` float32: residual phase [turns], one per coherence block;
    - `delay` `[rows, users]` uint32: turns per carrier, times 2^32;
    - `frequency` `[rows, users]` uint32: turns per sample (of a single carrier: per symbol), times 2^32.
    """

    phase: Any = None
    delay: Any = None
    frequency: Any = None


def draw_offsets(
    key: Any, *, config: ImpairmentsConfig, sample_s: float, carrier_hz: float = 0.0, block: Any = None
) -> Offsets:
    """The offsets of keys `[rows, users, 2]` uint32 (TensorFlow).

    `sample_s` is the time between two samples, `carrier_hz` the distance between two carriers; `block` `[blocks]`
    uint32 numbers the coherence blocks, each with a residual phase of its own (left out: one).
    """

    def words(draw: int, position: Any) -> tuple[Any, Any]:
        wide = (key[..., 0, None], key[..., 1, None])
        return threefry(wide, (position[None, None, :], tf.constant(draw, tf.uint32)), tf.bitwise)

    def turns(draw: int, reach: float, lowest: float) -> Any:
        unit = tf.cast(words(draw, tf.zeros([1], tf.uint32))[0][..., 0], tf.float64) * (1.0 / _TURN)
        scaled = (lowest + (1.0 - lowest) * unit) * (reach * _TURN)
        return tf.cast(tf.cast(tf.math.floormod(scaled, _TURN), tf.int64), tf.uint32)

    phase = delay = frequency = None
    if config.phase_error_deg > 0.0:
        position = tf.zeros([1], tf.uint32) if block is None else block
        # One of the two independent parts of CN(0, 1), brought back to variance one.
        normal = tf.math.real(complex_normal(words(_PHASE, position))) * np.float32(np.sqrt(2.0))
        phase = normal * np.float32(config.phase_error_deg / 360.0)
    if config.timing_offset_s > 0.0 and carrier_hz > 0.0:
        delay = turns(_DELAY, -config.timing_offset_s * carrier_hz, 0.0)
    if config.cfo_hz > 0.0:
        frequency = turns(_FREQUENCY, config.cfo_hz * sample_s, -1.0)
    return Offsets(phase, delay, frequency)


def clock_phase(key: Any) -> Any:
    """Phases u of sample clocks in `phy.frontends.windows` (TensorFlow).

    Keys `[..., 2]` uint32 of impairments to `[n]` float32.
    """
    flat = tf.reshape(key, [-1, 2])
    zero = tf.zeros_like(flat[:, 0])
    word, _ = threefry((flat[:, 0], flat[:, 1]), (zero, zero + np.uint32(CLOCK_DRAW)), tf.bitwise)
    steps = tf.bitwise.right_shift(word, np.uint32(16))
    return (tf.cast(steps, tf.float32) + 0.5) / np.float32(CLOCK_PHASES)


def impair_grid(
    grid: Any,
    offsets: Offsets,
    *,
    config: ImpairmentsConfig,
    ofdm: OfdmConfig,
    symbol_index: Any = None,
    sample_power: Any = None,
) -> Any:
    """Return the grid as badly timed, tuned and amplified transmitters send it (TensorFlow).

    `grid` `[rows, users, ofdm_symbols, num_subcarriers]` complex64, carriers by rising frequency with DC at
    `num_subcarriers // 2`; same shape out. `symbol_index` `[ofdm_symbols]` uint32: numbers of these symbols in the
    packet (left out: the first), `sample_power` `[rows, users]` float32: mean power of a sample above which the
    amplifier clips (left out: the mean over this grid). Draw `offsets` in a compiled call of their own.
    """
    size = ofdm.num_subcarriers
    if config.clipping_db is not None or offsets.frequency is not None:
        # Samples of a grid with DC in the middle are those of the true waveform times a phasor of modulus one, which
        # neither clipping nor a frequency offset notices and the transform back undoes.
        scale = np.complex64(np.sqrt(size))
        samples = tf.signal.ifft(grid) * scale
        if config.clipping_db is not None:
            power = _mean_power(samples) if sample_power is None else sample_power
            samples = _clip(samples, power[..., None, None], config.clipping_db)
        if offsets.frequency is not None:
            index = tf.range(grid.shape[2], dtype=tf.int32) if symbol_index is None else symbol_index
            samples = turn_samples(samples, offsets.frequency, index, ofdm=ofdm)
        grid = tf.signal.fft(samples) / scale
    if offsets.delay is not None:
        carrier = (np.arange(size) - size // 2).astype(np.int32).view(np.uint32)
        grid *= _phasor(offsets.delay, carrier)[..., None, :]
    if offsets.phase is not None:
        grid *= _wrapped_phasor(offsets.phase)[..., None]
    return grid


def turn_samples(samples: Any, frequency: Any, symbol_index: Any, *, ofdm: OfdmConfig) -> Any:
    """Samples `[rows, users, ofdm_symbols, num_subcarriers]` after their prefixes, turned by frequency offsets.

    `frequency` as in `Offsets`, `symbol_index` as in `impair_grid` (TensorFlow).
    """
    size = ofdm.num_subcarriers
    first = tf.cast(symbol_index, tf.uint32) * np.uint32(size + ofdm.cyclic_prefix_length)
    first += np.uint32(ofdm.cyclic_prefix_length)
    turning = _phasor(frequency, first)[..., :, None]
    turning *= _phasor(frequency, np.arange(size, dtype=np.uint32))[..., None, :]
    return samples * turning


def impair_stream(
    symbols: Any, offsets: Offsets, *, config: ImpairmentsConfig, start: Any = None, symbol_power: Any = None
) -> Any:
    """Impair a single carrier, `symbols` `[rows, users, n]` complex64 (TensorFlow).

    `start` uint32 is the number of the first symbol in its packet, `symbol_power` `[rows, users]` float32 the mean
    power above which the amplifier clips (left out: 0, the mean over these symbols). A timing offset has no meaning
    here: symbols are sampled where they arrive.
    """
    if config.clipping_db is not None:
        power = _mean_power(symbols[..., None, :]) if symbol_power is None else symbol_power
        symbols = _clip(symbols, power[..., None], config.clipping_db)
    if offsets.frequency is not None:
        index = tf.cast(tf.range(symbols.shape[2]), tf.uint32)
        symbols *= _phasor(offsets.frequency, index if start is None else index + start)
    if offsets.phase is not None:
        symbols *= _wrapped_phasor(offsets.phase)
    return symbols


def _phasor(turns_each: Any, index: Any) -> Any:
    """exp(j 2 pi turns index) `[rows, users, n]` for turns `[rows, users]` in units of 2^-32 and indices `[n]`."""
    wrapped = tf.bitcast(turns_each[..., None] * index[None, None, :], tf.int32)
    return phasor(tf.cast(wrapped, tf.float32) * np.float32(1.0 / _TURN))


def _wrapped_phasor(turns: Any) -> Any:
    return phasor(turns - tf.round(turns))


def _mean_power(samples: Any) -> Any:
    return tf.reduce_mean(tf.math.real(samples) ** 2 + tf.math.imag(samples) ** 2, axis=(2, 3))


def _clip(samples: Any, power: Any, clipping_db: float) -> Any:
    """Envelope limited to `clipping_db` above sqrt(power), phase kept."""
    limit = power * np.float32(10.0 ** (clipping_db / 10.0))
    present = tf.math.real(samples) ** 2 + tf.math.imag(samples) ** 2
    shrink = tf.sqrt(tf.minimum(limit / tf.maximum(present, np.float32(1e-30)), 1.0))
    return samples * tf.cast(shrink, tf.complex64)
