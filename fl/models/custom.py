"""Networks that a model of the user builds: what training can use."""

from __future__ import annotations

from typing import Any

from fl.models.layers import Shape
from fl.tasks.base import LearningError


def checked_network(network: Any, *, name: str, image_shape: Shape, num_classes: int, outputs: int) -> Any:
    """Return `network`, built, if it is a Keras model of logits, `outputs` wide, that training can use.

    Raises `LearningError` for one that does not fit, ends in probabilities, or has weights that gradients do not move.
    """
    import keras

    if not isinstance(network, keras.Model):
        raise LearningError(f"model {name} returned {type(network).__name__}; return a keras.Model of logits")
    width = _output_width(network, image_shape=image_shape, name=name)
    if width != outputs:
        remedy = f"make its last layer {outputs} wide"
        if width > num_classes:
            remedy += f", or write outputs: {width} if the rest is to stay unused"
        raise LearningError(
            f"model {name} has {width} outputs where {outputs} are needed for {num_classes} classes; {remedy}"
        )
    if not network.trainable_variables:
        raise LearningError(f"model {name} has no trainable weights; leave some layer trainable")
    if network.non_trainable_weights:
        raise LearningError(
            f"model {name} has weights that gradients do not move ({network.non_trainable_weights[0].path}), which "
            "would be neither sent nor averaged; use GroupNormalization in the place of BatchNormalization, and freeze "
            "no layer"
        )
    for variable in network.trainable_variables:
        if variable.dtype != "float32":
            raise LearningError(f"model {name} keeps {variable.path} in {variable.dtype}; build it in float32")
    if network.losses:
        raise LearningError(
            f"model {name} adds losses of its own (a regulariser), which local training would not see; "
            "leave them out and write local.l2"
        )
    last = network.layers[-1] if network.layers else network
    activation = getattr(getattr(last, "activation", None), "__name__", "")
    if "softmax" in (activation, type(last).__name__.lower()):
        raise LearningError(f"model {name} ends in a softmax; leave it out, for the loss takes logits")
    return network


def _output_width(network: Any, *, image_shape: Shape, name: str) -> int:
    wanted = (None, *image_shape)
    try:
        if not network.built:
            network.build(wanted)
        takes = getattr(network, "input_shape", wanted)
        gives = network.compute_output_shape(wanted) if takes == wanted else None
    except Exception as error:
        raise LearningError(
            f"model {name} cannot be built for images of shape {image_shape}: {type(error).__name__}: {error}"
        ) from error
    if takes != wanted:
        raise LearningError(f"model {name} takes {takes}, the images are {wanted}; use image_shape for its Input")
    if not isinstance(gives, tuple) or len(gives) != 2 or not isinstance(gives[1], int):
        raise LearningError(f"model {name} gives {gives}; it must give logits of shape (None, classes)")
    return gives[1]
