"""Bits and amplitudes over a link from Python are those of the link that learning compiles."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phyloop
from phy.compile import compile_air, compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext

SETTINGS = {"channel": {"fading": "rayleigh", "coherence": "packet"}, "power": {"policy": "fixed", "snr_max_db": 8}}
BITS = np.random.default_rng(3).integers(0, 2, (4, 1003), dtype=np.uint8)


def test_bits_are_those_of_the_compiled_link() -> None:
    link = phyloop.Link(modulation="16qam", packet_size_bytes=25, num_devices=4, num_bits=1003, **SETTINGS)
    received = link.send(BITS, seed=5, round=2, trial=7)
    compiled = compile_digital(link.config, num_devices=4, num_bits=1003)
    payload = np.packbits(BITS, axis=1)
    expected = compiled.send(payload[None], context=UplinkContext(seed=5, trials=(7,), round_index=2), caps={})
    assert np.array_equal(np.packbits(received.bits, axis=1), expected.payload[0])
    assert np.array_equal(received.bit_errors, (received.bits != BITS).sum(axis=1))
    assert received.ber is not None
    assert received.ber.errors == received.bit_errors.sum() > 0
    assert np.array_equal(received.airtime_s, expected.counts.airtime_s[0])
    assert np.array_equal(link.send(payload, seed=5, round=2, trial=7).bits, expected.payload[0])


@pytest.mark.parametrize("name", ["seed", "round", "trial"])
def test_an_index_below_zero_is_refused(name: str) -> None:
    with pytest.raises(phyloop.ScenarioError, match=f"^{name} = -1: must be at least 0"):
        phyloop.Link(num_bits=1003).send(BITS[0], **{name: -1})


def test_a_single_device_needs_no_first_axis() -> None:
    link = phyloop.Link(num_bits=1003, **SETTINGS)
    assert link.send(BITS[0].astype(bool)).bits.shape == (1003,)
    assert link.send(np.packbits(BITS[0])).bits.shape == (126,)


@pytest.mark.parametrize(
    "bits", [BITS[:2], BITS[:, :1000], 2 * BITS, np.packbits(BITS, axis=1).astype(int), BITS[0]], ids=range(5)
)
def test_other_arrays_are_refused(bits: np.ndarray) -> None:
    link = phyloop.Link(num_devices=4, num_bits=1003)
    with pytest.raises(phyloop.LinkError, match=r"send 0 and 1 of shape \(4, 1003\)"):
        link.send(bits)


def test_lost_packets_are_told() -> None:
    settings = {**SETTINGS, "packets": {"policy": "drop"}, "packet_size_bytes": 10, "engine": "fused"}
    received = phyloop.Link(modulation="64qam", num_devices=4, num_bits=1003, **settings).send(BITS, seed=1)
    assert received.delivered is not None
    assert received.delivered.shape == (4, 13)
    assert not received.delivered.all()
    lost = np.repeat(~received.delivered, 80, axis=1)[:, :1003]
    assert not received.bits[lost].any()


def test_an_error_free_link_has_no_error_rate() -> None:
    received = phyloop.Link(error_model="error_free", num_devices=4, num_bits=1003).send(BITS)
    assert np.array_equal(received.bits, BITS)
    assert received.ber is None


def test_all_wrong_settings_are_told_at_once() -> None:
    with pytest.raises(phyloop.ScenarioError) as wrong:
        phyloop.Link(modulation="17qam", packet_size_bytes=0, num_bits=8)
    assert [error.key for error in wrong.value.errors] == ["link.modulation", "link.packet_size_bytes"]


def test_counts_below_one_are_told_at_once() -> None:
    with pytest.raises(phyloop.ScenarioError) as wrong:
        phyloop.Link(num_devices=-1, num_bits=0)
    assert [error.key for error in wrong.value.errors] == ["num_devices", "num_bits"]


def test_an_amplitude_that_is_no_number_is_refused() -> None:
    air = phyloop.Air(num_devices=2, num_symbols=2)
    with pytest.raises(phyloop.LinkError, match="magnitude nan"):
        air.superpose([[1.0, np.nan], [0.0, 0.0]])


def test_settings_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(phyloop.ScenarioError, match="spreads every symbol over several delays"):
        phyloop.Link(channel={"model": "tdl-a"}, num_bits=8)


def test_a_link_comes_from_a_file_a_configuration_or_keys(tmp_path: Path) -> None:
    file = tmp_path / "link.yaml"
    file.write_text("name: mine\nlink: {modulation: 64qam, power: {snr_max_db: 3}}\n")
    keys = {"modulation": "64qam", "power": {"snr_max_db": 3}}
    made = [phyloop.Link(one, num_bits=60).config for one in (file, keys, LinkConfig.model_validate(keys))]
    assert made[0] == made[1] == made[2]
    assert phyloop.Link(file, modulation="bpsk", num_bits=60).config.modulation == "bpsk"
    assert phyloop.Link({"mcs": 5}, num_bits=60).config.modulation == "qpsk"


def test_a_link_without_a_radio_measures_no_rate() -> None:
    received = phyloop.Link(num_bits=1003, error_model="error_free").send(BITS[0])
    assert received.ber is None
    assert "BER not measured" in repr(received)


def test_a_sum_under_mse_optimal_power_is_nearer_than_under_inversion() -> None:
    amplitudes = np.random.default_rng(1).standard_normal((8, 2000)) / 4.0

    def error(policy: str) -> float:
        power = {"policy": policy, "snr_max_db": 0.0}
        air = phyloop.Air(
            num_devices=8, num_symbols=2000, max_amplitude=2.0, channel={"fading": "rayleigh"}, power=power
        )
        return float(np.mean((air.superpose(amplitudes, seed=4).sum.real - amplitudes.sum(axis=0)) ** 2))

    assert error("mse-optimal") < 0.5 * error("inversion")


def test_an_energy_budget_needs_rounds() -> None:
    with pytest.raises(phyloop.LinkError, match="budget is spent over the rounds of a scenario"):
        phyloop.Air(num_devices=2, num_symbols=3, power={"budget": {"energy_j": 1.0}})


def test_amplitudes_are_those_of_the_compiled_air() -> None:
    amplitudes = np.random.default_rng(1).uniform(-2, 2, (4, 50)) * 1j
    air = phyloop.Air(num_devices=4, num_symbols=50, max_amplitude=2.0, channel={"fading": "rayleigh"})
    result = air.superpose(amplitudes, seed=4, round=1)
    compiled = compile_air(air.config, num_devices=4, num_symbols=50, payload_bound=2.0)
    expected = compiled.superpose(amplitudes[None], context=UplinkContext(seed=4, trials=(0,), round_index=1), caps={})
    assert np.array_equal(result.received, expected.received[0])
    assert np.allclose(result.sum * result.amplitude, result.received)
    assert result.airtime_s is not None
    assert result.airtime_s.shape == (4,)
    noiseless = phyloop.Air(num_devices=4, num_symbols=50, max_amplitude=2.0, error_model="error_free")
    assert np.allclose(noiseless.superpose(amplitudes).sum, amplitudes.sum(axis=0))


def test_an_amplitude_above_the_bound_is_refused() -> None:
    air = phyloop.Air(num_devices=2, num_symbols=3)
    with pytest.raises(phyloop.LinkError, match=r"magnitude 1\.5, max_amplitude is 1"):
        air.superpose(np.full((2, 3), 1.5))


def test_rates_of_devices_add_up_to_the_rate_of_all() -> None:
    received = phyloop.Link(num_devices=4, num_bits=1003, **SETTINGS).send(BITS, seed=5)
    assert received.ber is not None
    rates = [rate for rate in received.ber_by_device if rate is not None]
    assert [rate.errors for rate in rates] == received.bit_errors.tolist()
    assert sum(rate.total for rate in rates) == received.ber.total == 4 * 1003


def test_amplitudes_may_exceed_their_bound_by_rounding_alone() -> None:
    air = phyloop.Air(num_devices=1, num_symbols=8, power={"snr_max_db": 300})
    circle = np.exp(2j * np.pi * np.arange(8) / 8)[None]
    assert np.abs(circle).max() > 1.0
    np.testing.assert_allclose(air.superpose(circle).sum, circle[0], atol=1e-5)
    with pytest.raises(phyloop.LinkError, match=r"has magnitude 1\.00001, max_amplitude is 1"):
        air.superpose(np.full((1, 8), 1.00001))


@pytest.mark.parametrize("bound", [1e-42, 1e42, float("nan")])
def test_a_bound_beyond_single_precision_is_refused(bound: float) -> None:
    with pytest.raises(phyloop.ScenarioError, match="must lie between 1e-30 and 1e\\+30"):
        phyloop.Air(num_devices=1, num_symbols=8, max_amplitude=bound)


@pytest.mark.parametrize("index", [2**32 - 1, 2**32, 2**64])
def test_a_round_whose_draws_would_repeat_is_refused(index: int) -> None:
    for send in (phyloop.Link(num_bits=8).send, phyloop.Air(num_devices=1, num_symbols=8).superpose):
        with pytest.raises(phyloop.ScenarioError, match="must be at most 4294967294"):
            send(np.zeros(8) if send.__name__ == "send" else np.zeros((1, 8)), round=index)


def test_the_last_rounds_have_draws_of_their_own() -> None:
    link = phyloop.Link(num_bits=1003, **SETTINGS)
    received = [link.send(BITS[0], round=index).bits for index in (0, 2**32 - 3, 2**32 - 2)]
    assert all((one != other).any() for one, other in itertools.pairwise(received))


@pytest.mark.parametrize("sent", [128, 0, 1], ids=["a packed bit", "a zero", "a bit of its own"])
def test_one_bit_comes_back_in_the_form_in_which_it_was_sent(sent: int) -> None:
    received = phyloop.Link(num_bits=1, power={"snr_max_db": 60}).send(np.array([[sent]], np.uint8))
    assert received.bits.tolist() == [[sent]]


@pytest.mark.parametrize("detector", ["sic", "sic-codeword", "ml"])
@pytest.mark.parametrize("snr_max_db", [150, 200, 300])
def test_noise_far_below_single_precision_makes_no_errors(detector: str, snr_max_db: float) -> None:
    power = {"policy": "fixed", "snr_max_db": snr_max_db}
    link = phyloop.Link(access="noma", noma={"detector": detector}, power=power, num_devices=2, num_bits=1003)
    assert link.send(BITS[:2]).bit_errors.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("settings", "num_devices"),
    [
        ({"modulation": "16qam", "power": {"snr_max_db": 12}}, 1),
        ({"channel": {"fading": "rayleigh", "coherence": "symbol"}, "power": {"policy": "fixed", "snr_max_db": 8}}, 1),
        ({"channel": {"gain": [0.5, 1.0]}, "power": {"policy": "fixed", "snr_max_db": 4}}, 2),
    ],
    ids=["awgn", "rayleigh", "two gains"],
)
def test_the_closed_form_lies_where_the_link_measures(settings: dict[str, Any], num_devices: int) -> None:
    link = phyloop.Link(**settings, num_devices=num_devices, num_bits=200_000)
    received = link.send(np.zeros((num_devices, 200_000), np.uint8), seed=3)
    for device, errors in enumerate(received.bit_errors):
        rate = link.closed_form(device=device)
        assert abs(errors - 200_000 * rate) < 5.0 * (200_000 * rate) ** 0.5
    mean = np.mean([link.closed_form(device=device) for device in range(num_devices)])
    assert link.closed_form() == pytest.approx(mean)


def test_a_link_without_a_closed_form_says_so() -> None:
    link = phyloop.Link(coding={"code": "repetition"}, num_bits=100)
    with pytest.raises(phyloop.LinkError, match="no closed form; use coding none"):
        link.closed_form()
    with pytest.raises(phyloop.LinkError, match="device is 2, the link has devices 0 to 0"):
        phyloop.Link(num_bits=100).closed_form(device=2)
