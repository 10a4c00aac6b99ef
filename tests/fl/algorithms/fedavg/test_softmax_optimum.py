"""The optimum of softmax regression, its smoothness and its heterogeneity, which bounds need."""

from __future__ import annotations

import numpy as np
import pytest
from bounds_setting import a_task

from fl.algorithms.fedavg.softmax_optimum import convex_task, smoothness_bound, softmax_loss, softmax_optimum


def test_the_gradient_of_softmax_regression_is_that_of_its_loss() -> None:
    x, y, _, _ = a_task()
    rng = np.random.default_rng(1)
    weights, sample_weights = rng.normal(size=21), rng.dirichlet(np.ones(120))
    value, gradient = softmax_loss(weights, x, y, sample_weights=sample_weights, l2=0.3)
    probability = np.exp(x @ weights.reshape(7, 3)[:6] + weights.reshape(7, 3)[6])
    probability /= probability.sum(axis=1, keepdims=True)
    wanted = -sample_weights @ np.log(probability[np.arange(120), y]) + 0.15 * (weights**2).sum()
    assert value == pytest.approx(wanted, rel=1e-12)
    for direction in np.eye(21):
        ends = [
            softmax_loss(weights + h * direction, x, y, sample_weights=sample_weights, l2=0.3)[0] for h in (1e-5, -1e-5)
        ]
        # Central differences: h^2 from the third derivative, rounding 1e-16 / h.
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(gradient @ direction, abs=1e-8)


def test_the_optimum_is_where_slow_gradient_descent_ends() -> None:
    x, y, _, _ = a_task()
    found, _ = softmax_optimum(x, y, num_outputs=3, l2=0.1)
    weights, rate = np.zeros(21), 1 / smoothness_bound(x, l2=0.1)
    for _ in range(2000):
        weights = weights - rate * softmax_loss(weights, x, y, sample_weights=np.full(120, 1 / 120), l2=0.1)[1]
    # Gradient descent shrinks the distance by 1 - mu / L a step, to nothing after 2000.
    assert np.linalg.norm(found - weights) < 1e-5


def test_few_samples_in_many_dimensions_are_solved_in_their_span() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(9, 40)), rng.integers(4, size=9)
    found, least = softmax_optimum(x, y, num_outputs=4, l2=0.05)
    value, gradient = softmax_loss(found, x, y, sample_weights=np.full(9, 1 / 9), l2=0.05)
    assert value == pytest.approx(least, rel=1e-12)
    assert np.linalg.norm(gradient) / 0.05 < 1e-5


def test_no_device_curves_more_than_its_smoothness() -> None:
    x, _, devices, _ = a_task()
    for indices in devices:
        limit = smoothness_bound(x[indices], l2=0.1)
        ones = np.column_stack([x[indices], np.ones(len(indices))])
        assert limit <= 0.1 + 0.5 * (ones**2).sum(axis=1).max()
        # At w = 0 of two classes diag(s) - s s^T has the eigenvalue 1/2, so that the bound is met.
        hessian = np.kron(np.array([[0.25, -0.25], [-0.25, 0.25]]), ones.T @ ones / len(indices))
        assert np.linalg.eigvalsh(hessian)[-1] + 0.1 == pytest.approx(limit, rel=1e-12)


def test_heterogeneity_is_what_devices_would_gain_alone() -> None:
    x, y, devices, shares = a_task()
    task = convex_task(x, y, devices=devices, shares=shares, num_outputs=3, l2=0.1)
    alone = [softmax_optimum(x[part], y[part], num_outputs=3, l2=0.1)[1] for part in devices]
    together = softmax_optimum(x, y, num_outputs=3, l2=0.1)[1]
    assert task.heterogeneity == pytest.approx(together - shares @ alone, abs=1e-10)
    assert task.heterogeneity > 0.05
    same = convex_task(x, y, devices=[np.arange(120)] * 3, shares=np.full(3, 1 / 3), num_outputs=3, l2=0.1)
    assert same.heterogeneity < 1e-10
