"""Jammers over superposition: what arrives of them, what they spend, and what stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import context, link_config, random_payload, unpacked

from phy.compile import compile_air
from phy.config import LinkConfig, OfdmConfig
from phy.engines.sionna.air import _compiled
from phy.links.link import LinkError, Superposition

QUIET = {"noise_power": 1e-10}
"""With snr_max_db = 100 the power is P0 = 1 and the noise 1e-5 per dimension."""

NUM_TRIALS, NUM_DEVICES, NUM_SYMBOLS = 3, 6, 40
GAINS = (0.3, 0.9, 1.4, 2.0, 0.6, 1.1)
WHO = np.array([[1, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]], bool)

GRID = OfdmConfig(num_subcarriers=12, num_symbols=4, pilot_symbols=(), cyclic_prefix_length=0)


def air(**link: Any) -> LinkConfig:
    channel = {**QUIET, "gain": GAINS, **link.pop("channel", {})}
    settings = {"policy": "inversion", "snr_max_db": 100.0, **link}
    return link_config(settings.pop("modulation", "analog"), access="superposition", channel=channel, **settings)


def amplitudes(*, seed: int = 5) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (NUM_TRIALS, NUM_DEVICES, NUM_SYMBOLS))


def jammed(
    config: LinkConfig, payload: NDArray[Any], who: NDArray[np.bool_] | None = WHO, **caps: Any
) -> Superposition:
    uplink = compile_air(config, num_devices=NUM_DEVICES, num_symbols=NUM_SYMBOLS)
    return uplink.superpose(payload, context=context(NUM_TRIALS), caps=caps, jammers=who)


def expected_sum(heard: Superposition, x: NDArray[np.float64], taps: NDArray[Any]) -> NDArray[np.float64]:
    """Honest devices at the amplitude decided, jammers at |h| sqrt(P0), P0 = 1, all on the real axis."""
    factor = np.where(WHO, np.abs(taps), heard.decision.amplitude[:, None])
    total: NDArray[np.float64] = (factor[..., None] * x).sum(axis=1)
    return total


@pytest.mark.parametrize("waveform", [{}, {"ofdm": GRID}], ids=["single carrier", "ofdm"])
@pytest.mark.parametrize("cap", [np.inf, 0.01], ids=["power", "cap"])
def test_a_jammer_arrives_at_its_gain_times_full_power_whatever_holds_the_others_down(
    cap: float, waveform: dict[str, Any]
) -> None:
    x = amplitudes()
    heard = jammed(air(**waveform), x, lmc=cap)
    # Inversion: the weakest of all, 0.3, sets the level of the honest ones unless a cap is below.
    np.testing.assert_allclose(heard.decision.amplitude, min(0.3, cap), rtol=1e-6)
    wanted = expected_sum(heard, x, np.broadcast_to(GAINS, WHO.shape))
    # Noise of 1e-5 per dimension and float32 sums of six terms below 2.
    np.testing.assert_allclose(heard.received, wanted, rtol=0, atol=1e-4)


def test_in_fading_a_jammer_arrives_in_phase_at_the_strength_of_its_tap() -> None:
    config = air(fading="rayleigh", policy="truncated-inversion", cutoff_db=-3.0)
    ones = np.ones((NUM_TRIALS, NUM_DEVICES, NUM_SYMBOLS))
    # Each device on its own at fixed power tells the magnitude of its tap.
    alone = np.zeros((NUM_TRIALS, NUM_DEVICES))
    for device in range(NUM_DEVICES):
        only = np.zeros_like(ones)
        only[:, device] = 1.0
        alone[:, device] = jammed(air(fading="rayleigh", policy="fixed"), only, None).received.real.mean(axis=1)
    x = amplitudes()
    heard = jammed(config, x, lmc=0.05)
    silent = ~heard.decision.active
    assert silent[WHO].any()  # or nothing is told of jammers below the cutoff
    honest = np.where(WHO | ~silent, x.transpose(2, 0, 1), 0.0).transpose(1, 2, 0)
    wanted = expected_sum(heard, honest, alone)
    np.testing.assert_allclose(heard.received, wanted, rtol=0, atol=3e-4)
    np.testing.assert_array_equal(heard.num_active[:, 0], heard.decision.active.sum(axis=1))


@pytest.mark.parametrize("ofdm", [False, True], ids=["single carrier", "ofdm"])
def test_a_jammer_spends_p0_all_the_time_and_the_others_what_they_did(ofdm: bool) -> None:
    config = air(fading="rayleigh", policy="truncated-inversion", **({"ofdm": GRID} if ofdm else {}))
    x = np.where(WHO[..., None], np.sign(amplitudes()), amplitudes(seed=6))
    clean, heard = jammed(config, x, None, lmc=0.05), jammed(config, x, lmc=0.05)
    assert heard.energy_j is not None
    assert heard.airtime_s is not None
    assert clean.energy_j is not None
    symbol_s = 1.0 / (12 * GRID.subcarrier_spacing_hz) if ofdm else config.symbol_s
    np.testing.assert_allclose(heard.energy_j[WHO], NUM_SYMBOLS * symbol_s, rtol=1e-5)
    np.testing.assert_allclose(heard.energy_j[~WHO], clean.energy_j[~WHO], rtol=1e-5)
    assert (heard.airtime_s[WHO] > 0.0).all()


def test_packed_bits_of_a_jammer_are_signs_at_full_power() -> None:
    payload = random_payload(NUM_TRIALS, NUM_DEVICES, NUM_SYMBOLS)
    heard = jammed(air(modulation="bpsk"), payload, lmc=0.02)
    signs = 1.0 - 2.0 * unpacked(payload, NUM_SYMBOLS)
    wanted = expected_sum(heard, signs, np.broadcast_to(GAINS, WHO.shape))
    np.testing.assert_allclose(heard.received, wanted, rtol=0, atol=1e-4)


def test_clipping_spares_constant_envelopes_and_cuts_a_jammer_at_its_own_power() -> None:
    x = np.where(WHO[..., None], 1.0, amplitudes())
    x[0, 0, :20], x[0, 0, 20:] = np.sqrt(1.96), np.sqrt(0.04)
    config = air(impairments={"clipping_db": 0.0})
    uplink = compile_air(config, num_devices=NUM_DEVICES, num_symbols=NUM_SYMBOLS)
    heard = uplink.superpose(x, context=context(NUM_TRIALS), caps={"lmc": 1e-6}, jammers=WHO)
    # Device 0 of gain 0.3 and device 3 of gain 2 jam in trial 0; honest ones are at 1e-6.
    np.testing.assert_allclose(heard.received[0, :20].real, 0.3 * 1.0 + 2.0, atol=1e-4)
    np.testing.assert_allclose(heard.received[0, 20:].real, 0.3 * 0.2 + 2.0, atol=1e-4)


def test_jammers_change_no_compiled_code_after_the_first_round() -> None:
    config = air(engine="sionna")
    uplink = compile_air(config, num_devices=NUM_DEVICES, num_symbols=NUM_SYMBOLS)
    uplink.superpose(amplitudes(), context=context(NUM_TRIALS), caps={}, jammers=WHO)
    compiled = _compiled.cache_info().misses
    for index, who in enumerate((~WHO, WHO, np.zeros_like(WHO))):
        where = context(NUM_TRIALS, round_index=index)
        uplink.superpose(np.sign(amplitudes()), context=where, caps={"lmc": 0.1}, jammers=who)
    assert _compiled.cache_info().misses == compiled


def test_a_jammer_beyond_its_power_or_of_another_shape_is_refused() -> None:
    jamming = np.repeat(WHO[..., None], NUM_SYMBOLS, axis=2)
    with pytest.raises(LinkError, match=r"have mean power 1\.21 and exceed P0; scale them to mean power 1 or less"):
        jammed(air(), np.where(jamming, 1.1, 0.0))
    with pytest.raises(LinkError, match=r"jammers has shape \(3, 5\), trials and devices are \(3, 6\)"):
        jammed(air(), amplitudes(), WHO[:, 1:])
    with pytest.raises(LinkError, match="mean power nan"):
        jammed(air(), np.where(jamming, np.nan, 0.0))
