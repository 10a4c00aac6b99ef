"""Channel estimates from pilots, against Sionna, against a plain solve, and against their own error variance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from launches import launch, link, observe, residual
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, standard_errors_apart, standard_errors_off

from phy.config import ChannelConfig, CsiEstimation, OfdmConfig
from phy.fading.build import build_propagation
from phy.frontends.build import build_frontend
from phy.frontends.estimation import LeastSquares, LinearMmse
from phy.frontends.joint_estimation import linear_mmse
from phy.frontends.resource_grid import Grid

OFDM = OfdmConfig(num_subcarriers=24, num_symbols=10, pilot_symbols=(2, 7))
MOVING = ChannelConfig(model="tdl-c", delay_spread_s=600e-9, speed_m_s=40.0, coherence="packet")
ROWS, ANTENNAS = 3, 2


def grid_for(users: int, *, ofdm: OfdmConfig = OFDM) -> Grid:
    return Grid.of(ofdm, num_users=users, num_symbols=10)


def random_grid(seed: int = 3) -> NDArray[np.complex64]:
    """Received OFDM symbols `[rows, antennas, times, carriers]`."""
    rng = np.random.default_rng(seed)
    shape = (ROWS, ANTENNAS, OFDM.num_symbols, OFDM.num_subcarriers)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


def estimates(estimator: Any, grid: Grid, received: Any, arrival: Any, noise_power: float) -> tuple[Any, Any]:
    found, variance = estimator.estimate(
        grid.take(received, grid.pilot_rows), np.asarray(arrival, np.float32), np.float32(noise_power)
    )
    return np.asarray(found)[:, :, :, 0], np.asarray(variance)[:, :, 0, 0]


@pytest.mark.parametrize("pilot_symbols", [(2, 7), (0, 4, 9), (3,)])
@pytest.mark.parametrize("users", [1, 2, 3])
def test_least_squares_is_sionnas(users: int, pilot_symbols: tuple[int, ...]) -> None:
    from sionna.phy.ofdm import LSChannelEstimator, PilotPattern, ResourceGrid

    ofdm = OFDM.model_copy(update={"pilot_symbols": pilot_symbols})
    grid, received = grid_for(users, ofdm=ofdm), random_grid()
    mask = np.zeros((users, 1, OFDM.num_symbols, OFDM.num_subcarriers), bool)
    mask[:, :, list(pilot_symbols)] = True
    pattern = PilotPattern(mask, grid.pilots.reshape(users, 1, -1))
    theirs = ResourceGrid(
        OFDM.num_symbols, OFDM.num_subcarriers, 15e3, num_tx=users, num_streams_per_tx=1, pilot_pattern=pattern
    )
    expected, _ = LSChannelEstimator(theirs, interpolation_type="lin")(received[:, None], np.float32(0.1))
    found, _ = estimates(LeastSquares(grid), grid, received, np.ones((ROWS, users)), 0.1)
    expected = np.moveaxis(np.asarray(expected)[:, 0, :, :, 0], 2, 1)[..., grid.data_rows, :]
    np.testing.assert_allclose(found, expected, atol=2e-5)


def plain_solve(
    grid: Grid, received: Any, arrival: Any, noise_power: float, propagation: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """R_dp (R_pp + sigma^2 I)^-1 by the textbook, one row, user and antenna at a time."""
    seconds, hertz = grid.middles_s[: OFDM.num_symbols], grid.frequencies_hz
    over_time = propagation.path_correlation(seconds[None, :] - seconds[:, None])
    turning = np.exp(-2j * np.pi * hertz[:, None] * propagation.delays_s)
    covariance = sum(
        power * np.kron(moving, np.outer(turn, np.conj(turn)))
        for power, moving, turn in zip(propagation.powers, over_time, turning.T, strict=True)
    )
    every = np.arange(OFDM.num_symbols * OFDM.num_subcarriers).reshape(OFDM.num_symbols, -1)
    data = every[grid.data_rows].ravel()
    shape = (ROWS, grid.num_users, ANTENNAS, len(grid.data_rows), OFDM.num_subcarriers)
    found, variance = np.zeros(shape, complex), np.zeros((*shape[:2], *shape[3:]))
    for row in range(ROWS):
        for user in range(grid.num_users):
            sent = grid.pilots[user]
            mine = np.abs(sent) > 0
            pilots = every[grid.pilot_rows][mine]
            strength = arrival[row, user]
            noise = np.diag(noise_power / (strength * np.abs(sent[mine])) ** 2)
            solved = covariance[np.ix_(data, pilots)] @ np.linalg.inv(covariance[np.ix_(pilots, pilots)] + noise)
            left = covariance[np.ix_(data, data)] - solved @ covariance[np.ix_(pilots, data)]
            variance[row, user] = strength**2 * np.real(np.diag(left)).reshape(shape[3:])
            for antenna in range(ANTENNAS):
                known = received[row, antenna, grid.pilot_rows][mine] / sent[mine]
                found[row, user, antenna] = (solved @ known).reshape(shape[3:])
    return found, variance


FAST = MOVING.model_copy(update={"speed_m_s": 120.0, "delay_spread_s": 300e-9})
"""Within a slot scattered paths turn by more than a radian."""


@pytest.mark.parametrize("model", ["tdl-a", "tdl-d", "cdl-a", "cdl-d"])
@pytest.mark.parametrize("users", [1, 2])
def test_lmmse_is_the_plain_solve_where_paths_move_alike_and_where_they_do_not(users: int, model: str) -> None:
    channel = FAST.model_copy(update={"model": model})
    propagation = build_propagation(channel, num_antennas=ANTENNAS)
    grid, received = grid_for(users), random_grid()
    arrival = np.random.default_rng(1).uniform(0.3, 3.0, (ROWS, users))
    response = np.exp(-2j * np.pi * propagation.delays_s[:, None] * grid.frequencies_hz)
    estimator = linear_mmse(grid, propagation=propagation, response=response)
    assert isinstance(estimator, LinearMmse) == (model == "tdl-a")
    found, variance = estimates(estimator, grid, received, arrival, 0.05)
    expected, expected_variance = plain_solve(grid, received, arrival, 0.05, propagation)
    # float32: the received grid is noise alone, which weighs the weakest modes most.
    np.testing.assert_allclose(found, expected, atol=2e-4)
    np.testing.assert_allclose(variance, expected_variance, rtol=1e-3, atol=1e-6)
    if model != "tdl-a":  # planted: a product of time and frequency is another estimate
        product, _ = estimates(
            LinearMmse(grid, propagation=propagation, response=response), grid, received, arrival, 0.05
        )
        assert np.abs(product - expected).max() > 0.01


@pytest.mark.parametrize("model", ["tdl-d", "tdl-e", "cdl-d"])
def test_lmmse_errs_by_its_posterior_variance_beside_a_direct_path(model: str) -> None:
    channel = FAST.model_copy(update={"model": model})
    assert_known_to_half_a_decibel(*squared_errors("lmmse", channel=channel, noise_power=0.3, rows=1500))


@pytest.mark.parametrize("users", [1, 2, 5])
def test_lmmse_is_the_plain_solve(users: int) -> None:
    propagation = build_propagation(MOVING, num_antennas=ANTENNAS)
    grid, received = grid_for(users), random_grid()
    arrival = np.random.default_rng(1).uniform(0.3, 3.0, (ROWS, users))
    response = np.exp(-2j * np.pi * propagation.delays_s[:, None] * grid.frequencies_hz)
    estimator = LinearMmse(grid, propagation=propagation, response=response)
    found, variance = estimates(estimator, grid, received, arrival, 0.05)
    expected, expected_variance = plain_solve(grid, received, arrival, 0.05, propagation)
    # float32 eigenvectors against float64: sums of some 50 terms of order 1.
    np.testing.assert_allclose(found, expected, atol=5e-5)
    np.testing.assert_allclose(variance, expected_variance, rtol=1e-3, atol=1e-6)


def squared_errors(
    estimator: str, *, channel: ChannelConfig, noise_power: float, users: int = 1, rows: int = 300
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(mean |G^ - G|^2 of each row, mean predicted variance of each row)."""
    sent = launch(rows, 192, users=users, noise_power=noise_power)
    observations = [
        observe(build_frontend(link(channel, ofdm=OFDM, csi=csi), num_users=users, num_symbols=192), sent)
        for csi in (CsiEstimation(estimator=estimator), "perfect")
    ]
    squared = np.abs(observations[0].channel - observations[1].channel) ** 2
    return squared.mean(axis=(1, 2, 3)), observations[0].channel_error.mean(axis=(1, 2))


def assert_known_to_half_a_decibel(measured: NDArray[Any], predicted: NDArray[Any]) -> None:
    assert abs(standard_errors_off(measured, predicted.mean())) < ERRORS_OF_A_CHECK
    # Planted: a variance half a decibel too large is found out.
    assert abs(standard_errors_off(measured, predicted.mean() * 10.0**0.05)) > ERRORS_OF_A_CHECK


@pytest.mark.parametrize("users", [1, 2])
def test_least_squares_errs_by_the_noise_that_it_reports_where_interpolation_is_exact(users: int) -> None:
    awgn = ChannelConfig(model="awgn")
    assert_known_to_half_a_decibel(*squared_errors("ls", channel=awgn, noise_power=0.1, users=users))


@pytest.mark.parametrize("users", [1, 2])
def test_lmmse_errs_by_its_posterior_variance(users: int) -> None:
    assert_known_to_half_a_decibel(*squared_errors("lmmse", channel=MOVING, noise_power=0.1, users=users, rows=600))


@pytest.mark.slow
def test_lmmse_beats_least_squares_and_the_wrong_statistics_do_not_help() -> None:
    least, _ = squared_errors("ls", channel=MOVING, noise_power=0.1)
    right, _ = squared_errors("lmmse", channel=MOVING, noise_power=0.1)
    assert standard_errors_apart(least, right) > 10.0
    # The same packets, judged with a tenth of the delay spread: the estimator smooths more than the channel allows.
    sent = launch(300, 192, noise_power=0.1)
    narrow = MOVING.model_copy(update={"delay_spread_s": MOVING.delay_spread_s / 10.0})
    config = link(MOVING, ofdm=OFDM, csi=CsiEstimation(estimator="lmmse"))
    frontend: Any = build_frontend(config, num_users=1, num_symbols=192)
    assumed = build_propagation(narrow, num_antennas=1)
    grid = Grid.of(OFDM, num_users=1, num_symbols=192)
    response = np.exp(-2j * np.pi * assumed.delays_s[:, None] * grid.frequencies_hz)
    truth = observe(build_frontend(link(MOVING, ofdm=OFDM), num_users=1, num_symbols=192), sent).channel
    frontend._estimator = LinearMmse(grid, propagation=assumed, response=response)
    wrong = (np.abs(observe(frontend, sent).channel - truth) ** 2).mean(axis=(1, 2, 3))
    assert standard_errors_apart(wrong, right) > ERRORS_OF_A_CHECK


@pytest.mark.parametrize("estimator", ["ls", "lmmse"])
def test_without_noise_a_channel_that_stands_still_is_found(estimator: str) -> None:
    still = ChannelConfig(fading="rayleigh", coherence="packet")
    config = link(still, ofdm=OFDM, csi=CsiEstimation(estimator=estimator))
    sent = launch(5, 300, amplitude=0.3, gain=2.0)
    got = observe(build_frontend(config, num_users=1, num_symbols=300), sent)
    assert np.abs(residual(got, sent)).max() < 1e-5
    assert np.abs(got.channel_error).max() < 1e-9
