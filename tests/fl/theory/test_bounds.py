"""Lemma 1 and Lemma 2 against flipped bits, and the noise terms that follow from them."""

from __future__ import annotations

import numpy as np
import pytest
from bounds_setting import FORMATS, fractions_flipped, recovered
from numpy.typing import NDArray

from fl.tasks.base import LearningError
from fl.theory.bounds import (
    bit_flipping_noise,
    flipped_mean,
    flipped_variance,
    gaussian_noise,
    local_bias_variance,
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


@pytest.mark.parametrize("bits", [10, 23, 52])
@pytest.mark.parametrize("p", [0.02, 0.3])
def test_flipped_numbers_have_the_mean_and_variance_of_lemma_1(bits: int, p: float) -> None:
    values = np.array([0.1, -0.75, 1.0, 3.999, -2.0, 100.0]).astype(FORMATS[bits][0]).astype(np.float64)
    drawn = fractions_flipped(np.tile(values[:, None], 20_000), p=p, bits=bits, rng=np.random.default_rng(bits))
    within_four_standard_errors(
        drawn,
        flipped_mean(values, flip_probability=p, fraction_bits=bits),
        flipped_variance(values, flip_probability=p, fraction_bits=bits),
    )


@pytest.mark.parametrize("bits", [10, 23])
def test_lemma_1_is_exact_for_certain_flips_and_for_none(bits: int) -> None:
    values = np.array([1.25, -6.0])
    flipped = fractions_flipped(values, p=1.0, bits=bits, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(flipped_mean(values, flip_probability=1.0, fraction_bits=bits), flipped)
    np.testing.assert_array_equal(flipped_mean(values, flip_probability=0.0, fraction_bits=bits), values)
    np.testing.assert_array_equal(flipped_variance(values, flip_probability=[0.0, 1.0], fraction_bits=bits), 0.0)


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


def test_local_bias_variance_is_that_of_all_weights_together() -> None:
    rng = np.random.default_rng(5)
    weights = rng.uniform(-0.5, 0.5, 400)
    noise = recovered(np.tile(weights, (2000, 1)), p=0.2, value_range=0.5, rng=rng) - weights
    squares = ((noise - noise.mean(axis=0)) ** 2).sum(axis=1)
    wanted = local_bias_variance(flip_probability=0.2, num_parameters=400, value_range=0.5)
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
        assert bit_flipping_noise(**known, printed=True) < measured.mean() - 40 * error


def test_the_noise_term_holds_for_devices_that_differ() -> None:
    rng = np.random.default_rng(2)
    shares, p = rng.dirichlet(np.ones(6)), rng.uniform(0.01, 0.3, 6)
    weights = rng.uniform(-0.9, 0.9, (6, 200))
    norm_bound = float(np.linalg.norm(weights, axis=1).max())
    bound = bit_flipping_noise(
        shares=shares, flip_probability=p, num_parameters=200, value_range=1.0, norm_bound=norm_bound
    )
    assert squared_bias(weights, shares=shares, p=p).mean() < bound


def test_the_printed_noise_term_is_that_of_the_paper_round_by_round() -> None:
    shares, p = np.array([0.25, 0.75]), np.array([[0.1, 0.02], [0.0, 0.5], [0.0, 0.0]])
    found = bit_flipping_noise(
        shares=shares, flip_probability=p, num_parameters=50, value_range=2.0, norm_bound=16.0, printed=True
    )
    for round_index in range(3):
        # (22) with e = 127, for nu_inf = 1: values in [-2, 2).
        first = (
            (1 - 4.0**-23)
            * 50
            / 3
            * sum(q**2 * r * (1 - r) * 2.0 ** (2 * 127 - 250) for q, r in zip(shares, p[round_index], strict=True))
        )
        second = sum(q * r**2 * 16.0**2 for q, r in zip(shares, p[round_index], strict=True))
        assert found[round_index] == pytest.approx(first + second, rel=1e-12)
    assert found[2] == 0.0


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


@pytest.mark.parametrize("value", [0.0, 1e-40, np.inf, np.nan])
def test_lemma_1_refuses_what_has_no_such_exponent(value: float) -> None:
    with pytest.raises(LearningError, match="normalised numbers"):
        flipped_mean([1.0, value], flip_probability=0.1)


def test_probabilities_and_formats_are_checked() -> None:
    with pytest.raises(LearningError, match=r"lie in \[0, 1\], found 0.1 to 1.2"):
        flipped_mean(1.0, flip_probability=[0.1, 1.2])
    with pytest.raises(LearningError, match="fraction_bits 7 is of no IEEE 754 format"):
        flipped_variance(1.0, flip_probability=0.1, fraction_bits=7)
