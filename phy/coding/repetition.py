"""Repetition code, also the extension of 5G LDPC below its lowest rate."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Repetition:
    """Bits repeated cyclically to any length; the LLRs of one bit add. Without repetition it is no code."""

    xla = True

    def __init__(self, block_bits: int, coded_bits: int) -> None:
        self._block_bits, self._coded_bits = block_bits, coded_bits
        self._times = -(-coded_bits // block_bits)
        self.decoder_floats = self._times * block_bits

    def encode(self, bits: Any) -> Any:
        return tf.tile(bits, [1, self._times])[:, : self._coded_bits]

    def combine(self, llrs: Any) -> Any:
        """`[n, coded_bits]` to the sums `[n, block_bits]` over all copies."""
        if self._times == 1:
            return llrs
        missing = self._times * self._block_bits - self._coded_bits
        whole = tf.pad(llrs, [[0, 0], [0, missing]])
        return tf.reduce_sum(tf.reshape(whole, [-1, self._times, self._block_bits]), axis=1)

    def decode(self, llrs: Any) -> Any:
        return tf.cast(self.combine(llrs) > 0.0, tf.float32)
