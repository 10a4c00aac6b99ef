"""Contract of every AirUplink, with and without a radio."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phy.compile import compile_air
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import AirUplink, LinkError, Superposition

NUM_TRIALS, NUM_DEVICES, NUM_SYMBOLS, NUM_BYTES = 5, 4, 21, 3

GRID = {"num_subcarriers": 12, "num_symbols": 4, "pilot_symbols": (0, 3), "cyclic_prefix_length": 2}
IMPAIRED = {"phase_error_deg": 10.0, "cfo_hz": 100.0, "clipping_db": 4.0}
WAVEFORMS: dict[str, dict[str, Any]] = {
    "single-carrier": {"engine": "sionna"},
    "single-carrier-fused": {"engine": "fused"},
    "single-carrier-impaired": {"impairments": IMPAIRED},
    "antennas": {"engine": "fused", "receiver": {"num_antennas": 3}, "csi": {"error_variance": 0.1}},
    "antennas-impaired": {"impairments": IMPAIRED, "receiver": {"num_antennas": 3}},
    "ofdm": {"ofdm": GRID},
    "ofdm-antennas": {"ofdm": GRID, "channel": {"model": "tdl-a"}, "receiver": {"num_antennas": 3}},
    "ofdm-estimated": {
        "ofdm": GRID,
        "channel": {"model": "tdl-a"},
        "csi": {"estimator": "lmmse"},
        "impairments": {**IMPAIRED, "timing_offset_s": 1e-6},
    },
    "ofdm-time": {
        "ofdm": {**GRID, "domain": "time"},
        "channel": {"model": "tdl-a", "delay_spread_s": 1e-6, "speed_m_s": 30.0},
        "impairments": {**IMPAIRED, "timing_offset_s": 2e-5},
    },
}


def build(error_model: str, modulation: str, waveform: str = "single-carrier", **power: Any) -> AirUplink:
    config = LinkConfig.model_validate(
        {
            "access": "superposition",
            "modulation": modulation,
            "channel": {"fading": "rayleigh"},
            "power": {"policy": "truncated-inversion", **power},
            "error_model": error_model,
            **WAVEFORMS[waveform],
        }
    )
    return compile_air(config, num_devices=NUM_DEVICES, num_symbols=NUM_SYMBOLS)


@pytest.fixture(params=["measured", "error_free"], ids=["measured", "noiseless"], scope="module")
def error_model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


MODULATIONS = ("bpsk", "analog")
LATER = {"single-carrier-impaired", "antennas-impaired", "ofdm"}
"""Others cover them, too."""
WITH_ONE = {"single-carrier": "analog", "ofdm-estimated": "bpsk", "ofdm-time": "analog"}
"""Waveforms that XLA compiles anew for each modulation meet one of the two at every run of the tests."""


def chain_of(waveform: str, modulation: str) -> Any:
    slow = waveform in LATER or WITH_ONE.get(waveform, modulation) != modulation
    return pytest.param((waveform, modulation), id=f"{waveform}-{modulation}", marks=[pytest.mark.slow] * slow)


@pytest.fixture(params=[chain_of(*both) for both in product(WAVEFORMS, MODULATIONS)], scope="module")
def chain(request: pytest.FixtureRequest) -> tuple[str, str]:
    waveform, modulation = request.param
    return str(waveform), str(modulation)


@pytest.fixture(scope="module")
def waveform(chain: tuple[str, str]) -> str:
    return chain[0]


@pytest.fixture(scope="module")
def modulation(chain: tuple[str, str]) -> str:
    return chain[1]


@pytest.fixture(scope="module")
def uplink(error_model: str, modulation: str, waveform: str) -> AirUplink:
    return build(error_model, modulation, waveform)


@pytest.fixture(scope="module")
def payload(modulation: str) -> NDArray[Any]:
    return payload_of(modulation)


def payload_of(modulation: str) -> NDArray[Any]:
    rng = np.random.default_rng(3)
    if modulation == "bpsk":
        return rng.integers(0, 256, (NUM_TRIALS, NUM_DEVICES, NUM_BYTES), dtype=np.uint8)
    return rng.uniform(-1.0, 1.0, (NUM_TRIALS, NUM_DEVICES, NUM_SYMBOLS))


def on_air(*trials: int, round_index: int = 2) -> UplinkContext:
    return UplinkContext(seed=1, trials=trials or tuple(range(NUM_TRIALS)), round_index=round_index)


def same(first: Superposition, second: Superposition, rows: Any = slice(None)) -> bool:
    return all(
        np.array_equal(a, b[rows])
        for a, b in (
            (first.received, second.received),
            (first.num_active, second.num_active),
            (first.decision.amplitude, second.decision.amplitude),
            (first.decision.active, second.decision.active),
            *((getattr(first, name), getattr(second, name)) for name in ("airtime_s", "energy_j")),
        )
        if a is not None and b is not None
    )


def test_it_says_what_it_was_compiled_for(uplink: AirUplink) -> None:
    assert (uplink.num_devices, uplink.num_symbols) == (NUM_DEVICES, NUM_SYMBOLS)


def test_results_have_the_documented_shapes_and_types(uplink: AirUplink, payload: NDArray[Any]) -> None:
    heard = uplink.superpose(payload, context=on_air(), caps={})
    assert heard.received.shape == (NUM_TRIALS, NUM_SYMBOLS)
    assert heard.received.dtype == np.complex64
    assert heard.num_active.shape in ((NUM_TRIALS, 1), (NUM_TRIALS, NUM_SYMBOLS))
    assert heard.num_active.dtype == np.int64
    assert heard.decision.amplitude.shape == (NUM_TRIALS,)
    assert heard.decision.active.shape == (NUM_TRIALS, NUM_DEVICES)


def test_the_sum_counts_the_active_devices(uplink: AirUplink, waveform: str, payload: NDArray[Any]) -> None:
    heard = uplink.superpose(payload, context=on_air(), caps={})
    active = heard.decision.active.sum(axis=1, keepdims=True)
    assert (heard.num_active <= active).all()
    if not waveform.startswith("ofdm-"):  # there a device may be silent on some carriers
        assert (heard.num_active == active).all()


def test_time_and_energy_are_spent_by_a_radio(
    uplink: AirUplink, error_model: str, waveform: str, payload: NDArray[Any]
) -> None:
    heard = uplink.superpose(payload, context=on_air(), caps={})
    if error_model == "error_free":
        assert heard.airtime_s is None
        assert heard.energy_j is None
        return
    assert heard.airtime_s is not None
    assert heard.energy_j is not None
    assert heard.airtime_s.shape == heard.energy_j.shape == (NUM_TRIALS, NUM_DEVICES)
    assert heard.airtime_s.dtype == heard.energy_j.dtype == np.float64
    # Devices that estimate the channel send pilots, be they silent afterwards or not.
    on_air_at_all = heard.decision.active | (waveform == "ofdm-estimated")
    assert np.array_equal(heard.airtime_s > 0, on_air_at_all)
    assert np.array_equal(heard.energy_j > 0, on_air_at_all)


@pytest.mark.parametrize("modulation", MODULATIONS)
@pytest.mark.parametrize("ideal", ["single-carrier", "ofdm"])
def test_the_normalised_sum_is_that_of_the_active_devices(error_model: str, modulation: str, ideal: str) -> None:
    """At 100 dB the noise is 1e-5 of the amplitude per dimension, float32 rounding less: within 1e-3."""
    payload = payload_of(modulation)
    heard = build(error_model, modulation, ideal, snr_max_db=100.0).superpose(payload, context=on_air(), caps={})
    symbols = payload
    if modulation == "bpsk":
        symbols = 1.0 - 2.0 * np.unpackbits(payload, axis=-1, count=NUM_SYMBOLS)
    expected = (symbols * heard.decision.active[..., None]).sum(axis=1)
    some = heard.decision.active.any(axis=1)
    assert some.any()
    found = heard.received[some] / heard.decision.amplitude[some, None]
    assert np.abs(found - expected[some]).max() < 1e-3


def test_the_input_payload_is_not_modified(uplink: AirUplink, payload: NDArray[Any]) -> None:
    before = payload.copy()
    uplink.superpose(payload, context=on_air(), caps={})
    assert np.array_equal(payload, before)


def test_the_same_context_gives_the_same_numbers(
    error_model: str, modulation: str, waveform: str, uplink: AirUplink, payload: NDArray[Any]
) -> None:
    first = uplink.superpose(payload, context=on_air(), caps={})
    uplink.superpose(payload, context=on_air(round_index=7), caps={})
    assert same(uplink.superpose(payload, context=on_air(), caps={}), first)
    assert same(build(error_model, modulation, waveform).superpose(payload, context=on_air(), caps={}), first)


@pytest.mark.parametrize("rows", [[0], [4], [3, 1], [4, 0, 2]], ids=str)
def test_a_trial_has_the_same_numbers_in_any_batch(uplink: AirUplink, payload: NDArray[Any], rows: list[int]) -> None:
    together = uplink.superpose(payload, context=on_air(), caps={})
    assert same(uplink.superpose(payload[rows], context=on_air(*rows), caps={}), together, rows)


@pytest.mark.parametrize("cap", [0.5, np.inf, [0.1, 0.2, np.inf, 3.0, 0.0]], ids=str)
def test_caps_are_accepted_one_for_all_or_one_for_each(
    error_model: str, uplink: AirUplink, payload: NDArray[Any], cap: Any
) -> None:
    amplitude = uplink.superpose(payload, context=on_air(), caps={"privacy": cap}).decision.amplitude
    if error_model != "error_free":  # without a radio there is no amplitude to cap
        # The mean gain under inversion is 1 up to float32 rounding.
        assert (amplitude <= np.broadcast_to(cap, amplitude.shape) * (1.0 + 1e-6)).all()


def test_a_payload_of_another_shape_or_type_is_refused(uplink: AirUplink, payload: NDArray[Any]) -> None:
    for wrong in (
        payload[..., 1:],
        payload[:, 1:],
        payload[1:],
        payload[0],
        payload.astype(np.int64),
        np.zeros((NUM_TRIALS, NUM_DEVICES, NUM_BYTES), np.float32)
        if payload.dtype == np.uint8
        else np.zeros((NUM_TRIALS, NUM_DEVICES, NUM_SYMBOLS), np.uint8),
    ):
        with pytest.raises(LinkError, match="the link was compiled for"):
            uplink.superpose(wrong, context=on_air(), caps={})


@pytest.mark.parametrize("ideal", ["single-carrier", "ofdm"])
def test_complex_amplitudes_are_amplitudes(error_model: str, ideal: str) -> None:
    payload = np.full((NUM_TRIALS, NUM_DEVICES, NUM_SYMBOLS), 1j)
    heard = build(error_model, "analog", ideal, snr_max_db=100.0).superpose(payload, context=on_air(), caps={})
    expected = 1j * heard.decision.amplitude[:, None] * heard.num_active
    # Noise of variance 1 beside amplitudes of up to 1e5: absolute, six standard deviations of |z|.
    assert np.abs(heard.received - expected).max() < 6.0 + 1e-6 * np.abs(expected).max()


JAMMERS = np.isin(np.arange(NUM_DEVICES), [1]) & np.isin(np.arange(NUM_TRIALS), [0, 2, 3])[:, None]


def test_jammers_change_neither_the_decision_nor_who_counts(
    uplink: AirUplink, error_model: str, payload: NDArray[Any]
) -> None:
    if error_model == "error_free":
        with pytest.raises(LinkError, match="no full power to jam at; use error model measured"):
            uplink.superpose(payload, context=on_air(), caps={}, jammers=JAMMERS)
        return
    clean = uplink.superpose(payload, context=on_air(), caps={"privacy": 0.1})
    heard = uplink.superpose(payload, context=on_air(), caps={"privacy": 0.1}, jammers=JAMMERS)
    for name in ("level", "amplitude", "peak_amplitude", "limit", "active"):
        np.testing.assert_array_equal(getattr(heard.decision, name), getattr(clean.decision, name), err_msg=name)
    np.testing.assert_array_equal(heard.num_active, clean.num_active)
    jammed = JAMMERS.any(axis=1)
    assert (heard.received[jammed] != clean.received[jammed]).any(axis=1).all()
    # Two compiled programs round differently; sums of a few terms below 10 in float32.
    np.testing.assert_allclose(heard.received[~jammed], clean.received[~jammed], atol=1e-4)
    assert heard.energy_j is not None
    assert clean.energy_j is not None
    np.testing.assert_allclose(heard.energy_j[~JAMMERS], clean.energy_j[~JAMMERS], rtol=1e-5)
    assert (heard.energy_j[JAMMERS] > clean.energy_j[JAMMERS]).all()
    assert heard.airtime_s is not None
    assert (heard.airtime_s[JAMMERS] > 0.0).all()


def test_a_jammed_trial_has_the_same_numbers_in_any_batch(
    modulation: str, waveform: str, payload: NDArray[Any]
) -> None:
    radio = build("measured", modulation, waveform)
    together = radio.superpose(payload, context=on_air(), caps={}, jammers=JAMMERS)
    for rows in ([0], [3, 1], [4, 2]):
        part = radio.superpose(payload[rows], context=on_air(*rows), caps={}, jammers=JAMMERS[rows])
        assert same(part, together, rows)


SILENT = (0, 2)
OTHERS = np.setdiff1d(np.arange(NUM_DEVICES), SILENT)


def without_two(round_index: int = 2) -> UplinkContext:
    return UplinkContext(seed=1, trials=tuple(range(NUM_TRIALS)), round_index=round_index, silent=SILENT)


def test_a_silent_device_is_off_the_air_and_counts_nowhere(
    uplink: AirUplink, waveform: str, payload: NDArray[Any]
) -> None:
    heard = uplink.superpose(payload, context=without_two(), caps={})
    everybody = uplink.superpose(payload, context=on_air(), caps={})
    assert not heard.decision.active[:, SILENT].any()
    assert (heard.num_active <= len(OTHERS)).all()
    if "antennas" not in waveform:  # a combiner matched to fewer devices changes the gains of all
        assert np.array_equal(heard.decision.active[:, OTHERS], everybody.decision.active[:, OTHERS])
        some = heard.decision.active.any(axis=1)
        # The weakest device, which holds others down, may be among those silent; mean gains are 1 to float32 rounding.
        assert (heard.decision.level[some] >= everybody.decision.level[some] * (1.0 - 1e-6)).all()
        assert (heard.decision.level[~some] <= everybody.decision.level[~some]).all()
    changed = payload.copy()
    changed[:, SILENT] = 0
    assert same(uplink.superpose(changed, context=without_two(), caps={}), heard)
    for spent in (heard.airtime_s, heard.energy_j):
        assert spent is None or (spent[:, SILENT] == 0.0).all()


@pytest.mark.parametrize("modulation", MODULATIONS)
@pytest.mark.parametrize("ideal", ["single-carrier", "single-carrier-fused", "ofdm"])
def test_the_normalised_sum_leaves_out_silent_devices(error_model: str, modulation: str, ideal: str) -> None:
    """At 100 dB as above."""
    payload = payload_of(modulation)
    radio = build(error_model, modulation, ideal, snr_max_db=100.0)
    heard = radio.superpose(payload, context=without_two(), caps={})
    symbols = payload
    if modulation == "bpsk":
        symbols = 1.0 - 2.0 * np.unpackbits(payload, axis=-1, count=NUM_SYMBOLS)
    some = heard.decision.active.any(axis=1)
    assert some.any()
    expected = (symbols * heard.decision.active[..., None]).sum(axis=1)
    found = heard.received[some] / heard.decision.amplitude[some, None]
    assert np.abs(found - expected[some]).max() < 1e-3
