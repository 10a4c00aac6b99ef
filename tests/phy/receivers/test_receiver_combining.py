"""Linear combining: diversity against closed forms, filters against Sionna's, variances against what is measured."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from observations import complex_normals, configuration, observe, rayleigh, receive, send
from radio import ERRORS_OF_A_CHECK, standard_errors_off

from phy.config import BITS_PER_SYMBOL
from phy.receivers.combining import combine_alone, filter_in_turn, filter_together
from phy.stages import Observation


def mrc_tail(mean_snr: float, branches: int) -> float:
    """E Q(sqrt(2 g)), g the sum of `branches` exponential variables of mean `mean_snr`.

    Proakis, "Digital communications", (14.4-15): maximum-ratio combining over iid Rayleigh fading.
    """
    root = np.sqrt(mean_snr / (1.0 + mean_snr))
    terms = (comb(branches - 1 + k, k) * ((1.0 + root) / 2.0) ** k for k in range(branches))
    return float(((1.0 - root) / 2.0) ** branches * sum(terms))


def mrc_bit_error_rate(modulation: str, mean_esno: float, branches: int) -> float:
    """Gray labels: QPSK is BPSK on each axis; 16-QAM is a sum of three tails per axis (Cho and Yoon 2002)."""
    if modulation == "16qam":
        weights = {1: 3.0 / 4.0, 3: 1.0 / 2.0, 5: -1.0 / 4.0}
        return sum(w * mrc_tail(odd**2 * mean_esno / 10.0, branches) for odd, w in weights.items())
    return mrc_tail(mean_esno / BITS_PER_SYMBOL[modulation], branches)


def errors_per_symbol(modulation: str, *, antennas: int, snr_db: float, equalizer: str = "lmmse") -> NDArray[Any]:
    sent = send(modulation, rayleigh(10, 1, antennas, 20_000, snr_db=snr_db))
    config = configuration(modulation, users=1, antennas=antennas, equalizer=equalizer)
    wrong = receive(config, sent.observation).bits != sent.bits
    return wrong.reshape(-1, BITS_PER_SYMBOL[modulation]).mean(axis=1)


@pytest.mark.parametrize("antennas", [1, 2, 4])
@pytest.mark.parametrize(("modulation", "snr_db"), [("bpsk", 3.0), ("qpsk", 5.0), ("16qam", 10.0)])
def test_combining_over_rayleigh_antennas_has_the_closed_form_error_rate(
    modulation: str, snr_db: float, antennas: int
) -> None:
    measured = errors_per_symbol(modulation, antennas=antennas, snr_db=snr_db)
    expected = mrc_bit_error_rate(modulation, 10.0 ** (snr_db / 10.0), antennas)
    assert abs(standard_errors_off(measured, expected)) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize("antennas", [1, 4])
def test_half_a_decibel_is_detected(antennas: int) -> None:
    measured = errors_per_symbol("qpsk", antennas=antennas, snr_db=5.0)
    for planted_db in (-0.5, 0.5):
        expected = mrc_bit_error_rate("qpsk", 10.0 ** ((5.0 + planted_db) / 10.0), antennas)
        assert abs(standard_errors_off(measured, expected)) > ERRORS_OF_A_CHECK


def imperfect(users: int, antennas: int, *, error: float = 0.2) -> tuple[NDArray[np.complex64], Observation]:
    """QPSK over h = h^ + e with e independent of h^, as an MMSE estimate has it; 8 dB apart, strongest first."""
    snr_db = 12.0 - 8.0 * np.arange(users)
    estimate = rayleigh(4, users, antennas, 20_000, snr_db=snr_db)
    channel = estimate + np.sqrt(error) * complex_normals(np.random.default_rng(9), estimate.shape)
    sent = send("qpsk", channel)
    return sent.symbols, observe(sent.symbols, channel, estimate=estimate, channel_error=error)


def normalised_errors(symbols: NDArray[Any], matched: Any, snr: Any) -> NDArray[Any]:
    """|x^ - x|^2 / v, written without division where the SNR is small."""
    matched, snr = np.asarray(matched), np.asarray(snr)
    return np.asarray(np.abs(matched - snr * symbols) ** 2 / snr)


@pytest.mark.parametrize("antennas", [1, 3])
def test_the_error_of_the_estimate_counts_as_noise_unless_zf_trusts_it(antennas: int) -> None:
    symbols, observation = imperfect(1, antennas)
    counted = combine_alone(observation, trusting=False)
    trusted = combine_alone(observation, trusting=True)
    honest = normalised_errors(symbols, counted.matched, counted.snr)
    assert abs(standard_errors_off(honest, 1.0)) < ERRORS_OF_A_CHECK
    # Noise 1 and error 0.2: who trusts the estimate is wrong by exactly their ratio.
    believed = normalised_errors(symbols, trusted.matched, trusted.snr)
    assert abs(standard_errors_off(believed, 1.2)) < ERRORS_OF_A_CHECK
    assert abs(standard_errors_off(believed, 1.0)) > ERRORS_OF_A_CHECK


@pytest.mark.parametrize("antennas", [1, 3])
def test_zf_and_lmmse_of_one_user_coincide_under_perfect_knowledge(antennas: int) -> None:
    sent = send("16qam", rayleigh(2, 1, antennas, 500, snr_db=10.0))
    llrs = [
        receive(configuration("16qam", users=1, antennas=antennas, equalizer=e, demapper="app"), sent.observation).llrs
        for e in ("zf", "lmmse")
    ]
    assert np.array_equal(*llrs)


def sionna_lmmse(observation: Observation, *, noise: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """x^ and its variance `[rows, users, S]` by Sionna, in double precision."""
    from sionna.phy.mimo.equalization import lmmse_equalizer

    rows, antennas, num_symbols = observation.received.shape
    covariance = noise * tf.eye(antennas, batch_shape=[rows, num_symbols], dtype=tf.complex128)
    estimate, variance = lmmse_equalizer(
        tf.transpose(observation.received, [0, 2, 1]),
        tf.transpose(observation.channel, [0, 3, 2, 1]),
        covariance,
        precision="double",
    )
    return estimate.numpy().transpose(0, 2, 1), variance.numpy().transpose(0, 2, 1)


@pytest.mark.parametrize(("users", "antennas"), [(2, 2), (2, 4), (3, 3), (4, 8)])
def test_linear_filters_are_those_of_the_sionna_equalizer(users: int, antennas: int) -> None:
    observation = send("qpsk", rayleigh(3, users, antennas, 50, snr_db=15.0)).observation
    observation = observation._replace(channel_error=tf.fill([3, users, 50], np.float32(0.25)))
    estimate, variance = sionna_lmmse(observation, noise=1.0 + 0.25 * users)
    soft = filter_together(observation)
    # Inputs and results are float32, all between them double: a few 2^-24, times the condition of small SNRs.
    assert np.allclose(soft.snr.numpy() * variance, 1.0, rtol=1e-5)
    assert np.allclose(soft.matched.numpy() * variance, estimate, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("antennas", [2, 4])
def test_successive_filters_are_those_of_sionna_against_the_users_that_remain(antennas: int) -> None:
    users = 3
    observation = send("qpsk", rayleigh(3, users, antennas, 50, snr_db=[15.0, 9.0, 3.0])).observation
    layers = filter_in_turn(observation, equalizer="lmmse")
    known = np.random.default_rng(4).normal(size=(3, users, 50)) + 0j
    for stage in range(users):
        remaining = observation._replace(
            channel=observation.channel[:, stage:],
            received=observation.received
            - tf.constant(
                (observation.channel.numpy()[:, :stage] * known[:, :stage, None]).sum(axis=1).astype(np.complex64)
            ),
        )
        estimate, variance = sionna_lmmse(remaining, noise=1.0)
        matched = layers.soft[stage].matched.numpy() - sum(
            gain.numpy() * known[:, i] for i, gain in enumerate(layers.leakage[stage])
        )
        assert np.allclose(layers.soft[stage].snr.numpy() * variance[:, 0], 1.0, rtol=1e-4)
        assert np.allclose(matched * variance[:, 0], estimate[:, 0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("users", "antennas"), [(2, 2), (3, 4)])
def test_the_variance_behind_the_linear_filters_is_the_one_measured(users: int, antennas: int) -> None:
    symbols, observation = imperfect(users, antennas)
    soft = filter_together(observation)
    errors = normalised_errors(symbols, soft.matched, soft.snr)
    for user in range(users):
        assert abs(standard_errors_off(errors[:, user], 1.0)) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize("equalizer", ["zf", "lmmse"])
@pytest.mark.parametrize("antennas", [1, 2])
def test_the_variance_of_the_first_stage_counts_the_users_that_remain(antennas: int, equalizer: str) -> None:
    sent = send("qpsk", rayleigh(4, 3, antennas, 20_000, snr_db=[12.0, 4.0, -4.0]))
    first = filter_in_turn(sent.observation, equalizer=equalizer).soft[0]
    errors = normalised_errors(sent.symbols[:, 0], first.matched, first.snr)
    assert abs(standard_errors_off(errors, 1.0)) < ERRORS_OF_A_CHECK


def test_filters_hold_at_120_decibels() -> None:
    # One part in 10^12 of the power: beyond single precision, which a filter in float32 would not survive.
    sent = send("qpsk", rayleigh(2, 2, 2, 200, snr_db=120.0))
    soft = filter_together(sent.observation)
    assert np.isfinite(soft.snr.numpy()).all()
    estimate = soft.matched.numpy() / soft.snr.numpy()
    # Rounding of received values, 2^-24, is all that is left of the noise; a poor channel amplifies it.
    assert np.median(np.abs(estimate - sent.symbols)) < 1e-5
