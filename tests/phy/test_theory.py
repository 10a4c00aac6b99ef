"""Closed forms against slower, independent ways to the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

from phy.theory import awgn_bit_error_rate, fading_bit_error_rate

EVERY_ORDER = (1, 2, 4, 6, 8)
ESNO = 10.0 ** (np.array([-10.0, -3.0, 0.0, 7.0, 13.0, 20.0]) / 10.0)


def enumerated_bit_error_rate(esno: float, bits_per_symbol: int) -> float:
    """Sum over sent and decided PAM levels of transition probability times differing Gray bits."""
    axis_bits = max(bits_per_symbol // 2, 1)
    levels = np.arange(2**axis_bits)
    gray = levels ^ (levels >> 1)
    energy = (4.0**axis_bits - 1.0) / 3.0 * (1 if bits_per_symbol == 1 else 2)
    position = (2.0 * levels - (len(levels) - 1)) / np.sqrt(energy)
    edges = np.concatenate([[-np.inf], (position[1:] + position[:-1]) / 2.0, [np.inf]])
    cumulative = special.ndtr((edges[None, :] - position[:, None]) * np.sqrt(2.0 * esno))
    differing = np.bitwise_count(gray[:, None] ^ gray[None, :])
    return float((np.diff(cumulative, axis=1) * differing).sum(axis=1).mean() / axis_bits)


@pytest.mark.parametrize("bits_per_symbol", EVERY_ORDER)
def test_awgn_rate_equals_the_enumeration_of_transitions(bits_per_symbol: int) -> None:
    exact = [enumerated_bit_error_rate(esno, bits_per_symbol) for esno in ESNO]
    found = awgn_bit_error_rate(ESNO, bits_per_symbol=bits_per_symbol)
    # The enumeration subtracts distribution functions near 1: exact to 1e-15 absolute.
    np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("bits_per_symbol", EVERY_ORDER)
def test_without_signal_half_of_the_bits_are_wrong(bits_per_symbol: int) -> None:
    # Exact in real arithmetic; the sum of a few weights rounds at 1e-16.
    assert awgn_bit_error_rate(0.0, bits_per_symbol=bits_per_symbol) == pytest.approx(0.5, abs=1e-14)
    assert fading_bit_error_rate(0.0, bits_per_symbol=bits_per_symbol) == pytest.approx(0.5, abs=1e-10)


def test_rayleigh_bpsk_is_the_textbook_formula() -> None:
    expected = 0.5 * (1.0 - np.sqrt(ESNO / (1.0 + ESNO)))
    np.testing.assert_allclose(fading_bit_error_rate(ESNO, bits_per_symbol=1), expected, rtol=1e-9)


def test_rayleigh_qpsk_is_bpsk_at_half_the_symbol_energy() -> None:
    np.testing.assert_allclose(
        fading_bit_error_rate(ESNO, bits_per_symbol=2),
        fading_bit_error_rate(ESNO / 2.0, bits_per_symbol=1),
        rtol=1e-12,
    )


@pytest.mark.parametrize("rician_k", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("bits_per_symbol", EVERY_ORDER)
def test_fading_rate_is_the_awgn_rate_averaged_over_the_power_gain(bits_per_symbol: int, rician_k: float) -> None:
    """|h|^2 = chi2(2, 2K) / (2 (1 + K)), integrated by adaptive quadrature."""
    power_gain = stats.ncx2(2, 2.0 * rician_k) if rician_k else stats.chi2(2)
    for esno in (1.0, 10.0, 100.0):

        def integrand(x: float, esno: float = esno) -> float:
            rate = awgn_bit_error_rate(esno * x / (2.0 * (1.0 + rician_k)), bits_per_symbol=bits_per_symbol)
            return float(rate * power_gain.pdf(x))

        pieces = [(0.0, 0.1), (0.1, 1.0), (1.0, 10.0), (10.0, 120.0)]
        exact = sum(integrate.quad(integrand, low, high, epsrel=1e-9)[0] for low, high in pieces)
        found = fading_bit_error_rate(esno, bits_per_symbol=bits_per_symbol, rician_k=rician_k)
        assert found == pytest.approx(exact, rel=1e-6)  # the adaptive quadrature, cut at 120, is good to 1e-8


@pytest.mark.parametrize("bits_per_symbol", EVERY_ORDER)
def test_rician_with_strong_fixed_path_tends_to_awgn(bits_per_symbol: int) -> None:
    """The power gain has variance (2K + 1)/(1 + K)^2, so the difference falls as 1/K."""
    awgn = awgn_bit_error_rate(3.0, bits_per_symbol=bits_per_symbol)
    gaps = [
        abs(fading_bit_error_rate(3.0, bits_per_symbol=bits_per_symbol, rician_k=k) / awgn - 1.0)
        for k in (100.0, 1000.0)
    ]
    assert gaps[1] < gaps[0] / 5.0  # a tenth, up to terms of second order
    assert gaps[1] < 0.02  # (Es/N0)^2 / K = 0.009 for BPSK, less for the others


@pytest.mark.parametrize("bits_per_symbol", EVERY_ORDER)
def test_rayleigh_has_diversity_one(bits_per_symbol: int) -> None:
    """At high SNR ten decibels buy one decade; the next term is of order 1/SNR, here 1e-3 relative."""
    rates = fading_bit_error_rate(np.array([1e5, 1e6]), bits_per_symbol=bits_per_symbol)
    assert rates[0] / rates[1] == pytest.approx(10.0, rel=5e-3)


@pytest.mark.parametrize("bits_per_symbol", EVERY_ORDER)
def test_fading_never_helps_at_high_snr(bits_per_symbol: int) -> None:
    rates = [
        float(fading_bit_error_rate(1e3, bits_per_symbol=bits_per_symbol, rician_k=k))
        for k in (0.0, 1.0, 10.0, 100.0)
    ]
    assert rates == sorted(rates, reverse=True)


def test_shapes_are_kept_and_unknown_constellations_refused() -> None:
    assert fading_bit_error_rate(np.ones((2, 3)), bits_per_symbol=4).shape == (2, 3)
    assert awgn_bit_error_rate(np.ones((2, 3)), bits_per_symbol=4).shape == (2, 3)
    with pytest.raises(ValueError, match="3 bits per symbol has no closed form here; use 1, 2, 4, 6 or 8"):
        awgn_bit_error_rate(1.0, bits_per_symbol=3)
