"""Bayesian linear regression: gradients, splits and posterior against the raw data."""

from __future__ import annotations

import numpy as np
import pytest
from flmc_setting import SEED, dataset, dealt

from fl.algorithms.flmc.tasks import build_task
from fl.algorithms.flmc.tasks.config import GaussianLinearConfig

TRIALS = (0, 4, 9)
UNEVEN = 1203
"""Not divisible by 20, nor by 7."""


def log_posterior(inputs: np.ndarray, labels: np.ndarray, theta: np.ndarray) -> float:
    """ln p(theta | data) up to a constant."""
    return float(-0.5 * np.sum((labels - inputs @ theta) ** 2) - 0.5 * np.sum(theta**2))


@pytest.mark.parametrize(("num_samples", "num_devices"), [(1200, 20), (UNEVEN, 20), (UNEVEN, 7), (25, 20), (9, 1)])
def test_device_gradients_add_up_to_minus_the_slope_of_the_log_posterior(num_samples: int, num_devices: int) -> None:
    task = build_task(GaussianLinearConfig(num_samples=num_samples), num_devices=num_devices, seed=SEED, trials=TRIALS)
    theta = np.random.default_rng(1).normal(size=(len(TRIALS), 5))
    total = task.gradients(theta).sum(axis=1)
    for row, trial in enumerate(TRIALS):
        inputs, labels = dataset(SEED, trial, num_samples=num_samples)
        step = 1e-3
        slope = [
            (
                log_posterior(inputs, labels, theta[row] + step * e)
                - log_posterior(inputs, labels, theta[row] - step * e)
            )
            / (2 * step)
            for e in np.eye(5)
        ]
        # Central differences of a quadratic are exact; left is rounding of values near 1e4, over 2e-3.
        np.testing.assert_allclose(total[row], -np.array(slope), rtol=0, atol=1e-7)


@pytest.mark.parametrize("num_samples", [1200, UNEVEN])
def test_each_device_holds_its_own_share_of_the_data(num_samples: int) -> None:
    task = build_task(GaussianLinearConfig(num_samples=num_samples), num_devices=20, seed=SEED, trials=TRIALS)
    theta = np.random.default_rng(2).normal(size=(len(TRIALS), 5))
    found = task.gradients(theta)
    for row, trial in enumerate(TRIALS):
        shares = dealt(*dataset(SEED, trial, num_samples=num_samples))
        assert sum(len(labels) for _, labels in shares) == num_samples
        for device, (inputs, labels) in enumerate(shares):
            wanted = -inputs.T @ (labels - inputs @ theta[row]) + theta[row] / 20
            # Sums of 60 products of size 1 to 100, in another order.
            np.testing.assert_allclose(found[row, device], wanted, rtol=1e-10, atol=1e-10)


def test_the_posterior_is_that_of_the_formula() -> None:
    task = build_task(GaussianLinearConfig(num_samples=UNEVEN), num_devices=20, seed=SEED, trials=TRIALS)
    for row, trial in enumerate(TRIALS):
        inputs, labels = dataset(SEED, trial, num_samples=UNEVEN)
        precision = inputs.T @ inputs + np.eye(5)
        np.testing.assert_allclose(task.posterior.covariance[row] @ precision, np.eye(5), atol=1e-12)
        np.testing.assert_allclose(task.posterior.mean[row], np.linalg.solve(precision, inputs.T @ labels), rtol=1e-10)
        eigenvalues = np.linalg.eigvalsh(precision)
        assert task.strong_convexity[row] == pytest.approx(eigenvalues[0], rel=1e-10)
        assert task.smoothness[row] == pytest.approx(eigenvalues[-1], rel=1e-10)


def test_the_gradient_vanishes_at_the_posterior_mean() -> None:
    task = build_task(GaussianLinearConfig(), num_devices=20, seed=SEED, trials=TRIALS)
    np.testing.assert_allclose(task.gradients(task.posterior.mean).sum(axis=1), 0.0, atol=1e-9)


def test_the_true_parameter_is_the_papers_and_for_other_dimensions_a_draw_from_the_prior() -> None:
    trials = tuple(range(30))
    paper = build_task(GaussianLinearConfig(num_samples=20_000), num_devices=2, seed=SEED, trials=trials)
    truth = np.array([0.418, -0.289, 0.3982, 0.8231, 0.5251])
    error = (paper.posterior.mean - truth).mean(axis=0)
    assert (np.abs(error) < 4 / np.sqrt(20_000 * len(trials))).all()
    other = build_task(GaussianLinearConfig(num_samples=500, dimension=3), num_devices=2, seed=SEED, trials=trials)
    values = other.posterior.mean.ravel()
    # 90 values of N(0, 1) seen with noise of variance 1/500: a mean square within 4 standard errors of 1.
    assert np.mean(values**2) == pytest.approx(1.002, abs=4 * np.sqrt(2 / 90))


def test_exact_samples_have_the_moments_of_the_posterior() -> None:
    task = build_task(GaussianLinearConfig(), num_devices=20, seed=SEED, trials=TRIALS)
    count = 20_000
    samples = task.exact_samples(count)
    assert samples.shape == (len(TRIALS), count, 5)
    np.testing.assert_array_equal(samples, task.exact_samples(count))
    for row in range(len(TRIALS)):
        covariance = task.posterior.covariance[row]
        variance = np.diag(covariance)
        z = (samples[row].mean(axis=0) - task.posterior.mean[row]) / np.sqrt(variance / count)
        assert np.abs(z).max() < 4.5
        # Var of a sample covariance entry: (s_ii s_jj + s_ij^2) / n.
        deviation = np.sqrt((np.outer(variance, variance) + covariance**2) / count)
        assert np.abs((np.cov(samples[row].T) - covariance) / deviation).max() < 4.5
