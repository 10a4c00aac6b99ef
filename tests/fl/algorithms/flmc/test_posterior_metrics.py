"""Metrics of samples against closed forms, SciPy and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm

from fl.algorithms.flmc.kernels import SampleMoments, gaussian_wasserstein2
from fl.algorithms.flmc.tasks import Posterior

positive = st.floats(1e-3, 1e3)


def spd(rng: np.random.Generator, m: int) -> np.ndarray:
    root = rng.normal(size=(m, m))
    return root @ root.T + 0.1 * np.eye(m)


@given(shift=st.floats(-10, 10), one=positive, other=positive)
def test_on_a_line_the_distance_is_that_of_means_and_deviations(shift: float, one: float, other: float) -> None:
    found = gaussian_wasserstein2(np.array([shift]), np.array([[one**2]]), np.array([[other**2]]))
    # The root of a difference of squares: 1e-8 of the larger deviation is what float64 leaves.
    assert found == pytest.approx(np.hypot(shift, one - other), rel=1e-6, abs=1e-6 * max(one, other))


def test_for_commuting_covariances_the_distance_is_that_of_their_roots() -> None:
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    one, other = rng.uniform(0.1, 3.0, 6), rng.uniform(0.1, 3.0, 6)
    shift = rng.normal(size=6)
    found = gaussian_wasserstein2(shift, (basis * one) @ basis.T, (basis * other) @ basis.T)
    wanted = np.sqrt(np.sum(shift**2) + np.sum((np.sqrt(one) - np.sqrt(other)) ** 2))
    assert found == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("m", [1, 2, 5, 31])
def test_for_any_covariances_the_distance_is_that_by_scipys_matrix_root(m: int) -> None:
    rng = np.random.default_rng(m)
    shift = rng.normal(size=(4, m))
    one, other = (np.stack([spd(rng, m) for _ in range(4)]) for _ in range(2))
    found = gaussian_wasserstein2(shift, one, other)
    for row in range(4):
        root = sqrtm(other[row])
        cross = np.trace(sqrtm(root @ one[row] @ root)).real
        square = np.sum(shift[row] ** 2) + np.trace(one[row]) + np.trace(other[row]) - 2 * cross
        assert found[row] == pytest.approx(np.sqrt(square), rel=1e-7)


def test_the_distance_is_symmetric_and_zero_to_itself_and_admits_singular_covariances() -> None:
    rng = np.random.default_rng(3)
    one, other = spd(rng, 4), spd(rng, 4)
    zero = np.zeros(4)
    assert gaussian_wasserstein2(zero, one, other) == pytest.approx(
        float(gaussian_wasserstein2(zero, other, one)), rel=1e-9
    )
    assert gaussian_wasserstein2(zero, one, one) < 1e-6  # the root of 1e-15 of a trace of 10
    flat = np.outer(one[0], one[0])
    assert gaussian_wasserstein2(zero, flat, flat) < 1e-6
    assert gaussian_wasserstein2(zero, np.zeros((4, 4)), one) == pytest.approx(np.sqrt(np.trace(one)), rel=1e-9)


@pytest.mark.parametrize("count", [2, 3, 200])
def test_the_moments_are_numpys(count: int) -> None:
    rng = np.random.default_rng(count)
    mean, covariance = rng.normal(size=(3, 4)), np.stack([spd(rng, 4) for _ in range(3)])
    samples = 5.0 + rng.normal(size=(count, 3, 4)) * [1.0, 2.0, 0.1, 3.0]
    moments = SampleMoments(Posterior(mean=mean, covariance=covariance))
    for theta in samples:
        moments.add(theta, counted=np.ones(len(theta), bool))
    found = moments.summary()
    for row in range(3):
        deviation = samples[:, row] - mean[row]
        spread = np.cov(samples[:, row].T)
        assert found["mse"][row] == pytest.approx((deviation**2).sum(axis=1).mean(), rel=1e-10)
        ratio = np.trace(spread) / np.trace(covariance[row])
        assert found["variance_ratio"][row] == pytest.approx(ratio, rel=1e-9)
        distance = gaussian_wasserstein2(deviation.mean(axis=0), spread, covariance[row])
        assert found["wasserstein2"][row] == pytest.approx(float(distance), rel=1e-6)


def test_samples_that_are_too_cold_win_the_mse_and_lose_the_others() -> None:
    rng = np.random.default_rng(9)
    posterior = Posterior(mean=np.zeros((1, 5)), covariance=np.eye(5)[None])
    found = {}
    for name, scale in (("right", 1.0), ("cold", 0.3)):
        moments = SampleMoments(posterior)
        for _ in range(2000):
            moments.add(scale * rng.normal(size=(1, 5)), counted=np.ones(1, bool))
        found[name] = {metric: float(value[0]) for metric, value in moments.summary().items()}
    assert found["cold"]["mse"] < 0.2 * found["right"]["mse"]
    assert found["cold"]["wasserstein2"] > 3 * found["right"]["wasserstein2"]
    # 10000 entries: a standard error of the variance of sqrt(2 / 10000).
    assert found["cold"]["variance_ratio"] == pytest.approx(0.09, rel=4 * np.sqrt(2 / 10_000))
    assert found["right"]["variance_ratio"] == pytest.approx(1.0, rel=4 * np.sqrt(2 / 10_000))
