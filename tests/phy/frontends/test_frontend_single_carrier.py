"""The single-carrier front-end: what it sends, the noise it adds, and what the receiver knows."""

from __future__ import annotations

import numpy as np
import pytest
from launches import FixedPaths, launch, link, observe, residual
from radio import ERRORS_OF_A_CHECK, standard_errors_off

from phy.config import ChannelConfig, CsiError, CsiEstimation, ImpairmentsConfig, ReceiverConfig
from phy.fading.build import build_propagation
from phy.frontends.build import build_frontend

RAYLEIGH = ChannelConfig(fading="rayleigh", coherence="packet")
TWO_ANTENNAS = ReceiverConfig(num_antennas=2)


def test_without_noise_the_receiver_gets_amplitude_times_gain_times_tap_times_symbol() -> None:
    sent = launch(6, 40, users=2, amplitude=[0.5, 2.0], gain=[3.0, 0.25])
    config = link(RAYLEIGH, receiver=TWO_ANTENNAS)
    got = observe(build_frontend(config, num_users=2, num_symbols=40), sent)
    keys = sent.channel_key.reshape(-1, 2)
    taps = build_propagation(RAYLEIGH, num_antennas=2).taps(keys, np.zeros((12, 1), np.float32))
    arrival = np.array([1.5, 0.5])[None, :, None] * np.asarray(taps)[:, :, 0, 0].reshape(6, 2, 2)
    np.testing.assert_allclose(got.channel, np.repeat(arrival[..., None], 40, -1), rtol=1e-6)
    # Two products of order 1 are added in float32.
    np.testing.assert_allclose(got.received, np.einsum("rua,run->ran", arrival, sent.symbols), atol=2e-6)
    assert not got.channel_error.any()


@pytest.mark.parametrize(("excess_db", "caught"), [(0.0, False), (0.5, True)])
def test_noise_has_the_power_of_the_launch_on_every_antenna(excess_db: float, caught: bool) -> None:
    sent = launch(40, 500, noise_power=0.3 * 10.0 ** (excess_db / 10.0))
    got = observe(build_frontend(link(receiver=TWO_ANTENNAS), num_users=1, num_symbols=500), sent)
    noise = residual(got, sent)
    for antenna in range(2):
        off = standard_errors_off(np.abs(noise[:, antenna]) ** 2, 0.3)
        assert (abs(off) > ERRORS_OF_A_CHECK) == caught
    assert abs(standard_errors_off((noise[:, 0] * np.conj(noise[:, 1])).real, 0.0)) < ERRORS_OF_A_CHECK
    np.testing.assert_allclose(got.noise_energy, (np.abs(noise) ** 2).sum(-1).mean(-1), rtol=1e-3)


def test_an_error_in_the_channel_estimate_has_the_variance_asked_for_and_says_so() -> None:
    sent = launch(2000, 3, amplitude=2.0, gain=0.5)
    got = observe(build_frontend(link(csi=CsiError(error_variance=0.2)), num_users=1, num_symbols=3), sent)
    error = got.channel[:, 0, 0] - 1.0
    assert abs(standard_errors_off(np.abs(error[:, 0]) ** 2, 0.2)) < ERRORS_OF_A_CHECK
    np.testing.assert_array_equal(error, np.repeat(error[:, :1], 3, axis=1))
    np.testing.assert_allclose(got.channel_error, 0.2, rtol=1e-6)


def test_where_the_channel_changes_by_the_symbol_so_does_its_estimate() -> None:
    config = link(ChannelConfig(coherence="symbol"), csi=CsiError(error_variance=0.2))
    error = observe(build_frontend(config, num_users=1, num_symbols=800), launch(5, 800)).channel - 1.0
    product = error[..., 1:] * np.conj(error[..., :-1])
    assert abs(standard_errors_off(product.real, 0.0)) < ERRORS_OF_A_CHECK


def test_symbol_k_leaves_k_symbol_times_after_the_start() -> None:
    config = link(ChannelConfig(fading="rayleigh", coherence="doppler", speed_m_s=1.0), bandwidth_hz=1e5)
    paths = FixedPaths(gains=np.ones((1, 1)), delays_s=np.zeros(1), doppler_hz=300.0)
    sent = launch(2, 50)._replace(start_s=np.array([0.0, 0.25e-3], np.float32))
    got = observe(build_frontend(config, num_users=1, num_symbols=50, propagation=paths), sent)
    at = sent.start_s[:, None] + np.arange(50) / 1e5
    np.testing.assert_allclose(got.channel[:, 0, 0], np.exp(2j * np.pi * 300.0 * at), atol=1e-5)


def test_perfect_knowledge_of_the_channel_is_not_knowledge_of_the_transmitter() -> None:
    config = link(impairments=ImpairmentsConfig(phase_error_deg=20.0))
    sent = launch(500, 4)
    got = observe(build_frontend(config, num_users=1, num_symbols=4), sent)
    phase = np.angle(got.received[:, 0] * np.conj(sent.symbols[:, 0]))
    np.testing.assert_allclose(phase, np.repeat(phase[:, :1], 4, axis=1), atol=1e-5)
    assert abs(standard_errors_off(phase[:, 0] ** 2, np.deg2rad(20.0) ** 2)) < ERRORS_OF_A_CHECK
    np.testing.assert_array_equal(got.channel, 1.0)


def test_time_and_uses_are_one_per_symbol() -> None:
    frontend = build_frontend(link(bandwidth_hz=2e6), num_users=1, num_symbols=100)
    assert frontend.channel_uses == 100
    assert frontend.airtime_s == pytest.approx(50e-6)


@pytest.mark.parametrize(
    ("channel", "more", "word"),
    [
        (ChannelConfig(model="tdl-a"), {}, "delays"),
        (ChannelConfig(), {"csi": CsiEstimation()}, "pilots"),
    ],
)
def test_settings_that_need_a_grid_are_refused(channel: ChannelConfig, more: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        build_frontend(link(channel, **more), num_users=1, num_symbols=10)


def test_an_empty_packet_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_frontend(link(), num_users=1, num_symbols=0)
