"""Layers as plain facts: shapes and parameters of each, so that sizes are known without TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from fl.models.model import Model

Shape: TypeAlias = tuple[int, ...]
"""Of one sample, without the batch: height, width, channels, or features alone."""

Activation: TypeAlias = Literal["relu", "tanh", "sigmoid", "gelu"]
"""Functions of every entry that follow a layer with weights."""

_BYTES_PER_ENTRY = 4


class Layer:
    """One layer of a network, free of any weights; by default a function of the same shape without parameters."""

    def output_shape(self, shape: Shape) -> Shape:
        """Shape of its output for an input of `shape`; a dimension below 1 says that the input is too small."""
        return shape

    def num_parameters(self, shape: Shape) -> int:  # noqa: ARG002
        """Trainable numbers for an input of `shape`."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """y = x W + b."""

    units: int
    bias: bool = True

    def output_shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], self.units)

    def num_parameters(self, shape: Shape) -> int:
        return (shape[-1] + self.bias) * self.units


@dataclass(frozen=True, kw_only=True)
class Conv(Layer):
    """Square kernels moved over the image; `padding` zeros on each side, or `same` (output as large as the input)."""

    filters: int
    kernel: int
    stride: int = 1
    padding: int | Literal["same"] = 0
    bias: bool = True
    initializer: Literal["glorot_uniform", "he_normal"] = "glorot_uniform"

    def output_shape(self, shape: Shape) -> Shape:
        if self.padding == "same":
            return (*(-(-size // self.stride) for size in shape[:2]), self.filters)
        return (*((size + 2 * self.padding - self.kernel) // self.stride + 1 for size in shape[:2]), self.filters)

    def num_parameters(self, shape: Shape) -> int:
        return (self.kernel**2 * shape[2] + self.bias) * self.filters


@dataclass(frozen=True, kw_only=True)
class MaxPool(Layer):
    """The largest of each window."""

    window: int
    stride: int
    padding: int = 0

    def output_shape(self, shape: Shape) -> Shape:
        return (*((size + 2 * self.padding - self.window) // self.stride + 1 for size in shape[:2]), shape[2])


@dataclass(frozen=True, kw_only=True)
class GroupNorm(Layer):
    """Zero mean and unit variance over each group of channels of one sample, then a gain and an offset per channel."""

    groups: int

    def num_parameters(self, shape: Shape) -> int:
        return 2 * shape[-1]


@dataclass(frozen=True, kw_only=True)
class Function(Layer):
    """Functions without weights: activations, `flatten`, and `mean` over the image (global average pooling).

    `gelu` is z Phi(z) with the distribution function of a normal variable, not its approximation by tanh.
    """

    kind: Literal[Activation, "flatten", "mean"]

    def output_shape(self, shape: Shape) -> Shape:
        if self.kind == "flatten":
            return (math.prod(shape),)
        return shape[-1:] if self.kind == "mean" else shape


@dataclass(frozen=True, kw_only=True)
class Dropout(Layer):
    """Zeroes each entry with probability `rate` while training and scales the others by 1 / (1 - rate)."""

    rate: float


@dataclass(frozen=True, kw_only=True)
class Residual(Layer):
    """`main` and `shortcut` (empty: the identity) from one input, added up."""

    main: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()

    def output_shape(self, shape: Shape) -> Shape:
        for layer in self.main:
            shape = layer.output_shape(shape)
        return shape

    def num_parameters(self, shape: Shape) -> int:
        return sum(
            layer.num_parameters(given) for path in (self.main, self.shortcut) for layer, given, _ in walk(path, shape)
        )


def walk(layers: Sequence[Layer], shape: Shape) -> Iterator[tuple[Layer, Shape, Shape]]:
    """Each layer with the shapes of its input and its output, from an input of `shape`; a `Residual` counts as one."""
    for layer in layers:
        after = layer.output_shape(shape)
        yield layer, shape, after
        shape = after


def is_softmax_regression(layers: Sequence[Layer] | None) -> bool:
    """Return True for one dense layer on the pixels, which kernels train without TensorFlow."""
    match layers:
        case (Function(kind="flatten"), Dense()):
            return True
    return False


def num_parameters(config: Model, *, image_shape: Shape, num_classes: int) -> int | None:
    """M, the trainable numbers; None where only the network itself knows them. Raises as `Model.layers`."""
    layers = config.layers(image_shape=image_shape, num_classes=num_classes)
    return None if layers is None else sum(layer.num_parameters(given) for layer, given, _ in walk(layers, image_shape))


def activation_bytes(config: Model, *, image_shape: Shape, num_classes: int) -> int | None:
    """Bytes of the image and of every layer's output of one sample in float32 [B]; None as for `num_parameters`."""
    layers = config.layers(image_shape=image_shape, num_classes=num_classes)
    if layers is None:
        return None
    return _BYTES_PER_ENTRY * (math.prod(image_shape) + sum(_entries(layers, image_shape)))


def _entries(layers: Sequence[Layer], shape: Shape) -> Iterator[int]:
    for layer, given, after in walk(layers, shape):
        if isinstance(layer, Residual):
            yield from _entries(layer.main, given)
            yield from _entries(layer.shortcut, given)
        # Flattened, an image is the same memory.
        if layer != Function(kind="flatten"):
            yield math.prod(after)
