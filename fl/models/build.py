"""From a configuration to a network with the initial weights of a trial."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fl.config.model import Model
from fl.models.custom import checked_network
from fl.models.federated import FederatedModel, federated
from fl.models.layers import Dense, Shape
from fl.models.network import Initial, build_network, keras_on_tensorflow
from fl.models.softmax import softmax_regression
from fl.models.zoo import FLATTEN, output_width
from phy.numerics.random import Purpose, seed_sequence


def build_model(config: Model, *, image_shape: Shape, num_classes: int, seed: int, trial: int) -> FederatedModel:
    """The network of `config` for images `image_shape` (height, width, channels), initial weights of (seed, trial).

    The weights are those of Keras's initialisers, or drawn as PyTorch would, seeded from `Purpose.INITIAL_MODEL`: the
    same at every call and in every process. Raises `LearningError` for an image too small for the network, for
    `outputs` below `num_classes`, for Keras on another backend than TensorFlow, and for what `custom_network` refuses.
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
            name = getattr(config, "function", None) or config.name
            return checked_network(made, name=name, image_shape=image_shape, num_classes=num_classes, outputs=outputs)

    if layers == (FLATTEN, Dense(units=outputs)):
        return softmax_regression(
            image_shape=image_shape, outputs=outputs, initial=initial, state=state, make_network=make_network
        )
    return federated(make_network())


@contextmanager
def _keras_seeded(state: int) -> Iterator[None]:
    """An initialiser without a seed asks Python's own generator for one: seeded here, and put back afterwards.

    Keras has one to itself for the time being: other threads, those of a worker's connections among them, draw from
    Python's whenever they like. Own code that draws from that gets the same numbers where it is alone.
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
