"""Parameters of a network and memory per sample before it is built, without TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from fl.config.model import ModelConfig
from fl.models.layers import Function, Layer, Residual, Shape, walk
from fl.models.zoo import architecture

_BYTES_PER_ENTRY = 4


def num_parameters(config: ModelConfig, *, image_shape: Shape, num_classes: int) -> int | None:
    """M, the trainable numbers; None for `custom`, a function of the user.

    `image_shape` is height, width, channels. Raises `LearningError` for an image too small for the network and for
    `outputs` below `num_classes`.
    """
    if config.name == "custom":
        return None
    layers = architecture(config, image_shape=image_shape, num_classes=num_classes)
    return sum(step.layer.num_parameters(step.input_shape) for step in walk(layers, image_shape))


def activation_bytes(config: ModelConfig, *, image_shape: Shape, num_classes: int) -> int | None:
    """Bytes of the image and of every layer's output of one sample in float32, kept for the gradient [B].

    None for `custom`. Raises as `num_parameters`.
    """
    if config.name == "custom":
        return None
    layers = architecture(config, image_shape=image_shape, num_classes=num_classes)
    return _BYTES_PER_ENTRY * (math.prod(image_shape) + sum(_entries(layers, image_shape)))


def _entries(layers: Sequence[Layer], shape: Shape) -> Iterator[int]:
    for step in walk(layers, shape):
        if isinstance(step.layer, Residual):
            yield from _entries(step.layer.main, step.input_shape)
            yield from _entries(step.layer.shortcut, step.input_shape)
        # Flattened, an image is the same memory.
        if step.layer != Function(kind="flatten"):
            yield math.prod(step.output_shape)
