"""The LDPC kernels as a block code: they run on the host, called from the TensorFlow graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from phy.coding.plan import PacketPlan, ldpc_mother_bits
from phy.coding.repetition import Repetition
from phy.config.coding import CodingConfig


class FusedLdpc:
    """5G LDPC (TS 38.212 5.3.2, 5.4.2) by kernels, below rate 1/5 repeated; code words equal Sionna's.

    `coding.iterations` is the limit of layered iterations with 8-bit values; decoding stops at a code word. The error
    rate is no worse than with as many iterations of flooding belief propagation, and equal if both converge.
    """

    xla = False

    def __init__(self, coding: CodingConfig, plan: PacketPlan, *, bits_per_symbol: int) -> None:
        from phy.coding.ldpc.decoder import LdpcDecoder
        from phy.coding.ldpc.encoder import LdpcEncoder
        from phy.coding.ldpc.plan import plan_ldpc

        mother_bits = ldpc_mother_bits(plan.block_bits, plan.coded_block_bits, bits_per_symbol)
        code = plan_ldpc(plan.block_bits, mother_bits, bits_per_symbol=bits_per_symbol)
        self._block_bits, self._mother_bits = plan.block_bits, mother_bits
        self._encoder, self._decoder = LdpcEncoder(code), LdpcDecoder(plan=code, iterations=coding.iterations)
        self._repetition = Repetition(mother_bits, plan.coded_block_bits)
        # What the graph holds; messages of the few frames under way are in the kernel's cache.
        self.decoder_floats = plan.coded_block_bits + mother_bits + 2 * plan.block_bits

    def encode(self, bits: Any) -> Any:
        coded = tf.numpy_function(self._encoder.encode, [tf.cast(bits, tf.uint8)], tf.uint8, stateful=False)
        coded.set_shape([bits.shape[0], self._mother_bits])
        return self._repetition.encode(tf.cast(coded, tf.float32))

    def decode(self, llrs: Any) -> Any:
        def bits_of(values: Any) -> Any:
            return self._decoder.decode(values)[0]

        decided = tf.numpy_function(bits_of, [self._repetition.combine(llrs)], tf.uint8, stateful=False)
        decided.set_shape([llrs.shape[0], self._block_bits])
        return tf.cast(decided, tf.float32)
