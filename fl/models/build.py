"""From a configuration to a Keras network with the initial weights of a trial."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from fl.base.errors import LearningError
from fl.models import layers as plain
from fl.models.federated import FederatedModel, federated, stack_of_layers
from fl.models.kinds.networks import output_width
from fl.models.layer_stack import layer_stack
from fl.models.layers import Layer, Shape
from fl.models.model import Model
from phy.numerics.random import Purpose, seed_sequence

ONLY_DENSE = "which alone learn to predict numbers"

_NORM_EPSILON = 1e-5

Initial = Literal["keras", "pytorch"]


def keras_on_tensorflow() -> Any:
    """The module `keras`, imported on first use; LearningError for another backend, number format or image layout.

    Keras chooses its backend at import, from the variable KERAS_BACKEND, else from ~/.keras/keras.json.
    """
    backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
    if backend != "tensorflow":
        raise LearningError(
            f"KERAS_BACKEND is {backend}, phyloop trains on TensorFlow", "unset it or set it to tensorflow"
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
                f"Keras runs with {what} {found}, phyloop needs {wanted}", "change ~/.keras/keras.json or what set it"
            )
    return keras


def build_network(layers: Sequence[Layer], *, image_shape: Shape, name: str, initial: Initial = "keras") -> Any:
    """A functional `keras.Model` from images `[B, H, W, C]` float32 to logits `[B, outputs]` float32.

    Layers are named in order, so that the names of variables are the same at every call. `initial` `pytorch`: kernels
    and biases uniform within 1/sqrt(fan-in).
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
        case plain.Dense():
            drawn = _initializers(initial, fan_in=tensor.shape[-1], kernel="glorot_uniform")
            return kinds.Dense(layer.units, use_bias=layer.bias, name=f"dense_{place}", **drawn)(tensor)
        case plain.Conv():
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
        case plain.MaxPool():
            # Zeros never win over what a relu let through, so padding needs no minus infinity.
            if layer.padding > 0:
                tensor = kinds.ZeroPadding2D(layer.padding, name=f"padding_{place}")(tensor)
            return kinds.MaxPooling2D(layer.window, strides=layer.stride, name=f"pool_{place}")(tensor)
        case plain.GroupNorm():
            return kinds.GroupNormalization(layer.groups, epsilon=_NORM_EPSILON, name=f"norm_{place}")(tensor)
        case plain.Dropout():
            return kinds.Dropout(layer.rate, name=f"dropout_{place}")(tensor)
        case plain.Function(kind="relu"):
            return kinds.ReLU(name=f"relu_{place}")(tensor)
        case plain.Function(kind="flatten"):
            return kinds.Flatten(name=f"flatten_{place}")(tensor)
        case plain.Function(kind="mean"):
            return kinds.GlobalAveragePooling2D(name=f"mean_{place}")(tensor)
        case plain.Function():
            return kinds.Activation(layer.kind, name=f"{layer.kind}_{place}")(tensor)
        case plain.Residual():
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


def build_model(
    config: Model, *, image_shape: Shape, num_classes: int, seed: int, trial: int, predicts_numbers: bool = False
) -> FederatedModel:
    """The network of `config` for images `image_shape` (height, width, channels), initial weights of (seed, trial).

    The weights are those of Keras's initialisers, or drawn as PyTorch would: the same at every call and in every
    process. Raises `LearningError` for a model that does not fit, for Keras on another backend than TensorFlow, and for
    other layers than dense ones where it `predicts_numbers`.
    """
    outputs = output_width(config, num_classes=num_classes)
    state = int.from_bytes(seed_sequence(seed, trial, Purpose.INITIAL_MODEL).generate_state(4).tobytes(), "little")
    layers = config.layers(image_shape=image_shape, num_classes=num_classes)
    initial: Initial = getattr(config, "initial", "keras")

    def make_network() -> Any:
        keras_on_tensorflow()
        with _keras_seeded(state):
            if layers is not None:
                return build_network(layers, image_shape=image_shape, name=config.name, initial=initial)
            made = config.network(image_shape=image_shape, num_classes=outputs)
            return checked_network(
                made, name=config.name, image_shape=image_shape, num_classes=num_classes, outputs=outputs
            )

    stack = layer_stack(layers, image_shape=image_shape)
    if layers is not None and stack is not None and not (predicts_numbers and stack.stages):
        return stack_of_layers(
            layers,
            stack=stack,
            image_shape=image_shape,
            initial=initial,
            state=state,
            make_network=make_network,
            predicts_numbers=predicts_numbers,
        )
    made = federated(make_network(), predicts_numbers=predicts_numbers)
    if predicts_numbers and (made.stack is None or made.stack.stages):
        raise LearningError(f"model {config.name} has other layers than dense ones, {ONLY_DENSE}", "write model: mlp")
    return made


@contextmanager
def _keras_seeded(state: int) -> Iterator[None]:
    """An initialiser without a seed asks Python's own generator for one: seeded here, and put back afterwards.

    Keras has one to itself for the time being, for other threads may draw from Python's.
    """
    from keras.src.random import seed_generator

    kept, module = random.getstate(), seed_generator.python_random
    random.seed(state)
    seed_generator.python_random = random.Random(state)
    try:
        yield
    finally:
        seed_generator.python_random = module
        random.setstate(kept)


def checked_network(network: Any, *, name: str, image_shape: Shape, num_classes: int, outputs: int) -> Any:
    """Return `network`, built, if it is a Keras model of logits, `outputs` wide, that training can use.

    Raises `LearningError` for one that does not fit, ends in probabilities, or has weights that gradients do not move.
    """
    import keras

    if not isinstance(network, keras.Model):
        raise LearningError(f"model {name} returned {type(network).__name__}", "return a keras.Model of logits")
    width = _output_width(network, image_shape=image_shape, name=name)
    if width != outputs:
        remedy = f"make its last layer {outputs} wide"
        if width > num_classes:
            remedy += f", or write outputs: {width} if the rest is to stay unused"
        raise LearningError(
            f"model {name} has {width} outputs where {outputs} are needed for {num_classes} classes", remedy
        )
    if not network.trainable_variables:
        raise LearningError(f"model {name} has no trainable weights", "leave some layer trainable")
    if network.non_trainable_weights:
        raise LearningError(
            f"model {name} has weights that gradients do not move "
            f"({network.non_trainable_weights[0].path}), which would be neither sent nor averaged",
            "use GroupNormalization in the place of BatchNormalization, and freeze no layer",
        )
    for variable in network.trainable_variables:
        if variable.dtype != "float32":
            raise LearningError(f"model {name} keeps {variable.path} in {variable.dtype}", "build it in float32")
    if network.losses:
        raise LearningError(
            f"model {name} adds losses of its own (a regulariser), which local training would not see",
            "leave them out and write local.l2",
        )
    last = network.layers[-1] if network.layers else network
    activation = getattr(getattr(last, "activation", None), "__name__", "")
    if "softmax" in (activation, type(last).__name__.lower()):
        raise LearningError(f"model {name} ends in a softmax", "leave it out, for the loss takes logits")
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
        raise LearningError(f"model {name} takes {takes}, the images are {wanted}", "use image_shape for its Input")
    if not isinstance(gives, tuple) or len(gives) != 2 or not isinstance(gives[1], int):
        raise LearningError(f"model {name} gives {gives}", "it must give logits of shape (None, classes)")
    return gives[1]
