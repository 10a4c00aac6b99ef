"""Keras on TensorFlow, and from layers as facts to a Keras network of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from fl.models.layers import Conv, Dense, Dropout, Function, GroupNorm, Layer, MaxPool, Residual, Shape
from fl.tasks.base import LearningError

_NORM_EPSILON = 1e-5

Initial = Literal["keras", "pytorch"]


def keras_on_tensorflow() -> Any:
    """The module `keras`, imported on first use.

    Keras chooses its backend at import, from the variable KERAS_BACKEND, else from ~/.keras/keras.json: the variable is
    set to `tensorflow` where it is missing or empty. Raises `LearningError` for another backend, number format or
    image layout.
    """
    backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
    if backend != "tensorflow":
        raise LearningError(
            f"KERAS_BACKEND is {backend}, phyloop trains on TensorFlow; unset it or set it to tensorflow"
        )
    os.environ["KERAS_BACKEND"] = backend
    import keras

    # Somebody else may have imported Keras before.
    for what, found, wanted in (
        ("backend", keras.backend.backend(), "tensorflow"),
        ("image_data_format", keras.config.image_data_format(), "channels_last"),
        ("dtype policy", keras.config.dtype_policy().name, "float32"),
    ):
        if found != wanted:
            raise LearningError(
                f"Keras runs with {what} {found}, phyloop needs {wanted}; change ~/.keras/keras.json or what set it"
            )
    return keras


def build_network(layers: Sequence[Layer], *, image_shape: Shape, name: str, initial: Initial = "keras") -> Any:
    """A functional `keras.Model` from images `[B, H, W, C]` float32 to logits `[B, outputs]` float32.

    It consists of Input, Dense, Conv2D, MaxPooling2D, GlobalAveragePooling2D, ZeroPadding2D, Flatten, ReLU, Dropout,
    GroupNormalization and Add, with no activation inside another layer. Layers are named in order, so that the names of
    variables are the same at every call. `initial` `pytorch`: kernels and biases uniform within 1/sqrt(fan-in).
    """
    keras = keras_on_tensorflow()
    image = keras.Input(image_shape, name="image")
    return keras.Model(image, _chain(layers, image, prefix="", initial=initial), name=name.replace("-", "_"))


def _chain(layers: Sequence[Layer], tensor: Any, *, prefix: str, initial: Initial) -> Any:
    for position, layer in enumerate(layers, start=1):
        tensor = _apply(layer, tensor, place=f"{prefix}{position}", initial=initial)
    return tensor


def _apply(layer: Layer, tensor: Any, *, place: str, initial: Initial) -> Any:
    kinds = keras_on_tensorflow().layers
    match layer:
        case Dense():
            drawn = _initializers(initial, fan_in=tensor.shape[-1], kernel="glorot_uniform")
            return kinds.Dense(layer.units, name=f"dense_{place}", **drawn)(tensor)
        case Conv():
            padding = "same" if layer.padding == "same" else "valid"
            if layer.padding != "same" and layer.padding > 0:
                tensor = kinds.ZeroPadding2D(layer.padding, name=f"padding_{place}")(tensor)
            return kinds.Conv2D(
                layer.filters,
                layer.kernel,
                strides=layer.stride,
                padding=padding,
                use_bias=layer.bias,
                **_initializers(initial, fan_in=layer.kernel**2 * tensor.shape[-1], kernel=layer.initializer),
                name=f"conv_{place}",
            )(tensor)
        case MaxPool():
            # Zeros never win over what a relu let through, so padding needs no minus infinity.
            if layer.padding > 0:
                tensor = kinds.ZeroPadding2D(layer.padding, name=f"padding_{place}")(tensor)
            return kinds.MaxPooling2D(layer.window, strides=layer.stride, name=f"pool_{place}")(tensor)
        case GroupNorm():
            return kinds.GroupNormalization(layer.groups, epsilon=_NORM_EPSILON, name=f"norm_{place}")(tensor)
        case Dropout():
            return kinds.Dropout(layer.rate, name=f"dropout_{place}")(tensor)
        case Function(kind="relu"):
            return kinds.ReLU(name=f"relu_{place}")(tensor)
        case Function(kind="flatten"):
            return kinds.Flatten(name=f"flatten_{place}")(tensor)
        case Function():
            return kinds.GlobalAveragePooling2D(name=f"mean_{place}")(tensor)
        case Residual():
            main = _chain(layer.main, tensor, prefix=f"{place}_", initial=initial)
            shortcut = _chain(layer.shortcut, tensor, prefix=f"{place}_shortcut_", initial=initial)
            return kinds.Add(name=f"add_{place}")([main, shortcut])
        case _:
            raise TypeError(f"no Keras layer for {layer}")


def _initializers(initial: Initial, *, fan_in: int, kernel: str) -> dict[str, Any]:
    """How the kernel and the bias of a layer are drawn, `kernel` where Keras's way is asked for."""
    if initial == "keras":
        return {"kernel_initializer": kernel}
    uniform, reach = keras_on_tensorflow().initializers.RandomUniform, fan_in**-0.5
    return {"kernel_initializer": uniform(-reach, reach), "bias_initializer": uniform(-reach, reach)}
