"""Override of Sionna's random generator by counter-based numbers, so that no row depends on the rest of its batch.

Sionna draws everything from one generator, `sionna.phy.config.tf_rng`, as one stream for a whole tensor. While
`override_generator(keys)` is open, a generator with the same methods replaces it. Its numbers are Threefry words of
(key of the row, draw, position): row r of any draw with a leading batch axis depends on `keys[r]` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from phy.numerics.lazy_tensorflow import tf
from phy.numerics.random import complex_normal, threefry


class CounterGenerator:
    """The part of `tf.random.Generator` that Sionna uses; the first axis of every shape is the row.

    `keys` `[rows, 2]` uint32. Raises ValueError for a draw whose first axis is not the rows: the rows
    then depend on each other.
    """

    def __init__(self, keys: Any) -> None:
        self._keys = keys
        self._draws = 0

    def uniform(self, shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None) -> Any:
        """Uniform on [minval, maxval), float32 `shape`."""
        words, sizes = self._words(shape)
        unit = tf.cast(tf.bitwise.right_shift(words[0], np.uint32(8)), tf.float32) * np.float32(2.0**-24)
        low, high = tf.cast(minval, tf.float32), tf.cast(maxval, tf.float32)
        return tf.cast(low + (high - low) * tf.reshape(unit, sizes), dtype or tf.float32)

    def normal(self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None) -> Any:
        """Gaussian, float32 `shape`."""
        words, sizes = self._words(shape)
        # One of the two independent parts of CN(0, 1), brought back to variance one.
        drawn = tf.math.real(complex_normal(words)) * np.float32(np.sqrt(2.0))
        return tf.cast(tf.reshape(drawn, sizes) * stddev + mean, dtype or tf.float32)

    def _words(self, shape: Any) -> tuple[Any, list[int]]:
        sizes = _static_shape(shape)
        rows = self._keys.shape[0]
        if not sizes or sizes[0] != rows:
            raise ValueError(f"a draw of shape {sizes} has no row axis of {rows}; draw per row")
        each = int(np.prod(sizes[1:], dtype=np.int64))
        position = tf.cast(tf.range(each), tf.uint32)[None, :]
        key = (self._keys[:, 0, None], self._keys[:, 1, None])
        draw = tf.fill([rows, 1], tf.constant(self._draws, tf.uint32))
        self._draws += 1
        return threefry(key, (position, draw), tf.bitwise), sizes


def _static_shape(shape: Any) -> list[int]:
    if isinstance(shape, Sequence):
        return [int(tf.get_static_value(n) if tf.is_tensor(n) else n) for n in shape]
    return [int(n) for n in tf.get_static_value(shape)]


@contextmanager
def override_generator(keys: Any) -> Iterator[None]:
    """Let Sionna draw from `keys` `[rows, 2]` inside this block; open it while a function is traced."""
    from sionna.phy import config

    own = config._tf_rng
    config._tf_rng = CounterGenerator(keys)
    try:
        yield
    finally:
        config._tf_rng = own
