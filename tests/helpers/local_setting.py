"""Small data sets and networks on which local training is tested."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl.data.arrays import ImageData
from fl.data.partition.split import Partition
from fl.local.config import LocalConfig
from fl.local.trainer import LocalTrainer
from fl.models.federated import FederatedModel, federated

SEED, TRIAL, CLASSES, SCALE = 11, 2, 4, 1.0 / 16.0


def images(sizes: list[int], *, shape: tuple[int, int, int] = (6, 6, 2)) -> tuple[ImageData, Partition]:
    """Devices of the given sizes with random images of their own."""
    rng = np.random.default_rng(5)
    total = sum(sizes)
    x = rng.integers(0, 17, (total, *shape), dtype=np.uint8)
    y = rng.integers(0, CLASSES, total)
    data = ImageData(
        name="digits",
        x_train=x,
        y_train=y,
        x_validation=x[:0],
        y_validation=y[:0],
        x_test=x[:7],
        y_test=y[:7],
        num_classes=CLASSES,
        scale=SCALE,
        shift=0.0,
        source="random",
    )
    order = rng.permutation(total)
    devices = tuple(np.split(order, np.cumsum(sizes)[:-1]))
    return data, Partition(devices=devices, labels=y, num_classes=CLASSES)


def pixels(data: ImageData, partition: Partition, device: int) -> tuple[np.ndarray, np.ndarray]:
    """Images as floats, and labels, of one device."""
    own = partition.devices[device]
    return (data.x_train[own] * np.float32(data.scale)).astype(np.float32), data.y_train[own]


def assign(model: FederatedModel, weights: np.ndarray) -> None:
    """Write `weights` `[M]` into the variables of the network."""
    for variable, part in zip(model.network.trainable_variables, model.unflatten(weights), strict=True):
        variable.assign(part)


def network(kind: str, *, shape: tuple[int, int, int] = (6, 6, 2)) -> FederatedModel:
    """A small network with weights that no symmetry flatters: biases and scales are random too."""
    import keras

    keras.utils.set_random_seed(3)
    model = federated(_BUILDERS[kind](keras.layers, keras, shape))
    rng = np.random.default_rng(9)
    moved = model.initial_weights() + 0.2 * rng.normal(size=model.num_parameters).astype(np.float32)
    assign(model, moved)
    return federated(model.network)


def trainer(model: FederatedModel, data: ImageData, partition: Partition, **config: Any) -> LocalTrainer:
    """A trainer with the given local configuration, of one step unless told."""
    local = LocalConfig(**{"steps": 1, **config})
    return LocalTrainer(model, config=local, data=data, partition=partition, seed=SEED, trial=TRIAL)


def _linear(kinds: Any, keras: Any, shape: Any) -> Any:
    return keras.Sequential([keras.Input(shape), kinds.Flatten(), kinds.Dense(CLASSES)])


def _mlp(kinds: Any, keras: Any, shape: Any) -> Any:
    wide = CLASSES + 2
    return keras.Sequential(
        [keras.Input(shape), kinds.Flatten(), kinds.Dense(7, activation="tanh"), kinds.Dense(wide, use_bias=False)]
    )


def _cnn(kinds: Any, keras: Any, shape: Any) -> Any:
    """Strides, both paddings, dilation, a wide and a thin input, few and many positions."""
    return keras.Sequential(
        [
            keras.Input(shape),
            kinds.Conv2D(9, 3, padding="same", activation="relu"),
            kinds.Conv2D(8, 3, padding="same", dilation_rate=2, activation="relu"),
            kinds.Conv2D(5, (3, 2), strides=2, padding="same"),
            kinds.ReLU(),
            kinds.ZeroPadding2D(1),
            kinds.Conv2D(40, 2, dilation_rate=2, use_bias=False),
            kinds.Conv2D(30, 1),
            kinds.Flatten(),
            kinds.Dense(CLASSES),
        ]
    )


def _residual(kinds: Any, keras: Any, shape: Any) -> Any:
    """A ResNet block: group normalisation, an identity and a projected shortcut."""
    image = keras.Input(shape)
    tensor = kinds.Conv2D(8, 3, padding="same", use_bias=False)(image)
    inner = kinds.ReLU()(kinds.GroupNormalization(4)(tensor))
    inner = kinds.GroupNormalization(2, scale=False)(kinds.Conv2D(8, 3, padding="same", use_bias=False)(inner))
    tensor = kinds.ReLU()(kinds.Add()([tensor, inner]))
    inner = kinds.GroupNormalization(3)(kinds.Conv2D(12, 3, strides=2, padding="same")(tensor))
    short = kinds.Conv2D(12, 1, strides=2, padding="same")(tensor)
    tensor = kinds.GlobalAveragePooling2D()(kinds.ReLU()(kinds.Add()([short, inner])))
    return keras.Model(image, kinds.Dense(CLASSES)(tensor))


def _nested(kinds: Any, keras: Any, shape: Any) -> Any:
    """A network inside a network, and a dense layer on images, which acts on many positions."""
    block = keras.Sequential([keras.Input(shape), kinds.Dense(3, activation="relu"), kinds.Dense(2)])
    image = keras.Input(shape)
    return keras.Model(image, kinds.Dense(CLASSES)(kinds.Flatten()(block(image))))


def _shared(kinds: Any, keras: Any, shape: Any) -> Any:
    """One layer used twice."""
    image = keras.Input(shape)
    twice = kinds.Dense(2, activation="tanh")
    return keras.Model(image, kinds.Dense(CLASSES)(kinds.Flatten()(twice(twice(image)))))


def _unknown(kinds: Any, keras: Any, shape: Any) -> Any:
    """Layers that local training does not know."""
    return keras.Sequential(
        [
            keras.Input(shape),
            kinds.DepthwiseConv2D(3),
            kinds.LayerNormalization(),
            kinds.Flatten(),
            kinds.Dense(CLASSES),
        ]
    )


def _dropout(kinds: Any, keras: Any, shape: Any) -> Any:
    return keras.Sequential([keras.Input(shape), kinds.Flatten(), kinds.Dropout(0.4), kinds.Dense(CLASSES)])


def _dropped_cnn(kinds: Any, keras: Any, shape: Any) -> Any:
    inner = [kinds.Conv2D(5, 3, activation="relu"), kinds.MaxPooling2D(2), kinds.Dropout(0.4), kinds.Flatten()]
    return keras.Sequential([keras.Input(shape), *inner, kinds.Dense(CLASSES)])


def _foreign_dropout(kinds: Any, keras: Any, shape: Any) -> Any:
    """A random layer that draws its own numbers."""
    return keras.Sequential([keras.Input(shape), kinds.SpatialDropout2D(0.5), kinds.Flatten(), kinds.Dense(CLASSES)])


_BUILDERS = {
    "linear": _linear,
    "mlp": _mlp,
    "cnn": _cnn,
    "residual": _residual,
    "nested": _nested,
    "shared": _shared,
    "unknown": _unknown,
    "dropout": _dropout,
    "dropped-cnn": _dropped_cnn,
    "foreign-dropout": _foreign_dropout,
}
