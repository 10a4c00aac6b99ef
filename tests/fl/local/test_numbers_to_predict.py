"""Squared loss in the dense kernel, against finite differences and against least squares."""

from __future__ import annotations

import numpy as np
import pytest

from fl.data.arrays import ImageData
from fl.data.partition.split import Partition
from fl.local.config import LocalConfig
from fl.local.evaluation import evaluate
from fl.local.trainer import LocalTrainer
from fl.models.build import build_model
from fl.models.kinds.networks import ModelConfig

FEATURES, SAMPLES = 5, 60


def data(seed: int = 0) -> ImageData:
    """Return samples of a noisy linear function."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(SAMPLES, 1, FEATURES, 1)).astype(np.float32)
    y = (x.reshape(SAMPLES, -1) @ np.arange(1.0, FEATURES + 1.0) + 0.1 * rng.normal(size=SAMPLES)).astype(np.float32)
    none = x[:0], y[:0]
    return ImageData(
        name="file", x_train=x, y_train=y, x_test=x, y_test=y, x_validation=none[0], y_validation=none[1],
        num_classes=1, scale=1.0, shift=0.0, source="test", unit=1.0,
    )  # fmt: skip


def trained(model_config: ModelConfig, local: LocalConfig) -> tuple[np.ndarray, np.ndarray, ImageData]:
    """Return weights before and after local training of one device with all samples."""
    model = build_model(
        model_config, image_shape=(1, FEATURES, 1), num_classes=1, seed=3, trial=0, predicts_numbers=True
    )
    given = data()
    whole = Partition(devices=(np.arange(SAMPLES),), labels=np.zeros(SAMPLES, np.int64), num_classes=1)
    trainer = LocalTrainer(model, config=local, data=given, partition=whole, seed=1, trial=0)
    start = model.initial_weights()
    return start, trainer.train(start, devices=np.arange(1), round_index=0).weights[0], given


@pytest.mark.parametrize("hidden", [None, (4, 3)])
def test_a_step_goes_down_the_gradient_of_half_the_squared_error(hidden: tuple[int, ...] | None) -> None:
    config = ModelConfig(name="linear") if hidden is None else ModelConfig(name="mlp", hidden=hidden, activation="tanh")
    start, end, given = trained(config, LocalConfig(steps=1, learning_rate=1.0))
    model = build_model(config, image_shape=(1, FEATURES, 1), num_classes=1, seed=3, trial=0, predicts_numbers=True)

    def loss(weights: np.ndarray) -> float:
        return evaluate(model, weights, given.x_train, given.y_train, scale=1.0)[0]

    step = np.float32(1e-2)
    for place in range(len(start)):
        up, down = start.copy(), start.copy()
        up[place] += step
        down[place] -= step
        slope = (loss(up) - loss(down)) / (2.0 * step)
        # Central differences of float32 losses near 20: 2e-6 of 20 over 2e-2, beside the third derivative.
        assert start[place] - end[place] == pytest.approx(slope, abs=1e-2, rel=5e-3)


def test_gradient_descent_ends_at_least_squares() -> None:
    _, end, given = trained(ModelConfig(name="linear"), LocalConfig(steps=2000, learning_rate=0.2))
    design = np.column_stack([given.x_train.reshape(SAMPLES, -1), np.ones(SAMPLES)])
    expected, *_ = np.linalg.lstsq(design, given.y_train, rcond=None)
    np.testing.assert_allclose(end, expected, atol=1e-4)  # float32 after 2000 steps


def test_long_gradients_are_clipped_to_the_bound() -> None:
    start, end, _ = trained(ModelConfig(name="linear"), LocalConfig(steps=1, learning_rate=1.0, clip=0.5))
    assert np.linalg.norm(end - start) <= 0.5 * (1.0 + 1e-6)
