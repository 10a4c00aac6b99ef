"""bfloat16 on processors without its kernels: float32 numbers rounded to bfloat16, products and sums in float32.

A product of two bfloat16 numbers is exact in float32. So this is what kernels for bfloat16 compute, up to the order of
their sums. Inputs, weights and outputs of a layer are rounded on the way forward, what comes back to inputs and outputs
on the way back. It takes a little more time than float32.

TensorFlow's own kernels are no substitute: they are slower than float32, and have no gradient of a dilated convolution.
"""

from __future__ import annotations

from typing import Any

from phy.numerics.lazy_tensorflow import tf


def rounded(values: Any) -> Any:
    """Return float32 `values` rounded to bfloat16, as float32; the gradient is rounded too."""
    return tf.cast(tf.cast(values, tf.bfloat16), tf.float32)


def rounded_weights(values: Any) -> Any:
    """Return float32 `values` rounded to bfloat16, as float32; the gradient, a sum over samples, is left as it is."""
    straight = tf.custom_gradient(lambda given: (rounded(given), lambda back: back))
    return straight(values)
