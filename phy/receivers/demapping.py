"""Soft symbols to soft bits and to nearest points, one axis of the constellation at a time.

A square QAM is two independent PAMs: the exponent -|x^ - x|^2 / v of a point splits into its axes, and with it the
sum (app) and the maximum (maxlog) over the points that carry a bit. So the LLRs are those of Sionna's `Demapper`, from
2 sqrt(M) exponents instead of M (`tests/phy/test_receiver_demapping.py`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from phy.config import BITS_PER_SYMBOL


class SoftSymbols(NamedTuple):
    """Soft estimate of unit-energy symbols x: x^ = x + e, E|e|^2 = v (tensors).

    - `matched` `[..., num_symbols]` complex64: x^ / v, the output of a matched filter;
    - `snr` `[..., num_symbols]` float32: 1 / v. Both are 0 where nothing is known: silence is no special case.
    """

    matched: Any
    snr: Any


@lru_cache(maxsize=8)
def constellation_points(bits_per_symbol: int) -> NDArray[np.complex64]:
    """Points of unit mean energy, `[2^bits_per_symbol]`, each at the index that is its label."""
    from sionna.phy.mapping import Constellation

    with tf.init_scope():
        return np.asarray(Constellation("pam" if bits_per_symbol == 1 else "qam", bits_per_symbol)(), np.complex64)


@lru_cache(maxsize=8)
def _axis_levels(bits_per_symbol: int) -> NDArray[np.float32]:
    """Level of every label on one axis, `[2^bits of an axis]`, at unit mean energy of the whole constellation."""
    points = constellation_points(bits_per_symbol)
    if bits_per_symbol == 1:
        return points.real
    axis_bits = bits_per_symbol // 2
    # TS 38.211 5.1: even bits of a label belong to the real axis, odd ones to the imaginary axis.
    labels = [sum((level >> bit & 1) << (2 * bit + 1) for bit in range(axis_bits)) for level in range(2**axis_bits)]
    return points[labels].real


def _axes(soft: SoftSymbols, bits_per_symbol: int) -> Any:
    """Real parts of the axes in use, `[..., num_symbols, 1 or 2]` float32."""
    parts = [tf.math.real(soft.matched)] + [tf.math.imag(soft.matched)] * (bits_per_symbol > 1)
    return tf.stack(parts, axis=-1)


def bit_llrs(soft: SoftSymbols, *, modulation: str, demapper: str) -> Any:
    """LLRs `[..., num_symbols * bits_per_symbol]` float32, ln P(1) / P(0), in the order of the label's bits.

        app:    ln sum_{x: b(x)=1} exp(-|x^ - x|^2 / v) - ln sum_{x: b(x)=0} exp(-|x^ - x|^2 / v)
        maxlog: the same with the largest term of each sum

    with -|x^ - x|^2 / v = 2 Re(conj(x) matched) - |x|^2 snr up to a term that cancels. Pure TensorFlow.
    """
    bits_per_symbol = BITS_PER_SYMBOL[modulation]
    levels = _axis_levels(bits_per_symbol)
    axes = _axes(soft, bits_per_symbol)
    if len(levels) == 2:
        per_bit = [(2.0 * (levels[1] - levels[0])) * axes]
    else:
        snr = soft.snr[..., None]
        exponents = [(2.0 * level) * axes - (level * level) * snr for level in levels]
        axis_bits = bits_per_symbol // 2
        per_bit = []
        for bit in reversed(range(axis_bits)):
            ones = [e for label, e in enumerate(exponents) if label >> bit & 1]
            zeros = [e for label, e in enumerate(exponents) if not label >> bit & 1]
            per_bit.append(_log_sum(ones, demapper) - _log_sum(zeros, demapper))
    shape = soft.matched.shape
    return tf.reshape(tf.stack(per_bit, axis=-2), [*shape[:-1], shape[-1] * bits_per_symbol])


def _log_sum(exponents: list[Any], demapper: str) -> Any:
    largest = exponents[0]
    for exponent in exponents[1:]:
        largest = tf.maximum(largest, exponent)
    if demapper == "maxlog":
        return largest
    return largest + tf.math.log(tf.add_n([tf.exp(exponent - largest) for exponent in exponents]))


def nearest_points(soft: SoftSymbols, *, modulation: str) -> Any:
    """The constellation point nearest to x^, `[..., num_symbols]` complex64; any point for a silent user."""
    bits_per_symbol = BITS_PER_SYMBOL[modulation]
    levels = _axis_levels(bits_per_symbol)
    largest = np.float32(len(levels) - 1)
    half_distance = np.float32(np.abs(levels).min())
    estimate = tf.math.divide_no_nan(_axes(soft, bits_per_symbol), soft.snr[..., None])
    # Levels are the odd multiples of half the distance; a half-open cell, so that 0 is bit 0 as for the LLRs.
    odd = 2.0 * tf.floor(estimate / (2.0 * half_distance)) + 1.0
    decided = half_distance * tf.clip_by_value(odd, -largest, largest)
    imaginary = decided[..., 1] if bits_per_symbol > 1 else tf.zeros_like(decided[..., 0])
    return tf.complex(decided[..., 0], imaginary)
