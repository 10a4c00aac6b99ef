"""The kernel that trains stacks of dense layers, against TensorFlow, finite differences and a loop in NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from local_setting import CLASSES, SCALE, images, pixels, trainer
from pace import fastest_s

from fl.local.evaluation import evaluate, evaluate_stacked
from fl.local.trainer import LocalTrainer
from fl.models.build import build_model
from fl.models.federated import FederatedModel, federated
from fl.models.kinds.networks import ModelConfig
from fl.models.layer_stack import LayerStack, layer_stack

SHAPE = (6, 6, 2)
SIZES = [5, 1, 33, 97, 200]
"""One sample, and one, two and three slices of samples."""
EVERYONE = np.arange(len(SIZES))
ROUNDING = 1e-5
"""Of the norm of what training moved."""
ACTIVATIONS = [None, "relu", "tanh", "sigmoid", "gelu"]


def random_network(rng: np.random.Generator) -> FederatedModel:
    """One to four dense layers of random widths, with and without biases, activations and dropout."""
    import keras

    kinds = keras.layers
    layers: list[Any] = [keras.Input(SHAPE)]
    if rng.random() < 0.3:
        layers.append(kinds.Dropout(0.3))
    layers.append(kinds.Flatten())
    for _ in range(rng.integers(0, 4)):
        layers.append(kinds.Dense(int(rng.integers(3, 14)), use_bias=bool(rng.random() < 0.7)))
        if (activation := ACTIVATIONS[rng.integers(len(ACTIVATIONS))]) is not None:
            layers.append(kinds.Activation(activation))
        if rng.random() < 0.4:
            layers.append(kinds.Dropout(float(rng.choice([0.0, 0.25, 0.5]))))
    made = federated(keras.Sequential([*layers, kinds.Dense(CLASSES)]))
    start = 0.4 * rng.normal(size=made.num_parameters)
    return replace(made, initial=start.astype(np.float32))


def random_settings(rng: np.random.Generator, optimizer: str) -> dict[str, Any]:
    """Settings of local training: every key given or left out by chance."""

    def maybe(**given: Any) -> dict[str, Any]:
        return {key: value for key, value in given.items() if rng.random() < 0.5}

    given = {"optimizer": optimizer, "steps": int(rng.integers(1, 6)), "learning_rate": 0.03}
    if optimizer != "gd":
        given["batch_size"] = int(rng.choice([1, 4, 50]))
    if optimizer == "sgd":
        given |= maybe(momentum=0.7)
    return given | maybe(clip=2.0, l2=0.1, proximal=0.5, decay_steps=3.0, keep_state=False)


def both(
    model: FederatedModel, sizes: list[int] = SIZES, *, shape: tuple[int, int, int] = SHAPE, **config: Any
) -> tuple[LocalTrainer, LocalTrainer]:
    """One that trains in the kernel, and one that trains in TensorFlow."""
    data, partition = images(sizes, shape=shape)
    ours, theirs = (trainer(model, data, partition, **config) for _ in range(2))
    assert ours._stack is not None
    theirs._stack = None
    return ours, theirs


@pytest.mark.parametrize("optimizer", ["gd", "sgd", "adam"])
@pytest.mark.parametrize("seed", range(3))
def test_random_networks_train_and_score_as_in_tensorflow(optimizer: str, seed: int) -> None:
    rng = np.random.default_rng([seed, len(optimizer)])
    model, given = random_network(rng), random_settings(rng, optimizer)
    ours, theirs = both(model, **given)
    start, steps = model.initial_weights(), np.array([5, 1, 3, 2, 4])
    here = there = np.tile(start, (len(SIZES), 1))
    for index in range(2):
        one = ours.train(here, devices=EVERYONE, round_index=index, steps=steps)
        other = theirs.train(there, devices=EVERYONE, round_index=index, steps=steps)
        here, there = one.weights, other.weights
        moved = np.linalg.norm(there - start, axis=1)
        assert moved.min() > 1e-3
        assert (np.linalg.norm(here - there, axis=1) <= ROUNDING * np.linalg.norm(there, axis=1)).all()
        assert (np.linalg.norm(here - there, axis=1) <= 1e-3 * moved).all()
        np.testing.assert_allclose(one.loss, other.loss, rtol=ROUNDING)
        # No norm comes so near to G that rounding decides.
        np.testing.assert_array_equal(one.clipped_share, other.clipped_share)
    data, partition = images(SIZES, shape=SHAPE)
    plain = replace(model, stack=None)
    for weights in (here, here[:1]):
        mine, other = (evaluate_stacked(own, weights, data=data, partition=partition) for own in (model, plain))
        np.testing.assert_allclose(mine[0], other[0], rtol=ROUNDING)
        np.testing.assert_array_equal(mine[1], other[1])
    mine, other = (evaluate(own, here[4], data.x_train, data.y_train, scale=SCALE) for own in (model, plain))
    np.testing.assert_allclose(mine, other, rtol=ROUNDING)


def mlp(activation: str = "relu", hidden: tuple[int, ...] = (9, 7)) -> FederatedModel:
    config = ModelConfig.model_validate(
        {"name": "mlp", "hidden": hidden, "activation": activation, "initial": "pytorch"}
    )
    return build_model(config, image_shape=SHAPE, num_classes=CLASSES, seed=4, trial=1)


def mean_loss(stack: LayerStack, weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Mean cross-entropy in double precision."""
    from scipy.special import erf, logsumexp

    functions: dict[Any, Any] = {
        None: lambda z: z,
        "relu": lambda z: np.maximum(z, 0.0),
        "tanh": np.tanh,
        "sigmoid": lambda z: 1.0 / (1.0 + np.exp(-z)),
        "gelu": lambda z: 0.5 * z * (1.0 + erf(z / np.sqrt(2.0))),
    }
    at, values = 0, x.reshape(len(x), -1).astype(float)
    for layer in stack.layers:
        kernel = weights[at : at + layer.inputs * layer.units].reshape(layer.inputs, layer.units)
        at += layer.num_parameters
        values = functions[layer.activation](values @ kernel + weights[at - layer.units : at])
    return float(np.mean(logsumexp(values, axis=1) - values[np.arange(len(y)), y]))


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "gelu"])
def test_a_step_is_the_gradient_by_finite_differences(activation: str) -> None:
    model = mlp(activation)
    assert model.stack is not None
    data, partition = images(SIZES, shape=SHAPE)
    start = model.initial_weights().astype(float)
    outcome = trainer(model, data, partition, learning_rate=1.0).train(
        model.initial_weights(), devices=EVERYONE, round_index=0
    )
    h = 1e-5
    for device in EVERYONE:
        own = pixels(data, partition, device)
        found = start - outcome.weights[device]
        for place in np.linspace(0, len(start) - 1, 40).astype(int):
            step = h * (np.arange(len(start)) == place)
            slope = (mean_loss(model.stack, start + step, *own) - mean_loss(model.stack, start - step, *own)) / (2 * h)
            assert found[place] == pytest.approx(slope, abs=3e-6 * np.linalg.norm(found) + 1e-7)


@pytest.mark.parametrize("model", ["mlp", "dropout"])
def test_neither_threads_nor_the_company_change_a_bit(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_network(np.random.default_rng(12)) if model == "dropout" else mlp()
    assert network.stack is not None
    assert network.stack.has_dropout == (model == "dropout")
    given = {"optimizer": "adam", "batch_size": 150, "learning_rate": 0.1, "steps": 4, "clip": 2.0, "l2": 0.1}
    start = network.initial_weights()

    def outcomes(devices: np.ndarray, threads: str) -> list[Any]:
        monkeypatch.setenv("PHYLOOP_THREADS", threads)
        learner = both(network, **given)[0]
        first = learner.train(start, devices=EVERYONE, round_index=0)
        return [first, learner.train(start, devices=devices, round_index=1)]  # with the moments of the first round

    alone = outcomes(EVERYONE, "1")
    for devices, threads in ((EVERYONE, "4"), (np.array([4, 1]), "2"), (np.array([2]), "1")):
        for one, other, who in zip(outcomes(devices, threads), alone, (EVERYONE, devices), strict=True):
            for name in ("weights", "loss", "clipped_share"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name)[who])


def numpy_loop(model: FederatedModel, x: np.ndarray, y: np.ndarray, *, rate: float, steps: int) -> list[np.ndarray]:
    """Full-batch steps of relu networks, one device `[m, P]` after the other: the plain loop that people write."""
    ends = []
    for images_of_one, labels in zip(x, y, strict=True):
        weights = [part.copy() for part in model.unflatten(model.initial_weights())]
        for _ in range(steps):
            values = [images_of_one]
            for number in range(0, len(weights), 2):
                z = values[-1] @ weights[number] + weights[number + 1]
                values.append(np.maximum(z, 0.0) if number + 2 < len(weights) else z)
            back = np.exp(values[-1] - values[-1].max(axis=1, keepdims=True))
            back /= back.sum(axis=1, keepdims=True)
            back[np.arange(len(labels)), labels] -= 1.0
            for number in range(len(weights) - 2, -1, -2):
                kernel = weights[number].copy()
                before = values[number // 2]
                weights[number] -= rate / len(labels) * (before.T @ back)
                weights[number + 1] -= rate / len(labels) * back.sum(axis=0)
                back = (back @ kernel.T) * (before > 0.0)
        ends.append(np.concatenate([part.ravel() for part in weights]))
    return ends


def test_a_round_of_an_mlp_takes_less_than_three_quarters_of_a_loop_in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half, for 20 devices with 72 images of 8 x 8 and 5 steps on one thread; TensorFlow takes twice the loop."""
    monkeypatch.setenv("PHYLOOP_THREADS", "1")
    data, partition = images([72] * 20, shape=(8, 8, 1))
    config = ModelConfig.model_validate({"name": "mlp", "initial": "pytorch"})
    model = build_model(config, image_shape=(8, 8, 1), num_classes=CLASSES, seed=1, trial=0)
    learner = trainer(model, data, partition, learning_rate=0.1, steps=5)
    start, devices = model.initial_weights(), np.arange(20)
    own = [pixels(data, partition, device) for device in devices]
    x, y = np.stack([one.reshape(len(one), -1) for one, _ in own]), np.stack([labels for _, labels in own])
    ours = learner.train(start, devices=devices, round_index=0).weights
    np.testing.assert_allclose(ours, numpy_loop(model, x, y, rate=0.1, steps=5), rtol=0, atol=ROUNDING)
    kernel = fastest_s(lambda: learner.train(start, devices=devices, round_index=1), repeats=9)
    loop = fastest_s(lambda: numpy_loop(model, x, y, rate=0.1, steps=5), repeats=9)
    assert kernel < 0.75 * loop


def test_bfloat16_and_a_gpu_leave_training_to_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    data, partition = images([4], shape=SHAPE)
    model = mlp()
    assert trainer(model, data, partition)._stack is model.stack
    assert trainer(model, data, partition, precision="bfloat16")._stack is None
    monkeypatch.setattr("fl.models.federated.sees_gpu", lambda: True)
    assert trainer(model, data, partition)._stack is None
    assert layer_stack(None, image_shape=SHAPE) is None
