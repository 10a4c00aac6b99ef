"""Networks of the user's own: `module:function`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fl.models.keras_backend import keras_on_tensorflow
from fl.models.layers import Shape
from fl.tasks.base import LearningError


def custom_network(function: str, *, image_shape: Shape, num_classes: int) -> Any:
    """Return what `function`, written `module:function`, returns for these images and classes.

    It is called with `image_shape` (height, width, channels) and `num_classes`. The current directory is searched for
    the module, as `python` does and a console script does not. Raises `LearningError` if the module or the function is
    missing or fails.
    """
    with _current_directory_is_searched():
        make = _look_up(function)
        try:
            return make(image_shape=image_shape, num_classes=num_classes)
        except Exception as error:
            raise LearningError(
                f"model {function} failed with {_one_line(error)}; it is called with image_shape={image_shape} and "
                f"num_classes={num_classes}"
            ) from error


def checked_network(network: Any, *, name: str, image_shape: Shape, num_classes: int, outputs: int) -> Any:
    """Return `network`, built, if it is a Keras model of logits that training and aggregation can use.

    `outputs` is the width wanted. Raises `LearningError` for another type, if it does not fit the images or the
    classes, ends in probabilities, or has weights that gradients do not move.
    """
    keras = keras_on_tensorflow()
    if not isinstance(network, keras.Model):
        raise LearningError(f"model {name} returned {type(network).__name__}; return a keras.Model of logits")
    width = _output_width(network, image_shape=image_shape, function=name)
    if width != outputs:
        remedy = f"make its last layer {outputs} wide"
        if width > num_classes:
            remedy += f", or write outputs: {width} if the rest is to stay unused"
        raise LearningError(
            f"model {name} has {width} outputs where {outputs} are needed for {num_classes} classes; {remedy}"
        )
    _only_what_gradients_move(network, function=name)
    return network


@contextmanager
def _current_directory_is_searched() -> Iterator[None]:
    here = str(Path.cwd())
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.insert(0, here)
    # A module written a moment ago may be missing from what the import system remembers of the folder.
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if added and here in sys.path:
            sys.path.remove(here)


def _look_up(function: str) -> Callable[..., Any]:
    module_name, _, name = function.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise LearningError(f"model {function}: importing {module_name} failed with {_one_line(error)}") from error
        raise LearningError(
            f"model {function}: there is no module {module_name} in {Path.cwd()} nor among the installed packages; "
            "run where it lies, or set PYTHONPATH to its folder"
        ) from error
    except Exception as error:
        raise LearningError(f"model {function}: importing {module_name} failed with {_one_line(error)}") from error
    found: Callable[..., Any] | None = getattr(module, name, None)
    if found is None or not callable(found):
        what = "no" if found is None else "no callable"
        raise LearningError(f"model {function}: {module_name} ({_file_of(module)}) has {what} {name}; define it there")
    return found


def _file_of(module: Any) -> str:
    return str(getattr(module, "__file__", None) or "built in")


def _output_width(network: Any, *, image_shape: Shape, function: str) -> int:
    wanted = (None, *image_shape)
    try:
        if not network.built:
            network.build(wanted)
        takes = getattr(network, "input_shape", wanted)
        gives = network.compute_output_shape(wanted) if takes == wanted else None
    except Exception as error:
        raise LearningError(
            f"model {function} cannot be built for images of shape {image_shape}: {_one_line(error)}"
        ) from error
    if takes != wanted:
        raise LearningError(f"model {function} takes {takes}, the images are {wanted}; use image_shape for its Input")
    if not isinstance(gives, tuple) or len(gives) != 2 or not isinstance(gives[1], int):
        raise LearningError(f"model {function} gives {gives}; it must give logits of shape (None, classes)")
    return gives[1]


def _only_what_gradients_move(network: Any, *, function: str) -> None:
    if not network.trainable_variables:
        raise LearningError(f"model {function} has no trainable weights; leave some layer trainable")
    if network.non_trainable_weights:
        first = network.non_trainable_weights[0].path
        raise LearningError(
            f"model {function} has weights that gradients do not move ({first}), which would be neither sent nor "
            "averaged; use GroupNormalization in the place of BatchNormalization, and freeze no layer"
        )
    for variable in network.trainable_variables:
        if variable.dtype != "float32":
            raise LearningError(f"model {function} keeps {variable.path} in {variable.dtype}; build it in float32")
    if network.losses:
        raise LearningError(
            f"model {function} adds losses of its own (a regulariser), which local training would not see; "
            "leave them out and write local.l2"
        )
    last = network.layers[-1] if network.layers else network
    activation = getattr(getattr(last, "activation", None), "__name__", "")
    if "softmax" in (activation, type(last).__name__.lower()):
        raise LearningError(f"model {function} ends in a softmax; leave it out, for the loss takes logits")


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
