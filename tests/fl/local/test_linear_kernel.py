"""The kernel that trains softmax regression, against TensorFlow and against NumPy, above all where it clips."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from local_setting import CLASSES, assign, images, pixels, trainer
from oracles.per_sample import clipped_mean, softmax_regression_gradients

from fl.local.evaluation import evaluate
from fl.local.trainer import LocalTrainer
from fl.models.federated import FederatedModel, federated

SIZES = [5, 1, 33, 16, 17]
"""Less than, just, and more than the samples that the kernel takes at once."""
EVERYONE = np.arange(len(SIZES))
SHAPE = (6, 6, 2)
ROUNDING = 1e-5
"""A few steps of single precision, some hundred sums of numbers of order one in another order."""


def softmax_regression() -> FederatedModel:
    """One dense layer with weights of size 0.3, so that terms of mu ||w|| count."""
    import keras

    layers = [keras.Input(SHAPE), keras.layers.Flatten(), keras.layers.Dense(CLASSES)]
    model = federated(keras.Sequential(layers))
    assign(model, 0.3 * np.random.default_rng(4).normal(size=model.num_parameters).astype(np.float32))
    return replace(federated(model.network), is_softmax=True)


def both(model: FederatedModel, **config: Any) -> tuple[LocalTrainer, LocalTrainer]:
    """One that trains in the kernel, and one that trains in TensorFlow."""
    data, partition = images(SIZES, shape=SHAPE)
    ours, theirs = (trainer(model, data, partition, **config) for _ in range(2))
    assert ours._classes is not None
    theirs._classes = theirs._stack = None
    return ours, theirs


@pytest.mark.parametrize(
    "config",
    [
        {"clip": 2.0},
        {"clip": 4.0, "l2": 0.3},
        {"clip": 9.0, "l2": 2.0},
        {"clip": 1.5, "l2": 0.1, "proximal": 0.4},
        {"clip": 2.0, "optimizer": "sgd", "batch_size": 4, "momentum": 0.6, "l2": 0.05},
        {"clip": 2.0, "optimizer": "sgd", "batch_size": 4, "momentum": 0.6, "keep_state": False},
        {"clip": 1e-3},
        {"clip": 1e3, "l2": 0.3},
    ],
)
def test_the_kernel_clips_as_tensorflow_does(config: dict[str, Any]) -> None:
    model = softmax_regression()
    ours, theirs = both(model, learning_rate=0.1, steps=5, **config)
    steps = np.array([5, 2, 5, 1, 4])
    start = model.initial_weights()
    here = there = np.tile(start, (len(SIZES), 1))
    shares = []
    for index in range(3):
        one = ours.train(here, devices=EVERYONE, round_index=index, steps=steps)
        other = theirs.train(there, devices=EVERYONE, round_index=index, steps=steps)
        here, there = one.weights, other.weights
        np.testing.assert_allclose(here, there, rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(one.loss, other.loss, rtol=1e-6, atol=ROUNDING)
        # No norm comes so near to G that rounding decides.
        np.testing.assert_array_equal(one.clipped_share, other.clipped_share)
        shares.append(one.clipped_share)
    moved = np.abs(here - start).max()
    assert moved > (1e-4 if config["clip"] < 0.1 else 1e-2)
    wanted = {1e-3: (1.0, 1.0), 1e3: (0.0, 0.0)}.get(config["clip"], (0.05, 0.95))
    assert wanted[0] <= np.mean(shares) <= wanted[1]
    np.testing.assert_array_equal(ours.state()["taken"], theirs.state()["taken"])
    for name, rows in ours.state()["moments"].items():
        np.testing.assert_allclose(rows, theirs.state()["moments"][name], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("l2", [0.0, 1.0])
def test_gradients_are_clipped_one_by_one_with_the_pull_to_zero_among_them(l2: float) -> None:
    data, partition = images(SIZES, shape=SHAPE)
    model = softmax_regression()
    clip, eta, steps = 6.0, 0.1, 4
    learner = trainer(model, data, partition, learning_rate=eta, clip=clip, l2=l2, steps=steps)
    start = model.initial_weights()
    outcome = learner.train(start, devices=EVERYONE, round_index=0)
    for device in EVERYONE:
        x, y = pixels(data, partition, device)
        flat = x.reshape(len(x), -1).astype(float)
        own, longer = start.astype(float), 0
        for _ in range(steps):
            kernel, biases = own[: flat.shape[1] * CLASSES].reshape(-1, CLASSES), own[flat.shape[1] * CLASSES :]
            gradients = softmax_regression_gradients(flat, y, kernel, biases)
            longer += np.count_nonzero(np.linalg.norm(gradients + l2 * own, axis=1) > clip)
            own = own - eta * clipped_mean(gradients, own, clip=clip, l2=l2)
        np.testing.assert_allclose(outcome.weights[device], own, rtol=0, atol=ROUNDING)
        assert outcome.clipped_share[device] == longer / (steps * len(y))


def test_neither_threads_nor_the_company_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    model = softmax_regression()
    given = {"optimizer": "sgd", "batch_size": 3, "momentum": 0.5, "learning_rate": 0.1, "steps": 4, "clip": 2.0}
    start = model.initial_weights()

    def outcomes(devices: np.ndarray, threads: str) -> list[Any]:
        monkeypatch.setenv("PHYLOOP_THREADS", threads)
        learner = both(model, l2=0.1, **given)[0]
        return [learner.train(start, devices=devices, round_index=index) for index in range(2)]

    alone = outcomes(EVERYONE, "1")
    for devices, threads in ((EVERYONE, "4"), (np.array([3, 1]), "2"), (np.array([2]), "1")):
        for one, other in zip(outcomes(devices, threads), alone, strict=True):
            for name in ("weights", "loss", "clipped_share"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name)[devices])


def test_the_state_put_back_trains_the_same_bits() -> None:
    model = softmax_regression()
    given = {"optimizer": "sgd", "batch_size": 4, "momentum": 0.6, "learning_rate": 0.1, "clip": 2.0, "steps": 3}
    learner, other = (both(model, **given)[0] for _ in range(2))
    start = model.initial_weights()
    learner.train(start, devices=EVERYONE, round_index=0)
    kept = deepcopy(learner.state())
    first = learner.train(start, devices=EVERYONE, round_index=1).weights
    unmoved = other.train(start, devices=EVERYONE, round_index=1).weights
    assert np.abs(unmoved - first).max() > 100 * ROUNDING
    for one in (learner, other):
        one.restore(kept)
        np.testing.assert_array_equal(one.train(start, devices=EVERYONE, round_index=1).weights, first)
    np.testing.assert_array_equal(learner.state()["taken"], 6)


def test_weights_that_are_not_finite_come_back_clipped_or_not() -> None:
    model = softmax_regression()
    start = np.tile(model.initial_weights(), (len(SIZES), 1))
    good = both(model, clip=1.0)[0].train(start, devices=EVERYONE, round_index=0)
    start[1, 5] = np.nan
    start[2] = np.inf
    found, theirs = (one.train(start, devices=EVERYONE, round_index=0) for one in both(model, clip=1.0))
    assert not np.isfinite(found.weights[1]).all()
    assert not np.isfinite(found.weights[2]).any()
    np.testing.assert_array_equal(np.isfinite(found.weights), np.isfinite(theirs.weights))
    np.testing.assert_array_equal(found.clipped_share, theirs.clipped_share)
    keep = [0, 3, 4]
    np.testing.assert_array_equal(found.weights[keep], good.weights[keep])


def test_evaluation_is_that_of_the_network_itself() -> None:
    data, _ = images([50], shape=SHAPE)
    model = softmax_regression()
    assert model.linear_classes == CLASSES
    weights = model.initial_weights() * np.float32(1.1)
    assign(model, weights)
    line = np.float32(1 / 16), np.float32(-0.3)
    logits = np.asarray(model.network(data.x_train * line[0] + line[1], training=False)).astype(float)
    logits -= logits.max(axis=1, keepdims=True)
    picked = logits[np.arange(50), data.y_train] - np.log(np.exp(logits).sum(axis=1))
    loss, accuracy = evaluate(model, weights, data.x_train, data.y_train, scale=1 / 16, shift=-0.3)
    assert loss == pytest.approx(-picked.mean(), rel=1e-5)
    assert 0.0 < accuracy < 1.0
    assert accuracy == np.mean(logits.argmax(axis=1) == data.y_train)
