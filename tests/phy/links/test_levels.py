"""Transmit powers of devices, relative to the noise and in dBm, against theory and powers computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from radio import ERRORS_OF_A_CHECK, context, random_payload
from scipy.special import erfc

import phyloop
from fl.algorithms.flmc import FlmcConfig
from fl.algorithms.flmc.account import power_peak
from fl.algorithms.flmc.amplitude_caps import caps_of
from fl.uplink.energy import EnergyLeft
from fl.uplink.senders import exchangeable
from phy.compile import compile_air, compile_digital
from phy.config import LinkConfig
from phy.config.power import EnergyBudget, thermal_noise_dbm
from phyloop.channel import save_channel
from scenarios.plan.identity import physics
from scenarios.schema.loader import load_scenario
from scenarios.studies.link.level import bit_error_rates
from scenarios.studies.link.plan import expand_link

UNEQUAL_DB = (3.0, 6.0, 9.0)
SYMBOL_CHANNELS = {"awgn": {"model": "awgn"}, "rayleigh": {"fading": "rayleigh", "coherence": "symbol"}}
GRID = {"num_subcarriers": 64, "subcarrier_spacing_hz": 15e3, "guard_carriers": [6, 5], "cyclic_prefix_length": 0}


def bpsk(snr: np.ndarray, *, fades: bool) -> np.ndarray:
    """Q(sqrt(2 g)), and its mean over Rayleigh fading (Proakis 2008, (13.3-7)), at g = Es/N0."""
    return 0.5 * (1.0 - np.sqrt(snr / (1.0 + snr))) if fades else 0.5 * erfc(np.sqrt(snr))


def bit_errors(link: phyloop.Link) -> tuple[np.ndarray, Any]:
    """Bit error rate of each device, and all that was received."""
    bits = np.random.default_rng(0).integers(0, 2, (link.num_devices, link.num_bits), dtype=np.uint8)
    received = link.send(bits, seed=1)
    return (received.bits != bits).mean(axis=1), received


@pytest.mark.parametrize("name", SYMBOL_CHANNELS)
def test_devices_of_unequal_power_have_their_own_closed_forms(name: str) -> None:
    num_bits = 400_000
    link = phyloop.Link(
        num_devices=3,
        num_bits=num_bits,
        modulation="bpsk",
        channel=SYMBOL_CHANNELS[name],
        power={"snr_max_db": UNEQUAL_DB},
    )
    rates, received = bit_errors(link)
    expected = bpsk(10.0 ** (np.array(UNEQUAL_DB) / 10.0) / 2.0, fades=name == "rayleigh")
    off = (rates - expected) / np.sqrt(expected * (1.0 - expected) / num_bits)
    assert np.abs(off).max() < ERRORS_OF_A_CHECK
    for device, rate in enumerate(expected):
        assert link.closed_form(device=device) == pytest.approx(rate, rel=1e-9)
    # A BPSK symbol of power P_k lasts 1 us.
    np.testing.assert_allclose(received.energy_j, 10.0 ** (np.array(UNEQUAL_DB) / 10.0) * num_bits * 1e-6, rtol=1e-5)


EQUAL = {
    "bits": {"modulation": "16qam", "channel": {"fading": "rayleigh"}, "csi": {"error_variance": 0.01}},
    "packets": {"modulation": "qpsk", "ofdm": GRID, "coding": {"code": "convolutional", "rate": 0.5}},
    "noma": {"modulation": "qpsk", "access": "noma", "channel": {"fading": "rayleigh"}},
    "loop": {"modulation": "qpsk", "power": {"policy": "closed-loop"}, "channel": {"fading": "rayleigh"}},
}


@pytest.mark.parametrize("case", EQUAL)
def test_a_list_of_equal_powers_gives_the_bits_of_one_power(case: str) -> None:
    received = []
    for snr_max_db in (7.3, (7.3,) * 4):
        settings = {"packet_size_bytes": 50, **EQUAL[case]}
        settings["power"] = {**settings.get("power", {}), "snr_max_db": snr_max_db}
        uplink = compile_digital(LinkConfig.model_validate(settings).resolve_digital(), num_devices=4, num_bits=1600)
        received.append(uplink.send(random_payload(2, 4, 1600), context=context(2), caps={}))
    one, listed = received
    np.testing.assert_array_equal(one.payload, listed.payload)
    np.testing.assert_array_equal(one.counts.energy_j, listed.counts.energy_j)
    np.testing.assert_array_equal(one.counts.snr_db, listed.counts.snr_db)


def superposed(snr_max_db: Any, policy: str = "inversion", *, max_power: Any = None, **settings: Any) -> Any:
    link = LinkConfig.model_validate(
        {
            "access": "superposition",
            "modulation": "analog",
            "power": {"snr_max_db": snr_max_db, "policy": policy},
            **settings,
        }
    )
    payload = np.ones((1, 3, 64), np.float32)
    return compile_air(link, num_devices=3, num_symbols=64).superpose(
        payload, context=context(1), caps={}, max_power=max_power
    )


@pytest.mark.parametrize("ofdm", ["none", GRID])
def test_a_list_of_equal_powers_gives_the_sum_of_one_power(ofdm: Any) -> None:
    one, listed = (superposed(db, channel={"fading": "rayleigh"}, ofdm=ofdm) for db in (11.7, (11.7,) * 3))
    np.testing.assert_array_equal(one.received, listed.received)
    np.testing.assert_array_equal(one.energy_j, listed.energy_j)


@pytest.mark.parametrize("ofdm", ["none", GRID])
def test_a_sum_arrives_at_what_the_weakest_power_and_gain_reach_together(ofdm: Any) -> None:
    power, gain = 10.0 ** (np.array(UNEQUAL_DB) / 10.0), np.array([1.0, 0.5, 0.6])
    found = superposed(UNEQUAL_DB, channel={"gain": gain.tolist()}, ofdm=ofdm)
    reach = (gain * np.sqrt(power)).min()  # of device 1: neither the least power nor the least gain alone
    assert found.decision.amplitude[0] == pytest.approx(reach, rel=1e-6)
    seconds = 64e-6 if ofdm == "none" else 64 / (64 * 15e3)
    np.testing.assert_allclose(found.energy_j[0], (reach / gain) ** 2 * seconds, rtol=1e-5)


def test_a_device_below_the_level_arrives_at_its_own_power() -> None:
    power = np.array([0.01, 100.0, 100.0])
    found = superposed(tuple(10.0 * np.log10(power)), "mse-optimal", channel={"noise_power": 1.0})
    assert found.decision.arrival[0, 0] == pytest.approx(0.1, rel=1e-6)
    assert found.decision.arrival[0, 1] > 1.0
    assert found.energy_j[0, 0] == pytest.approx(0.01 * 64e-6, rel=1e-5)


def test_a_limit_in_watts_is_that_of_each_device() -> None:
    limit = np.array([[1.5, 0.5, 1.0]])
    found = superposed(UNEQUAL_DB, max_power=limit)
    np.testing.assert_allclose(found.energy_j[0], 0.5 * 64e-6, rtol=1e-5)


def test_privacy_answers_for_the_device_that_arrives_strongest() -> None:
    link = {"power": {"snr_max_db": UNEQUAL_DB, "policy": "fixed"}, "channel": {"gain": [1.0, 0.9, 0.5]}}
    arriving = np.array([1.0, 0.9, 0.5]) * 10.0 ** (np.array(UNEQUAL_DB) / 20.0)
    config = FlmcConfig(scheme="digital-orthogonal", num_devices=3, step_size=1e-4)
    one = LinkConfig.model_validate({**link, "access": "orthogonal", "modulation": "bpsk"})
    assert power_peak(config, link=one) == pytest.approx(arriving.max())
    uplink = compile_digital(one, num_devices=3, num_bits=512)
    free = uplink.send(random_payload(1, 3, 512), context=context(1), caps={})
    assert free.decision.peak_amplitude[0] == pytest.approx(arriving.max(), rel=1e-6)
    capped = uplink.send(random_payload(1, 3, 512), context=context(1), caps={"privacy": 0.7})
    assert capped.decision.peak_amplitude[0] == pytest.approx(0.7, rel=1e-6)
    np.testing.assert_allclose(capped.counts.signal_energy[0] / 512, (0.7 * arriving / arriving.max()) ** 2, rtol=1e-5)
    # The sum of analog FLMC is held at what the weakest reaches, the cap that is reported before the run.
    sums = LinkConfig.model_validate({"access": "superposition", "power": {"snr_max_db": UNEQUAL_DB}})
    analog = FlmcConfig(scheme="analog", num_devices=3, step_size=1e-4)
    caps = caps_of(analog, link=sums, privacy=None)
    assert caps is not None
    assert caps.power == pytest.approx(10.0**0.15 / analog.sending.payload_bound(analog), rel=1e-9)
    assert power_peak(analog, link=sums) == pytest.approx(caps.power)


def test_noma_meets_the_powers_as_it_meets_gains_of_the_same_received_power() -> None:
    settings = {"modulation": "qpsk", "access": "noma", "channel": {"fading": "rayleigh"}, "packet_size_bytes": 50}
    payload = random_payload(3, 2, 1600)
    by_power, by_gain = (
        compile_digital(LinkConfig.model_validate(settings | change), num_devices=2, num_bits=1600).send(
            payload, context=context(3), caps={}
        )
        for change in (
            {"power": {"snr_max_db": (15.0, 9.0)}},
            {"power": {"snr_max_db": 15.0}, "channel": {"fading": "rayleigh", "gain": (1.0, 10.0**-0.3)}},
        )
    )
    np.testing.assert_array_equal(by_power.payload, by_gain.payload)
    np.testing.assert_allclose(by_power.counts.energy_j, by_gain.counts.energy_j * [1.0, 10.0**-0.6], rtol=1e-6)


def test_a_closed_loop_starts_at_the_power_of_each_device() -> None:
    link = {"modulation": "qpsk", "power": {"policy": "closed-loop", "snr_max_db": UNEQUAL_DB}}
    uplink = compile_digital(LinkConfig.model_validate(link).resolve_digital(), num_devices=3, num_bits=1600)
    received = uplink.send(random_payload(1, 3, 1600), context=context(1), caps={})
    np.testing.assert_allclose(received.power_db[0], UNEQUAL_DB, atol=1e-6)


def test_devices_of_unequal_power_are_not_exchangeable() -> None:
    assert exchangeable(LinkConfig.model_validate({"access": "orthogonal"}))
    assert not exchangeable(LinkConfig.model_validate({"access": "orthogonal", "power": {"snr_max_db": UNEQUAL_DB}}))


def test_a_link_study_keeps_the_differences_of_its_devices() -> None:
    study = {
        "name": "a",
        "link": {"modulation": "bpsk", "power": {"snr_max_db": list(UNEQUAL_DB)}},
        "measure": {"num_devices": 3, "over": "esno_db", "values": [4.0]},
    }
    (curve,) = expand_link(load_scenario(study)).curves
    (point,) = curve.points
    listed = np.array(point.link.power.snr_max_db)
    np.testing.assert_allclose(np.diff(listed), 3.0)
    esno = 10.0 ** (listed / 10.0) / 2.0
    assert 10.0 * np.log10(esno.mean()) == pytest.approx(4.0)
    np.testing.assert_allclose(bit_error_rates(curve.link, 4.0, num_devices=3), bpsk(esno, fades=False), rtol=1e-9)


def test_a_power_for_all_keeps_the_identity_that_it_had() -> None:
    power = physics(load_scenario({"name": "a"}).scenario)["link"]["power"]
    assert "transmit_power_dbm" not in power
    assert "noise_figure_db" not in power


def test_thermal_noise_is_minus_174_dbm_per_hertz() -> None:
    assert thermal_noise_dbm(1.0, noise_figure_db=0.0) == pytest.approx(-173.975, abs=1e-3)
    assert thermal_noise_dbm(20e6, noise_figure_db=7.0) == pytest.approx(-93.97, abs=0.01)


@pytest.mark.parametrize("ofdm", ["none", GRID])
def test_a_trace_of_absolute_gains_has_the_error_rates_of_its_link_budget(tmp_path: Path, ofdm: Any) -> None:
    loss_db, power_dbm, num_bits = np.array([111.0, 113.0]), np.array([5.0, 9.0]), 53 * 12 * 400
    save_channel(tmp_path / "two.npz", a=10.0 ** (-loss_db / 20.0)[None, :, None, None] + 0j, tau_s=np.zeros((1, 2, 1)))
    link = phyloop.Link(
        num_devices=2,
        num_bits=num_bits,
        modulation="bpsk",
        packet_size_bytes=53 * 12 * 10,  # slots are full
        ofdm=ofdm,
        channel={"model": "trace", "file": str(tmp_path / "two.npz"), "normalize": "none"},
        power={"transmit_power_dbm": power_dbm.tolist(), "noise_figure_db": 7},
    )
    rates, received = bit_errors(link)
    wide_hz = 1e6 if ofdm == "none" else 53 * 15e3
    noise_dbm = 10.0 * np.log10(1.380649e-23 * 290.0 * wide_hz / 1e-3) + 7.0
    expected = bpsk(10.0 ** ((power_dbm - loss_db - noise_dbm) / 10.0), fades=False)
    off = (rates - expected) / np.sqrt(expected * (1.0 - expected) / num_bits)
    assert np.abs(off).max() < ERRORS_OF_A_CHECK
    np.testing.assert_allclose(received.energy_j, 10.0 ** (power_dbm / 10.0 - 3.0) * received.airtime_s, rtol=1e-5)


def test_a_power_in_dbm_in_a_cell_meets_all_of_the_path_loss() -> None:
    cell = {"positions_m": [[50, 0], [200, 0]], "line_of_sight": "always", "shadowing": False}
    link = phyloop.Link(
        num_devices=2,
        num_bits=80_000,
        modulation="qpsk",
        channel={"cell": cell},
        power={"transmit_power_dbm": -20, "noise_figure_db": 5},
    )
    _, received = bit_errors(link)
    # TR 38.901 Table 7.4.1-1, UMi in line of sight within the breakpoint; server at 10 m, devices at 1.5 m.
    distance_m = np.hypot([50.0, 200.0], 8.5)
    loss_db = 32.4 + 21.0 * np.log10(distance_m) + 20.0 * np.log10(3.5)
    noise_dbm = 10.0 * np.log10(1.380649e-23 * 290.0 * 1e6 / 1e-3) + 5.0
    # 40 000 symbols of noise measure its power to 0.5 %, 0.02 dB.
    np.testing.assert_allclose(received.snr_db, -20.0 - loss_db - noise_dbm, atol=4 * 0.022)


def test_energy_that_is_left_is_in_joules_of_each_device() -> None:
    settings = {"access": "superposition", "modulation": "analog", "ofdm": GRID, "csi": {"estimator": "ls"}}
    one, listed = (
        EnergyLeft(
            EnergyBudget(energy_j=1.0),
            link=LinkConfig.model_validate({**settings, "power": {"snr_max_db": power}}),
            num_symbols=100,
            num_devices=2,
            num_rounds=4,
        ).max_power(0, size=1.0)
        for power in (20.0, (20.0, 10.0))
    )
    # 0.25 J a round; pilots of the second device take a tenth.
    seconds, pilots_j = 100 / (64 * 15e3), 100.0 * 2 * 53 / (64 * 15e3)
    np.testing.assert_allclose(one, (0.25 - pilots_j) / seconds, rtol=1e-4)
    np.testing.assert_allclose(listed, (0.25 - pilots_j * np.array([1.0, 0.1])) / seconds, rtol=1e-4)
