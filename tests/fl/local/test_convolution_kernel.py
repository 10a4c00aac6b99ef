"""Convolutions in the kernel that trains stacks of layers, against TensorFlow and finite differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from local_setting import CLASSES, SCALE, images, pixels, trainer
from test_layer_kernel import ROUNDING, both, random_settings

from fl.local.evaluation import evaluate, evaluate_stacked
from fl.models.federated import FederatedModel, federated
from fl.models.layer_stack import ConvStage, LayerStack, StackLayer

SHAPE = (9, 11, 2)
"""Neither square nor a multiple of a tile."""
SIZES = [5, 97]
"""A block of samples that is not full, and two slices of samples."""
EVERYONE = np.arange(len(SIZES))


def random_network(rng: np.random.Generator) -> FederatedModel:
    """One or two convolutions with any padding, bias, growing activation, pooling and dropout, and dense layers."""
    import keras

    kinds = keras.layers
    layers: list[Any] = [keras.Input(SHAPE)]
    for stage in range(rng.integers(1, 3)):
        filters, kernel = int(rng.integers(1, 9)), int(rng.integers(1, 5))
        padding = "same" if stage > 0 or rng.random() < 0.5 else "valid"
        layers.append(kinds.Conv2D(filters, kernel, padding=padding, use_bias=bool(rng.random() < 0.7)))
        if (activation := [None, "relu", "tanh", "sigmoid"][rng.integers(4)]) is not None:
            layers.append(kinds.Activation(activation))
        if rng.random() < 0.5:
            layers.append(kinds.MaxPooling2D(2 if stage > 0 or rng.random() < 0.7 else 3))
        if rng.random() < 0.4:
            layers.append(kinds.Dropout(float(rng.choice([0.0, 0.25, 0.5]))))
    layers.append(kinds.Flatten())
    if rng.random() < 0.5:
        layers += [kinds.Dense(7, activation="tanh"), kinds.Dropout(0.2)]
    made = federated(keras.Sequential([*layers, kinds.Dense(CLASSES)]))
    start = 0.3 * rng.normal(size=made.num_parameters)
    return replace(made, initial=start.astype(np.float32))


@pytest.mark.parametrize(("optimizer", "seed"), [("gd", 0), ("gd", 1), ("sgd", 0), ("sgd", 2), ("adam", 1)])
def test_random_networks_train_and_score_as_in_tensorflow(optimizer: str, seed: int) -> None:
    rng = np.random.default_rng([seed, len(optimizer), 7])
    model, given = random_network(rng), random_settings(rng, optimizer)
    assert model.stack is not None
    assert model.stack.stages
    ours, theirs = both(model, SIZES, shape=SHAPE, **given)
    start, steps = model.initial_weights(), np.array([5, 3])
    here = there = np.tile(start, (len(SIZES), 1))
    for index in range(2):
        one = ours.train(here, devices=EVERYONE, round_index=index, steps=steps)
        other = theirs.train(there, devices=EVERYONE, round_index=index, steps=steps)
        here, there = one.weights, other.weights
        moved = np.linalg.norm(there - start, axis=1)
        assert moved.min() > 1e-3
        # Adam divides by the root of its moments: entries whose gradient is rounding alone move as far as others.
        bound = ROUNDING if optimizer != "adam" else 10 * ROUNDING
        assert (np.linalg.norm(here - there, axis=1) <= bound * np.linalg.norm(there, axis=1)).all()
        np.testing.assert_allclose(one.loss, other.loss, rtol=bound)
        np.testing.assert_array_equal(one.clipped_share, other.clipped_share)
    data, partition = images(SIZES, shape=SHAPE)
    plain = replace(model, stack=None)
    for weights in (here, here[:1]):
        mine, other = (evaluate_stacked(own, weights, data=data, partition=partition) for own in (model, plain))
        np.testing.assert_allclose(mine[0], other[0], rtol=ROUNDING)
        np.testing.assert_array_equal(mine[1], other[1])
    mine, other = (evaluate(own, here[1], data.x_train, data.y_train, scale=SCALE) for own in (model, plain))
    np.testing.assert_allclose(mine, other, rtol=ROUNDING)


LENET = LayerStack(
    stages=(
        ConvStage(height=9, width=11, channels=2, filters=3, kernel=3, before=1, after=1, bias=True, activation="relu",
                  pool=2),
        ConvStage(height=4, width=5, channels=3, filters=7, kernel=2, bias=False, activation="sigmoid"),
        ConvStage(height=3, width=4, channels=7, filters=4, kernel=2, after=1, bias=True, activation="tanh", pool=3),
    ),
    layers=(
        StackLayer(inputs=4, units=5, bias=True, activation="tanh"),
        StackLayer(inputs=5, units=CLASSES, bias=True),
    ),
)  # fmt: skip
"""Margins on one side and on both, more channels and filters than a tile has, windows that leave some out."""


def lenet() -> FederatedModel:
    """`LENET` with weights that no symmetry flatters."""
    start = 0.4 * np.random.default_rng(3).normal(size=LENET.num_parameters)
    return FederatedModel(
        pieces=(), initial=start.astype(np.float32), outputs=CLASSES, make_network=lambda: None, stack=LENET
    )


def mean_loss(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Mean cross-entropy of `LENET` in double precision."""
    from numpy.lib.stride_tricks import sliding_window_view
    from scipy.special import expit, logsumexp

    functions: dict[Any, Any] = {
        None: lambda z: z, "relu": lambda z: np.maximum(z, 0.0), "tanh": np.tanh, "sigmoid": expit,
    }  # fmt: skip
    at, values = 0, x.astype(float)
    for stage in LENET.stages:
        inputs = stage.kernel**2 * stage.channels
        kernel = weights[at : at + inputs * stage.filters].reshape(stage.kernel, stage.kernel, stage.channels, -1)
        at += stage.num_parameters
        around = (stage.before, stage.after)
        windows = sliding_window_view(
            np.pad(values, ((0, 0), around, around, (0, 0))), (stage.kernel,) * 2, axis=(1, 2)
        )
        z = np.einsum("nyxcij,ijcf->nyxf", windows, kernel)
        z += weights[at - stage.filters : at] if stage.bias else 0.0
        high, wide, pool = stage.out_height, stage.out_width, stage.pool
        z = z[:, : high * pool, : wide * pool].reshape(len(x), high, pool, wide, pool, -1).max(axis=(2, 4))
        values = functions[stage.activation](z)
    values = values.reshape(len(x), -1)
    for layer in LENET.layers:
        kernel = weights[at : at + layer.inputs * layer.units].reshape(layer.inputs, layer.units)
        at += layer.num_parameters
        values = functions[layer.activation](values @ kernel + weights[at - layer.units : at])
    return float(np.mean(logsumexp(values, axis=1) - values[np.arange(len(y)), y]))


def test_a_step_is_the_gradient_by_finite_differences() -> None:
    data, partition = images(SIZES, shape=SHAPE)
    model = lenet()
    start = model.initial_weights().astype(float)
    outcome = trainer(model, data, partition, learning_rate=1.0).train(
        model.initial_weights(), devices=EVERYONE, round_index=0
    )
    h = 1e-6
    for device in EVERYONE:
        own = pixels(data, partition, device)
        found = start - outcome.weights[device]
        for place in np.linspace(0, len(start) - 1, 60).astype(int):
            step = h * (np.arange(len(start)) == place)
            slope = (mean_loss(start + step, *own) - mean_loss(start - step, *own)) / (2 * h)
            assert found[place] == pytest.approx(slope, abs=3e-6 * np.linalg.norm(found) + 1e-7)


def test_clipping_shortens_the_gradient_of_each_sample() -> None:
    """A device of one sample takes a step of the length G, with l2 inside; those of many add theirs up."""
    data, partition = images([1] * 20 + [20], shape=SHAPE)
    alone = replace(partition, devices=(*partition.devices[:20], np.concatenate(partition.devices[:20])))
    model = lenet()
    start, clip = model.initial_weights().astype(float), 0.3
    learner = trainer(model, data, alone, learning_rate=1.0, clip=clip, l2=0.1)
    outcome = learner.train(model.initial_weights(), devices=np.arange(21), round_index=0)
    moved = start - outcome.weights
    assert (outcome.clipped_share[:20] == 1.0).all()
    np.testing.assert_allclose(np.linalg.norm(moved[:20], axis=1), clip, rtol=1e-5)
    np.testing.assert_allclose(moved[20], moved[:20].mean(axis=0), atol=1e-6)


def test_neither_threads_nor_the_company_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"optimizer": "sgd", "batch_size": 50, "learning_rate": 0.1, "steps": 4, "clip": 2.0, "momentum": 0.5}
    model = lenet()
    dropped = (replace(LENET.stages[0], dropout=0.3), *LENET.stages[1:])
    model = replace(model, stack=replace(LENET, stages=dropped))
    data, partition = images(SIZES, shape=SHAPE)

    def outcomes(devices: np.ndarray, threads: str) -> Any:
        monkeypatch.setenv("PHYLOOP_THREADS", threads)
        return trainer(model, data, partition, **given).train(model.initial_weights(), devices=devices, round_index=0)

    alone = outcomes(EVERYONE, "1")
    for devices, threads in ((EVERYONE, "2"), (np.array([1, 0]), "1"), (np.array([0]), "1")):
        found = outcomes(devices, threads)
        for name in ("weights", "loss", "clipped_share"):
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name)[devices])
