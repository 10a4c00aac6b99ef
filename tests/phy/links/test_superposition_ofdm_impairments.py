"""Sums over the carriers of an OFDM grid from impaired transmitters: what each impairment must do."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from ofdm_air import OFDM, QUIET, TDL, air, recovered, superpose
from radio import ERRORS_OF_A_CHECK, standard_errors_off

from phy.config import OfdmConfig


@pytest.mark.parametrize("degrees", [pytest.param(15.0, marks=pytest.mark.slow), 45.0])
def test_a_residual_phase_shrinks_the_sum_as_theory_says(degrees: float) -> None:
    """E exp(j phi) = exp(-s^2/2), Var exp(j phi) = 1 - exp(-s^2), one phase for each device and round."""
    num_devices, spread = 5, np.deg2rad(degrees)
    config = air(snr_max_db=100.0, channel={**QUIET, **TDL}, impairments={"phase_error_deg": degrees})
    heard = superpose(config, np.ones((600, num_devices, 24)))
    assert np.abs(heard.received - heard.received[:, :1]).max() < 1e-4  # noise of 1e-5: one phase on all carriers
    each = recovered(heard)[:, 0]
    mean = num_devices * np.exp(-(spread**2) / 2)
    assert abs(standard_errors_off(each.real, mean)) < ERRORS_OF_A_CHECK
    assert abs(standard_errors_off(each.imag, 0.0)) < ERRORS_OF_A_CHECK
    expected = num_devices * (1 - np.exp(-(spread**2)))
    assert abs(standard_errors_off(np.abs(each - mean) ** 2, expected)) < ERRORS_OF_A_CHECK


def test_a_timing_offset_turns_carriers_by_their_distance_from_dc() -> None:
    config = air(snr_max_db=100.0, channel=QUIET, impairments={"timing_offset_s": 8e-6})
    arrived = recovered(superpose(config, np.ones((5, 1, 20))))
    bins = np.array([c for c in range(2, 23) if c != 12]) - 12
    slope = np.angle((arrived[:, 1:10] * arrived[:, :9].conj()).sum(axis=1))
    tau = -slope / (2 * np.pi * 15e3)
    assert (tau > 0).all()
    assert (tau < 8e-6).all()
    np.testing.assert_allclose(arrived, np.exp(1j * slope[:, None] * bins), atol=1e-3)


def test_a_frequency_offset_raises_interference_between_carriers() -> None:
    """Data arrives turned and with the leakage of other carriers, as NumPy finds it from samples."""
    config = air(snr_max_db=100.0, channel=QUIET, impairments={"cfo_hz": 2e3})
    x = np.random.default_rng(2).choice([-1.0, 1.0], (4, 1, 200))
    arrived = recovered(superpose(config, x)).reshape(4, 10, 20)
    bins = np.array([c for c in range(2, 23) if c != 12]) - 12
    index = np.array([0, 2, 3, 4, 6, 7, 9, 10, 11, 13])
    samples = np.exp(2j * np.pi * np.arange(24)[:, None] * bins / 24)

    def through(hertz: float, trial: int) -> NDArray[np.complex128]:
        time = ((index * 28 + 4)[:, None] + np.arange(24)) / (24 * 15e3)
        turned = (x[trial, 0].reshape(10, 20) @ samples.T) * np.exp(2j * np.pi * hertz * time)
        return np.asarray(turned @ samples.conj() / 24)

    for trial in range(4):
        between = np.angle(np.vdot(arrived[trial, 2] * x[trial, 0, 40:60], arrived[trial, 3] * x[trial, 0, 60:80]))
        guess = between / (2 * np.pi * OFDM.symbol_s)
        best = min(
            np.linspace(guess - 200, guess + 200, 4001), key=lambda f: np.abs(through(f, trial) - arrived[trial]).max()
        )
        assert np.abs(through(best, trial) - arrived[trial]).max() < 2e-3
        common = np.mean(arrived[trial] * x[trial, 0].reshape(10, 20), axis=1, keepdims=True)
        assert np.abs(arrived[trial] - common * x[trial, 0].reshape(10, 20)).max() > 1e-2  # planted: no leakage


def test_clipped_amplifiers_shrink_the_sum_and_spend_less() -> None:
    """Bussgang's gain at 0 dB over the RMS, 1 - 1/e + sqrt(pi)/2 erfc(1) = 0.7715, for samples of many carriers.

    Energy falls to 1 - 1/e. Samples of 60 QPSK-like carriers are Gaussian to about 1/60.
    """
    ofdm = OfdmConfig(num_subcarriers=64, cyclic_prefix_length=4, num_symbols=4, pilot_symbols=(0,))
    rng = np.random.default_rng(3)
    x = (rng.choice([-1.0, 1.0], (30, 2, 192)) + 1j * rng.choice([-1.0, 1.0], (30, 2, 192))) / np.sqrt(2)
    ideal, clipped = (
        superpose(air(ofdm=ofdm, snr_max_db=100.0, channel=QUIET, impairments=wrong), x)
        for wrong in ({}, {"clipping_db": 0.0})
    )
    total = x.sum(axis=1)
    gain = np.real(np.vdot(total, recovered(clipped)) / np.vdot(total, total))
    assert gain == pytest.approx(0.7715, abs=0.01)
    assert np.mean(clipped.energy_j / ideal.energy_j) == pytest.approx(1 - np.exp(-1), abs=0.01)
