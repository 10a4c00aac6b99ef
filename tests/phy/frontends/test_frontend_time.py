"""OFDM in the time domain: Sionna's delay line, the limit of a long prefix, and what a short one costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from launches import FixedPaths, ScatteredPaths, launch, link, observe, residual
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, standard_errors_apart, standard_errors_off

from phy.config import ChannelConfig, CsiEstimation, LinkConfig, OfdmConfig, ReceiverConfig
from phy.config.delays import power_delay_profile
from phy.frontends.build import build_frontend
from phy.frontends.windows import Windows

SIZE, SPACING_HZ = 32, 15e3
SAMPLE_S = 1.0 / (SIZE * SPACING_HZ)


def setting(prefix: int, *, domain: str = "time", channel: ChannelConfig | None = None, **more: Any) -> LinkConfig:
    ofdm = OfdmConfig(
        num_subcarriers=SIZE,
        subcarrier_spacing_hz=SPACING_HZ,
        cyclic_prefix_length=prefix,
        num_symbols=4,
        pilot_symbols=more.pop("pilot_symbols", ()),
        domain=domain,
    )
    return link(channel or ChannelConfig(model="tdl-a", coherence="packet"), ofdm=ofdm, **more)


def on_samples(antennas: int = 1) -> ScatteredPaths:
    """Three paths exactly 0, 3 and 8 samples late."""
    delays = np.array([0.0, 3.0, 8.0]) * SAMPLE_S
    return ScatteredPaths(powers=np.array([0.6, 0.3, 0.1]), delays_s=delays, num_antennas=antennas)


def steady_on_samples() -> FixedPaths:
    """The same with gains that never change."""
    scattered = on_samples()
    return FixedPaths(gains=np.sqrt(scattered.powers)[None].astype(complex), delays_s=scattered.delays_s)


@pytest.mark.parametrize("prefix", [0, 3, 8])
def test_paths_on_samples_go_as_through_sionnas_modulator_delay_line_and_demodulator(prefix: int) -> None:
    """On samples Sionna's pulse is exact too, within the prefix and beyond it."""
    from sionna.phy.channel import ApplyTimeChannel, cir_to_time_channel
    from sionna.phy.ofdm import OFDMDemodulator, OFDMModulator

    rng = np.random.default_rng(2)
    gains = rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))
    paths = FixedPaths(gains=gains, delays_s=np.array([0.0, 3.0, 8.0]) * SAMPLE_S)
    sent = launch(2, 4 * SIZE, amplitude=0.7, gain=2.0)
    config = setting(prefix, receiver=ReceiverConfig(num_antennas=2))
    got = observe(build_frontend(config, num_users=1, num_symbols=4 * SIZE, propagation=paths), sent)
    first, last = -6, 14
    samples = OFDMModulator(prefix)(sent.symbols.reshape(2, 1, 1, 4, SIZE))
    num = samples.shape[-1]
    taps = np.broadcast_to(gains.astype(np.complex64)[None, None, :, None, None, :, None], (2, 1, 2, 1, 1, 3, num + 20))
    delays = np.broadcast_to(paths.delays_s.astype(np.float32), (2, 1, 1, 3))
    line = cir_to_time_channel(1.0 / SAMPLE_S, taps, delays, first, last)
    heard = ApplyTimeChannel(num, last - first + 1)(samples, line)
    # What arrives at the instant of lag 0 is at sample -first.
    heard = heard[..., -first : -first + num]
    expected = np.asarray(OFDMDemodulator(SIZE, 0, prefix)(heard))[:, 0]
    np.testing.assert_allclose(got.received, 1.4 * expected.reshape(2, 2, 4 * SIZE), atol=2e-4)


@pytest.mark.parametrize("noise_power", [0.0, 0.3])
@pytest.mark.parametrize("csi", ["perfect", CsiEstimation(), CsiEstimation(estimator="lmmse")])
def test_with_a_long_prefix_and_no_motion_the_two_domains_are_one(csi: Any, noise_power: float) -> None:
    sent = launch(6, 200, users=2, noise_power=noise_power, amplitude=[1.0, 0.5])
    pilots = () if csi == "perfect" else (1,)
    pair = [
        observe(
            build_frontend(
                setting(8, domain=domain, csi=csi, pilot_symbols=pilots, receiver=ReceiverConfig(num_antennas=2)),
                num_users=2,
                num_symbols=200,
                propagation=on_samples(2),
            ),
            sent,
        )
        for domain in ("frequency", "time")
    ]
    for name in ("received", "channel", "channel_error", "signal_energy", "noise_energy"):
        np.testing.assert_allclose(getattr(pair[1], name), getattr(pair[0], name), rtol=1e-4, atol=1e-4)


def interference(prefix: int, *, rows: int = 400) -> NDArray[np.float64]:
    """Mean |received - H x|^2 of each packet over its second to last OFDM symbols, without noise."""
    sent = launch(rows, 4 * SIZE)
    frontend = build_frontend(setting(prefix), num_users=1, num_symbols=4 * SIZE, propagation=steady_on_samples())
    left = residual(observe(frontend, sent), sent).reshape(rows, 4, SIZE)
    return (np.abs(left[:, 1:]) ** 2).mean(axis=(1, 2))


@pytest.mark.parametrize("prefix", [6, 2, 0])
def test_a_short_prefix_costs_what_the_late_paths_lose_twice(prefix: int) -> None:
    # A path e samples beyond the prefix misses e of 32 samples of its own symbol and holds as many of the one before.
    late = np.clip(np.array([0, 3, 8]) - prefix, 0, None) / SIZE
    expected = 2.0 * (late * np.array([0.6, 0.3, 0.1])).sum()
    measured = interference(prefix)
    assert abs(standard_errors_off(measured, expected)) < ERRORS_OF_A_CHECK
    # One sample of prefix more or less would not go unnoticed.
    assert abs(standard_errors_off(measured, expected + 2.0 * 0.1 / SIZE)) > ERRORS_OF_A_CHECK
    assert interference(8, rows=20).max() < 1e-9


CELLS = 72
"""Carriers of 15 kHz, at which the last path of TDL-A with 1 us is 10.4 samples late."""


def floor_of(prefix: int, *, rows: int, model: str = "tdl-a", spread_s: float = 1e-6) -> NDArray[np.float64]:
    """Mean |received - H x|^2 per packet of a random channel, without noise and the first OFDM symbol."""
    ofdm = OfdmConfig(
        num_subcarriers=CELLS, cyclic_prefix_length=prefix, num_symbols=4, pilot_symbols=(), domain="time"
    )
    channel = ChannelConfig(model=model, delay_spread_s=spread_s, coherence="packet")
    sent = launch(rows, 4 * CELLS)
    frontend = build_frontend(link(channel, ofdm=ofdm), num_users=1, num_symbols=4 * CELLS)
    left = residual(observe(frontend, sent), sent).reshape(rows, 4, CELLS)
    return (np.abs(left[:, 1:]) ** 2).mean(axis=(1, 2))


@pytest.mark.parametrize("prefix", [0, 3, 6, 10])
def test_the_floor_of_a_short_prefix_is_its_closed_form_between_samples_too(prefix: int) -> None:
    delays, powers = power_delay_profile("tdl-a")
    late = np.clip(delays * 1e-6 * CELLS * 15e3 - prefix, 0.0, CELLS) / CELLS
    expected = 2.0 * (powers * late).sum()
    measured = floor_of(prefix, rows=4000)
    assert abs(standard_errors_off(measured, expected)) < ERRORS_OF_A_CHECK
    # Planted: whole samples, as if every path began at the next one, are found out.
    whole = 2.0 * (powers * np.ceil(late * CELLS)).sum() / CELLS
    assert abs(standard_errors_off(measured, whole)) > ERRORS_OF_A_CHECK or whole / expected < 1.15


@pytest.mark.parametrize("prefix", [11, 12, 16])
def test_a_prefix_behind_the_last_path_leaves_rounding_alone(prefix: int) -> None:
    assert floor_of(prefix, rows=50).max() < 1e-10


@pytest.mark.parametrize("turns_per_symbol", [1e-4, 0.01, 0.1, 0.5])
def test_gains_between_instants_are_followed_to_two_to_the_minus_fourteen(turns_per_symbol: float) -> None:
    ofdm = OfdmConfig(num_subcarriers=CELLS, domain="time")
    doppler_hz = turns_per_symbol / ofdm.symbol_s
    windows = Windows.of(ofdm, doppler_hz=doppler_hz, delays_s=np.zeros(1))
    np.testing.assert_allclose(windows.between.sum(axis=0), 1.0, atol=1e-9)

    def off(which: Windows) -> float:
        at_s = ofdm.prefix_s + np.arange(CELLS) * ofdm.sample_s
        known, exact = (np.exp(2j * np.pi * doppler_hz * at) for at in (which.instants_s(1), at_s))
        return float(np.abs(known @ which.between - exact).max())

    assert off(windows) < 2.0**-14
    # Planted: the instants of a channel a tenth as fast are too few, where it has fewer.
    fewer = Windows.of(ofdm, doppler_hz=doppler_hz / 10.0, delays_s=np.zeros(1))
    assert (off(fewer) > 2.0**-14) == (fewer.steps < windows.steps)


def test_the_frequency_domain_hides_what_the_time_domain_shows() -> None:
    sent = launch(300, 4 * SIZE, noise_power=0.01)
    left = {
        domain: (np.abs(residual(observe(
            build_frontend(setting(1, domain=domain), num_users=1, num_symbols=4 * SIZE, propagation=on_samples()), sent
        ), sent)) ** 2).mean(axis=(1, 2))
        for domain in ("frequency", "time")
    }  # fmt: skip
    assert abs(standard_errors_off(left["frequency"], 0.01)) < ERRORS_OF_A_CHECK
    assert standard_errors_apart(left["time"], left["frequency"]) > 10.0


@pytest.mark.parametrize("doppler_hz", [50.0, 1000.0])
def test_motion_inside_a_symbol_leaks_between_carriers_as_the_plain_sum_says(doppler_hz: float) -> None:
    speed_m_s = doppler_hz / 3.5e9 * 299792458.0
    channel = ChannelConfig(model="tdl-a", coherence="packet", speed_m_s=speed_m_s)
    paths = FixedPaths(gains=np.ones((1, 1)), delays_s=np.zeros(1), doppler_hz=doppler_hz)
    sent = launch(2, 4 * SIZE)
    config = setting(4, channel=channel)
    got = observe(build_frontend(config, num_users=1, num_symbols=4 * SIZE, propagation=paths), sent)
    symbols = sent.symbols.reshape(2, 4, SIZE)
    samples = np.fft.ifft(np.fft.ifftshift(symbols, axes=-1), norm="ortho")
    at = (np.arange(4)[:, None] * (SIZE + 4) + 4 + np.arange(SIZE)) * SAMPLE_S
    turned = samples * np.exp(2j * np.pi * doppler_hz * at)
    expected = np.fft.fftshift(np.fft.fft(turned, norm="ortho"), axes=-1)
    # Interpolation within a window errs by 2^-14 of the path at most.
    assert np.sqrt(np.mean(np.abs(got.received.reshape(2, 4, SIZE) - expected) ** 2)) < 2.0**-14
    middle = np.exp(2j * np.pi * doppler_hz * (np.arange(4) * (SIZE + 4) + 4 + SIZE // 2) * SAMPLE_S)
    known = got.channel.reshape(2, 4, SIZE)
    np.testing.assert_allclose(known, np.broadcast_to(middle[None, :, None], known.shape), atol=1e-4)


def test_a_channel_that_changes_by_the_symbol_holds_still_within_it() -> None:
    channel = ChannelConfig(fading="rayleigh", coherence="symbol")
    sent = launch(3, 6 * SIZE)
    pair = [
        observe(build_frontend(setting(4, domain=domain, channel=channel), num_users=1, num_symbols=6 * SIZE), sent)
        for domain in ("frequency", "time")
    ]
    np.testing.assert_allclose(pair[1].received, pair[0].received, atol=1e-5)
    assert np.unique(pair[0].channel[0, 0, 0]).size == 6
