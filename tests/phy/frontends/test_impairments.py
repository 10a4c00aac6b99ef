"""Transmitter impairments, against waveforms written out in NumPy and against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, standard_errors_off
from scipy import special, stats

from phy.config import ImpairmentsConfig, OfdmConfig
from phy.frontends.impairments import draw_offsets, impair_grid, impair_stream

OFDM = OfdmConfig(num_subcarriers=24, cyclic_prefix_length=5, guard_carriers=(2, 1), subcarrier_spacing_hz=15e3)
SAMPLE_S = 1.0 / (24 * 15e3)
FULL = OfdmConfig(num_subcarriers=256, cyclic_prefix_length=16)


def keys(rows: int, users: int, *, seed: int = 4) -> NDArray[np.uint32]:
    return np.random.default_rng(seed).integers(0, 2**32, (rows, users, 2), dtype=np.uint32)


def complex_normals(*shape: int, seed: int = 1) -> NDArray[np.complex64]:
    draws = np.random.default_rng(seed).normal(scale=np.sqrt(0.5), size=(2, *shape))
    return (draws[0] + 1j * draws[1]).astype(np.complex64)


def impaired(grid: NDArray[np.complex64], key: NDArray[np.uint32], ofdm: OfdmConfig = OFDM, **wrong: Any) -> Any:
    """`impair_grid` under XLA, as every link runs it."""
    import tensorflow as tf

    more = {name: wrong.pop(name) for name in ("symbol_index", "sample_power") if name in wrong}
    config = ImpairmentsConfig(**wrong)

    def call(sent: Any, key: Any) -> Any:
        offsets = draw_offsets(key, config=config, sample_s=ofdm.sample_s, carrier_hz=ofdm.subcarrier_spacing_hz)
        return impair_grid(sent, offsets, config=config, ofdm=ofdm, **more)

    return tf.function(call, jit_compile=True)(grid, key).numpy()


def impaired_stream(symbols: NDArray[np.complex64], key: NDArray[np.uint32], **wrong: Any) -> Any:
    import tensorflow as tf

    start, block = wrong.pop("start", None), wrong.pop("block", None)
    config = ImpairmentsConfig(**wrong)

    def call(sent: Any, key: Any) -> Any:
        offsets = draw_offsets(key, config=config, sample_s=1e-6, block=block)
        return impair_stream(sent, offsets, config=config, start=start)

    return tf.function(call, jit_compile=True)(symbols, key).numpy()


def turns(key: NDArray[np.uint32], **wrong: Any) -> tuple[Any, ...]:
    """(phase, turns per carrier, turns per sample) drawn for OFDM, signed float64."""
    offsets = draw_offsets(key, config=ImpairmentsConfig(**wrong), sample_s=SAMPLE_S, carrier_hz=15e3)
    whole = (None if each is None else each.numpy() for each in offsets)
    return tuple(
        each.astype(float) if each is None or each.dtype != np.uint32 else each.view(np.int32) / 2.0**32
        for each in (np.zeros(1) if each is None else each for each in whole)
    )


def through_time(grid: NDArray[np.complex64], ofdm: OfdmConfig, change: Any) -> NDArray[np.complex128]:
    """One device's waveform `[ofdm_symbols, prefix + size]` written out, changed, and transformed back."""
    size, prefix = ofdm.num_subcarriers, ofdm.cyclic_prefix_length
    samples = np.fft.ifft(np.fft.ifftshift(grid.astype(complex), axes=-1), axis=-1) * np.sqrt(size)
    waveform = np.concatenate([samples[:, size - prefix :], samples], axis=-1)
    changed = change(waveform.ravel()).reshape(waveform.shape)
    return np.asarray(np.fft.fftshift(np.fft.fft(changed[:, prefix:], axis=-1), axes=-1) / np.sqrt(size))


def test_ideal_transmitters_leave_the_grid_untouched() -> None:
    grid = complex_normals(2, 3, 4, 24)
    assert np.array_equal(impaired(grid, keys(2, 3)), grid)
    assert np.array_equal(impaired_stream(grid[:, :, 0], keys(2, 3), timing_offset_s=1e-6), grid[:, :, 0])


def test_a_frequency_offset_turns_the_waveform_sample_by_sample() -> None:
    grid, key = complex_normals(2, 3, 6, 24), keys(2, 3)
    found = impaired(grid, key, cfo_hz=3e3)
    per_sample = turns(key, cfo_hz=3e3)[2]
    assert np.abs(per_sample).max() > 0.003  # 3 kHz of 360 kHz are 0.0083
    for row, user in np.ndindex(2, 3):
        expected = through_time(
            grid[row, user],
            OFDM,
            lambda wave, eps=per_sample[row, user]: wave * np.exp(2j * np.pi * eps * np.arange(wave.size)),
        )
        np.testing.assert_allclose(found[row, user], expected, atol=5e-6)
        # Planted: the common rotation alone, without leakage between carriers, is no good description.
        common = grid[row, user] * np.exp(2j * np.pi * per_sample[row, user] * (29 * np.arange(6)[:, None] + 16.5))
        assert np.abs(found[row, user] - common).max() > 1e-3


def test_a_frequency_offset_goes_on_where_the_last_symbols_ended() -> None:
    grid, key = complex_normals(1, 2, 6, 24), keys(1, 2)
    whole = impaired(grid, key, cfo_hz=1e4)
    later = impaired(grid[:, :, 4:], key, cfo_hz=1e4, symbol_index=np.array([4, 5], np.uint32))
    np.testing.assert_allclose(later, whole[:, :, 4:], atol=2e-6)


def test_a_frequency_offset_is_exact_after_a_million_symbols() -> None:
    """In single precision 3e7 samples of some kHz would have lost the phase altogether."""
    grid, key = complex_normals(1, 1, 1, 24), keys(1, 1)
    found = impaired(grid, key, cfo_hz=3e3, symbol_index=np.array([1_000_000], np.uint32))
    word = int(draw_offsets(key, config=ImpairmentsConfig(cfo_hz=3e3), sample_s=SAMPLE_S).frequency.numpy()[0, 0])
    passed = word * 29 * 1_000_000 % 2**32 / 2.0**32
    first = through_time(
        grid[0, 0],
        OFDM,
        lambda wave: wave * np.exp(2j * np.pi * (passed + word / 2.0**32 * np.arange(wave.size))),
    )
    np.testing.assert_allclose(found[0, 0], first, atol=5e-6)


def test_a_timing_offset_delays_the_waveform_within_the_prefix() -> None:
    """A delay by whole samples, written as a shift of the periodic waveform; by fractions, as a ramp."""
    grid, key = complex_normals(2, 3, 2, 24), keys(2, 3)
    found = impaired(grid, key, timing_offset_s=5 * SAMPLE_S)
    tau = -turns(key, timing_offset_s=5 * SAMPLE_S)[1] / 15e3
    assert (tau >= 0).all()
    assert (tau <= 5 * SAMPLE_S).all()
    assert tau.max() > 2 * SAMPLE_S
    ramp = np.exp(-2j * np.pi * (np.arange(24) - 12) * 15e3 * tau[..., None, None])
    np.testing.assert_allclose(found, grid * ramp, atol=2e-6)
    shifted = through_time(grid[0, 0], OFDM, lambda wave: np.roll(wave.reshape(2, 29), 3, axis=1).ravel())
    by_ramp = grid[0, 0] * np.exp(-2j * np.pi * (np.arange(24) - 12) * 3 / 24)
    np.testing.assert_allclose(shifted, by_ramp, atol=1e-6)


def test_offsets_follow_their_laws() -> None:
    wrong = {"phase_error_deg": 20.0, "timing_offset_s": 1e-6, "cfo_hz": 500.0}
    phase, delay, frequency = turns(keys(50, 80), **wrong)
    assert stats.kstest(phase.ravel() * 360.0, "norm", args=(0.0, 20.0)).pvalue > 1e-4
    assert stats.kstest(-delay.ravel() / 15e3, "uniform", args=(0.0, 1e-6)).pvalue > 1e-4
    assert stats.kstest(frequency.ravel() / SAMPLE_S, "uniform", args=(-500.0, 1000.0)).pvalue > 1e-4
    for first, second in ((phase[..., 0], delay), (delay, frequency), (frequency, phase[..., 0])):
        assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < ERRORS_OF_A_CHECK / np.sqrt(4000)


@pytest.mark.parametrize("degrees", [10.0, 40.0])
def test_a_residual_phase_shrinks_the_mean_by_its_characteristic_function(degrees: float) -> None:
    """E exp(j phi) = exp(-s^2 / 2), Var = 1 - exp(-s^2), for phi ~ N(0, s^2)."""
    spread = np.deg2rad(degrees)
    for arrived in (
        impaired(np.ones((200, 40, 1, 24), np.complex64), keys(200, 40), phase_error_deg=degrees)[..., 0, 7],
        impaired_stream(
            np.ones((20, 4, 100), np.complex64), keys(20, 4), phase_error_deg=degrees, block=np.arange(100, dtype="u4")
        ),
    ):
        assert abs(standard_errors_off(arrived.real, np.exp(-(spread**2) / 2))) < ERRORS_OF_A_CHECK
        assert abs(standard_errors_off(arrived.imag, 0.0)) < ERRORS_OF_A_CHECK
        error = np.abs(arrived - np.exp(-(spread**2) / 2)) ** 2
        assert abs(standard_errors_off(error, 1.0 - np.exp(-(spread**2)))) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize("clipping_db", [-3.0, 0.0, 3.0])
def test_clipping_a_gaussian_envelope_has_the_gain_of_bussgang(clipping_db: float) -> None:
    """Samples of many carriers are Gaussian: with g the limit over the RMS, y = a x + d, d orthogonal to x and

    a = 1 - exp(-g^2) + sqrt(pi)/2 g erfc(g),  E|y|^2 = 1 - exp(-g^2)

    (Rowe, "Memoryless nonlinearities with Gaussian inputs", BSTJ 1982). QPSK on 256 carriers is Gaussian to O(1/256).
    """
    rng = np.random.default_rng(3)
    grid = (rng.choice([-1, 1], (60, 1, 14, 256)) + 1j * rng.choice([-1, 1], (60, 1, 14, 256))) / np.sqrt(2.0)
    found = impaired(grid.astype(np.complex64), keys(60, 1), FULL, clipping_db=clipping_db)
    g = 10.0 ** (clipping_db / 20.0)
    expected = 1 - np.exp(-(g**2)) + np.sqrt(np.pi) / 2 * g * special.erfc(g)
    gain = np.real(found * grid.conj()).mean(axis=(1, 2, 3))  # of one packet; |grid|^2 = 1
    power = (np.abs(found) ** 2).mean(axis=(1, 2, 3))
    assert gain.mean() == pytest.approx(expected, abs=2e-3)  # 1/256 of the curvature of the law
    assert power.mean() == pytest.approx(1 - np.exp(-(g**2)), abs=3e-3)


def test_the_amplifier_clips_above_the_power_named() -> None:
    grid, key = complex_normals(2, 2, 3, 24), keys(2, 2)
    untouched = impaired(grid, key, clipping_db=0.0, sample_power=np.full((2, 2), 1e3, np.float32))
    np.testing.assert_allclose(untouched, grid, atol=2e-6)
    limited = impaired(grid, key, clipping_db=3.0, sample_power=np.full((2, 2), 0.1, np.float32))
    envelope = np.abs(np.fft.ifft(limited, axis=-1) * np.sqrt(24))
    assert envelope.max() == pytest.approx(np.sqrt(0.1 * 10.0**0.3), rel=1e-5)


def test_a_single_carrier_turns_steadily_and_is_clipped_symbol_by_symbol() -> None:
    symbols, key = complex_normals(2, 3, 50), keys(2, 3)
    found = impaired_stream(symbols, key, cfo_hz=1e4, start=np.uint32(9))
    word = draw_offsets(key, config=ImpairmentsConfig(cfo_hz=1e4), sample_s=1e-6).frequency.numpy()
    angle = 2 * np.pi * word.view(np.int32)[..., None] / 2.0**32 * (9 + np.arange(50))
    np.testing.assert_allclose(found, symbols * np.exp(1j * angle), atol=2e-6)
    clipped = impaired_stream(symbols, key, clipping_db=1.0)
    limit = np.sqrt((np.abs(symbols) ** 2).mean(axis=-1, keepdims=True) * 10.0**0.1)
    np.testing.assert_allclose(clipped, symbols * np.minimum(limit / np.abs(symbols), 1.0), atol=1e-6)


def test_impairments_of_a_row_do_not_depend_on_its_batch() -> None:
    wrong = {"phase_error_deg": 5.0, "timing_offset_s": 1e-6, "cfo_hz": 2e3, "clipping_db": 2.0}
    grid, key = complex_normals(7, 3, 5, 24), keys(7, 3)
    whole = impaired(grid, key, **wrong)
    order = [6, 0, 3, 3, 1, 2, 5]
    assert np.array_equal(impaired(grid[order], key[order], **wrong), whole[order])
