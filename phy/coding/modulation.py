"""Bits to symbols and back, by Sionna's mapper and demapper, on packed payloads."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import tensorflow as tf

from phy.config import BITS_PER_SYMBOL

BITS_PER_BYTE = 8


class Modulator:
    """Gray-mapped BPSK or square QAM of unit average energy.

    BPSK is Sionna's one-bit PAM (bit 0 to +1, bit 1 to -1), QAM follows 3GPP TS 38.211 5.1. Both
    methods are pure TensorFlow and meant to be called inside a compiled function.
    """

    def __init__(self, modulation: str) -> None:
        from sionna.phy.mapping import Constellation, Mapper, SymbolDemapper, SymbolInds2Bits

        self.bits_per_symbol = BITS_PER_SYMBOL[modulation]
        kind = "pam" if self.bits_per_symbol == 1 else "qam"
        constellation = Constellation(kind, self.bits_per_symbol)
        self._map = Mapper(constellation=constellation)
        self._decide = SymbolDemapper("custom", constellation=constellation, hard_out=True)
        self._labels = SymbolInds2Bits(self.bits_per_symbol)

    def modulate(self, payload: Any) -> Any:
        """Packed bits `[..., num_bytes]` uint8 to symbols `[..., 8 num_bytes / bits_per_symbol]` complex64."""
        return self.modulate_bits(unpack_bits(payload))

    def modulate_bits(self, bits: Any) -> Any:
        """Bits `[..., n * bits_per_symbol]` int32 in {0, 1} to symbols `[..., n]` complex64."""
        return self._map(bits)

    def detect(self, symbols: Any) -> Any:
        """Nearest constellation point of each symbol `[..., n]` complex64, packed bits uint8 out."""
        if self.bits_per_symbol <= 2:
            # The nearest point of BPSK and QPSK is the quadrant: same decision, no search over points.
            parts = tf.math.real(symbols)[..., None]
            if self.bits_per_symbol == 2:
                parts = tf.concat([parts, tf.math.imag(symbols)[..., None]], axis=-1)
            bits = tf.cast(parts < 0.0, tf.int32)
        else:
            bits = tf.cast(self._labels(self._decide(symbols, 1.0)), tf.int32)
        return pack_bits(tf.reshape(bits, [*symbols.shape[:-1], symbols.shape[-1] * self.bits_per_symbol]))


@lru_cache(maxsize=8)
def modulator(modulation: str) -> Modulator:
    """The modulator of a name in `phy.config.BITS_PER_SYMBOL`, built once."""
    return Modulator(modulation)


def unpack_bits(payload: Any) -> Any:
    """`[..., num_bytes]` uint8 to `[..., 8 num_bytes]` int32 in {0, 1}, as `numpy.unpackbits`."""
    shifts = tf.range(BITS_PER_BYTE - 1, -1, -1, dtype=tf.int32)
    bits = tf.bitwise.bitwise_and(tf.bitwise.right_shift(tf.cast(payload, tf.int32)[..., None], shifts), 1)
    return tf.reshape(bits, [*payload.shape[:-1], payload.shape[-1] * BITS_PER_BYTE])


def pack_bits(bits: Any) -> Any:
    """`[..., 8 num_bytes]` int32 in {0, 1} to `[..., num_bytes]` uint8, first bit highest."""
    weights = tf.constant([128, 64, 32, 16, 8, 4, 2, 1], tf.int32)
    grouped = tf.reshape(bits, [*bits.shape[:-1], bits.shape[-1] // BITS_PER_BYTE, BITS_PER_BYTE])
    return tf.cast(tf.reduce_sum(grouped * weights, axis=-1), tf.uint8)
