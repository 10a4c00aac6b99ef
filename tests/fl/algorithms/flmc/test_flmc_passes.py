"""Clipping, distances and their moments in one pass: what NumPy does in several."""

from __future__ import annotations

import numpy as np
import pytest

from fl.algorithms.flmc.kernels import SampleMoments, clipped, descended, distances
from fl.algorithms.flmc.tasks import Posterior

NUMBERS = np.random.default_rng(5).standard_normal((40, 3, 7))
ODD = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 5e-324, 1e100, -1e100)
for place, odd in enumerate(ODD):
    NUMBERS[3 * place, place % 3, place % 7] = odd


@pytest.mark.parametrize("bound", [0.5, 1e-300, np.inf])
@pytest.mark.parametrize("values", [NUMBERS, NUMBERS[::2], NUMBERS.transpose(1, 0, 2), NUMBERS[:0]])
def test_clipping_is_that_of_numpy(values: np.ndarray, bound: float) -> None:
    found, lost = clipped(values, bound)
    assert found.tobytes() == np.clip(values, -bound, bound).tobytes()
    assert lost.tolist() == np.isnan(values).any(axis=(1, 2)).tolist()


@pytest.mark.parametrize("values", [NUMBERS, NUMBERS[:, 0], NUMBERS[:0], NUMBERS[:, :0]])
def test_diverged_rows_are_found(values: np.ndarray) -> None:
    flat = values.reshape(len(values), int(np.prod(values.shape[1:])))
    squares, below, everywhere = distances(flat, np.zeros(flat.shape), limit=1e100)
    assert everywhere == below.all()
    with np.errstate(invalid="ignore"):
        assert below.tolist() == (np.abs(flat) < 1e100).all(axis=1).tolist()
        for some in (flat, np.ascontiguousarray(flat[:, :7])):
            expected = ((some - 1.0) ** 2).sum(axis=1)
            assert distances(some, np.ones(some.shape), limit=1.0)[0].tobytes() == expected.tobytes()
    assert squares.shape == below.shape == (len(values),)


def test_a_step_is_that_of_numpy_and_lost_where_a_gradient_is() -> None:
    rng = np.random.default_rng(2)
    theta, slope, eta = rng.standard_normal((40, 5)), 1e3 * rng.standard_normal((40, 5)), rng.random(40)
    lost = np.arange(40) % 9 == 0
    expected = np.where(lost[:, None], np.nan, theta - eta[:, None] * slope)
    np.testing.assert_array_equal(descended(theta, slope, eta=eta, lost=lost), expected)


def test_moments_are_those_of_the_rows_that_count() -> None:
    rng = np.random.default_rng(11)
    targets = rng.standard_normal((6, 3))
    moments = SampleMoments(Posterior(mean=targets, covariance=np.zeros((6, 3, 3))))
    expected_count, expected_sums, expected_outer = np.zeros(6), np.zeros((6, 3)), np.zeros((6, 3, 3))
    for _ in range(5):
        values = rng.standard_normal((6, 3))
        some = rng.random(6) < 0.7
        moments.add(values, counted=some)
        deviation = np.where(some[:, None], values - targets, 0.0)
        expected_count += some
        expected_sums += deviation
        expected_outer += deviation[:, :, None] * deviation[:, None, :]
    assert moments.count.tolist() == expected_count.tolist()
    assert moments.sums.tobytes() == expected_sums.tobytes()
    assert moments.outer.tobytes() == expected_outer.tobytes()
