"""Constellations: 3GPP labels, unit energy, Gray, and decisions that are the nearest point."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from radio import MODULATIONS

from phy.coding.modulation import modulator, pack_bits, unpack_bits
from phy.config import BITS_PER_SYMBOL


def standard_symbols(bits: NDArray[np.uint8], bits_per_symbol: int) -> NDArray[np.complex128]:
    """TS 38.211 5.1.3-5.1.6 written out (BPSK: bit 0 to +1), the oracle; `bits` `[n, bits_per_symbol]`."""
    sign = 1.0 - 2.0 * bits.astype(float)
    if bits_per_symbol == 1:
        return sign[:, 0].astype(complex)

    def axis(offset: int) -> NDArray[np.float64]:
        own = sign[:, offset::2]
        level = own[:, -1]
        for step, column in zip((2, 4, 8), reversed(range(own.shape[1] - 1)), strict=False):
            level = own[:, column] * (step - level)
        return level

    scale = {2: 2, 4: 10, 6: 42, 8: 170}[bits_per_symbol]
    return (axis(0) + 1j * axis(1)) / np.sqrt(scale)


def all_labels(bits_per_symbol: int) -> NDArray[np.uint8]:
    numbers = np.arange(2**bits_per_symbol)[:, None]
    return ((numbers >> np.arange(bits_per_symbol - 1, -1, -1)) & 1).astype(np.uint8)


def modulate(modulation: str, bits: NDArray[np.uint8]) -> NDArray[np.complex64]:
    """Symbols of `[n, bits_per_symbol]` bits, through packed bytes."""
    num_symbols = len(bits)
    symbols = modulator(modulation).modulate(tf.constant(np.packbits(bits.ravel())))
    return symbols.numpy()[:num_symbols]


def constellation(modulation: str) -> NDArray[np.complex64]:
    """Every point, the label being the index; eight copies so that whole bytes travel."""
    labels = all_labels(BITS_PER_SYMBOL[modulation])
    return modulate(modulation, np.tile(labels, (8, 1)))[: len(labels)]


@pytest.mark.parametrize("modulation", MODULATIONS)
def test_symbols_are_those_of_ts_38_211(modulation: str) -> None:
    bits_per_symbol = BITS_PER_SYMBOL[modulation]
    exact = standard_symbols(all_labels(bits_per_symbol), bits_per_symbol)
    # Both are the same formula, one in float32: an error of a few 2^-24.
    assert np.abs(constellation(modulation) - exact).max() < 1e-6


@pytest.mark.parametrize("modulation", MODULATIONS)
def test_symbols_are_those_of_the_sionna_mapper(modulation: str) -> None:
    from sionna.phy.mapping import BinarySource, Mapper

    bits_per_symbol = BITS_PER_SYMBOL[modulation]
    bits = BinarySource(seed=1)([24 * bits_per_symbol])
    mapper = Mapper("pam" if bits_per_symbol == 1 else "qam", bits_per_symbol)
    ours = modulate(modulation, bits.numpy().astype(np.uint8).reshape(-1, bits_per_symbol))
    assert np.array_equal(ours, mapper(bits).numpy())


@pytest.mark.parametrize("modulation", MODULATIONS)
def test_average_energy_is_one(modulation: str) -> None:
    # Float32 rounding of at most 256 points: far below 1e-6.
    assert np.mean(np.abs(constellation(modulation)) ** 2) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("modulation", MODULATIONS)
def test_nearest_neighbours_differ_in_one_bit(modulation: str) -> None:
    points = constellation(modulation)
    labels = np.arange(len(points))
    distance = np.abs(points[:, None] - points[None, :]) + np.where(np.eye(len(points)), np.inf, 0.0)
    first, second = np.nonzero(distance < distance.min() * 1.001)
    assert len(first) >= len(points)
    assert (np.bitwise_count(labels[first] ^ labels[second]) == 1).all()


@pytest.mark.parametrize("modulation", MODULATIONS)
def test_without_noise_every_bit_comes_back(modulation: str) -> None:
    payload = tf.constant(np.random.default_rng(1).integers(0, 256, (3, 2, 96), dtype=np.uint8))
    modem = modulator(modulation)
    symbols = modem.modulate(payload)
    assert symbols.shape == (3, 2, 96 * 8 // modem.bits_per_symbol)
    assert np.array_equal(modem.detect(symbols), payload)


@pytest.mark.parametrize("modulation", MODULATIONS)
def test_decisions_are_the_nearest_point(modulation: str) -> None:
    rng = np.random.default_rng(2)
    noisy = (rng.normal(size=4800) + 1j * rng.normal(size=4800)).astype(np.complex64)
    points = constellation(modulation)
    distance = np.sort(np.abs(noisy[:, None] - points[None, :]), axis=1)
    clear = distance[:, 1] - distance[:, 0] > 1e-5  # a tie within float32 rounding may go either way
    assert clear.mean() > 0.99
    nearest = np.abs(noisy[:, None] - points[None, :]).argmin(axis=1)
    found = np.unpackbits(modulator(modulation).detect(tf.constant(noisy)).numpy())
    bits_per_symbol = BITS_PER_SYMBOL[modulation]
    expected = all_labels(bits_per_symbol)[nearest]
    assert np.array_equal(found.reshape(-1, bits_per_symbol)[clear], expected[clear])


@pytest.mark.parametrize("modulation", MODULATIONS)
def test_decisions_are_those_of_the_sionna_demapper(modulation: str) -> None:
    from sionna.phy.mapping import Demapper

    rng = np.random.default_rng(3)
    bits_per_symbol = BITS_PER_SYMBOL[modulation]
    noisy = (rng.normal(size=2400) + 1j * rng.normal(size=2400)).astype(np.complex64)
    demapper = Demapper("maxlog", "pam" if bits_per_symbol == 1 else "qam", bits_per_symbol, hard_out=True)
    expected = demapper(tf.constant(noisy), tf.constant(1.0)).numpy().astype(np.uint8)
    found = np.unpackbits(modulator(modulation).detect(tf.constant(noisy)).numpy())
    # Both decide in float32; symbols within rounding of a boundary may differ: at most one in 2400.
    assert (found != expected).sum() <= 1


def test_unpacking_and_packing_are_those_of_numpy() -> None:
    every_byte = np.arange(256, dtype=np.uint8).reshape(4, 64)
    bits = np.unpackbits(every_byte, axis=-1)
    assert np.array_equal(unpack_bits(tf.constant(every_byte)), bits)
    assert np.array_equal(pack_bits(tf.constant(bits.astype(np.int32))), every_byte)


def test_a_modulator_is_built_once() -> None:
    assert modulator("16qam") is modulator("16qam")
