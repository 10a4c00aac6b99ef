"""Random words by device number: what is drawn for a device depends on the round's key, its number and the place."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose, threefry, uniform_words

LANES = 64
"""Words come in groups of this many; parts of a vector begin at multiples of it."""

_GROUPS_PER_CALL = 1 << 12
_WIDEST = 1 << 9

_SCALE = np.float32(2.0**-31)


def device_words(
    key: NDArray[np.uint32], *, devices: NDArray[np.int64], count: int, first: int = 0
) -> NDArray[np.uint32]:
    """Uniform words `[K, count]` number `first` .. of each device's stream; `first` is a multiple of `LANES`.

    `key` `[2]` uint32 of `random.round_keys`; `devices` `[K]`. Threefry with counter (pair, device): the two words
    of a pair lie half a group apart.
    """
    groups = -(-count // LANES)
    out = np.empty((len(devices), groups * LANES), np.uint32)
    # Powers of two, or a shape would be compiled for every model.
    width = min(1 << (groups - 1).bit_length(), _WIDEST)
    height = _GROUPS_PER_CALL // width
    kernel = _kernel(height, width)
    numbers = devices.astype(np.uint32)
    for top in range(0, len(devices), height):
        rows = numbers[top : top + height]
        padded = np.pad(rows, (0, height - len(rows)))
        for left in range(0, groups, width):
            drawn = kernel(key, padded, np.uint32(first // LANES + left)).numpy()
            part = out[top : top + height, left * LANES : (left + width) * LANES]
            part[:] = drawn[: len(rows), : part.shape[1]]
    return out[:, :count]


@lru_cache(maxsize=8)
def _kernel(height: int, width: int) -> Any:
    import tensorflow as tf

    @tf.function(
        jit_compile=True,
        autograph=False,
        input_signature=[
            tf.TensorSpec([2], tf.uint32),
            tf.TensorSpec([height], tf.uint32),
            tf.TensorSpec([], tf.uint32),
        ],
    )
    def kernel(key: Any, devices: Any, first: Any) -> Any:
        half = LANES // 2
        pair = (tf.cast(tf.range(width * half), tf.uint32) + first * np.uint32(half))[None, :]
        words = threefry((key[0], key[1]), (pair, devices[:, None]), tf.bitwise)
        lanes = [tf.reshape(word, [height, width, half]) for word in words]
        return tf.reshape(tf.stack(lanes, axis=2), [height, width * LANES])

    return kernel


def uniforms(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Uniform on [0, 1) with 24 bits, float32."""
    return np.asarray((words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24))


def laplace(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Laplace(0, 1): density e^-|x| / 2, float32; one bit is the sign, 31 bits the size, which ends at 22.2."""
    size = (words >> np.uint32(1)).astype(np.float32)
    size += np.float32(0.5)
    size *= _SCALE
    np.log(size, out=size)
    # The sign bit of a float says the sign; a logarithm of at most 0 has it set.
    bits = size.view(np.uint32)
    bits &= np.uint32(0x7FFFFFFF)
    bits |= words << np.uint32(31)
    return size


def normals(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """N(0, 1) `[..., n]` float32 from words `[..., n]`, n even, by Box-Muller on neighbours; ends at 6.8."""
    radius = words[..., 0::2].astype(np.float32)
    radius += np.float32(0.5)
    radius *= np.float32(2.0**-32)
    radius = np.sqrt(np.maximum(-2.0 * np.log(radius), np.float32(0.0)))
    angle = uniforms(words[..., 1::2]) * np.float32(2.0 * np.pi)
    out = np.empty(words.shape, np.float32)
    out[..., 0::2], out[..., 1::2] = radius * np.cos(angle), radius * np.sin(angle)
    return out


def round_normals(context: UplinkContext, *, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """N(0, 1) for the attackers of a round, `shape` `[num_trials, num_devices, num_values]`."""
    words = uniform_words(context.keys(Purpose.ATTACK), num_devices=shape[1], num_words=-(-shape[2] // 2) * 2)
    return normals(words)[..., : shape[2]].astype(np.float64)


def chosen(words: NDArray[np.uint32], *, share: NDArray[np.float32]) -> NDArray[np.bool_]:
    """True with probability `share`: 0 and 1 are sure, others exact to 2^-30, in 32-bit arithmetic for speed."""
    return np.asarray((words >> np.uint32(2)).view(np.int32) < (share * np.float32(2.0**30)).astype(np.int32))
