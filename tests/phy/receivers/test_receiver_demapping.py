"""Soft bits: those of Sionna's demapper, decisions that are the nearest point, and silence that says nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from radio import MODULATIONS

from phy.config import BITS_PER_SYMBOL
from phy.receivers.build import label_errors
from phy.receivers.demapping import SoftSymbols, bit_llrs, constellation_points, nearest_points


def noisy_symbols(count: int = 4000) -> tuple[NDArray[np.complex64], NDArray[np.float32]]:
    rng = np.random.default_rng(5)
    estimate = (rng.normal(size=count) + 1j * rng.normal(size=count)).astype(np.complex64)
    return estimate, 10.0 ** rng.uniform(-2.0, 1.0, count).astype(np.float32)


def soft(estimate: NDArray[Any], variance: NDArray[Any]) -> SoftSymbols:
    return SoftSymbols(
        tf.constant((estimate / variance).astype(np.complex64)), tf.constant((1.0 / variance).astype(np.float32))
    )


def sionna_llrs(modulation: str, demapper: str) -> NDArray[np.float32]:
    from sionna.phy.mapping import Demapper

    bits = BITS_PER_SYMBOL[modulation]
    estimate, variance = noisy_symbols()
    block = Demapper(demapper, "pam" if bits == 1 else "qam", bits)
    return np.asarray(block(tf.constant(estimate), tf.constant(variance)))


@pytest.mark.parametrize("demapper", ["app", "maxlog"])
@pytest.mark.parametrize("modulation", MODULATIONS)
def test_llrs_are_those_of_the_sionna_demapper(modulation: str, demapper: str) -> None:
    found = bit_llrs(soft(*noisy_symbols()), modulation=modulation, demapper=demapper).numpy()
    # Both are differences of float32 exponents up to |x^ - x|^2 / v < 4000: a few 2^-24 of that.
    assert np.abs(found - sionna_llrs(modulation, demapper)).max() < 4000 * 2.0**-22


@pytest.mark.parametrize("modulation", [m for m in MODULATIONS if m != "bpsk"])
def test_swapped_label_bits_do_not_pass_for_the_sionna_demapper(modulation: str) -> None:
    bits = BITS_PER_SYMBOL[modulation]
    found = bit_llrs(soft(*noisy_symbols()), modulation=modulation, demapper="app").numpy().reshape(-1, bits)
    swapped = found[:, [1, 0, *range(2, bits)]].ravel()
    assert np.abs(swapped - sionna_llrs(modulation, "app")).max() > 1.0


@pytest.mark.parametrize("modulation", MODULATIONS)
def test_decisions_are_the_nearest_point(modulation: str) -> None:
    estimate, variance = noisy_symbols()
    points = constellation_points(BITS_PER_SYMBOL[modulation])
    distance = np.abs(estimate[:, None] - points[None, :])
    two_nearest = np.sort(distance, axis=1)[:, :2]
    clear = two_nearest[:, 1] - two_nearest[:, 0] > 1e-5  # a tie within float32 rounding may go either way
    assert clear.mean() > 0.99
    nearest = distance.argmin(axis=1)
    symbols = soft(estimate, variance)
    assert np.allclose(nearest_points(symbols, modulation=modulation).numpy()[clear], points[nearest][clear], atol=1e-6)
    bits = BITS_PER_SYMBOL[modulation]
    labels = (nearest[:, None] >> np.arange(bits - 1, -1, -1)) & 1
    found = bit_llrs(symbols, modulation=modulation, demapper="maxlog").numpy().reshape(-1, bits) > 0
    assert np.array_equal(found[clear], labels[clear] == 1)


@pytest.mark.parametrize("demapper", ["app", "maxlog"])
@pytest.mark.parametrize("modulation", MODULATIONS)
def test_llrs_of_silence_are_zero(modulation: str, demapper: str) -> None:
    nothing = SoftSymbols(tf.zeros([2, 5], tf.complex64), tf.zeros([2, 5]))
    llrs = bit_llrs(nothing, modulation=modulation, demapper=demapper).numpy()
    assert llrs.shape == (2, 5 * BITS_PER_SYMBOL[modulation])
    assert (llrs == 0.0).all()


@pytest.mark.parametrize("snr_db", [-120.0, 120.0])
@pytest.mark.parametrize("modulation", MODULATIONS)
def test_llrs_stay_finite_and_right_at_any_snr(modulation: str, snr_db: float) -> None:
    bits = BITS_PER_SYMBOL[modulation]
    points = constellation_points(bits)
    symbols = soft(points, np.full(len(points), 10.0 ** (-snr_db / 10.0)))
    llrs = bit_llrs(symbols, modulation=modulation, demapper="app").numpy().reshape(-1, bits)
    assert np.isfinite(llrs).all()
    if snr_db > 0:
        labels = (np.arange(len(points))[:, None] >> np.arange(bits - 1, -1, -1)) & 1
        assert np.array_equal(llrs > 0, labels == 1)


def test_label_errors_are_counted_by_position() -> None:
    sent = tf.constant([[[0, 1, 1, 0, 1, 1]]], tf.int32)
    llrs = tf.constant([[[-1.0, -2.0, 3.0, 0.5, 1.0, -1.0]]])
    assert label_errors(llrs, sent, bits_per_symbol=2).numpy().tolist() == [[[0, 3]]]
    assert label_errors(llrs, sent, bits_per_symbol=3).numpy().tolist() == [[[1, 1, 1]]]
