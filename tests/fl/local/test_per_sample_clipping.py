"""Clipped per-sample gradients, against one tape per sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from local_setting import images, network, pixels, trainer
from oracles.per_sample import clipped_mean, sample_gradients, softmax_regression_gradients

from fl.local.forward import can_walk
from fl.local.gradients import _dry_run, _has_one_tap_each
from fl.local.taps import LinearTap, prefers_ghost

SIZES = [5, 3, 8]
KNOWN = ["linear", "mlp", "cnn", "residual", "nested"]
UNKNOWN = ["shared", "unknown"]
DEAR = {"residual", "nested", "cnn", "unknown"}
"""Compiled for seconds: an l2 of zero, which is no case of its own, is for the slow tests."""


def once(kind: str, l2: float) -> Any:
    return pytest.param(kind, l2, marks=pytest.mark.slow) if kind in DEAR and l2 == 0.0 else (kind, l2)


def assert_same_gradient(found: np.ndarray, expected: np.ndarray) -> None:
    """Float32 against float32 in another order: some 1e3 terms of 6e-8 each, of the size of the longest gradient."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize(("kind", "l2"), [once(kind, l2) for kind in KNOWN + UNKNOWN for l2 in (0.0, 0.3)])
def test_one_step_moves_by_the_mean_of_gradients_clipped_one_by_one(kind: str, l2: float) -> None:
    data, partition = images(SIZES)
    model = network(kind)
    weights = model.initial_weights()
    gradients = [sample_gradients(model.network, *pixels(data, partition, device)) for device in range(len(SIZES))]
    norms = np.sort(np.concatenate([np.linalg.norm(g + l2 * weights, axis=1) for g in gradients]))
    # Between two norms, so that some samples are clipped and rounding decides of none.
    clip = float(norms[len(norms) // 2 - 1 : len(norms) // 2 + 1].mean())
    learner = trainer(model, data, partition, learning_rate=1.0, clip=clip, l2=l2)
    outcome = learner.train(weights, devices=np.arange(len(SIZES)), round_index=0)
    for device, own in enumerate(gradients):
        assert_same_gradient(weights - outcome.weights[device], clipped_mean(own, weights, clip=clip, l2=l2))
        longer = np.linalg.norm(own + l2 * weights, axis=1) > clip
        assert outcome.clipped_share[device] == pytest.approx(longer.mean())
    share = np.average(outcome.clipped_share, weights=SIZES)
    assert 0.0 < share < 1.0


@pytest.mark.parametrize("kind", ["mlp", pytest.param("residual", marks=pytest.mark.slow), "unknown"])
def test_without_a_bound_the_step_is_the_plain_mean(kind: str) -> None:
    data, partition = images(SIZES)
    model = network(kind)
    weights = model.initial_weights()
    outcome = trainer(model, data, partition, learning_rate=1.0, l2=0.1).train(
        weights, devices=np.arange(len(SIZES)), round_index=0
    )
    for device in range(len(SIZES)):
        own = sample_gradients(model.network, *pixels(data, partition, device))
        assert_same_gradient(weights - outcome.weights[device], clipped_mean(own, weights, clip=None, l2=0.1))
    np.testing.assert_array_equal(outcome.clipped_share, 0.0)


def test_clipping_the_mean_would_not_do() -> None:
    data, partition = images([6])
    model = network("mlp")
    weights = model.initial_weights()
    own = sample_gradients(model.network, *pixels(data, partition, 0))
    clip = 0.9 * float(np.linalg.norm(own, axis=1).min())
    step = (
        weights
        - trainer(model, data, partition, learning_rate=1.0, clip=clip)
        .train(weights, devices=np.array([0]), round_index=0)
        .weights[0]
    )
    mean = own.mean(axis=0)
    of_the_mean = mean * min(1.0, clip / np.linalg.norm(mean))
    assert_same_gradient(step, clipped_mean(own, weights, clip=clip, l2=0.0))
    # Far beyond the tolerance above: clipped one by one, samples that disagree shorten their mean.
    assert np.linalg.norm(step - of_the_mean) > 0.05 * clip
    assert np.linalg.norm(step) < clip


def test_no_sample_moves_its_device_by_more_than_its_share_of_the_bound() -> None:
    sizes = [5]
    data, partition = images(sizes)
    model = network("cnn")
    weights = model.initial_weights()
    clip, eta = 0.05, 0.5
    before = trainer(model, data, partition, learning_rate=eta, clip=clip)
    neighbour = data.y_train.copy()
    neighbour[partition.devices[0][2]] = (neighbour[partition.devices[0][2]] + 1) % 4
    other = type(data)(**{**vars(data), "y_train": neighbour})
    after = trainer(model, other, partition, learning_rate=eta, clip=clip)
    ends = [one.train(weights, devices=np.array([0]), round_index=0).weights[0] for one in (before, after)]
    moved = np.linalg.norm(ends[0].astype(float) - ends[1])
    # Sensitivity 2 eta G / |D_n|, digest section 2; rounding of weights near 1 beside it.
    assert 0.1 * eta * clip / sizes[0] < moved <= 2 * eta * clip / sizes[0] + 1e-5


@pytest.mark.parametrize("kind", KNOWN)
def test_known_layers_need_no_gradient_of_every_sample(kind: str) -> None:
    model = network(kind)
    assert can_walk(model.network)
    assert _has_one_tap_each(model, _dry_run(model))


def test_the_networks_above_meet_every_way_to_a_norm() -> None:
    met = set()
    for kind in KNOWN:
        for tap in _dry_run(network(kind)).taps:
            if isinstance(tap, LinearTap):
                positions, out = int(np.prod(tap.output.shape[1:-1])), int(tap.output.shape[-1])
                fan_in = int(np.prod(tap.kernel.shape[:-1]))
                ghost = prefers_ghost(positions=positions, fan_in=fan_in, fan_out=out)
                met.add((tap.window is not None, positions > 1, ghost))
    convolution, many = True, True
    assert {(not convolution, not many, True), (not convolution, many, False)} <= met
    assert {(convolution, many, True), (convolution, many, False)} <= met


def test_a_layer_used_twice_or_unknown_is_seen() -> None:
    shared = network("shared")
    assert not _has_one_tap_each(shared, _dry_run(shared))
    assert not can_walk(network("unknown").network)


def test_softmax_regression_follows_gradient_descent_in_numpy() -> None:
    data, partition = images(SIZES)
    model = network("linear")
    weights = model.initial_weights()
    clip, l2, eta, steps = 0.8, 0.05, 0.3, 6
    outcome = trainer(model, data, partition, learning_rate=eta, clip=clip, l2=l2, steps=steps).train(
        weights, devices=np.arange(len(SIZES)), round_index=0
    )
    for device in range(len(SIZES)):
        x, y = pixels(data, partition, device)
        flat = x.reshape(len(x), -1).astype(float)
        own = weights.astype(float)
        for _ in range(steps):
            kernel, bias = own[: flat.shape[1] * 4].reshape(-1, 4), own[flat.shape[1] * 4 :]
            own = own - eta * clipped_mean(softmax_regression_gradients(flat, y, kernel, bias), own, clip=clip, l2=l2)
        # Six steps of float32 against float64.
        np.testing.assert_allclose(outcome.weights[device], own, rtol=0, atol=5e-6)
