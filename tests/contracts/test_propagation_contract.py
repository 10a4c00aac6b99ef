"""Contract of every propagation: power, independence, determinism, declared correlations."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import frequency_correlation

from phy.config import ChannelConfig
from phy.config.fading import fading_laws
from phy.fading.build import build_propagation
from phy.numerics.random import threefry
from phy.stages import Propagation

MOVING: dict[str, Any] = {"speed_m_s": 30.0}
CHANNELS: dict[str, dict[str, Any]] = {
    "awgn": {"model": "awgn"},
    **{f"{word}, symbol": {"fading": word, "coherence": "symbol"} for word in fading_laws.words()},
    "rayleigh, round": {"fading": "rayleigh"},
    "rayleigh, doppler": {"fading": "rayleigh", "coherence": "doppler", **MOVING},
    "rician, packet": {"fading": "rician", "rician_k_db": 3.0, "coherence": "packet"},
    "rician, doppler": {"fading": "rician", "rician_k_db": 3.0, "coherence": "doppler", **MOVING},
    "nakagami, run": {"fading": "nakagami", "nakagami_m": 0.7, "coherence": "run"},
    "tdl-a": {"model": "tdl-a", **MOVING},
    "tdl-c, still": {"model": "tdl-c"},
    "tdl-e": {"model": "tdl-e", **MOVING},
    "cdl-b": {"model": "cdl-b", **MOVING},
    "cdl-d": {"model": "cdl-d", **MOVING},
    "cdl-e, still": {"model": "cdl-e"},
}
ANTENNAS = 2
ROWS = 1536
INSTANTS = np.array([0.0, 2e-4, 1e-3, 4e-3], np.float32)

ERRORS_OF_A_CHECK = 4.0
"""k: a measured mean lies within k standard errors; a correct program fails one check in 16 000, seeds are fixed."""


LATER = {"tdl-c, still", "cdl-d", "cdl-e, still", "rician, symbol", "nakagami, run"}
"""Others of their kinds are among the quick tests."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(one, marks=pytest.mark.slow) if one in LATER else one for one in CHANNELS],
)
def name(request: pytest.FixtureRequest) -> str:
    """Of the module, so that all tests of a channel follow each other and share what is drawn."""
    return str(request.param)


def propagation(name: str) -> Propagation:
    return build_propagation(ChannelConfig(**CHANNELS[name]), num_antennas=ANTENNAS)


def some_keys(rows: int, *, stream: int = 0) -> NDArray[np.uint32]:
    """Distinct keys `[rows, 2]`, as different as packets' keys are."""
    row = np.arange(rows, dtype=np.uint32)
    return np.stack(threefry((np.uint32(2022), np.uint32(stream)), (row, np.zeros_like(row))), axis=1)


def standard_errors_off(samples: NDArray[np.floating], expected: float) -> float:
    """Distance of the mean of independent samples from `expected`, in standard errors."""
    flat = np.asarray(samples, float).ravel()
    return float((flat.mean() - expected) / (flat.std(ddof=1) / np.sqrt(flat.size)))


def taps(which: Propagation, keys: NDArray[np.uint32], instants: NDArray[np.float32]) -> NDArray[np.complex64]:
    """`[rows, antennas, paths, instants]` for one list of instants, or one per row."""
    import tensorflow as tf

    each = np.broadcast_to(instants, (len(keys), instants.shape[-1]))
    found: NDArray[np.complex64] = which.taps(tf.constant(keys), tf.constant(each)).numpy()
    return found


@lru_cache(maxsize=32)
def drawn(name: str) -> NDArray[np.complex64]:
    found = taps(propagation(name), some_keys(ROWS), INSTANTS)
    found.setflags(write=False)
    return found


def test_shapes_and_types_are_those_of_the_interface(name: str) -> None:
    which = propagation(name)
    paths = len(which.delays_s)
    assert which.num_antennas == ANTENNAS
    assert drawn(name).shape == (ROWS, ANTENNAS, paths, len(INSTANTS))
    assert drawn(name).dtype == np.complex64
    assert which.powers.shape == (paths,)
    assert which.delays_s[0] == 0.0
    assert (which.delays_s >= 0.0).all()
    assert which.powers.sum() == pytest.approx(1.0, abs=1e-12)


def test_every_antenna_has_unit_mean_power_split_as_declared(name: str) -> None:
    power = np.abs(drawn(name).astype(complex)) ** 2
    declared = propagation(name).powers
    if power.std() < 1e-6:
        np.testing.assert_allclose(power, 1.0)
        return
    for antenna in range(ANTENNAS):
        assert abs(standard_errors_off(power[:, antenna].sum(axis=1).mean(axis=-1), 1.0)) < ERRORS_OF_A_CHECK
    for path, expected in enumerate(declared):
        # One sample per row: antennas and instants of a row need not be independent.
        off = standard_errors_off(power[:, :, path].mean(axis=(1, 2)), expected)
        assert abs(off) < ERRORS_OF_A_CHECK + 0.5  # some 150 paths in all


def test_the_power_check_sees_a_path_stronger_by_a_decibel(name: str) -> None:
    power = np.abs(drawn(name).astype(complex)) ** 2 * 10.0**0.1
    if power.std() < 1e-6:
        return
    assert abs(standard_errors_off(power.sum(axis=2).mean(axis=(1, 2)), 1.0)) > ERRORS_OF_A_CHECK


def test_a_row_does_not_depend_on_its_batch(name: str) -> None:
    which, keys = propagation(name), some_keys(ROWS)
    some = np.array([5, 1000, 17, 18, 19, 900, 77, 0])
    alone = taps(which, keys[some], INSTANTS)
    assert np.array_equal(alone, drawn(name)[some])


def test_another_key_is_another_fade(name: str) -> None:
    h = drawn(name)[:, 0]
    if not ChannelConfig(**CHANNELS[name]).fades:
        assert (h == 1.0).all()
        return
    # In cdl-d and cdl-e one path holds most of the power in a phase that all keys share; the others differ.
    assert len(np.unique(h[:, -1, 0])) == ROWS
    assert not np.array_equal(taps(propagation(name), some_keys(8, stream=1), INSTANTS), drawn(name)[:8])


def test_instants_are_evaluated_one_by_one(name: str) -> None:
    """Chunks of a packet meet the channel of the whole packet (new draws per symbol: a packet is one call)."""
    which, keys = propagation(name), some_keys(8)
    if "symbol" in name:
        whole = taps(which, keys, np.arange(9, dtype=np.float32))
        assert np.array_equal(taps(which, keys, np.arange(5, dtype=np.float32)), whole[..., :5])
        return
    grid = np.linspace(0.0, 3.0, 101, dtype=np.float32)
    whole = taps(which, keys, grid)
    # float32 sums of 65 waves at most; a wave's phase is good to 1e-6.
    np.testing.assert_allclose(taps(which, keys, grid[64:]), whole[..., 64:], atol=1e-5)
    shuffled = np.random.default_rng(3).permutation(101)
    np.testing.assert_allclose(taps(which, keys, grid[shuffled]), whole[..., shuffled], atol=1e-5)


def test_each_row_has_its_own_time(name: str) -> None:
    which, keys = propagation(name), some_keys(8)
    starts = np.array([0.0, 1.0, 0.25, 60.0, 2.0, 3.0, 4.0, 5.0], np.float32)[:, None]
    together = taps(which, keys, starts + INSTANTS)
    for row in range(4):
        assert np.array_equal(together[row], taps(which, keys, starts[row] + INSTANTS)[row])


def autocorrelation(name: str, lag: int) -> NDArray[np.complex128]:
    """h(t) conj(h(t + lag)) summed over uncorrelated paths, one sample per row (mean over antennas)."""
    h = drawn(name).astype(complex)
    return (h[..., 0] * h[..., lag].conj()).sum(axis=2).mean(axis=1)


def over_time(which: Propagation) -> NDArray[np.complex128]:
    """The declared correlation of the sum over uncorrelated paths."""
    return np.asarray(which.powers @ which.path_correlation(INSTANTS.astype(float)))


def test_every_path_has_the_correlation_it_declares(name: str) -> None:
    which, h = propagation(name), drawn(name).astype(complex)
    declared, lag = which.path_correlation(INSTANTS.astype(float)), len(INSTANTS) - 1
    for path in range(len(which.powers)):
        product = (h[:, :, path, 0] * h[:, :, path, lag].conj()).mean(axis=1) / which.powers[path]
        for measured, expected in ((product.real, declared[path, lag].real), (product.imag, declared[path, lag].imag)):
            if np.ptp(measured) < 1e-5:
                np.testing.assert_allclose(measured, expected, atol=2e-5)
            else:
                assert abs(standard_errors_off(measured, expected)) < ERRORS_OF_A_CHECK


def test_time_correlation_is_as_declared(name: str) -> None:
    declared = over_time(propagation(name))
    assert declared.dtype == np.complex128
    assert declared[0] == pytest.approx(1.0, abs=1e-9)
    for lag in range(1, len(INSTANTS)):
        product = autocorrelation(name, lag)
        for measured, expected in ((product.real, declared[lag].real), (product.imag, declared[lag].imag)):
            if np.ptp(measured) < 1e-5:
                np.testing.assert_allclose(measured, expected, atol=1e-5)
            else:
                assert abs(standard_errors_off(measured, expected)) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize("name", ["tdl-a", "tdl-e", "rician, doppler", "cdl-b"], scope="module")
def test_the_time_correlation_check_sees_ten_percent_of_speed(name: str) -> None:
    faster = build_propagation(ChannelConfig(**{**CHANNELS[name], "speed_m_s": 33.0}), num_antennas=ANTENNAS)
    declared = over_time(faster)
    off = [
        max(
            abs(standard_errors_off(autocorrelation(name, lag).real, declared[lag].real)),
            abs(standard_errors_off(autocorrelation(name, lag).imag, declared[lag].imag)),
        )
        for lag in range(1, len(INSTANTS))
    ]
    assert max(off) > ERRORS_OF_A_CHECK


@pytest.mark.parametrize("name", ["tdl-a", "tdl-e", "cdl-b", "cdl-d"], scope="module")
def test_frequency_correlation_is_the_transform_of_the_delay_profile(name: str) -> None:
    which = propagation(name)
    h = drawn(name)[..., 0].astype(complex)
    for offset_hz in (0.5e6, 2e6):
        carrier = h @ np.exp(-2j * np.pi * np.array([[0.0], [offset_hz]]) * which.delays_s).T
        product = (carrier[..., 0] * carrier[..., 1].conj()).mean(axis=1)
        expected = complex(frequency_correlation(which.delays_s, which.powers, offset_hz))
        assert abs(standard_errors_off(product.real, expected.real)) < ERRORS_OF_A_CHECK
        assert abs(standard_errors_off(product.imag, expected.imag)) < ERRORS_OF_A_CHECK
        wrong = complex(frequency_correlation(1.2 * which.delays_s, which.powers, offset_hz))
        if offset_hz == 2e6 and name in ("tdl-a", "cdl-b"):  # a direct path hides the others
            assert abs(standard_errors_off(product.real, wrong.real)) > ERRORS_OF_A_CHECK


@pytest.mark.parametrize(
    "name", [name for name in CHANNELS if name.startswith(("rayleigh", "nakagami", "tdl-a"))], scope="module"
)
def test_antennas_and_paths_fade_independently(name: str) -> None:
    h = drawn(name)[..., 0].astype(complex)
    h = h.reshape(ROWS, -1)
    power = np.abs(h) ** 2
    for series in (h / np.sqrt((power).mean(axis=0)), (power - power.mean(axis=0)) / power.std(axis=0)):
        correlation = np.abs(series.T @ series.conj()) / ROWS
        pairs = correlation[np.triu_indices(correlation.shape[0], 1)]
        # Of a thousand pairs the largest |corr| sqrt(n) of independent series is near 3.5 (real) or 2.7 (complex).
        assert pairs.max() * np.sqrt(ROWS) < 5.5


def test_values_without_effect_share_the_compiled_channel() -> None:
    one = ChannelConfig(model="tdl-a", gain=0.1, noise_power=2.0)
    assert build_propagation(one, num_antennas=2) is build_propagation(ChannelConfig(model="tdl-a"), num_antennas=2)
    assert build_propagation(one, num_antennas=2) is not build_propagation(one, num_antennas=1)
