"""Stacks of dense layers as plain facts: what kernels need to train and test them without TensorFlow."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from fl.base.arrays import F32
from fl.models.layers import Activation, Dense, Dropout, Function, Layer, Shape
from phy.numerics.random import stateless_uniform


@dataclass(frozen=True, kw_only=True)
class StackLayer:
    """a = f(z), z = x W + b, of x `[inputs]` after dropout of rate `dropout`.

    - `activation`: f; None: the identity;
    - `random_layer`: number of the dropout among the random layers of the network; its masks are drawn with it.
    """

    inputs: int
    units: int
    bias: bool
    activation: Activation | None = None
    dropout: float = 0.0
    random_layer: int = 0

    @property
    def num_parameters(self) -> int:
        """W `[inputs, units]` and then b `[units]`, as they lie in the flat vector of weights."""
        return (self.inputs + self.bias) * self.units


@dataclass(frozen=True, kw_only=True)
class DenseStack:
    """Dense layers one behind the other, from flat pixels to logits."""

    layers: tuple[StackLayer, ...]

    @property
    def num_parameters(self) -> int:
        """M."""
        return sum(layer.num_parameters for layer in self.layers)

    @property
    def has_dropout(self) -> bool:
        """True if some layer's input is dropped with a rate above 0."""
        return any(layer.dropout > 0.0 for layer in self.layers)


def dense_stack(layers: Sequence[Layer] | None, *, image_shape: Shape) -> DenseStack | None:
    """Return the stack that `layers` are; None for any other layer or order, and where there is no layer.

    Between two dense layers are one activation or none, and then one dropout or none.
    """
    found: list[StackLayer] = []
    shape, dropout, random_layers = image_shape, None, 0
    for layer in layers or ():
        match layer:
            case Dense() if len(shape) == 1:
                rate, number = dropout or (0.0, 0)
                made = StackLayer(
                    inputs=shape[0], units=layer.units, bias=layer.bias, dropout=rate, random_layer=number
                )
                found.append(made)
                dropout = None
            case Function(kind="relu" | "tanh" | "sigmoid" | "gelu"):
                if not found or dropout is not None or found[-1].activation is not None:
                    return None
                found[-1] = replace(found[-1], activation=cast(Activation, layer.kind))
            case Dropout():
                if dropout is not None:
                    return None
                dropout, random_layers = (layer.rate, random_layers), random_layers + 1
            case Function(kind="flatten"):
                pass
            case _:
                return None
        shape = layer.output_shape(shape)
    return DenseStack(layers=tuple(found)) if found and dropout is None else None


def keras_stack(network: Any) -> DenseStack | None:
    """Return the stack that a built Keras `Sequential` of float32 layers is; None for any other network."""
    layers = _plain_layers(network)
    return None if layers is None else dense_stack(layers, image_shape=tuple(network.input_shape[1:]))


def _plain_layers(network: Any) -> list[Layer] | None:
    """The layers of a Sequential, of those inside it too; exact types, because a subclass may compute anything."""
    import keras

    kinds, found = keras.layers, list[Layer]()
    if type(network) is not keras.Sequential:
        return None
    for layer in network.layers:
        kind = type(layer)
        if kind is keras.Sequential:
            inner = _plain_layers(layer)
            if inner is None:
                return None
            found += inner
        elif kind is kinds.Flatten:
            found.append(Function(kind="flatten"))
        elif kind is kinds.Dropout and layer.noise_shape is None:
            found.append(Dropout(rate=layer.rate))
        elif kind is kinds.Dense and _has_plain_weights(layer):
            found.append(Dense(units=layer.units, bias=layer.use_bias))
            follows = _activation(layer.activation)
            if follows is None:
                return None
            found += follows
        elif kind is kinds.Activation:
            follows = _activation(layer.activation)
            if follows is None:
                return None
            found += follows
        elif kind is kinds.ReLU and layer.max_value is None and not layer.negative_slope and not layer.threshold:
            found.append(Function(kind="relu"))
        else:
            return None
        if layer.compute_dtype != "float32":
            return None
    return found


def _activation(function: Any) -> list[Layer] | None:
    """The layers that a function of Keras is: none for the identity; None where it is not known."""
    from keras import activations

    known: dict[Any, list[Layer]] = {
        activations.linear: [],
        activations.relu: [Function(kind="relu")],
        activations.tanh: [Function(kind="tanh")],
        activations.sigmoid: [Function(kind="sigmoid")],
        activations.gelu: [Function(kind="gelu")],
    }
    return known.get(function)


def _has_plain_weights(layer: Any) -> bool:
    """True if a dense layer has its kernel and bias alone, both trained."""
    wanted = [v for v in (layer.kernel, layer.bias) if v is not None]
    return [id(v) for v in layer.trainable_variables] == [id(v) for v in wanted] and len(layer.variables) == len(wanted)


def initial_weights(
    layers: Sequence[Layer], *, image_shape: Shape, initial: Literal["keras", "pytorch"], state: int
) -> F32:
    """Weights `[M]` of a stack as `fl.models.build` draws them in Keras, bit for bit; `state` seeds its seeds.

    An initialiser and a dropout layer draw a seed each, in the order of the layers; zeros draw none.
    """
    seeds, parts, shape = random.Random(state), list[F32](), image_shape
    for layer in layers:
        if isinstance(layer, Dense):
            fan_in, units = shape[-1], layer.units
            limit = math.sqrt(3.0 * (1.0 / ((fan_in + units) / 2.0))) if initial == "keras" else fan_in**-0.5
            parts.append(stateless_uniform(_next(seeds), fan_in * units, limit=limit))
            bias = np.zeros(units, np.float32)
            if initial == "pytorch":  # which draws a seed for a bias that is left out, too
                bias = stateless_uniform(_next(seeds), units, limit=limit)
            if layer.bias:
                parts.append(bias)
        elif isinstance(layer, Dropout) and layer.rate > 0.0:
            _next(seeds)
        shape = layer.output_shape(shape)
    return np.concatenate(parts)


def _next(seeds: random.Random) -> int:
    return seeds.randint(1, 10**9)
