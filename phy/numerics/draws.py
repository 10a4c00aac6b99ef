"""Random words by device number: what is drawn for a device depends on the round's key, its number and the place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phy.numerics.random import Purpose, seed_sequence, uniform_words

LANES = 64
"""Words come in groups of this many; parts of a vector begin at multiples of it."""

_SCALE = np.float32(2.0**-31)


def device_words(
    key: NDArray[np.uint32], *, devices: NDArray[np.int64], count: int, first: int = 0
) -> NDArray[np.uint32]:
    """Uniform words `[K, count]` number `first` .. of each device's stream; `first` is a multiple of `LANES`.

    `key` `[2]` uint32; Threefry with counter (pair, device): the two words of a pair lie half a group apart.
    """
    from phy.numerics.compiled import read_only
    from phy.numerics.random_kernels import fill_groups

    out = np.empty((len(devices), -(-count // LANES), LANES), np.uint32)
    fill_groups(read_only(key), read_only(devices.astype(np.uint32)), first_group=first // LANES, words=out)
    return out.reshape(len(devices), -1)[:, :count]


def round_generator(seed: int, trial: int, purpose: Purpose, round_index: int) -> np.random.Generator:
    """The generator of one round of a trial, for one purpose."""
    root = seed_sequence(seed, trial, purpose)
    spawned = np.random.SeedSequence(entropy=root.entropy, spawn_key=(*root.spawn_key, round_index))
    return np.random.Generator(np.random.Philox(spawned))


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


def round_normals(keys: NDArray[np.uint32], *, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """N(0, 1) by a round's `keys` `[num_trials, 2]`, `shape` `[num_trials, num_devices, num_values]`."""
    words = uniform_words(keys, num_devices=shape[1], num_words=-(-shape[2] // 2) * 2)
    return normals(words)[..., : shape[2]].astype(np.float64)


def chosen(words: NDArray[np.uint32], *, share: NDArray[np.float32]) -> NDArray[np.bool_]:
    """True with probability `share`: 0 and 1 are sure, others exact to 2^-30, in 32-bit arithmetic for speed."""
    return np.asarray((words >> np.uint32(2)).view(np.int32) < (share * np.float32(2.0**30)).astype(np.int32))
