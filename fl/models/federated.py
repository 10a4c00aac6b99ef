"""A network as one vector of weights, which is what travels over the air; softmax regression without Keras."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fl.models.layers import Shape
from phy.engines.choice import sees_gpu


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One trainable variable: its place in the flat vector."""

    name: str
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)

    @property
    def place(self) -> slice:
        """Where it lies in the flat vector."""
        return slice(self.offset, self.offset + self.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class FederatedModel:
    """A network of logits and the flat order of its M trainable numbers.

    The order is that of `network.trainable_variables`, each flattened row by row.

    - `initial`: the weights it was built with, `[M]`, made read-only;
    - `outputs`: its number of logits;
    - `make_network` returns the Keras network, with the same weights at every call;
    - `is_softmax`: the network is one dense layer on plain pixels, and kernels train it without Keras.
    """

    pieces: tuple[Piece, ...]
    initial: NDArray[np.float32] = field(repr=False)
    outputs: int
    make_network: Callable[[], Any]
    is_softmax: bool = False

    def __post_init__(self) -> None:
        self.initial.setflags(write=False)

    @cached_property
    def network(self) -> Any:
        """The Keras network, built when something needs it."""
        return self.make_network()

    @property
    def linear_classes(self) -> int | None:
        """The logits of softmax regression, where kernels train it; None for what TensorFlow trains."""
        return self.outputs if self.is_softmax and not sees_gpu() else None

    @property
    def num_parameters(self) -> int:
        """M."""
        return len(self.initial)

    def initial_weights(self) -> NDArray[np.float32]:
        """The weights that every device starts from, `[M]` float32, one's own copy."""
        return self.initial.copy()

    def unflatten(self, weights: NDArray[Any]) -> list[NDArray[Any]]:
        """`[..., M]` to arrays `[..., *shape]`, one per piece, views where NumPy can."""
        return [weights[..., piece.place].reshape(*weights.shape[:-1], *piece.shape) for piece in self.pieces]


def federated(network: Any) -> FederatedModel:
    """The flat view of a built network with the weights that it has now."""
    variables = network.trainable_variables
    initial = np.concatenate([np.asarray(variable).reshape(-1) for variable in variables]).astype(np.float32)
    return FederatedModel(
        pieces=pieces_of([(str(variable.path), tuple(variable.shape)) for variable in variables]),
        initial=initial,
        outputs=int(network.output_shape[-1]),
        make_network=lambda: network,
    )


def pieces_of(variables: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[Piece, ...]:
    """The pieces of variables, given as (name, shape), one behind the other."""
    pieces: list[Piece] = []
    offset = 0
    for name, shape in variables:
        pieces.append(Piece(name=name, shape=shape, offset=offset))
        offset += pieces[-1].size
    return tuple(pieces)


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
