"""Closed forms against slower, independent ways to the same numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from known_rates import sic_bit_error_rates
from numpy.typing import NDArray
from radio import standard_errors_off
from scipy import integrate, special, stats

from phy.fading.laws.nakagami import Nakagami
from phy.measure.theory import Mgf, awgn_bit_error_rate, fading_bit_error_rate, rician_mgf

EVERY_ORDER = (1, 2, 4, 6, 8)
ESNO = 10.0 ** (np.array([-10.0, -3.0, 0.0, 7.0, 13.0, 20.0]) / 10.0)


def rician(k: float) -> Mgf:
    return partial(rician_mgf, k=k)


def nakagami(m: float) -> Mgf:
    """The formula for any m, also above the largest that a scenario may have."""
    return Nakagami.model_construct(nakagami_m=m).mgf


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
        found = fading_bit_error_rate(esno, bits_per_symbol=bits_per_symbol, mgf=rician(rician_k))
        assert found == pytest.approx(exact, rel=1e-6)  # the adaptive quadrature, cut at 120, is good to 1e-8


@pytest.mark.parametrize("bits_per_symbol", EVERY_ORDER)
def test_rician_with_strong_fixed_path_tends_to_awgn(bits_per_symbol: int) -> None:
    """The power gain has variance (2K + 1)/(1 + K)^2, so the difference falls as 1/K."""
    awgn = awgn_bit_error_rate(3.0, bits_per_symbol=bits_per_symbol)
    gaps = [
        abs(fading_bit_error_rate(3.0, bits_per_symbol=bits_per_symbol, mgf=rician(k)) / awgn - 1.0)
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
        float(fading_bit_error_rate(1e3, bits_per_symbol=bits_per_symbol, mgf=rician(k)))
        for k in (0.0, 1.0, 10.0, 100.0)
    ]
    assert rates == sorted(rates, reverse=True)


def test_shapes_are_kept_and_unknown_constellations_refused() -> None:
    assert fading_bit_error_rate(np.ones((2, 3)), bits_per_symbol=4).shape == (2, 3)
    assert awgn_bit_error_rate(np.ones((2, 3)), bits_per_symbol=4).shape == (2, 3)
    with pytest.raises(ValueError, match="3 bits per symbol has no closed form here; use 1, 2, 4, 6 or 8"):
        awgn_bit_error_rate(1.0, bits_per_symbol=3)


def gamma_average(rate_at: Callable[[float], float], shape: float) -> float:
    """E[rate_at(x)] for x ~ Gamma(shape, 1), by adaptive quadrature in ln x, where nothing is singular."""

    def integrand(log_x: float) -> float:
        density = np.exp(shape * log_x - np.exp(log_x) - special.gammaln(shape))
        return float(rate_at(np.exp(log_x)) * density)

    # Below ln x = -30 / shape lies e^-30, beyond x = 200 e^-150 of the law.
    ends = np.concatenate([np.linspace(-30.0 / shape, 0.0, 6), [1.5, 3.0, np.log(200.0)]])
    return sum(integrate.quad(integrand, low, high, epsrel=1e-10)[0] for low, high in itertools.pairwise(ends))


@pytest.mark.parametrize("m", [0.5, 0.75, 2.0, 3.5])
@pytest.mark.parametrize("num_antennas", [1, 3])
def test_nakagami_rate_is_the_awgn_rate_averaged_over_a_gamma_law(m: float, num_antennas: int) -> None:
    """L antennas see the sum of L powers Gamma(m, 1/m), which is Gamma(L m, 1/m)."""
    for bits_per_symbol, esno in ((1, 0.3), (2, 10.0), (4, 100.0)):
        exact = gamma_average(
            lambda x, b=bits_per_symbol, e=esno: float(awgn_bit_error_rate(e * x / m, bits_per_symbol=b)),
            m * num_antennas,
        )
        found = fading_bit_error_rate(esno, bits_per_symbol=bits_per_symbol, mgf=nakagami(m), num_antennas=num_antennas)
        assert found == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("bits_per_symbol", EVERY_ORDER)
def test_nakagami_with_shape_one_is_rayleigh(bits_per_symbol: int) -> None:
    for num_antennas in (1, 4):
        np.testing.assert_allclose(
            fading_bit_error_rate(ESNO, bits_per_symbol=bits_per_symbol, mgf=nakagami(1.0), num_antennas=num_antennas),
            fading_bit_error_rate(ESNO, bits_per_symbol=bits_per_symbol, num_antennas=num_antennas),
            rtol=1e-12,
        )


def test_nakagami_with_large_shape_tends_to_awgn() -> None:
    """The power has variance 1 / m, so the difference falls as 1 / m."""
    awgn = awgn_bit_error_rate(3.0, bits_per_symbol=2)
    gaps = [abs(fading_bit_error_rate(3.0, bits_per_symbol=2, mgf=nakagami(m)) / awgn - 1.0) for m in (100.0, 1000.0)]
    assert gaps[1] < gaps[0] / 5.0  # a tenth, up to terms of second order


def test_combining_rayleigh_antennas_is_the_textbook_formula() -> None:
    """Proakis, Digital Communications, (14.4-15): BPSK over L branches."""
    for num_antennas in (1, 2, 4, 8):
        mu = np.sqrt(ESNO / (1.0 + ESNO))
        series = sum(special.binom(num_antennas - 1 + k, k) * ((1.0 + mu) / 2.0) ** k for k in range(num_antennas))
        expected = ((1.0 - mu) / 2.0) ** num_antennas * series
        found = fading_bit_error_rate(ESNO, bits_per_symbol=1, num_antennas=num_antennas)
        # The textbook's 1 - mu cancels: 1e-16 / (1 - mu) relative per power, at most 8 / 0.005 of it.
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_combining_rician_antennas_averages_over_the_noncentral_chi_square_of_all() -> None:
    num_antennas, k, esno = 3, 2.0, 4.0
    total = stats.ncx2(2 * num_antennas, 2.0 * k * num_antennas)

    def integrand(x: float) -> float:
        return float(awgn_bit_error_rate(esno * x / (2.0 * (1.0 + k)), bits_per_symbol=4) * total.pdf(x))

    exact = integrate.quad(integrand, 0.0, 120.0, epsrel=1e-10, limit=200)[0]
    found = fading_bit_error_rate(esno, bits_per_symbol=4, mgf=rician(k), num_antennas=num_antennas)
    assert found == pytest.approx(exact, rel=1e-7)
    # The same energy at one antenna is worth less: a formula that forgot the branches would fail here.
    assert abs(float(fading_bit_error_rate(3 * esno, bits_per_symbol=4, mgf=rician(k))) / exact - 1.0) > 0.1


@pytest.mark.parametrize("num_antennas", [1, 2, 4])
@pytest.mark.parametrize(("mgf", "order"), [(rician(0.0), 1.0), (rician(1.0), 1.0), (nakagami(1.5), 1.5)])
def test_slope_at_high_snr_is_the_diversity_order(num_antennas: int, mgf: Mgf, order: float) -> None:
    rates = fading_bit_error_rate(np.array([1e5, 1e6]), bits_per_symbol=2, num_antennas=num_antennas, mgf=mgf)
    # Terms of order L / SNR relative.
    assert np.log10(rates[0] / rates[1]) == pytest.approx(order * num_antennas, rel=1e-3)


def test_antennas_over_awgn_add_their_snr() -> None:
    together = awgn_bit_error_rate(ESNO, bits_per_symbol=4, num_antennas=4)
    np.testing.assert_array_equal(together, awgn_bit_error_rate(4.0 * ESNO, bits_per_symbol=4))


def cancelled(
    first_esno: float, second_esno: float, bits_per_symbol: int, *, genie: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Errors per symbol of both users, simulated with complex noise of power one; `genie` subtracts what was sent."""
    rng = np.random.default_rng(11)
    num_symbols, axes = 400_000, bits_per_symbol
    scale = np.array([np.sqrt(first_esno), np.sqrt(second_esno)])[:, None, None] / np.sqrt(axes)
    bits = rng.integers(0, 2, (2, num_symbols, axes))
    sent = scale * (1.0 - 2.0 * bits)
    received = sent.sum(axis=0) + rng.normal(scale=np.sqrt(0.5), size=(num_symbols, axes))
    decided = received < 0.0
    cleaned = received - (sent[0] if genie else scale[0] * (1.0 - 2.0 * decided))
    return (decided != bits[0]).mean(axis=1), ((cleaned < 0.0) != bits[1]).mean(axis=1)


@pytest.mark.parametrize("bits_per_symbol", [1, 2])
@pytest.mark.parametrize(("first_esno", "second_esno"), [(4.0, 1.0), (10.0, 2.0), (3.0, 3.0), (1.0, 4.0), (8.0, 0.1)])
def test_cancellation_errs_as_simulated(bits_per_symbol: int, first_esno: float, second_esno: float) -> None:
    expected = sic_bit_error_rates(first_esno, second_esno, bits_per_symbol=bits_per_symbol)
    for simulated, rate in zip(cancelled(first_esno, second_esno, bits_per_symbol), expected, strict=True):
        # k = 4: one check in 16 000 fails by chance, and the seed is fixed.
        assert abs(standard_errors_off(simulated, float(rate))) < 4.0


def test_the_simulation_distinguishes_cancellation_from_a_genie() -> None:
    expected = sic_bit_error_rates(4.0, 1.0, bits_per_symbol=1)
    assert abs(standard_errors_off(cancelled(4.0, 1.0, 1, genie=True)[1], float(expected[1]))) > 20.0


def test_cancellation_without_the_other_user_is_that_user_alone() -> None:
    for bits_per_symbol in (1, 2):
        alone = awgn_bit_error_rate(ESNO, bits_per_symbol=bits_per_symbol)
        np.testing.assert_allclose(sic_bit_error_rates(ESNO, 0.0, bits_per_symbol=bits_per_symbol)[0], alone)
        # A first user far stronger is always decided right.
        np.testing.assert_allclose(sic_bit_error_rates(1e6, ESNO, bits_per_symbol=bits_per_symbol)[1], alone)
