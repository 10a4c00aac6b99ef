"""Recovered weights and Lemma 2 against flipped bits, and the noise terms that follow from them."""

from __future__ import annotations

import numpy as np
import pytest
from bounds_setting import recovered
from numpy.typing import NDArray

from fl.algorithms.fedavg.convergence import (
    bit_flipping_noise,
    gaussian_noise,
    recovered_moments,
)


def within_four_standard_errors(drawn: NDArray[np.float64], mean: object, variance: object) -> None:
    """Mean and variance of the draws along the last axis."""
    count = drawn.shape[-1]
    centred = drawn - drawn.mean(axis=-1, keepdims=True)
    spread = (centred**2).mean(axis=-1)
    assert (np.abs(drawn.mean(axis=-1) - mean) < 4 * np.sqrt(spread / count)).all()
    error_of_spread = np.sqrt(((centred**4).mean(axis=-1) - spread**2) / count)
    assert (np.abs(spread - variance) < 4 * error_of_spread).all()


def test_recovered_weights_shrink_by_1_minus_2p_and_scatter_as_the_paper_says() -> None:
    weights = np.array([-1.0, -0.3125, 0.0, 0.5, 0.984375])
    p = 0.1
    drawn = recovered(np.tile(weights[:, None], 40_000), p=p, value_range=1.0, rng=np.random.default_rng(3))
    mean, variance = recovered_moments(weights, flip_probability=p, value_range=1.0)
    within_four_standard_errors(drawn, mean, variance)
    # (20) prints +2 p w for the bias, some 200 standard errors away for the last weight.
    assert np.abs(drawn[-1].mean() - (1 + 2 * p) * weights[-1]) > 100 * drawn[-1].std() / np.sqrt(40_000)
    np.testing.assert_allclose(mean, (1 - 2 * p) * weights, atol=2**-22)
    # The digest: 0.120 at p = 0.1 and nu_inf = 0.5; Li et al. 2025 (21) prints it as 2^(2 e - 250) with e = 126.
    assert variance[0] == pytest.approx((1 - 4.0**-23) / 3 * 0.1 * 0.9 * 2.0 ** (2 * 126 - 250), rel=1e-12)
    assert variance[0] == pytest.approx(0.120, abs=5e-4)


def test_of_ten_bits_the_step_of_the_grid_shows_in_the_mean() -> None:
    value_range, p = 0.25, 0.5
    weights = np.array([-0.25, 0.125])
    # At p = 1/2 every point of the grid is as likely: their mean is half a step below 0.
    grid = np.arange(-512, 512) * value_range / 512
    mean, variance = recovered_moments(weights, flip_probability=p, value_range=value_range, fraction_bits=10)
    np.testing.assert_allclose(mean, grid.mean(), rtol=1e-12)
    np.testing.assert_allclose(variance, grid.var(), rtol=1e-12)


def test_the_variance_of_a_device_is_that_of_all_weights_together() -> None:
    rng = np.random.default_rng(5)
    weights = rng.uniform(-0.5, 0.5, 400)
    noise = recovered(np.tile(weights, (2000, 1)), p=0.2, value_range=0.5, rng=rng) - weights
    squares = ((noise - noise.mean(axis=0)) ** 2).sum(axis=1)
    wanted = 400 * recovered_moments(0.0, flip_probability=0.2, value_range=0.5)[1]
    # Centring by the sample mean takes one of 2000 degrees of freedom.
    assert abs(squares.mean() * 2000 / 1999 - wanted) < 4 * squares.std() / np.sqrt(2000)


def squared_bias(
    weights: NDArray[np.float64], *, shares: NDArray[np.float64], p: NDArray[np.float64], divided: bool = False
) -> NDArray[np.float64]:
    """Draws of ||sum_n q_n (w~_n - w_n)||^2."""
    rng = np.random.default_rng(7)
    draws = []
    for _ in range(400):
        back = recovered(weights, p=p[:, None], value_range=1.0, rng=rng)
        if divided:
            back = back / (1 - 2 * p[:, None])
        draws.append(((shares @ (back - weights)) ** 2).sum())
    return np.array(draws)


@pytest.mark.parametrize("divided", [False, True])
def test_the_noise_term_bounds_the_aggregated_bias_where_the_printed_one_does_not(divided: bool) -> None:
    # The worst that is allowed: all devices alike and all weights at the edge, so that Cauchy's inequality is tight.
    shares, p = np.array([0.1, 0.2, 0.3, 0.4]), np.full(4, 0.2)
    weights = np.full((4, 300), -1.0)
    measured = squared_bias(weights, shares=shares, p=p, divided=divided)
    known = {
        "shares": shares,
        "flip_probability": p,
        "num_parameters": 300,
        "value_range": 1.0,
        "norm_bound": float(np.sqrt(300)),
    }
    bound = bit_flipping_noise(**known, divided=divided)
    error = measured.std() / np.sqrt(len(measured))
    assert measured.mean() < bound + 4 * error
    # Here it is an equality, so a bound with a spare factor would be found out as well.
    assert measured.mean() > bound - 4 * error
    if not divided:
        # (22) prints p_n^2 nu_2^2 for the bias.
        printed = bit_flipping_noise(**known | {"norm_bound": 0.0}) + (shares * p**2 * 300).sum()
        assert printed < measured.mean() - 40 * error


def test_the_noise_term_holds_for_devices_that_differ() -> None:
    rng = np.random.default_rng(2)
    shares, p = rng.dirichlet(np.ones(6)), rng.uniform(0.01, 0.3, 6)
    weights = rng.uniform(-0.9, 0.9, (6, 200))
    norm_bound = float(np.linalg.norm(weights, axis=1).max())
    bound = bit_flipping_noise(
        shares=shares, flip_probability=p, num_parameters=200, value_range=1.0, norm_bound=norm_bound
    )
    assert squared_bias(weights, shares=shares, p=p).mean() < bound


def test_division_at_one_half_knows_no_bound() -> None:
    found = bit_flipping_noise(
        shares=[1.0], flip_probability=[0.5], num_parameters=5, value_range=1.0, norm_bound=1.0, divided=True
    )
    assert found == np.inf


def test_the_gaussian_noise_term_is_that_of_the_paper() -> None:
    shares, sizes = np.array([0.4, 0.6]), np.array([40, 60])
    eta, clip, rounds, epsilon, delta, m = 0.1, 1.0, 50, 5.0, 0.01, 7850
    std = 2 * eta * clip / sizes * rounds * np.sqrt(2 * np.log(1.25 / delta)) / epsilon
    printed = sum(
        q**2 * m * (2 * eta * clip * rounds) ** 2 * 2 * np.log(1.25 / delta) / (size**2 * epsilon**2)
        for q, size in zip(shares, sizes, strict=True)
    )
    assert gaussian_noise(shares=shares, noise_std=std, num_parameters=m) == pytest.approx(printed, rel=1e-12)
