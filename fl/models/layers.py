"""Layers as plain facts: shapes and parameters of each, so that sizes are known without building anything."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Shape: TypeAlias = tuple[int, ...]
"""Of one sample, without the batch: height, width, channels, or features alone."""


class Layer(Protocol):
    """One layer of a network, free of any weights."""

    def output_shape(self, shape: Shape) -> Shape:
        """Shape of its output for an input of `shape`; a dimension below 1 says that the input is too small."""
        ...

    def num_parameters(self, shape: Shape) -> int:
        """Trainable numbers for an input of `shape`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Dense:
    """y = x W + b."""

    units: int

    def output_shape(self, shape: Shape) -> Shape:
        """See `Layer`."""
        return (*shape[:-1], self.units)

    def num_parameters(self, shape: Shape) -> int:
        """See `Layer`."""
        return (shape[-1] + 1) * self.units


@dataclass(frozen=True, kw_only=True)
class Conv:
    """Square kernels moved over the image; `padding` zeros on each side, or `same` (output as large as the input)."""

    filters: int
    kernel: int
    stride: int = 1
    padding: int | Literal["same"] = 0
    bias: bool = True
    initializer: Literal["glorot_uniform", "he_normal"] = "glorot_uniform"

    def output_shape(self, shape: Shape) -> Shape:
        """See `Layer`."""
        return (*(self._length(size) for size in shape[:2]), self.filters)

    def _length(self, size: int) -> int:
        if self.padding == "same":
            return -(-size // self.stride)
        return (size + 2 * self.padding - self.kernel) // self.stride + 1

    def num_parameters(self, shape: Shape) -> int:
        """See `Layer`."""
        return (self.kernel**2 * shape[2] + self.bias) * self.filters


@dataclass(frozen=True, kw_only=True)
class MaxPool:
    """The largest of each window."""

    window: int
    stride: int
    padding: int = 0

    def output_shape(self, shape: Shape) -> Shape:
        """See `Layer`."""
        return (*((size + 2 * self.padding - self.window) // self.stride + 1 for size in shape[:2]), shape[2])

    def num_parameters(self, shape: Shape) -> int:  # noqa: ARG002
        """See `Layer`."""
        return 0


@dataclass(frozen=True, kw_only=True)
class GroupNorm:
    """Zero mean and unit variance over each group of channels of one sample, then a gain and an offset per channel."""

    groups: int

    def output_shape(self, shape: Shape) -> Shape:
        """See `Layer`."""
        return shape

    def num_parameters(self, shape: Shape) -> int:
        """See `Layer`."""
        return 2 * shape[-1]


@dataclass(frozen=True, kw_only=True)
class Function:
    """Functions without weights: `relu`, `flatten`, and `mean` over the image (global average pooling)."""

    kind: Literal["relu", "flatten", "mean"]

    def output_shape(self, shape: Shape) -> Shape:
        """See `Layer`."""
        if self.kind == "relu":
            return shape
        return (math.prod(shape),) if self.kind == "flatten" else shape[-1:]

    def num_parameters(self, shape: Shape) -> int:  # noqa: ARG002
        """See `Layer`."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Dropout:
    """Zeroes each entry with probability `rate` while training and scales the others by 1 / (1 - rate)."""

    rate: float

    def output_shape(self, shape: Shape) -> Shape:
        """See `Layer`."""
        return shape

    def num_parameters(self, shape: Shape) -> int:  # noqa: ARG002
        """See `Layer`."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Residual:
    """`main` and `shortcut` (empty: the identity) from one input, added up."""

    main: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()

    def output_shape(self, shape: Shape) -> Shape:
        """See `Layer`."""
        for layer in self.main:
            shape = layer.output_shape(shape)
        return shape

    def num_parameters(self, shape: Shape) -> int:
        """See `Layer`."""
        return sum(
            step.layer.num_parameters(step.input_shape)
            for path in (self.main, self.shortcut)
            for step in walk(path, shape)
        )


@dataclass(frozen=True, kw_only=True)
class Step:
    """One layer with the shapes on both of its sides."""

    layer: Layer
    input_shape: Shape
    output_shape: Shape


def walk(layers: Sequence[Layer], shape: Shape) -> Iterator[Step]:
    """The layers one after the other from an input of `shape`; a `Residual` counts as one."""
    for layer in layers:
        after = layer.output_shape(shape)
        yield Step(layer=layer, input_shape=shape, output_shape=after)
        shape = after
