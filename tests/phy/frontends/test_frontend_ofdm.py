"""The OFDM front-end in the frequency domain: channel, noise, energies, and its limit of a single carrier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from launches import FixedPaths, launch, link, observe, residual
from radio import ERRORS_OF_A_CHECK, standard_errors_off
from scipy import stats

from phy.config import ChannelConfig, CsiError, CsiEstimation, ImpairmentsConfig, OfdmConfig, ReceiverConfig
from phy.fading.build import build_propagation
from phy.frontends.build import build_frontend

OFDM = OfdmConfig(num_subcarriers=16, cyclic_prefix_length=4, num_symbols=5, pilot_symbols=(1,))
TDL = ChannelConfig(model="tdl-a", speed_m_s=20.0, coherence="packet")


def test_every_carrier_meets_sionnas_frequency_response_in_the_middle_of_its_symbol() -> None:
    from sionna.phy.channel import cir_to_ofdm_channel

    config = link(TDL, ofdm=OFDM, receiver=ReceiverConfig(num_antennas=2))
    sent = launch(4, 128, users=2, amplitude=[1.0, 2.0], gain=0.5)
    sent = sent._replace(start_s=np.array([0.0, 1e-3, 0.5, 2.0], np.float32))
    got = observe(build_frontend(config, num_users=2, num_symbols=128), sent)
    propagation = build_propagation(TDL, num_antennas=2)
    # Two slots of 5 symbols of 20 samples; the useful part of each starts after 4.
    middles = (np.arange(10) * 20 + 4 + 8) / (16 * 15e3)
    instants = np.repeat(sent.start_s[:, None] + middles.astype(np.float32), 2, axis=0)
    taps = np.asarray(propagation.taps(sent.channel_key.reshape(-1, 2), instants))
    frequencies = ((np.arange(16) - 8) * 15e3).astype(np.float32)
    delays = propagation.delays_s.astype(np.float32)[None, None, None]
    response = cir_to_ofdm_channel(frequencies, taps[:, None, :, None, None], np.repeat(delays, 8, axis=0))
    response = np.asarray(response)[:, 0, :, 0, 0].reshape(4, 2, 2, 10, 16)
    expected = response[..., [0, 2, 3, 4, 5, 7, 8, 9], :].reshape(4, 2, 2, 128)
    expected = expected * np.array([0.5, 1.0])[:, None, None]
    np.testing.assert_allclose(got.channel, expected, atol=2e-5)
    np.testing.assert_allclose(residual(got, sent), 0.0, atol=1e-5)


@pytest.mark.parametrize(("excess_db", "same"), [(0.0, True), (0.5, False)])
@pytest.mark.parametrize("domain", ["frequency", "time"])
def test_a_channel_that_does_nothing_is_a_single_carrier_in_law(domain: str, excess_db: float, same: bool) -> None:
    sent = launch(20, 2000, noise_power=0.2, amplitude=1.5)
    more = launch(20, 2000, noise_power=0.2 * 10.0 ** (excess_db / 10.0), amplitude=1.5, seed=6)
    single = observe(build_frontend(link(), num_users=1, num_symbols=2000), sent)
    ofdm = OFDM.model_copy(update={"domain": domain})
    grid = observe(build_frontend(link(ofdm=ofdm), num_users=1, num_symbols=2000), more)
    np.testing.assert_allclose(grid.channel, single.channel, atol=1e-6)
    noises = [residual(got, which).ravel() for got, which in ((single, sent), (grid, more))]
    parts = [np.concatenate([noise.real, noise.imag]) for noise in noises]
    # Kolmogorov-Smirnov of two samples of 80000: a true hypothesis is rejected once in 16000.
    assert (stats.ks_2samp(*parts).pvalue > 1.0 / 16000) == same
    neighbours = noises[1].reshape(20, 2000)
    product = neighbours[:, 1:] * np.conj(neighbours[:, :-1])
    assert abs(standard_errors_off(product.real, 0.0)) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize("domain", ["frequency", "time"])
def test_energies_count_pilots_filler_and_prefix(domain: str) -> None:
    ofdm = OFDM.model_copy(update={"domain": domain})
    sent = launch(200, 70, users=2, amplitude=[2.0, 0.5], gain=3.0, noise_power=0.1)
    frontend = build_frontend(link(ofdm=ofdm), num_users=2, num_symbols=70)
    got = observe(frontend, sent)
    assert frontend.channel_uses == 10 * 20
    assert frontend.airtime_s == pytest.approx(10 * 20 / (16 * 15e3))
    # 70 symbols fill two slots of 64 with 10 symbols; a prefix of 4 on 16 adds a quarter, its energy in the mean.
    np.testing.assert_allclose(got.transmit_energy, sent.amplitude**2 * (160.0 + 40.0), rtol=1e-4)
    np.testing.assert_allclose(got.signal_energy, np.array([[4.0, 0.25]] * 200) * 9.0 * 70, rtol=1e-4)
    assert abs(standard_errors_off(got.noise_energy, 7.0)) < ERRORS_OF_A_CHECK


def test_an_error_in_the_channel_estimate_follows_the_shape_of_the_channel() -> None:
    noisy: Any = CsiError(error_variance=0.3)
    sent = launch(400, 128)
    for channel, alike in ((TDL, False), (ChannelConfig(fading="rayleigh", coherence="packet"), True)):
        pair = [
            observe(build_frontend(link(channel, ofdm=OFDM, csi=csi), num_users=1, num_symbols=128), sent)
            for csi in (noisy, "perfect")
        ]
        error = (pair[0].channel - pair[1].channel)[:, 0, 0].reshape(400, 8, 16)
        assert abs(standard_errors_off((np.abs(error[:, 0]) ** 2).mean(1), 0.3)) < ERRORS_OF_A_CHECK
        np.testing.assert_allclose(error, np.repeat(error[:, :1], 8, axis=1), atol=1e-6)
        assert np.allclose(error[..., 0], error[..., 1], atol=1e-6) == alike
        np.testing.assert_allclose(pair[0].channel_error, 0.3, rtol=1e-6)


@pytest.mark.parametrize("domain", ["frequency", "time"])
@pytest.mark.parametrize("channel", [TDL, ChannelConfig(fading="rayleigh", coherence="symbol")])
def test_mean_power_is_that_of_the_channel_observed(domain: str, channel: ChannelConfig) -> None:
    import tensorflow as tf

    ofdm = OFDM.model_copy(update={"domain": domain, "pilot_symbols": ()})
    config = link(channel, ofdm=ofdm, receiver=ReceiverConfig(num_antennas=2))
    frontend = build_frontend(config, num_users=2, num_symbols=160)
    sent = launch(5, 160, users=2)
    got = observe(frontend, sent)
    mean_power = tf.function(frontend.mean_power, autograph=False)(
        tf.constant(sent.channel_key), tf.constant(sent.start_s)
    )
    np.testing.assert_allclose(mean_power, (np.abs(got.channel) ** 2).mean(axis=(2, 3)), rtol=1e-4)


@pytest.mark.parametrize("domain", ["frequency", "time"])
def test_pilots_see_what_a_transmitter_does_wrong_and_perfect_knowledge_does_not(domain: str) -> None:
    ofdm = OFDM.model_copy(update={"domain": domain})
    impairments = ImpairmentsConfig(phase_error_deg=40.0, timing_offset_s=2e-6)
    sent = launch(50, 64)
    wrong = {}
    for name, csi in (("perfect", "perfect"), ("pilots", CsiEstimation())):
        config = link(ofdm=ofdm, csi=csi, impairments=impairments)
        got = observe(build_frontend(config, num_users=1, num_symbols=64), sent)
        wrong[name] = (np.abs(residual(got, sent)) ** 2).mean()
    assert wrong["pilots"] < 1e-9
    # E|exp(j phi) - 1|^2 = 2 - 2 exp(-sigma^2 / 2) for the phase alone.
    assert wrong["perfect"] > 0.5 * (2.0 - 2.0 * np.exp(-(np.deg2rad(40.0) ** 2) / 2.0))


def test_clipping_spills_into_guard_carriers_and_costs_their_energy() -> None:
    ofdm = OfdmConfig(num_subcarriers=32, guard_carriers=(8, 8), cyclic_prefix_length=0, pilot_symbols=())
    config = link(ofdm=ofdm, impairments=ImpairmentsConfig(clipping_db=0.0))
    sent = launch(5, 16 * 14)
    got = observe(build_frontend(config, num_users=1, num_symbols=16 * 14), sent)
    inside = (np.abs(got.received) ** 2).sum(axis=(1, 2))
    assert (got.transmit_energy[:, 0] > 1.01 * inside).all()
    assert (got.transmit_energy[:, 0] < 16 * 14).all()


def test_paths_of_unit_power_make_a_channel_of_unit_power() -> None:
    paths = FixedPaths(gains=np.sqrt([[0.5, 0.3, 0.2]]), delays_s=np.array([0.0, 1e-6, 3e-6]))
    config = link(ChannelConfig(model="tdl-a"), ofdm=OFDM)
    frontend = build_frontend(config, num_users=1, num_symbols=64, propagation=paths)
    channel = observe(frontend, launch(1, 64)).channel[0, 0, 0]
    hertz = (np.arange(16) - 8) * 15e3
    expected = np.exp(-2j * np.pi * hertz[:, None] * paths.delays_s) @ paths.gains[0]
    np.testing.assert_allclose(channel.reshape(4, 16), np.tile(expected, (4, 1)), atol=1e-5)
