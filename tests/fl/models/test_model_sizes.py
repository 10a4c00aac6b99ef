"""What a network weighs is known before it is built, and is what Keras then counts."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from fl.base.errors import LearningError
from fl.models.build import build_model
from fl.models.kinds.networks import ModelConfig
from fl.models.layers import activation_bytes, num_parameters
from fl.models.model import Model

MNIST, EMNIST, CIFAR10, CIFAR100 = (
    ((28, 28, 1), 10),
    ((28, 28, 1), 62),
    ((32, 32, 3), 10),
    ((32, 32, 3), 100),
)


def config(**options: object) -> ModelConfig:
    return ModelConfig.model_validate(options)


@pytest.mark.parametrize(
    ("options", "data", "wanted"),
    [
        # Published counts, or those that follow from the layers by hand.
        ({"name": "linear"}, MNIST, 784 * 10 + 10),
        ({"name": "mlp"}, MNIST, 784 * 32 + 32 + 32 * 16 + 16 + 16 * 10 + 10),
        ({"name": "cnn2"}, MNIST, 6_422),
        ({"name": "cnn2"}, CIFAR10, 9_422),
        ({"name": "cnn3"}, CIFAR10, 169_578),
        ({"name": "mcmahan-cnn"}, MNIST, 1_663_370),
        ({"name": "emnist-cnn"}, EMNIST, 1_206_590),
        ({"name": "resnet18", "outputs": 1000}, CIFAR100, 11_689_512),
        ({"name": "resnet18", "outputs": 1000}, ((224, 224, 3), 1000), 11_689_512),
        ({"name": "resnet18", "stem": "imagenet"}, CIFAR100, 11_227_812),
        ({"name": "resnet18", "stem": "cifar"}, CIFAR100, 11_220_132),
    ],
)
def test_networks_have_the_parameters_that_the_literature_counts(
    options: dict[str, object], data: tuple[tuple[int, ...], int], wanted: int
) -> None:
    assert num_parameters(config(**options), image_shape=data[0], num_classes=data[1]) == wanted


@pytest.mark.parametrize("data", [MNIST, CIFAR100])
@pytest.mark.parametrize(
    "options",
    [
        {"name": "linear"},
        {"name": "linear", "outputs": 130},
        {"name": "mlp", "hidden": []},
        {"name": "mlp", "hidden": [5, 7, 3]},
        {"name": "cnn2"},
        {"name": "cnn3"},
        {"name": "emnist-cnn"},
        {"name": "resnet18", "stem": "imagenet"},
        {"name": "resnet18", "stem": "cifar"},
    ],
)
def test_keras_counts_the_same_parameters_and_gives_the_same_width(
    options: dict[str, object], data: tuple[tuple[int, ...], int]
) -> None:
    chosen, (image_shape, num_classes) = config(**options), data
    model = build_model(chosen, image_shape=image_shape, num_classes=num_classes, seed=1, trial=0)
    assert model.network.count_params() == model.num_parameters
    assert num_parameters(chosen, image_shape=image_shape, num_classes=num_classes) == model.num_parameters
    assert model.network.output_shape == (None, options.get("outputs", num_classes))


def test_activations_are_those_counted_by_hand() -> None:
    mlp = config(name="mlp", hidden=[20])
    # A float32 image, the hidden layer before and after relu, the logits.
    assert activation_bytes(mlp, image_shape=(8, 8, 1), num_classes=10) == 4 * (64 + 20 + 20 + 10)


def test_activations_are_the_outputs_of_all_keras_layers() -> None:
    for name, (image_shape, num_classes) in (("emnist-cnn", EMNIST), ("resnet18", CIFAR10)):
        chosen = config(name=name)
        network = build_model(chosen, image_shape=image_shape, num_classes=num_classes, seed=1, trial=0).network
        # Padded and flattened copies are left out: they need not be kept.
        layers = [layer for layer in network.layers if type(layer).__name__ not in ("ZeroPadding2D", "Flatten")]
        wanted = sum(4 * int(np.prod(layer.output.shape[1:])) for layer in layers)
        assert activation_bytes(chosen, image_shape=image_shape, num_classes=num_classes) == wanted


def test_a_network_of_the_user_has_no_known_size() -> None:
    class Own(Model):
        name: str = "own"

    for ask in (num_parameters, activation_bytes):
        assert ask(Own(), image_shape=(8, 8, 1), num_classes=10) is None


def test_an_image_too_small_for_the_network_is_refused_with_the_smallest_that_fits() -> None:
    cnn3 = config(name="cnn3")
    with pytest.raises(LearningError, match="shrinks images of 8 x 8 below its smallest, 22 x 22"):
        num_parameters(cnn3, image_shape=(8, 8, 1), num_classes=10)
    with pytest.raises(LearningError, match="21 x 40"):
        num_parameters(cnn3, image_shape=(21, 40, 1), num_classes=10)
    # 64 (3 x 3 x 32 + 1) and so on; one pixel more is enough, so the sentence is right.
    wanted = 32 * 10 + 64 * (9 * 32 + 1) + 128 * (9 * 64 + 1) + 129 * 128 + 129 * 64 + 65 * 32 + 33 * 10
    assert num_parameters(cnn3, image_shape=(22, 22, 1), num_classes=10) == wanted


def test_outputs_narrower_than_the_classes_are_refused() -> None:
    narrow = config(name="linear", outputs=10)
    with pytest.raises(LearningError, match="outputs 10, the data has 62 classes; write outputs: 62 or more"):
        num_parameters(narrow, image_shape=(28, 28, 1), num_classes=62)
    with pytest.raises(LearningError, match="outputs 10"):
        build_model(narrow, image_shape=(28, 28, 1), num_classes=62, seed=1, trial=0)


def test_sizes_are_known_without_tensorflow() -> None:
    script = (
        "import sys; from fl.models.kinds.networks import ModelConfig; from fl.models.layers import num_parameters;"
        "print(num_parameters(ModelConfig(name='linear'), image_shape=(28, 28, 1), num_classes=10),"
        "'tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["7850", "False"]
