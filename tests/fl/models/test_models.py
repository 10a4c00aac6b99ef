"""Networks as flat vectors: seeded, exact both ways, and the user's own refused in one clear sentence."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as kinds
from local_setting import assign

from fl.base.errors import LearningError
from fl.models.build import build_model, keras_on_tensorflow
from fl.models.federated import FederatedModel, federated
from fl.models.kinds.networks import ModelConfig
from fl.models.model import Model

DIGITS: dict[str, Any] = {"image_shape": (8, 8, 1), "num_classes": 10}


def built(name: str = "mlp", *, seed: int = 3, trial: int = 0, **options: object) -> FederatedModel:
    config = ModelConfig.model_validate({"name": name, **options})
    return build_model(config, image_shape=(8, 8, 1), num_classes=10, seed=seed, trial=trial)


@pytest.mark.parametrize("name", ["linear", "mlp", "emnist-cnn", "resnet18"])
def test_initial_weights_are_those_of_seed_and_trial_at_every_call(name: str) -> None:
    first = built(name)
    assert first.initial_weights().dtype == np.float32
    random.random()  # what others draw in between does not matter
    again = built(name)
    np.testing.assert_array_equal(again.initial_weights(), first.initial_weights())
    assert [piece.name for piece in again.pieces] == [piece.name for piece in first.pieces]
    for other in (built(name, seed=4), built(name, trial=1)):
        # Biases start at zero and gains at one, whatever the seed; kernels all differ.
        kernels = np.concatenate(
            [np.arange(piece.place.start, piece.place.stop) for piece in first.pieces if len(piece.shape) > 1]
        )
        assert (other.initial_weights()[kernels] != first.initial_weights()[kernels]).mean() > 0.99


def test_another_process_starts_from_the_same_weights_whatever_its_keras_file_says(tmp_path: Path) -> None:
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    environment = {key: value for key, value in os.environ.items() if key != "KERAS_BACKEND"}
    script = (
        "from fl.models.kinds.networks import ModelConfig; from fl.models.build import build_model; import sys;"
        "model = build_model(ModelConfig(name='mcmahan-cnn'), image_shape=(8, 8, 1), num_classes=10, seed=3, trial=0);"
        "sys.stdout.write(model.initial_weights().tobytes().hex()[:4000])"
    )
    said = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=environment | {"KERAS_HOME": str(tmp_path)},
    )
    assert said.stdout == built("mcmahan-cnn").initial_weights().tobytes().hex()[:4000]


@pytest.mark.parametrize("initial", ["keras", "pytorch"])
@pytest.mark.parametrize(
    ("image_shape", "classes", "seed"), [((8, 8, 1), 10, 0), ((32, 32, 3), 100, 7), ((3, 3, 1), 2, 2**40)]
)
def test_softmax_regression_is_keras_bit_for_bit_without_keras(
    initial: Any, image_shape: tuple[int, ...], classes: int, seed: int
) -> None:
    model = build_model(
        ModelConfig(name="linear", initial=initial), image_shape=image_shape, num_classes=classes, seed=seed, trial=3
    )
    assert model.is_softmax
    theirs = federated(model.network)
    assert np.array_equal(model.initial_weights(), theirs.initial_weights())
    assert (model.pieces, model.outputs) == (theirs.pieces, theirs.outputs)


def test_kernels_follow_glorot() -> None:
    model = built("mcmahan-cnn")
    kernel = dict(zip((piece.name for piece in model.pieces), model.unflatten(model.initial_weights()), strict=True))
    weights = kernel["dense_8/kernel"]
    limit = np.sqrt(6.0 / sum(weights.shape))
    assert np.abs(weights).max() <= limit
    # Variance of a uniform density; its fourth moment gives a standard error of sqrt(4/5 / n) of the variance.
    assert abs(weights.var() / (limit**2 / 3) - 1) < 4 * np.sqrt(0.8 / weights.size)


def test_threads_that_draw_from_pythons_generator_change_no_weight() -> None:
    """A worker's connections back off at random, beside the thread that builds the model."""
    expected, stop = built().initial_weights(), threading.Event()

    def draw() -> None:
        while not stop.is_set():
            random.random()

    others = threading.Thread(target=draw)
    others.start()
    try:
        for _ in range(5):
            np.testing.assert_array_equal(built().initial_weights(), expected)
    finally:
        stop.set()
        others.join()


def test_building_leaves_pythons_own_generator_alone() -> None:
    random.seed(1)
    wanted = [random.random() for _ in range(3)]
    random.seed(1)
    found = [random.random()]
    built("linear")
    found += [random.random(), random.random()]
    assert found == wanted


def test_one_may_change_ones_copy_of_the_initial_weights() -> None:
    model = built("linear")
    copy = model.initial_weights()
    copy[:] = 0.0
    assign(model, copy)
    assert np.abs(model.initial_weights()).max() > 0.0
    assert all(np.abs(np.asarray(variable)).max() == 0.0 for variable in model.network.trainable_variables)


@pytest.mark.parametrize("name", ["mlp", "emnist-cnn", "resnet18"])
def test_flat_weights_fall_apart_into_the_variables_of_the_network(name: str) -> None:
    model = built(name)
    weights = np.arange(model.num_parameters, dtype=np.float32)
    assign(model, weights)
    offset = 0
    for piece, variable in zip(model.pieces, model.network.trainable_variables, strict=True):
        assert (piece.name, piece.shape, piece.offset) == (variable.path, tuple(variable.shape), offset)
        np.testing.assert_array_equal(np.asarray(variable).ravel(), weights[piece.place])
        offset += piece.size
    assert offset == model.num_parameters == model.network.count_params()


def test_weights_with_and_without_leading_axes_fall_apart_in_order() -> None:
    model = built("emnist-cnn")
    for leading in ((), (3,), (2, 3)):
        weights = np.random.default_rng(1).normal(size=(*leading, model.num_parameters)).astype(np.float32)
        parts = model.unflatten(weights)
        assert [part.shape for part in parts] == [(*leading, *piece.shape) for piece in model.pieces]
        np.testing.assert_array_equal(np.concatenate([part.reshape(*leading, -1) for part in parts], axis=-1), weights)


def test_the_linear_model_is_softmax_regression() -> None:
    model = built("linear")
    images = np.random.default_rng(1).random((4, 8, 8, 1)).astype(np.float32)
    kernel, bias = model.unflatten(model.initial_weights())
    # 64 float32 products per logit.
    np.testing.assert_allclose(model.network(images), images.reshape(4, 64) @ kernel + bias, atol=1e-5)


def test_the_mlp_is_a_chain_of_dense_and_relu() -> None:
    model = built("mlp", hidden=[12, 7])
    images = np.random.default_rng(1).random((4, 8, 8, 1)).astype(np.float32)
    weights = np.random.default_rng(2).normal(size=model.num_parameters) / 5
    first, b1, second, b2, third, b3 = model.unflatten(weights)
    assign(model, weights)
    hidden = np.maximum(images.reshape(4, 64) @ first + b1, 0.0)
    wanted = np.maximum(hidden @ second + b2, 0.0) @ third + b3
    np.testing.assert_allclose(model.network(images), wanted, atol=1e-4)


def test_networks_consist_of_layers_that_per_sample_clipping_can_take_apart() -> None:
    allowed = {
        "InputLayer", "Dense", "Conv2D", "MaxPooling2D", "GlobalAveragePooling2D", "ZeroPadding2D", "Flatten", "ReLU",
        "Dropout", "GroupNormalization", "Add",
    }  # fmt: skip
    for name in ("linear", "mlp", "mcmahan-cnn", "emnist-cnn", "resnet18"):
        layers = built(name).network.layers
        assert {type(layer).__name__ for layer in layers} <= allowed
        assert all(
            getattr(getattr(layer, "activation", None), "__name__", "linear") in ("linear", "relu") for layer in layers
        )
        assert all(layer.activation.__name__ == "linear" for layer in layers if hasattr(layer, "kernel"))


@pytest.mark.parametrize("stem", ["imagenet", "cifar"])
def test_a_sample_of_resnet_is_normalised_by_itself(stem: str) -> None:
    model = built("resnet18", stem=stem)
    images = np.random.default_rng(1).random((5, 8, 8, 1)).astype(np.float32)
    together = np.asarray(model.network(images, training=True))
    alone = np.concatenate([np.asarray(model.network(images[i : i + 1], training=True)) for i in range(5)])
    np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-4)
    assert np.ptp(together, axis=0).min() > 1e-3


def test_resnet_halves_the_image_where_he_et_al_do() -> None:
    network = build_model(
        ModelConfig(name="resnet18"), image_shape=(64, 64, 3), num_classes=10, seed=1, trial=0
    ).network
    sizes = [layer.output.shape[1] for layer in network.layers if type(layer).__name__ == "Add"]
    assert sizes == [16, 16, 8, 8, 4, 4, 2, 2]
    stem = [layer for layer in network.layers if type(layer).__name__ in ("Conv2D", "MaxPooling2D")][:2]
    assert [layer.output.shape[1] for layer in stem] == [32, 16]


def test_dropout_acts_in_training_only_and_at_the_rates_of_the_paper() -> None:
    network = built("emnist-cnn").network
    assert [layer.rate for layer in network.layers if type(layer).__name__ == "Dropout"] == [0.25, 0.5]
    images = np.random.default_rng(1).random((2, 8, 8, 1)).astype(np.float32)
    still = [np.asarray(network(images, training=False)) for _ in range(2)]
    np.testing.assert_array_equal(*still)
    moving = [np.asarray(network(images, training=True)) for _ in range(2)]
    assert np.abs(moving[0] - moving[1]).max() > 1e-3


class Own(Model):
    """A model of the user whose network a function builds."""

    name: str = "own"
    make: Callable[[tuple[int, ...], int], Any]

    def network(self, *, image_shape: tuple[int, ...], num_classes: int) -> Any:
        return self.make(image_shape, num_classes)


def own(make: Callable[[tuple[int, ...], int], Any], *, seed: int = 3, outputs: int | None = None) -> FederatedModel:
    return build_model(Own(make=make, outputs=outputs), seed=seed, trial=0, **DIGITS)


def net(image_shape: tuple[int, ...], num_classes: int) -> Any:
    return keras.Sequential(
        [keras.Input(image_shape), kinds.Flatten(), kinds.Dense(6, activation="relu"), kinds.Dense(num_classes)]
    )


def ending(*layers: Any) -> Callable[[tuple[int, ...], int], Any]:
    return lambda image_shape, _: keras.Sequential([keras.Input(image_shape), *layers])


def test_a_network_of_the_user_is_seeded() -> None:
    first, again = own(net), own(net)
    assert first.num_parameters == 64 * 6 + 6 + 6 * 10 + 10
    np.testing.assert_array_equal(first.initial_weights(), again.initial_weights())
    assert (own(net, seed=4).initial_weights() != first.initial_weights()).mean() > 0.9


def test_a_network_without_input_is_built_for_the_images() -> None:
    assert own(lambda _, classes: keras.Sequential([kinds.Flatten(), kinds.Dense(classes)])).num_parameters == 650


def test_a_network_of_the_user_may_be_wider_than_the_classes_if_one_says_so() -> None:
    wide = own(lambda shape, _: net(shape, 20), outputs=20)
    assert wide.network.output_shape == (None, 20)
    assert own(net, outputs=12).network.output_shape == (None, 12)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda *_: [1, 2], "returned list; return a keras.Model"),
        (
            lambda shape, _: net(shape, 7),
            "has 7 outputs where 10 are needed for 10 classes; make its last layer 10 wide$",
        ),
        (lambda shape, _: net(shape, 20), "has 20 outputs where 10 are needed for 10 classes; .* or write outputs: 20"),
        (ending(kinds.Conv2D(10, 3)), r"gives \(None, 6, 6, 10\); it must give logits"),
        (lambda *_: net((28, 28, 1), 10), r"takes \(None, 28, 28, 1\), the images are \(None, 8, 8, 1\)"),
        (
            ending(kinds.BatchNormalization(), kinds.Flatten(), kinds.Dense(10)),
            "moving_mean.*use GroupNormalization in the place of BatchNormalization",
        ),
        (ending(kinds.Conv2D(10, 8, trainable=False), kinds.Flatten()), "has no trainable weights"),
        (ending(kinds.Flatten(), kinds.Dense(10, activation="softmax")), "ends in a softmax; leave it out"),
        (ending(kinds.Flatten(), kinds.Dense(10, kernel_regularizer="l2")), "adds losses of its own .* write local.l2"),
        (ending(kinds.Flatten(), kinds.Dense(10, dtype="float16")), "in float16; build it in float32"),
    ],
)
def test_what_cannot_be_trained_is_one_clear_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(LearningError, match=sentence) as caught:
        own(make)
    assert str(caught.value).startswith("model own")
    assert "\n" not in str(caught.value)


def test_another_keras_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(LearningError, match="KERAS_BACKEND is jax, phyloop trains on TensorFlow; unset it"):
        keras_on_tensorflow()


def test_another_image_layout_is_refused() -> None:
    keras.config.set_image_data_format("channels_first")
    try:
        with pytest.raises(LearningError, match="image_data_format channels_first, phyloop needs channels_last"):
            built("resnet18")
    finally:
        keras.config.set_image_data_format("channels_last")
