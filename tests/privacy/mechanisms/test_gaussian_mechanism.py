"""The Gaussian mechanism against the PLD accountant, which discretises, and the closed form, which does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from privacy.errors import PrivacyError
from privacy.mechanisms import gaussian_mechanism
from privacy.mechanisms.gaussian_mechanism import (
    calibrated_sigma,
    delta_from_renyi,
    printed_sigma,
    sensitivity,
    spent_epsilon,
)

SIZES = np.array([2000, 500, 2000, 1])


def analytic_delta(epsilon: float, *, multiplier: float, num_rounds: int) -> float:
    """Balle and Wang 2018, Theorem 8, for sensitivity 1 and K rounds: one round of sensitivity sqrt(K)."""
    distance = math.sqrt(num_rounds) / multiplier
    above = norm.cdf(distance / 2 - epsilon / distance)
    return float(above - math.exp(epsilon) * norm.cdf(-distance / 2 - epsilon / distance))


def assert_calibration_meets_the_closed_form() -> None:
    for num_rounds in (1, 50, 2500):
        for epsilon, delta in ((0.5, 1e-5), (1.0, 0.25), (10.0, 0.25), (5.0, 1e-6)):
            sigma = float(calibrated_sigma(sensitivity=1.0, num_rounds=num_rounds, epsilon=epsilon, delta=delta))
            found = analytic_delta(epsilon, multiplier=sigma, num_rounds=num_rounds)
            assert found == pytest.approx(delta, rel=1e-6)


def test_calibrated_noise_meets_the_closed_form_of_balle_and_wang() -> None:
    assert_calibration_meets_the_closed_form()


def test_the_closed_form_catches_one_percent_too_little_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = gaussian_mechanism._multiplier
    monkeypatch.setattr(gaussian_mechanism, "_multiplier", lambda epsilon, delta: 0.99 * exact(epsilon, delta))
    with pytest.raises(AssertionError):
        assert_calibration_meets_the_closed_form()


@pytest.mark.parametrize(("num_rounds", "epsilon", "delta"), [(1, 1.0, 0.25), (8, 2.0, 1e-5), (50, 4.0, 1e-3)])
def test_the_accountant_composes_calibrated_rounds_to_the_budget(num_rounds: int, epsilon: float, delta: float) -> None:
    import dp_accounting

    sigma = float(calibrated_sigma(sensitivity=0.3, num_rounds=num_rounds, epsilon=epsilon, delta=delta))
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(dp_accounting.GaussianDpEvent(sigma / 0.3), num_rounds)
    # Discretised losses are rounded up: a little above, and never below.
    assert accountant.get_epsilon(delta) == pytest.approx(epsilon, rel=1e-3)


@settings(max_examples=40, deadline=None)
@given(log_epsilon=st.floats(-2, 3), log_delta=st.floats(-12, -0.1), num_rounds=st.integers(1, 5000))
def test_calibrated_noise_spends_what_it_was_calibrated_for(
    log_epsilon: float, log_delta: float, num_rounds: int
) -> None:
    epsilon, delta = 10.0**log_epsilon, 10.0**log_delta
    sigma = calibrated_sigma(sensitivity=2e-4, num_rounds=num_rounds, epsilon=epsilon, delta=delta)
    spent = spent_epsilon(sigma=sigma, sensitivity=2e-4, num_rounds=num_rounds, delta=delta)
    assert float(spent) == pytest.approx(epsilon, rel=1e-5)


def test_the_printed_noise_of_the_papers_cnn_spends_far_less_than_printed() -> None:
    distance = sensitivity(learning_rate=0.1, clip=1.0, num_samples=2000)
    delta = delta_from_renyi(order=2, epsilon=10, epsilon_prime=10)
    sigma = printed_sigma(sensitivity=distance, num_rounds=50, epsilon=10, delta=delta)
    assert float(sigma) == pytest.approx(1e-4 * 50 * math.sqrt(2 * math.log(5)) / 10)
    spent = float(spent_epsilon(sigma=sigma, sensitivity=distance, num_rounds=50, delta=delta))
    assert analytic_delta(spent, multiplier=float(sigma) / 1e-4, num_rounds=50) == pytest.approx(delta, rel=1e-6)
    assert spent == pytest.approx(0.169, abs=5e-4)
    spent = float(spent_epsilon(sigma=sigma, sensitivity=distance, num_rounds=50, delta=1e-5))
    assert analytic_delta(spent, multiplier=float(sigma) / 1e-4, num_rounds=50) == pytest.approx(1e-5, rel=1e-6)
    assert spent == pytest.approx(3.33, abs=5e-3)
    assert sigma > 5 * calibrated_sigma(sensitivity=distance, num_rounds=50, epsilon=10, delta=delta)


def test_the_printed_noise_of_a_single_loud_round_gives_less_than_it_claims() -> None:
    # The classic bound is proven below epsilon = 1; far above it, it is false.
    sigma = printed_sigma(sensitivity=1.0, num_rounds=1, epsilon=100.0, delta=0.25)
    assert float(spent_epsilon(sigma=sigma, sensitivity=1.0, num_rounds=1, delta=0.25)) > 100.0


def test_devices_with_fewer_samples_need_more_noise_in_proportion() -> None:
    distance = sensitivity(learning_rate=0.1, clip=1.0, num_samples=SIZES)
    np.testing.assert_allclose(distance, 0.2 / SIZES)
    np.testing.assert_allclose(sensitivity(learning_rate=0.1, clip=1.0, num_samples=SIZES, steps=5), 5 * distance)
    for make in (printed_sigma, calibrated_sigma):
        sigma = make(sensitivity=distance, num_rounds=50, epsilon=5.0, delta=0.25)
        assert sigma.shape == (4,)
        np.testing.assert_allclose(sigma / distance, sigma[0] / distance[0])
        spent = spent_epsilon(sigma=sigma, sensitivity=distance, num_rounds=50, delta=0.25)
        np.testing.assert_allclose(spent, spent[0])
    uneven = spent_epsilon(sigma=sigma[0], sensitivity=distance, num_rounds=50, delta=0.25)
    assert uneven[0] == uneven[2] < uneven[1] < uneven[3]


def test_delta_of_renyi_is_that_of_the_paper_and_bounds_a_gaussian() -> None:
    assert delta_from_renyi(order=2, epsilon=7, epsilon_prime=7) == pytest.approx(0.25)
    assert delta_from_renyi(order=2, epsilon=7, epsilon_prime=1) == 1.0
    assert delta_from_renyi(order=1 + 1e-9, epsilon=1, epsilon_prime=1) <= 1.0
    for order in (1.5, 2.0, 8.0, 40.0):
        for multiplier in (0.5, 1.0, 4.0):
            renyi = order / (2 * multiplier**2)
            claimed = delta_from_renyi(order=order, epsilon=renyi, epsilon_prime=2 * renyi)
            assert claimed >= analytic_delta(2 * renyi, multiplier=multiplier, num_rounds=1)


def test_extreme_noise_gives_epsilon_0_or_infinity() -> None:
    spent = spent_epsilon(sigma=[0.0, 1e-3, 1e9], sensitivity=1.0, num_rounds=1, delta=0.01)
    assert spent[0] == math.inf
    assert 1e5 < spent[1] < math.inf
    assert spent[2] == 0.0


def test_impossible_mechanisms_are_refused() -> None:
    with pytest.raises(PrivacyError, match="no samples"):
        sensitivity(learning_rate=0.1, clip=1.0, num_samples=[10, 0])
    with pytest.raises(PrivacyError, match="clip is 0"):
        sensitivity(learning_rate=0.1, clip=0, num_samples=[10])
    with pytest.raises(PrivacyError, match=r"order is 1\.0"):
        delta_from_renyi(order=1.0, epsilon=1.0, epsilon_prime=1.0)
    with pytest.raises(PrivacyError, match=r"delta is 1\.0"):
        calibrated_sigma(sensitivity=1.0, num_rounds=1, epsilon=1.0, delta=1.0)
    with pytest.raises(PrivacyError, match="sensitivity is not finite"):
        printed_sigma(sensitivity=[0.1, math.nan], num_rounds=1, epsilon=1.0, delta=0.1)
    with pytest.raises(PrivacyError, match="sigma is negative"):
        spent_epsilon(sigma=-1.0, sensitivity=1.0, num_rounds=1, delta=0.1)
