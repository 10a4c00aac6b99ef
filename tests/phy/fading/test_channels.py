"""Flat fading: the law of the taps, how long they hold, and what the transmitter knows of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import context, link_config
from scipy import stats

from phy.config import LinkConfig
from phy.config.power import power_policies
from phy.fading.block_taps import CHUNK_SYMBOLS, FlatChannel, UplinkContext, draw_taps, precoding_weights

NUM_SYMBOLS = 1 << 14


def channel(config: LinkConfig, *, num_devices: int = 1, num_symbols: int = NUM_SYMBOLS) -> FlatChannel:
    return FlatChannel(config, num_devices=num_devices, num_symbols=num_symbols, packet_symbols=64)


def taps(which: FlatChannel, where: UplinkContext, *, start: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """(h, h^) `[num_trials * num_devices, columns]` of one chunk, uncompiled."""
    block, numbers = which.numbers.feed()
    found = draw_taps(which.spec, *which.rows(where), np.uint32(start), block, numbers)
    return found[0].numpy(), found[1].numpy()


def test_awgn_and_constant_taps_are_the_gain() -> None:
    for model in ("awgn", "flat"):
        config = link_config(channel={"model": model, "gain": (0.5, 2.0)})
        h, estimate = taps(channel(config, num_devices=2), context(3))
        assert np.array_equal(h[:, 0], np.tile(np.array([0.5, 2.0], np.complex64), 3))
        assert np.array_equal(h, estimate)


def test_rayleigh_power_gains_are_exponential_and_phases_uniform() -> None:
    config = link_config(fading="rayleigh", coherence="symbol", channel={"gain": 0.04})
    h = taps(channel(config), context())[0][0].astype(complex) / 0.04
    # p of a correct generator is uniform: below 1e-4 once in 10 000 seeds, and the seed is fixed.
    assert stats.kstest(np.abs(h) ** 2, "expon").pvalue > 1e-4
    assert stats.kstest(np.angle(h), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-4


@pytest.mark.parametrize("rician_k_db", [-3.0, 6.0, 20.0])
def test_rician_power_gains_are_noncentral_chi_square_of_unit_mean(rician_k_db: float) -> None:
    config = link_config(fading="rician", coherence="symbol", channel={"rician_k_db": rician_k_db})
    h = taps(channel(config), context())[0][0].astype(complex)
    k = 10.0 ** (rician_k_db / 10.0)
    law = stats.ncx2(2, 2.0 * k, scale=1.0 / (2.0 * (1.0 + k)))
    assert law.mean() == pytest.approx(1.0)
    assert stats.kstest(np.abs(h) ** 2, law.cdf).pvalue > 1e-4  # as above
    # The fixed path has phase 0: the mean tap is sqrt(K / (K+1)), scattered part 1 / (K+1); k = 4.
    scattered = 1.0 / (1.0 + k)
    assert abs(h.mean() - np.sqrt(k / (k + 1.0))) < 4.0 * np.sqrt(scattered / h.size)


def changes(values: NDArray[Any]) -> NDArray[np.intp]:
    """Places along the row at which a new value begins."""
    return np.flatnonzero(np.diff(values) != 0.0) + 1


def test_symbol_coherence_draws_a_tap_for_every_symbol() -> None:
    h = taps(channel(link_config(fading="rayleigh", coherence="symbol")), context())[0][0]
    assert len(changes(h)) == NUM_SYMBOLS - 1


def test_packet_coherence_holds_a_tap_for_a_packet() -> None:
    which = channel(link_config(fading="rayleigh", coherence="packet", csi_error=0.1))
    for row in (taps(which, context())[0][0], taps(which, context())[1][0]):
        assert np.array_equal(changes(row), np.arange(64, NUM_SYMBOLS, 64))


def test_packets_keep_their_tap_across_chunks() -> None:
    which = channel(link_config(fading="rayleigh", coherence="packet"), num_symbols=1000)
    whole = taps(which, context())[0][0]
    later = taps(which, context(), start=100)[0][0]
    assert np.array_equal(later[: 1000 - 100], whole[100:1000])


@pytest.mark.parametrize("coherence", ["symbol", "packet", "round"])
def test_another_round_is_another_fade(coherence: str) -> None:
    which = channel(link_config(fading="rayleigh", coherence=coherence, csi_error=0.1))
    here, there = taps(which, context(round_index=0)), taps(which, context(round_index=1))
    assert not np.isclose(here[0], there[0]).any()
    assert not np.isclose(here[1] - here[0], there[1] - there[0]).any()


def test_run_coherence_holds_a_tap_and_its_estimate_for_every_round() -> None:
    which = channel(link_config(fading="rayleigh", coherence="run", csi_error=0.1), num_devices=3)
    first, later = taps(which, context(2, round_index=0)), taps(which, context(2, round_index=77))
    assert np.array_equal(first, later)
    assert len(np.unique(first[0])) == 6


@pytest.mark.parametrize("coherence", ["round", "run"])
def test_one_tap_for_the_round_costs_one_draw(coherence: str) -> None:
    which = channel(link_config(fading="rayleigh", coherence=coherence), num_symbols=10 * CHUNK_SYMBOLS)
    assert taps(which, context(4))[0].shape == (4, 1)


def test_devices_trials_and_seeds_fade_independently() -> None:
    which = channel(link_config(fading="rayleigh", coherence="symbol"), num_devices=3)
    rows = np.concatenate([taps(which, context(2))[0], taps(which, context(2, seed=5))[0]])
    correlation = np.abs(rows @ rows.conj().T) / NUM_SYMBOLS
    # |corr|^2 n is exponential of mean 1 for independent rows; 66 pairs, k^2 = 16: one seed in 10^5.
    assert (correlation[np.triu_indices(len(rows), 1)] < 4.0 / np.sqrt(NUM_SYMBOLS)).all()


def test_the_estimation_error_is_independent_and_of_the_variance_asked_for() -> None:
    config = link_config(fading="rayleigh", coherence="symbol", csi_error=0.05, channel={"gain": 3.0})
    h, estimate = (row[0].astype(complex) for row in taps(channel(config), context()))
    error = (estimate - h) / 3.0
    # |e|^2 is exponential: its mean has the standard error v / sqrt(n); k = 4 throughout.
    assert abs((np.abs(error) ** 2).mean() - 0.05) < 4.0 * 0.05 / np.sqrt(error.size)
    assert abs(np.vdot(h / 3.0, error) / error.size) < 4.0 * np.sqrt(0.05 / error.size)


def test_perfect_knowledge_is_the_tap_itself() -> None:
    h, estimate = taps(channel(link_config(fading="rayleigh", coherence="symbol")), context())
    assert np.array_equal(h, estimate)


@pytest.mark.parametrize("policy", ["fixed", "inversion", "truncated-inversion"])
def test_precoding_compensates_the_phase(policy: str) -> None:
    rng = np.random.default_rng(1)
    estimate = (rng.normal(size=(4, 64)) + 1j * rng.normal(size=(4, 64))).astype(np.complex64)
    gain = np.array([0.5, 1.0, 2.0, 4.0], np.float32)
    weights = precoding_weights(estimate, gain, np.float32(0.1), power_policies[policy]()).numpy()
    reached = estimate * weights
    speaks = np.abs(weights) > 0.0
    # One division in float32.
    assert np.abs(reached.imag[speaks] / reached.real[speaks]).max() < 1e-6
    if policy == "fixed":
        np.testing.assert_allclose(np.abs(weights), 1.0, rtol=1e-6)
    else:
        np.testing.assert_allclose(reached[speaks].real, 1.0, rtol=1e-6)
    if policy == "truncated-inversion":
        assert np.array_equal(speaks, np.abs(estimate) ** 2 >= 0.1 * gain[:, None] ** 2)
    else:
        assert speaks.all()


@pytest.mark.parametrize("coherence", ["symbol", "packet", "round"])
@pytest.mark.parametrize("policy", ["fixed", "inversion", "truncated-inversion"])
def test_power_control_sees_the_gains_of_the_whole_block(policy: str, coherence: str) -> None:
    """Against the definition in NumPy, for a block that fills no chunk evenly."""
    num_symbols = 1001
    config = link_config(
        fading="rayleigh", coherence=coherence, policy=policy, csi_error=0.05, channel={"gain": (0.5, 2.0)}
    )
    which = channel(config, num_devices=2, num_symbols=num_symbols)
    seen = which.block_gains(context(3))
    _, estimate = taps(which, context(3))
    estimate = np.broadcast_to(estimate, (6, estimate.shape[1] if which.varies else num_symbols))
    weights = precoding_weights(
        estimate, np.tile([0.5, 2.0], 3).astype(np.float32), np.float32(0.1), power_policies[policy]()
    ).numpy()[:, :num_symbols]
    reached = np.abs(estimate[:, :num_symbols] * weights)
    # Float32 sums of 1001 positive terms.
    np.testing.assert_allclose(seen.weight_power.ravel(), (np.abs(weights) ** 2).mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(seen.gain_sum.ravel(), reached.sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(seen.gain_peak.ravel(), reached.max(axis=1), rtol=1e-6)
    assert np.array_equal(seen.active_symbols.ravel(), (reached > 0.0).sum(axis=1))


def test_power_control_sees_a_block_of_many_chunks() -> None:
    num_symbols = CHUNK_SYMBOLS + 1000
    which = channel(link_config(fading="rayleigh", coherence="symbol"), num_symbols=num_symbols)
    seen = which.block_gains(context())
    h = np.concatenate([taps(which, context(), start=start)[0][0] for start in (0, CHUNK_SYMBOLS)])
    # Under fixed power |h^ w| = |h^|; float32 sums within each chunk.
    assert seen.gain_sum[0, 0] == pytest.approx(np.abs(h[:num_symbols]).sum(dtype=float), rel=1e-5)
    assert seen.active_symbols[0, 0] == num_symbols


def test_a_list_of_gains_must_name_every_device() -> None:
    with pytest.raises(ValueError, match="gain has length 2, num_devices is 3"):
        channel(link_config(channel={"gain": (1.0, 2.0)}), num_devices=3)
