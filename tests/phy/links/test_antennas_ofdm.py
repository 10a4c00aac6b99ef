"""Several antennas combined carrier by carrier: aligned without noise, errors on their closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ofdm_air import OFDM, TDL, air, amplitudes, recovered, superpose
from radio import ERRORS_OF_A_CHECK, context, standard_errors_off

from phy.config import ReceiverConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import LinkError

QUIET: dict[str, Any] = {"snr_max_db": 100.0}
"""Noise of 1e-5 of a device's amplitude at one antenna."""


def antennas(num_antennas: int, combining: Any = "mrc", **link: Any) -> Any:
    return air(receiver=ReceiverConfig(num_antennas=num_antennas, combining=combining), **link)


@pytest.mark.parametrize(("combining", "csi"), [("mrc", "ls"), ("zf", "perfect"), ("zf", "lmmse"), ("mmse", "lmmse")])
def test_without_noise_the_sum_of_those_on_the_air_arrives(combining: str, csi: str) -> None:
    """Over 20 carriers of a short TDL-A channel; LS interpolates between pilots of every carrier of a still channel."""
    config = antennas(6, combining, csi=csi, channel=TDL, **QUIET)
    x = amplitudes(2, 4, 150)
    heard = superpose(config, x, where=UplinkContext(seed=1, trials=(0, 1), silent=(2,)))
    # A deep fade behind mrc takes the amplitude down by 30 dB; LMMSE leaves modes of 1e-9 of the channel out.
    assert np.abs(recovered(heard) - x[:, [0, 1, 3]].sum(axis=1)).max() < 2e-2


@pytest.mark.parametrize("coherence", ["round", "symbol"])
@pytest.mark.parametrize("csi_error", [0.0, 0.5])
def test_the_error_of_blind_combining_is_that_over_a_single_carrier(coherence: str, csi_error: float) -> None:
    """(1 + v) K (K + 2 N0 / P0) / N for QPSK symbols, each trial independent."""
    num_trials, num_devices, num_antennas = 3000, 4, 8
    config = antennas(num_antennas, "blind", fading="rayleigh", coherence=coherence, csi_error=csi_error, snr_max_db=0)
    bits = np.random.default_rng(2).integers(0, 4, (num_trials, num_devices, 12))
    x = np.exp(0.5j * np.pi * bits)
    heard = superpose(config, x, where=context(num_trials))
    error = (np.abs(recovered(heard) - x.sum(axis=1)) ** 2).mean(axis=1)
    expected = (1.0 + csi_error) * num_devices * (num_devices + 2.0) / num_antennas
    assert abs(standard_errors_off(error, expected)) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize("csi", ["given", "ls"])
def test_every_antenna_estimates_in_errors_of_its_own(csi: str) -> None:
    """With h = h^ / (1 + v) + r, r of variance v / (1 + v) at every antenna, zf has the error

        K (v^2 + v K / (N - K)) / (1 + v)^2 + K / ((N - K) (1 + v)) 2 N0 / P0.

    LS from pilots in OFDM symbols 1 and 5 of 7: v = (w^2 + (1 - w)^2) 2 N0 / P0, w the weight of linear interpolation.
    """
    num_trials, num_devices, num_antennas = 1000, 3, 8
    known: dict[str, Any] = {"csi": "ls", "snr_max_db": 0.0} if csi == "ls" else {"csi_error": 0.5, "snr_max_db": 10.0}
    config = antennas(num_antennas, "zf", fading="rayleigh", **known)
    noise = 2.0 / config.max_power
    x = np.exp(0.5j * np.pi * np.random.default_rng(2).integers(0, 4, (num_trials, num_devices, 100)))
    heard = superpose(config, x, where=context(num_trials))
    error = (np.abs(recovered(heard) - x.sum(axis=1)) ** 2).mean(axis=1)
    v = noise * np.array([1.625, 0.625, 0.5, 0.625, 1.625]) if csi == "ls" else np.array([0.5])
    more = num_devices / (num_antennas - num_devices)
    expected = num_devices * (v**2 + v * more) / (1.0 + v) ** 2 + more / (1.0 + v) * noise
    assert abs(standard_errors_off(error, float(expected.mean()))) < ERRORS_OF_A_CHECK


def test_the_error_of_zero_forcing_is_that_of_the_wishart_law_on_every_carrier() -> None:
    """2 N0 / P0 K / (N - K), a trial's carriers together; and the reported noise says it trial by trial."""
    num_trials, num_devices, num_antennas = 1500, 3, 8
    config = antennas(num_antennas, "zf", channel=TDL, snr_max_db=3.0)
    x = amplitudes(num_trials, num_devices, 60)
    heard = superpose(config, x, where=context(num_trials))
    error = (np.abs(recovered(heard) - x.sum(axis=1)) ** 2).mean(axis=1)
    expected = 2.0 / 10.0**0.3 * num_devices / (num_antennas - num_devices)
    assert abs(standard_errors_off(error, expected)) < ERRORS_OF_A_CHECK
    told = 2.0 * heard.noise_power / heard.decision.amplitude**2
    assert abs(standard_errors_off(error / told, 1.0)) < ERRORS_OF_A_CHECK


def test_behind_mrc_the_error_is_that_of_the_amplitude() -> None:
    """Combiners of length 1 leave the noise at N0, so that the error is 2 N0 / A^2."""
    config = antennas(4, fading="rayleigh", coherence="round", snr_max_db=6.0)
    x = amplitudes(400, 5, 60)
    heard = superpose(config, x, where=context(400))
    np.testing.assert_allclose(heard.noise_power, 1.0, rtol=1e-6)
    error = (np.abs(recovered(heard) - x.sum(axis=1)) ** 2).mean(axis=1)
    assert abs(standard_errors_off(error * heard.decision.amplitude**2 / 2.0, 1.0)) < ERRORS_OF_A_CHECK


def test_antennas_in_the_time_domain_are_refused() -> None:
    config = antennas(2, ofdm=OFDM.model_copy(update={"domain": "time"}))
    with pytest.raises(LinkError, match="antennas are combined carrier by carrier, not in the time domain; write dom"):
        superpose(config, amplitudes(1, 2, 20))
