"""Dropout whose masks are counter-based: no sample's mask depends on which samples or devices share its batch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from phy.numerics.random import threefry


def dropped(values: Any, *, rate: float, keys: Any, first: Any, layer: int, num_layers: int) -> Any:
    """`values` `[D * m, ...]` with each entry zero with probability `rate` and the others over 1 - `rate`.

    `keys` `[D, 2]` uint32 belong to (seed, trial, round, step, device). Sample `first` + i of the step takes the
    words of counters (pair, (first + i) num_layers + layer), first words before second ones; rates are kept to 2^-32.
    """
    import tensorflow as tf

    num_devices = keys.shape[0]
    samples = values.shape[0] // num_devices
    entries = int(np.prod(values.shape[1:]))
    words = _words_kernel(num_devices, samples, -(-entries // 2))(
        keys, first, tf.constant(layer, tf.uint32), tf.constant(num_layers, tf.uint32)
    )
    keep = tf.reshape(words[:, :entries], values.shape) >= np.uint32(round(rate * 2.0**32))
    return tf.where(keep, values * np.float32(1.0 / (1.0 - rate)), tf.zeros_like(values))


def sample_seeds(keys: Any, *, samples: int, first: Any) -> Any:
    """Seeds `[m, 2]` uint32 of one device's samples for layers that draw their own numbers; `keys` `[2]`."""
    import tensorflow as tf

    index = first + tf.cast(tf.range(samples), tf.uint32)
    return tf.stack(threefry((keys[0], keys[1]), (index, tf.zeros_like(index)), tf.bitwise), axis=1)


@lru_cache(maxsize=64)
def _words_kernel(num_devices: int, samples: int, pairs: int) -> Any:
    """Words `[D * m, 2 pairs]`; compiled, because twenty rounds of plain operations take four times as long."""
    import tensorflow as tf

    @tf.function(jit_compile=True, autograph=False)
    def kernel(keys: Any, first: Any, layer: Any, num_layers: Any) -> Any:
        position = tf.cast(tf.range(pairs), tf.uint32)[None, None, :]
        index = ((first + tf.cast(tf.range(samples), tf.uint32)) * num_layers + layer)[None, :, None]
        halves = threefry((keys[:, 0, None, None], keys[:, 1, None, None]), (position, index), tf.bitwise)
        return tf.reshape(tf.concat(halves, axis=-1), [num_devices * samples, 2 * pairs])

    return kernel
