"""Convolutions and then dense layers as plain facts: what kernels need to train and test them without TensorFlow."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from fl.base.arrays import F32
from fl.models.layers import Activation, Conv, Dense, Dropout, Function, Layer, MaxPool, Shape
from phy.numerics.random import stateless_uniform

_MOST_PRODUCTS = 16_000_000
"""Convolutions with more of them remain with TensorFlow, which is as fast there (docs/engines.md)."""
_WIDEST_POOL = 15
"""A place in a window is a byte."""


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
class ConvStage:
    """f(pool(x * W + b)) and then dropout of rate `dropout`; x `[height, width, channels]`, strides of 1.

    - `before`, `after`: rows and columns of zeros around x;
    - `pool`: the largest z of each window of this size takes its place; 1: no pooling. f grows;
    - `bias`, `activation`, `random_layer`: as in `StackLayer`.
    """

    height: int
    width: int
    channels: int
    filters: int
    kernel: int
    bias: bool
    before: int = 0
    after: int = 0
    activation: Activation | None = None
    pool: int = 1
    dropout: float = 0.0
    random_layer: int = 0

    @property
    def padded_height(self) -> int:
        """Rows with those of zeros."""
        return self.height + self.before + self.after

    @property
    def padded_width(self) -> int:
        """Columns with those of zeros."""
        return self.width + self.before + self.after

    @property
    def conv_height(self) -> int:
        """Rows of z."""
        return self.padded_height - self.kernel + 1

    @property
    def conv_width(self) -> int:
        """Columns of z."""
        return self.padded_width - self.kernel + 1

    @property
    def out_height(self) -> int:
        """Rows after pooling, which leaves out those that fill no window."""
        return self.conv_height // self.pool

    @property
    def out_width(self) -> int:
        """Columns after pooling."""
        return self.conv_width // self.pool

    @property
    def outputs(self) -> int:
        """Numbers that come out."""
        return self.out_height * self.out_width * self.filters

    @property
    def num_parameters(self) -> int:
        """W `[kernel, kernel, channels, filters]` and then b `[filters]`, as they lie in the flat vector of weights."""
        return (self.kernel**2 * self.channels + self.bias) * self.filters


@dataclass(frozen=True, kw_only=True)
class LayerStack:
    """Convolutions, if any, and dense layers, one behind the other, from pixels to logits."""

    layers: tuple[StackLayer, ...]
    stages: tuple[ConvStage, ...] = ()

    @property
    def _all(self) -> list[ConvStage | StackLayer]:
        return [*self.stages, *self.layers]

    @property
    def num_parameters(self) -> int:
        """M."""
        return sum(layer.num_parameters for layer in self._all)

    @property
    def products(self) -> int:
        """Products of an input and a weight in one forward pass of a sample."""
        pixels = sum(
            one.out_height * one.out_width * one.pool**2 * (one.num_parameters - one.bias * one.filters)
            for one in self.stages
        )
        return pixels + sum(layer.inputs * layer.units for layer in self.layers)

    @property
    def has_dropout(self) -> bool:
        """True if some layer's input is dropped with a rate above 0."""
        return any(layer.dropout > 0.0 for layer in self._all)


def layer_stack(layers: Sequence[Layer] | None, *, image_shape: Shape) -> LayerStack | None:
    """Return the stack that `layers` are; None for any other layer or order, and where there is no dense layer.

    Behind each layer with weights are one activation or none, and then one dropout or none. A convolution has a stride
    of 1; the maximum of windows side by side may follow its activation, or come before it.
    """
    found, stages = list[StackLayer](), list[ConvStage]()
    shape, dropout, random_layers = image_shape, None, 0
    for layer in layers or ():
        ends: list[Any] = found or stages
        match layer:
            case Dense() | Conv(stride=1, initializer="glorot_uniform") if len(shape) == (
                1 if isinstance(layer, Dense) else 3
            ):
                rate, number = dropout or (0.0, 0)
                if stages and not found:
                    stages[-1] = replace(stages[-1], dropout=rate, random_layer=number)
                    rate, number = 0.0, 0
                if isinstance(layer, Dense):
                    found.append(
                        StackLayer(
                            inputs=shape[0], units=layer.units, bias=layer.bias, dropout=rate, random_layer=number
                        )
                    )
                elif found or rate > 0.0:
                    return None
                else:
                    stages.append(_stage(layer, shape))
                dropout = None
            case Function(kind="relu" | "tanh" | "sigmoid" | "gelu"):
                if not ends or dropout is not None or ends[-1].activation is not None:
                    return None
                ends[-1] = replace(ends[-1], activation=cast(Activation, layer.kind))
            case MaxPool(padding=0) if layer.window == layer.stride and layer.window <= _WIDEST_POOL and not found:
                # gelu falls before it grows.
                if not stages or dropout is not None or stages[-1].pool > 1 or stages[-1].activation == "gelu":
                    return None
                stages[-1] = replace(stages[-1], pool=layer.window)
            case Dropout():
                if dropout is not None:
                    return None
                dropout, random_layers = (layer.rate, random_layers), random_layers + 1
            case Function(kind="flatten"):
                pass
            case _:
                return None
        shape = layer.output_shape(shape)
    if not found or dropout is not None or any(min(stage.out_height, stage.out_width) < 1 for stage in stages):
        return None
    stack = LayerStack(layers=tuple(found), stages=tuple(stages))
    return None if stages and stack.products > _MOST_PRODUCTS else stack


def _stage(layer: Conv, shape: Shape) -> ConvStage:
    height, width, channels = shape
    before, after = (layer.padding,) * 2 if layer.padding != "same" else ((layer.kernel - 1) // 2, layer.kernel // 2)
    return ConvStage(
        height=height,
        width=width,
        channels=channels,
        filters=layer.filters,
        kernel=layer.kernel,
        bias=layer.bias,
        before=before,
        after=after,
    )


def keras_stack(network: Any) -> LayerStack | None:
    """Return the stack that a built Keras `Sequential` of float32 layers is; None for any other network."""
    layers = _plain_layers(network)
    return None if layers is None else layer_stack(layers, image_shape=tuple(network.input_shape[1:]))


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
        elif kind is kinds.Conv2D and _is_plain_convolution(layer):
            padding: Any = "same" if layer.padding == "same" else 0
            found.append(Conv(filters=layer.filters, kernel=layer.kernel_size[0], padding=padding, bias=layer.use_bias))
            follows = _activation(layer.activation)
            if follows is None:
                return None
            found += follows
        elif kind is kinds.MaxPooling2D and _is_plain_pooling(layer):
            found.append(MaxPool(window=layer.pool_size[0], stride=layer.pool_size[0]))
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


def _is_plain_convolution(layer: Any) -> bool:
    """True for a square kernel with strides of 1 over images whose channels come last."""
    return (
        _has_plain_weights(layer)
        and layer.groups == 1
        and layer.data_format == "channels_last"
        and layer.kernel_size[0] == layer.kernel_size[1]
        and tuple(layer.strides) == tuple(layer.dilation_rate) == (1, 1)
        and layer.padding in ("valid", "same")
    )


def _is_plain_pooling(layer: Any) -> bool:
    """True for square windows side by side, none of which reaches beyond the image."""
    window = tuple(layer.pool_size)
    plain = layer.padding == "valid" and layer.data_format == "channels_last"
    return plain and window == (window[0],) * 2 == tuple(layer.strides)


def _has_plain_weights(layer: Any) -> bool:
    """True if a layer has its kernel and bias alone, both trained."""
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
        if isinstance(layer, Dense | Conv):
            units, taps = (layer.units, 1) if isinstance(layer, Dense) else (layer.filters, layer.kernel**2)
            fan_in = taps * shape[-1]
            mean = (fan_in + taps * units) / 2.0
            limit = math.sqrt(3.0 * (1.0 / mean)) if initial == "keras" else fan_in**-0.5
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
