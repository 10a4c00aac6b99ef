"""Softmax regression with the initial weights that Keras draws, without Keras: kernels train it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fl.models.federated import FederatedModel, pieces_of
from fl.models.layers import Shape


def softmax_regression(
    *,
    image_shape: Shape,
    outputs: int,
    initial: Literal["keras", "pytorch"],
    state: int,
    make_network: Callable[[], Any],
) -> FederatedModel:
    """One dense layer on plain pixels; `state` seeds Keras's generator of seeds, `make_network` builds it in Keras."""
    pixels, seeds = int(np.prod(image_shape)), random.Random(state)
    kernel_limit = math.sqrt(3.0 * (1.0 / ((pixels + outputs) / 2.0))) if initial == "keras" else pixels**-0.5
    kernel = _stateless_uniform(seeds.randint(1, 10**9), pixels * outputs, limit=kernel_limit)
    bias = np.zeros(outputs, np.float32)
    if initial == "pytorch":
        bias = _stateless_uniform(seeds.randint(1, 10**9), outputs, limit=pixels**-0.5)
    return FederatedModel(
        pieces=pieces_of([("dense_2/kernel", (pixels, outputs)), ("dense_2/bias", (outputs,))]),
        initial=np.concatenate([kernel, bias]),
        outputs=outputs,
        is_softmax=True,
        make_network=make_network,
    )


def _stateless_uniform(seed: int, count: int, *, limit: float) -> NDArray[np.float32]:
    """Return `tf.random.stateless_uniform([count], [seed, 0], -limit, limit)`: Philox-4x32 with 10 rounds."""
    mix = _philox(np.array([[seed, 0, 0, 0]], np.uint64), (0x3EC8F720, 0x02461E29))[0]
    counter = np.zeros((-(-count // 4), 4), np.uint64)
    counter[:, 0], counter[:, 2:] = np.arange(len(counter)), mix[2:]
    words = _philox(counter, (int(mix[0]), int(mix[1]))).astype(np.uint32).ravel()[:count]
    unit = (words & np.uint32(0x7FFFFF) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1.0)
    low, high = np.float32(-limit), np.float32(limit)
    return unit * (high - low) + low


def _philox(counter: NDArray[np.uint64], key: tuple[int, int]) -> NDArray[np.uint64]:
    """Four words below 2^32 of each counter `[n, 4]` (Salmon et al., SC'11)."""
    low32, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b, c, d = counter.T
    for step in range(10):
        key_a, key_b = (key[0] + step * 0x9E3779B9) & 0xFFFFFFFF, (key[1] + step * 0xBB67AE85) & 0xFFFFFFFF
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (
            (second >> shift) ^ b ^ np.uint64(key_a),
            second & low32,
            (first >> shift) ^ d ^ np.uint64(key_b),
            first & low32,
        )
    return np.stack([a, b, c, d], axis=1)
