"""Shift-register encoders as one loop over time, for the convolutional and the turbo code.

Sionna's `ConvEncoder` says the same with one slice per bit, which XLA takes 10 s to compile at 1024 bits; it is the
oracle of the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf


class TrellisEncoder:
    """Rate 1/v encoder that starts in and returns to the zero state.

    `polynomials` are strings of 0 and 1, the current bit first; a recursive encoder feeds back the first of them and
    sends its input instead.
    """

    def __init__(self, polynomials: Sequence[str], *, recursive: bool) -> None:
        from sionna.phy.fec.conv.utils import Trellis

        trellis = Trellis(tuple(polynomials), rsc=recursive)
        self._memory = trellis.constraint_length - 1
        self._outputs = trellis.conv_n
        self._next = np.asarray(trellis.to_nodes)
        symbols = np.take_along_axis(np.asarray(trellis.op_mat), self._next, axis=1)
        self._emitted = (symbols[..., None] >> np.arange(self._outputs - 1, -1, -1)) & 1
        # The input that shifts a zero in, from every state: half of them enter the lower half of the states.
        self._tail_input = np.argmin(self._next, axis=1)

    def __call__(self, bits: Any) -> Any:
        """`[n, k]` float32 in {0, 1} to `[n, k + memory, v]` float32, static shapes."""
        rows, length = bits.shape
        steps = length + self._memory
        inputs = tf.transpose(tf.pad(tf.cast(bits, tf.int32), [[0, 0], [0, self._memory]]))
        following, tail_input = (tf.constant(table, tf.int32) for table in (self._next, self._tail_input))

        def step(t: Any, state: Any, branches: Any) -> tuple[Any, Any, Any]:
            bit = tf.where(t < length, inputs[t], tf.gather(tail_input, state))
            branch = 2 * state + bit
            return t + 1, tf.gather(tf.reshape(following, [-1]), branch), branches.write(t, branch)

        branches = tf.TensorArray(tf.int32, size=steps, element_shape=[rows])
        _, _, branches = tf.while_loop(
            lambda t, *_: t < steps,
            step,
            (tf.constant(0), tf.zeros([rows], tf.int32), branches),
            maximum_iterations=steps,
        )
        emitted = tf.constant(self._emitted.reshape(-1, self._outputs), tf.float32)
        return tf.gather(emitted, tf.transpose(branches.stack()))
