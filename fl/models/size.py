"""Parameters of a network and memory per sample before it is built, without TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from fl.config.model import Model
from fl.models.layers import Function, Layer, Residual, Shape, walk

_BYTES_PER_ENTRY = 4


def num_parameters(config: Model, *, image_shape: Shape, num_classes: int) -> int | None:
    """M, the trainable numbers; None where only the network itself knows them.

    `image_shape` is height, width, channels. Raises `LearningError` for an image too small for the network and for
    `outputs` below `num_classes`.
    """
    layers = config.layers(image_shape=image_shape, num_classes=num_classes)
    return (
        None
        if layers is None
        else sum(step.layer.num_parameters(step.input_shape) for step in walk(layers, image_shape))
    )


def activation_bytes(config: Model, *, image_shape: Shape, num_classes: int) -> int | None:
    """Bytes of the image and of every layer's output of one sample in float32, kept for the gradient [B].

    None as for `num_parameters`. Raises as `num_parameters`.
    """
    layers = config.layers(image_shape=image_shape, num_classes=num_classes)
    if layers is None:
        return None
    return _BYTES_PER_ENTRY * (math.prod(image_shape) + sum(_entries(layers, image_shape)))


def _entries(layers: Sequence[Layer], shape: Shape) -> Iterator[int]:
    for step in walk(layers, shape):
        if isinstance(step.layer, Residual):
            yield from _entries(step.layer.main, step.input_shape)
            yield from _entries(step.layer.shortcut, step.input_shape)
        # Flattened, an image is the same memory.
        if step.layer != Function(kind="flatten"):
            yield math.prod(step.output_shape)
