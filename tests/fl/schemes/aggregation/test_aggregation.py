"""Estimates of a sum over devices, from what the radio delivered."""

from __future__ import annotations

import numpy as np
import pytest

from fl.schemes.aggregation.estimates import SMALLEST_DEBIAS_FACTOR, sum_from_superposition, sum_of_devices
from phy.links.link import Superposition
from phy.links.power import AmplitudeDecision

K, M = 4, 3
VALUES = np.random.default_rng(1).normal(size=(5, K, M))
EVERYBODY = np.ones((5, K), bool)


def heard(received: np.ndarray, *, amplitude: np.ndarray, num_active: np.ndarray) -> Superposition:
    trials = len(received)
    return Superposition(
        received=received.astype(np.complex64),
        num_active=num_active,
        decision=AmplitudeDecision(
            level=amplitude,
            amplitude=amplitude,
            peak_amplitude=amplitude,
            limit=np.zeros(trials, np.int64),
            limit_names=("power",),
            active=np.ones((trials, K), bool),
        ),
        noise_power=np.ones(trials),
    )


def test_of_a_clean_superposition_the_sum_is_the_sum() -> None:
    amplitude = np.array([0.1, 0.2, 0.5, 1.0, 3.0])
    received = amplitude[:, None] * VALUES.sum(axis=1) + 7j
    estimate = sum_from_superposition(
        heard(received, amplitude=amplitude, num_active=np.full((5, 1), K)), num_devices=K
    )
    # complex64 carries 24 bits.
    np.testing.assert_allclose(estimate, VALUES.sum(axis=1), rtol=1e-6)


def test_with_silent_devices_the_sum_is_scaled_by_k_over_k_a_symbol_by_symbol() -> None:
    num_active = np.array([[1, 2, 4]])
    estimate = sum_from_superposition(
        heard(np.array([[1.0, 1.0, 1.0]]), amplitude=np.array([0.5]), num_active=num_active), num_devices=K
    )
    np.testing.assert_allclose(estimate, [[8.0, 4.0, 2.0]], rtol=1e-12)


def test_where_nobody_is_active_the_estimate_is_zero_whatever_the_noise() -> None:
    noise = np.array([[3.0, -2.0, 1.0], [1.0, 1.0, 1.0]])
    estimate = sum_from_superposition(
        heard(noise, amplitude=np.array([0.5, 0.0]), num_active=np.array([[0, 2, 0], [0, 0, 0]])),
        num_devices=K,
    )
    np.testing.assert_allclose(estimate, [[0.0, -8.0, 0.0], [0.0, 0.0, 0.0]], rtol=1e-12)


def test_detected_values_add_up() -> None:
    np.testing.assert_allclose(sum_of_devices(VALUES, active=EVERYBODY), VALUES.sum(axis=1), rtol=1e-12)


def test_of_some_active_devices_the_sum_is_theirs_times_k_over_k_a() -> None:
    active = np.array([[True, False, True, False]] * 5)
    wanted = (VALUES[:, 0] + VALUES[:, 2]) * K / 2
    np.testing.assert_allclose(sum_of_devices(VALUES, active=active), wanted, rtol=1e-12)


def test_with_all_devices_silent_the_sum_is_zero() -> None:
    np.testing.assert_array_equal(sum_of_devices(VALUES, active=~EVERYBODY), np.zeros((5, M)))


def test_each_device_is_debiased_by_its_own_rate() -> None:
    rate = np.tile([0.0, 0.1, 0.25, 0.4], (5, 1))
    wanted = VALUES[:, 0] + VALUES[:, 1] / 0.8 + VALUES[:, 2] / 0.5 + VALUES[:, 3] / 0.2
    found = sum_of_devices(VALUES, active=EVERYBODY, bit_error_rate=rate)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("rate", [0.475, 0.5, 0.7, 1.0])
def test_the_division_has_a_floor(rate: float) -> None:
    found = sum_of_devices(VALUES, active=EVERYBODY, bit_error_rate=np.full((5, K), rate))
    np.testing.assert_allclose(found, VALUES.sum(axis=1) / SMALLEST_DEBIAS_FACTOR, rtol=1e-12)


def test_a_silent_device_has_no_rate_and_that_disturbs_nobody() -> None:
    active = np.array([[True, True, True, False]] * 5)
    rate = np.tile([0.0, 0.0, 0.25, np.nan], (5, 1))
    wanted = (VALUES[:, 0] + VALUES[:, 1] + VALUES[:, 2] / 0.5) * K / 3
    np.testing.assert_allclose(sum_of_devices(VALUES, active=active, bit_error_rate=rate), wanted, rtol=1e-12)


def test_over_flipped_signs_the_debiased_sum_is_right_on_average() -> None:
    rng = np.random.default_rng(3)
    rate = np.array([0.0, 0.1, 0.2, 0.4])
    signs = np.ones((20_000, K, M))
    flipped = np.where(rng.random(signs.shape) < rate[:, None], -signs, signs)
    found = sum_of_devices(flipped, active=np.ones((20_000, K), bool), bit_error_rate=np.tile(rate, (20_000, 1)))
    error = found.std(axis=0) / np.sqrt(20_000)
    assert (np.abs(found.mean(axis=0) - K) < 4 * error).all()
    plain = sum_of_devices(flipped, active=np.ones((20_000, K), bool))
    np.testing.assert_allclose(plain.mean(axis=0), (1 - 2 * rate).sum(), atol=4 * error.max())


def test_missing_packets_leave_the_sum_unbiased_where_zeros_would_not() -> None:
    rng = np.random.default_rng(4)
    values = np.repeat(rng.choice([-1.0, 1.0], (1, K, M)) + np.array([0.2, -0.1, 0.0]), 20_000, axis=0)
    known = rng.random(values.shape) < 0.6
    arrived = np.where(known, values, 0.0)  # what a dropped packet leaves in the payload
    everybody = np.ones(values.shape[:2], bool)
    estimate = sum_of_devices(arrived, active=everybody, known=known)
    # Somebody is heard with chance 1 - 0.4^4; then the mean of those heard is the mean of all, each being as likely.
    heard_at_all = 1 - 0.4**K
    error = estimate.mean(axis=0) - heard_at_all * values[0].sum(axis=0)
    assert (np.abs(error) < 4 * estimate.std(axis=0) / np.sqrt(len(values))).all()
    # The planted fault: missing bits counted as zeros shrink the sum to 0.6 of it.
    shrunk = sum_of_devices(arrived, active=everybody)
    assert (np.abs(shrunk.mean(axis=0) - heard_at_all * values[0].sum(axis=0)) > np.abs(error)).any()
    np.testing.assert_allclose(shrunk.mean(axis=0), 0.6 * values[0].sum(axis=0), atol=4 * 2 * 1.2 / np.sqrt(20_000))


def test_a_coordinate_that_nobody_delivered_is_zero_and_others_count_who_did() -> None:
    values = np.array([[[1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [-1.0, -1.0, 1.0], [9.0, 9.0, 9.0]]])
    known = np.array([[[1, 1, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]]], bool)
    active = np.array([[True, True, True, False]])  # what a silent device says does not count, delivered or not
    estimate = sum_of_devices(values, active=active, known=known)
    np.testing.assert_allclose(estimate, [[2.0 * 4 / 2, -1.0 * 4 / 3, 0.0]])


def test_if_every_packet_arrived_the_sum_is_that_without_packets_bit_by_bit() -> None:
    active = np.random.default_rng(2).random((5, K)) < 0.7
    rate = np.full((5, K), 0.1)
    whole = sum_of_devices(VALUES, active=active, bit_error_rate=rate)
    known = np.ones(VALUES.shape, bool)
    np.testing.assert_array_equal(sum_of_devices(VALUES, active=active, bit_error_rate=rate, known=known), whole)
