"""Flat fading over several antennas: the law of each model, and Nakagami's amplitude to the last word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, context, link_config, random_payload, standard_errors_off
from scipy import stats

from phy.compile import compile_digital
from phy.config import ChannelConfig
from phy.fading.block_taps import FlatChannel, draw_taps
from phy.fading.build import build_propagation
from phy.fading.laws.nakagami import Nakagami
from phy.fading.quantile_table import quantile_table, table_taps
from phy.measure.theory import fading_bit_error_rate

KEYS = np.random.default_rng(5).integers(0, 1 << 32, (64, 2), dtype=np.uint32)


def taps(*, num_antennas: int = 2, columns: int = 256, **channel: Any) -> NDArray[np.complex128]:
    """`[64, num_antennas, columns]`."""
    import tensorflow as tf

    which = build_propagation(ChannelConfig(**channel), num_antennas=num_antennas)
    instants = tf.zeros([len(KEYS), columns])
    found: NDArray[np.complex128] = which.taps(tf.constant(KEYS), instants).numpy()[:, :, 0].astype(complex)
    return found


def power_law(fading: str, value: float) -> Any:
    if fading == "nakagami":
        return stats.gamma(value, scale=1.0 / value)
    if fading == "rayleigh":
        return stats.expon()
    return stats.ncx2(2, 2.0 * value, scale=1.0 / (2.0 * (1.0 + value)))


LAWS = [("rayleigh", 0.0), ("rician", 0.5), ("rician", 4.0), *(("nakagami", m) for m in (0.5, 0.8, 1.0, 2.5, 30.0))]


def channel_of(fading: str, value: float) -> dict[str, Any]:
    if fading == "nakagami":
        return {"fading": fading, "nakagami_m": value}
    return {"fading": fading, "rician_k_db": 10.0 * float(np.log10(value)) if value else 0.0}


@pytest.mark.parametrize(("fading", "value"), LAWS)
def test_power_follows_its_law(fading: str, value: float) -> None:
    power = np.abs(taps(coherence="symbol", **channel_of(fading, value)).ravel()) ** 2
    # p of a correct generator is uniform: below 1e-4 once in 10 000 seeds, and the seed is fixed.
    assert stats.kstest(power, power_law(fading, value).cdf).pvalue > 1e-4
    assert abs(power.mean() - 1.0) < ERRORS_OF_A_CHECK * power_law(fading, value).std() / np.sqrt(power.size)


@pytest.mark.parametrize(("fading", "value"), [("nakagami", 1.0), ("rician", 4.0), ("rayleigh", 0.0)])
def test_the_law_check_tells_neighbours_apart(fading: str, value: float) -> None:
    power = np.abs(taps(coherence="symbol", **channel_of(fading, value)).ravel()) ** 2
    neighbour = power_law(fading, 1.1 * value) if value else stats.gamma(1.1, scale=1.0 / 1.1)
    assert stats.kstest(power, neighbour.cdf).pvalue < 1e-4


@pytest.mark.parametrize("fading", ["rayleigh", "nakagami"])
def test_phases_are_uniform(fading: str) -> None:
    phase = np.angle(taps(coherence="symbol", fading=fading).ravel())
    assert stats.kstest(phase, stats.uniform(-np.pi, 2.0 * np.pi).cdf).pvalue > 1e-4


def test_the_fixed_path_arrives_in_phase_at_all_antennas() -> None:
    h = taps(coherence="symbol", fading="rician", rician_k_db=3.0, num_antennas=3)
    k = 10.0**0.3
    mean = h.mean(axis=(0, 2))
    spread = ERRORS_OF_A_CHECK / np.sqrt((1.0 + k) * h[:, 0].size)
    assert (np.abs(mean - np.sqrt(k / (1.0 + k))) < spread).all()
    scattered = (h - np.sqrt(k / (1.0 + k))) * np.sqrt(1.0 + k)
    assert abs((scattered[:, 0] * scattered[:, 1].conj()).mean()) < ERRORS_OF_A_CHECK / np.sqrt(h[:, 0].size)


@pytest.mark.parametrize("coherence", ["packet", "round", "run"])
@pytest.mark.parametrize("fading", ["rayleigh", "rician", "nakagami"])
def test_one_key_is_one_value(coherence: str, fading: str) -> None:
    h = taps(fading=fading, coherence=coherence)
    assert np.array_equal(h, np.repeat(h[..., :1], h.shape[2], axis=2))
    assert len(np.unique(h)) == len(KEYS) * 2


def test_every_symbol_is_one_value() -> None:
    h = taps(fading="rayleigh", coherence="symbol")
    assert len(np.unique(h)) == h.size


def test_antennas_are_added_without_moving_the_first() -> None:
    few, many = taps(fading="rayleigh", num_antennas=2), taps(fading="rayleigh", num_antennas=4)
    assert np.array_equal(many[:, :2], few)


def amplitude_at(m: float, word: NDArray[np.uint32]) -> NDArray[np.float64]:
    zero = np.zeros_like(word)
    return np.abs(table_taps((word, zero), quantile_table(Nakagami(nakagami_m=m))).numpy().astype(complex))


@pytest.mark.parametrize("m", [0.5, 0.51, 0.75, 1.0, 1.7, 4.0, 20.0, 100.0])
def test_nakagami_amplitude_inverts_its_distribution_from_the_first_word_to_the_last(m: float) -> None:
    ends = np.unique(np.round(np.geomspace(1, 2.0**31 - 1, 4000))).astype(np.uint32)
    word = np.concatenate([[np.uint32(0)], ends, np.uint32(0xFFFFFFFF) - ends, [np.uint32(0xFFFFFFFF)]]).astype(
        np.uint32
    )
    tail = (np.minimum(word, ~word).astype(float) + 0.5) * 2.0**-32
    law = stats.gamma(m, scale=1.0 / m)
    exact = np.sqrt(np.where(word < 1 << 31, law.ppf(tail), law.isf(tail)))
    # Interpolation 1.5e-7, float32 rounding of the coefficients and of the logarithm 1e-6 relative.
    np.testing.assert_allclose(amplitude_at(m, word), exact, rtol=3e-6)


def test_nakagami_deep_fades_have_their_diversity() -> None:
    """P(|h|^2 < x) tends to (m x)^m / Gamma(m + 1): a table that ended early would have a floor."""
    for m in (0.5, 2.0):
        deepest = float(amplitude_at(m, np.array([0], np.uint32))[0])
        assert stats.gamma(m, scale=1.0 / m).cdf(deepest**2) == pytest.approx(2.0**-33, rel=1e-5)


def test_the_fast_path_draws_nakagami_fading_of_the_same_law() -> None:
    config = link_config(fading="nakagami", coherence="symbol", channel={"nakagami_m": 0.8, "gain": 3.0})
    which = FlatChannel(config, num_devices=2, num_symbols=4096, packet_symbols=64)
    block, numbers = which.numbers.feed()
    h = draw_taps(which.spec, *which.rows(context()), np.uint32(0), block, numbers)[0].numpy().astype(complex) / 3.0
    assert stats.kstest(np.abs(h.ravel()) ** 2, power_law("nakagami", 0.8).cdf).pvalue > 1e-4
    assert abs(np.vdot(h[0], h[1])) / 4096 < ERRORS_OF_A_CHECK / np.sqrt(4096)


def test_another_shape_needs_no_other_code() -> None:
    specs = {
        FlatChannel(
            link_config(fading="nakagami", channel={"nakagami_m": m}), num_devices=1, num_symbols=64, packet_symbols=64
        ).spec
        for m in (0.5, 1.0, 7.0)
    }
    assert len(specs) == 1


@pytest.mark.parametrize("m", [0.5, 3.0])
def test_a_link_over_nakagami_fading_errs_as_the_closed_form_says(m: float) -> None:
    """QPSK at Es/N0 = P0 / (2 N0), and the analytic error model knows the same rate."""
    num_blocks, num_bits = 64, 16384
    payload = random_payload(num_blocks, 1, num_bits)
    rates = {}
    for error_model in ("measured", "analytic"):
        config = link_config(
            snr_max_db=8.0,
            fading="nakagami",
            coherence="symbol",
            channel={"nakagami_m": m},
            error_model=error_model,
        )
        uplink = compile_digital(config, num_devices=1, num_bits=num_bits)
        rates[error_model] = uplink.send(payload, context=context(num_blocks), caps={}).counts.bit_error_rate
    esno = 10.0**0.8 / 2.0
    expected = float(fading_bit_error_rate(esno, bits_per_symbol=2, mgf=Nakagami(nakagami_m=m).mgf))
    rayleigh = float(fading_bit_error_rate(esno, bits_per_symbol=2))
    for rate in rates.values():
        assert abs(standard_errors_off(rate, expected)) < ERRORS_OF_A_CHECK
        assert abs(standard_errors_off(rate, rayleigh)) > 20.0
