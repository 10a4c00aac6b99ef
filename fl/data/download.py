"""Sets that keras fetches, checks against their known hash and keeps."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from fl.config.data import DataName
from fl.data.whereabouts import keras_cache, remedy
from fl.tasks.base import LearningError

_PATIENCE_S = 60.0
"""keras itself waits for ever for a server that went silent."""


def download(name: DataName) -> tuple[Any, Any]:
    """(x_train, y_train), (x_test, y_test) by `tf.keras.datasets`; LearningError with the remedy if that fails."""
    from tensorflow.keras import datasets

    sets: dict[DataName, Any] = {
        "mnist": datasets.mnist,
        "fashion-mnist": datasets.fashion_mnist,
        "cifar10": datasets.cifar10,
        "cifar100": datasets.cifar100,
    }
    try:
        with _patience(), redirect_stdout(sys.stderr):  # what keras says is no result of a command
            train, test = sets[name].load_data()
    except Exception as error:  # keras raises a bare Exception where an address cannot be reached
        reason = " ".join(str(error).split()) or type(error).__name__
        raise LearningError(f"{name} could not be downloaded to {keras_cache()} ({reason}); {remedy(name)}") from error
    return train, test


@contextmanager
def _patience() -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
