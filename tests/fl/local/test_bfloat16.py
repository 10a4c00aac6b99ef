"""Local steps whose convolutions and dense layers multiply bfloat16."""

from __future__ import annotations

import numpy as np
import pytest
from local_setting import images, network, pixels, trainer
from oracles.per_sample import sample_gradients
from pydantic import ValidationError

from fl.base.errors import LearningError
from fl.data.data_set import data_sets
from fl.data.images import load_images
from fl.data.partition.split import Partition
from fl.local.config import LocalConfig
from fl.local.evaluation import evaluate
from fl.models.federated import federated

ROUNDING = 2.0**-8
"""Distance of neighbouring bfloat16 numbers, relative; a product has two roundings of half of it at most."""


@pytest.fixture(autouse=True, params=["as-the-machine-has-it", "without-kernels"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every machine takes the way of processors without bfloat16 too; it is the only one of such a machine."""
    if request.param == "without-kernels":
        monkeypatch.setattr("fl.local.gradients.has_bfloat16_kernels", lambda: False)


def one_step(kind: str, *, clip: float | None, precision: str) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the moves of devices with one sample each, at eta = 1, and their gradients in float32."""
    data, partition = images([1] * 8)
    model = network(kind)
    weights, devices = model.initial_weights(), np.arange(8)
    learner = trainer(model, data, partition, learning_rate=1.0, clip=clip, precision=precision)
    ends = learner.train(weights, devices=devices, round_index=0).weights
    own = [sample_gradients(model.network, *pixels(data, partition, device))[0] for device in devices]
    return weights.astype(float) - ends, own


@pytest.mark.parametrize("kind", ["mlp", "cnn", pytest.param("residual", marks=pytest.mark.slow)])
def test_a_clipped_gradient_has_the_norm_of_the_bound(kind: str) -> None:
    clip = 0.5
    moves, own = one_step(kind, clip=clip, precision="bfloat16")
    norms = np.linalg.norm(moves, axis=1)
    longer = np.linalg.norm(own, axis=1) > 1.1 * clip
    assert longer.sum() >= 4
    # Rounding of weights near 1 to float32; a factor in bfloat16 is wrong by up to 2^-9.
    np.testing.assert_allclose(norms[longer], clip, rtol=2e-5)
    assert norms.max() < clip * (1.0 + 2e-5)


@pytest.mark.parametrize("kind", ["mlp", "cnn", pytest.param("nested", marks=pytest.mark.slow)])
@pytest.mark.parametrize("clip", [None, 1e6])
def test_gradients_differ_from_those_of_float32_by_rounding_alone(kind: str, clip: float | None) -> None:
    moves, own = one_step(kind, clip=clip, precision="bfloat16")
    for move, gradient in zip(moves, own, strict=True):
        off = np.linalg.norm(move - gradient) / np.linalg.norm(gradient)
        # About ten roundings in a row, forward and back, and relu units that rounding switches.
        assert 0.02 * ROUNDING < off < 20 * ROUNDING


def test_training_by_small_steps_reaches_the_accuracy_of_float32() -> None:
    """Steps below the distance of bfloat16 numbers around a weight, which weights in bfloat16 would not take."""
    import keras

    data = load_images(data_sets.read("digits"), seed=1, trial=0)
    keras.utils.set_random_seed(1)
    kinds = keras.layers
    layers = [kinds.Conv2D(8, 3, activation="relu"), kinds.MaxPooling2D(), kinds.Flatten(), kinds.Dense(10)]
    model = federated(keras.Sequential([keras.Input((8, 8, 1)), *layers]))
    trials, size = 6, 200
    samples = np.random.default_rng(2).permutation(len(data.y_train))[: trials * size]
    dealt = Partition(devices=tuple(samples.reshape(trials, -1)), labels=data.y_train, num_classes=10)

    def accuracies(precision: str) -> np.ndarray:
        learner = trainer(model, data, dealt, steps=200, learning_rate=0.1, clip=2.0, precision=precision)
        ends = learner.train(model.initial_weights(), devices=np.arange(trials), round_index=0).weights
        test = data.x_test, data.y_test
        return np.array([evaluate(model, end, *test, scale=data.scale, shift=data.shift)[1] for end in ends])

    usual, low = accuracies("float32"), accuracies("bfloat16")
    gap = low - usual
    assert usual.mean() > 0.7
    assert abs(gap.mean()) <= 3.0 * gap.std(ddof=1) / np.sqrt(trials) + 1.0 / len(data.y_test)


def test_what_cannot_hold_or_is_not_there_is_an_error() -> None:
    with pytest.raises(ValidationError, match="leave precision or l2 out"):
        LocalConfig(clip=1.0, l2=0.1, precision="bfloat16")
    data, partition = images([3])
    model = network("unknown")
    learner = trainer(model, data, partition, precision="bfloat16")
    with pytest.raises(LearningError, match="leave precision out"):
        learner.train(model.initial_weights(), devices=np.array([0]), round_index=0)
