"""The user's own code, named `module:function`: its file, before anything of it runs, and the network it returns."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from fl.models.layers import Shape
from fl.tasks.base import LearningError


def code_digest(function: str) -> str:
    """SHA-256, in hexadecimal, of the file of `function`'s module, which is not imported; LearningError without one."""
    spec = _found(function)
    if spec.origin is None or not spec.has_location:
        raise LearningError(f"model {function}: {spec.name} is not a file of Python; name the module that defines it")
    try:
        return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    except OSError as error:
        raise LearningError(f"model {function}: {spec.origin} cannot be read ({error.strerror}); allow it") from error


def check_digest(function: str, *, digest: str) -> None:
    """LearningError unless the file of `function` is the one that had `digest`."""
    found = code_digest(function)
    if found != digest:
        raise LearningError(
            f"model {function}: its file has SHA-256 {found[:12]}..., the run was begun with {digest[:12]}...; put the "
            "file back, or begin again without the key code"
        )


def custom_network(function: str, *, image_shape: Shape, num_classes: int) -> Any:
    """Return what `function`, written `module:function`, returns for these images and classes.

    The current directory is searched for the module, as `python` does and a console script does not. Raises
    `LearningError` if the module or the function is missing or fails.
    """
    with _current_directory_is_searched():
        make = _imported(function)
        try:
            return make(image_shape=image_shape, num_classes=num_classes)
        except Exception as error:
            raise LearningError(
                f"model {function} failed with {_one_line(error)}; it is called with image_shape={image_shape} and "
                f"num_classes={num_classes}"
            ) from error


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


def _found(function: str) -> ModuleSpec:
    """Where Python would find the module of `function`; the packages around it are looked into and not imported."""
    module = function.partition(":")[0]
    path: Sequence[str] | None = [str(Path.cwd()), *sys.path]
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for depth in range(len(parts)):
        name = ".".join(parts[: depth + 1])
        finders = [finder for finder in sys.meta_path if path is not None and hasattr(finder, "find_spec")]
        spec = next((found for finder in finders if (found := finder.find_spec(name, path)) is not None), None)
        path = None if spec is None else spec.submodule_search_locations
    if spec is None:
        raise LearningError(
            f"model {function}: there is no module {module} in {Path.cwd()} nor among the installed packages; "
            "run where it lies, or set PYTHONPATH to its folder"
        )
    return spec


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


def _imported(function: str) -> Callable[..., Any]:
    module_name, _, name = function.partition(":")
    _found(function)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise LearningError(f"model {function}: importing {module_name} failed with {_one_line(error)}") from error
    found: Callable[..., Any] | None = getattr(module, name, None)
    if found is None or not callable(found):
        what, file = "no" if found is None else "no callable", getattr(module, "__file__", "built in")
        raise LearningError(f"model {function}: {module_name} ({file}) has {what} {name}; define it there")
    return found


def _output_width(network: Any, *, image_shape: Shape, name: str) -> int:
    wanted = (None, *image_shape)
    try:
        if not network.built:
            network.build(wanted)
        takes = getattr(network, "input_shape", wanted)
        gives = network.compute_output_shape(wanted) if takes == wanted else None
    except Exception as error:
        raise LearningError(
            f"model {name} cannot be built for images of shape {image_shape}: {_one_line(error)}"
        ) from error
    if takes != wanted:
        raise LearningError(f"model {name} takes {takes}, the images are {wanted}; use image_shape for its Input")
    if not isinstance(gives, tuple) or len(gives) != 2 or not isinstance(gives[1], int):
        raise LearningError(f"model {name} gives {gives}; it must give logits of shape (None, classes)")
    return gives[1]


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
