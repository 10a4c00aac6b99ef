"""Keras, and on TensorFlow."""

from __future__ import annotations

import os
from typing import Any

from fl.tasks.base import LearningError


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
