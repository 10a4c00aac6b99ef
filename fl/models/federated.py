"""A network as one vector of weights, which is what travels over the air; stacks of layers without Keras."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32
from fl.models.layer_stack import LayerStack, initial_weights, keras_stack
from fl.models.layers import Conv, Dense, Layer, Shape, is_softmax_regression, walk
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
    - `is_softmax`: the network is one dense layer on plain pixels, and kernels train it without Keras;
    - `stack`: the layers of another network that kernels train too, convolutions and then dense ones; else None;
    - `predicts_numbers`: its first output is a number, which kernels alone train.
    """

    pieces: tuple[Piece, ...]
    initial: F32 = field(repr=False)
    outputs: int
    make_network: Callable[[], Any]
    is_softmax: bool = False
    stack: LayerStack | None = None
    predicts_numbers: bool = False

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
    def layer_stack(self) -> LayerStack | None:
        """The layers, where kernels train and test them; None for what TensorFlow does."""
        return None if sees_gpu() and not self.predicts_numbers else self.stack

    @property
    def num_parameters(self) -> int:
        """M."""
        return len(self.initial)

    def initial_weights(self) -> F32:
        """The weights that every device starts from, `[M]` float32, one's own copy."""
        return self.initial.copy()

    def unflatten(self, weights: NDArray[Any]) -> list[NDArray[Any]]:
        """`[..., M]` to arrays `[..., *shape]`, one per piece, views where NumPy can."""
        return [weights[..., piece.place].reshape(*weights.shape[:-1], *piece.shape) for piece in self.pieces]


def federated(network: Any, *, predicts_numbers: bool = False) -> FederatedModel:
    """The flat view of a built network with the weights that it has now."""
    variables = network.trainable_variables
    initial = np.concatenate([np.asarray(variable).reshape(-1) for variable in variables]).astype(np.float32)
    return FederatedModel(
        pieces=pieces_of([(str(variable.path), tuple(variable.shape)) for variable in variables]),
        initial=initial,
        outputs=int(network.output_shape[-1]),
        make_network=lambda: network,
        stack=keras_stack(network),
        predicts_numbers=predicts_numbers,
    )


def pieces_of(variables: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[Piece, ...]:
    """The pieces of variables, given as (name, shape), one behind the other."""
    pieces: list[Piece] = []
    offset = 0
    for name, shape in variables:
        pieces.append(Piece(name=name, shape=shape, offset=offset))
        offset += pieces[-1].size
    return tuple(pieces)


def stack_of_layers(
    layers: Sequence[Layer],
    *,
    stack: LayerStack,
    image_shape: Shape,
    initial: Literal["keras", "pytorch"],
    state: int,
    make_network: Callable[[], Any],
    predicts_numbers: bool = False,
) -> FederatedModel:
    """The network of `layers` without Keras; `state` seeds Keras's generator of seeds, `make_network` builds it.

    `stack` is what `layer_stack` returns for `layers`.
    """
    variables: list[tuple[str, tuple[int, ...]]] = []
    for place, (layer, before, after) in enumerate(walk(layers, image_shape), start=1):
        if isinstance(layer, Dense | Conv):
            window = (layer.kernel,) * 2 if isinstance(layer, Conv) else ()
            name = f"{'conv' if window else 'dense'}_{place}"
            variables.append((f"{name}/kernel", (*window, before[-1], after[-1])))
            if layer.bias:
                variables.append((f"{name}/bias", after[-1:]))
    is_softmax = is_softmax_regression(layers) and not predicts_numbers
    return FederatedModel(
        pieces=pieces_of(variables),
        initial=initial_weights(layers, image_shape=image_shape, initial=initial, state=state),
        outputs=stack.layers[-1].units,
        is_softmax=is_softmax,
        stack=None if is_softmax else stack,
        make_network=make_network,
        predicts_numbers=predicts_numbers,
    )
