"""Formulas behind the tables of the reference checks, each an error rate at Es/N0 [dB] or at an SNR of coded bits."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from phy.config import CRC_BITS, LinkConfig
from phy.config.delays import interference_share, power_delay_profile
from phy.measure.theory import awgn_bit_error_rate


def linear(decibels: float) -> float:
    """Return 10^(dB / 10)."""
    return float(10.0 ** (decibels / 10.0))


def coded_snr(link: LinkConfig, esno_db: float) -> float:
    """Return amplitude^2 over noise variance of one coded bit, of BPSK or QPSK without fading."""
    assert link.bits_per_symbol <= 2
    assert not link.channel.fades
    return 2.0 / link.bits_per_symbol * linear(esno_db)


def best_packet_error_rate(snr: float, *, coded_bits: int, information_bits: int) -> float:
    """Normal approximation to the smallest block error rate of any binary code over the real AWGN channel.

        Q((n C - k + log2(n) / 2) / sqrt(n V))

    with C and V the mean and variance of 1 - log2(1 + exp(-L)), L ~ N(2 s, 4 s), at `snr` s = amplitude^2 over noise
    variance of one coded bit (Polyanskiy, Poor and Verdu, "Channel coding rate in the finite blocklength regime", IEEE
    Trans. Inf. Theory 2010, (223) with the term of their (296)). The mean is taken by Gauss-Hermite with 120 nodes.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    density = 1.0 - np.logaddexp(0.0, -2.0 * snr - 2.0 * np.sqrt(snr) * nodes) / np.log(2.0)
    capacity = float(weights @ density)
    dispersion = float(weights @ (density - capacity) ** 2)
    margin = coded_bits * capacity - information_bits + log2(coded_bits) / 2.0
    return float(special.ndtr(-margin / sqrt(coded_bits * dispersion)))


def union_bound(snr: float, *, free_distance: int, bit_weights: Sequence[int]) -> float:
    """Union bound on the bit error rate of a terminated or endless rate 1/v code: sum_d B_d Q(sqrt(d s)).

    `snr` s = amplitude^2 over noise variance of a coded bit; `bit_weights` B_d for d = free_distance, + 2, and so on
    (Viterbi, "Convolutional codes and their performance in communication systems", IEEE Trans. Commun. 1971).
    """
    weights = np.arange(len(bit_weights)) * 2 + free_distance
    return float(min(np.asarray(bit_weights, float) @ special.ndtr(-np.sqrt(weights * snr)), 0.5))


def residual_packet_error_rate(link: LinkConfig, esno_db: float) -> float:
    """PER^(n+1) of uncoded packets sent up to n times again over AWGN, PER over payload and CRC."""
    bits = 8 * link.packet_size_bytes
    crc = link.packets.crc_name(bits)
    wrong = awgn_bit_error_rate(linear(esno_db), bits_per_symbol=link.bits_per_symbol)
    once = -np.expm1((bits + (CRC_BITS[crc] if crc else 0)) * np.log1p(-wrong))
    return float(once ** (1 + link.packets.max_retransmissions))


def sic_bit_error_rates(
    first_esno: ArrayLike, second_esno: ArrayLike, *, bits_per_symbol: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """BER of two superposed users under symbol-level successive cancellation over AWGN, elementwise.

    Both send BPSK or both QPSK (`bits_per_symbol` 1 or 2) and arrive in phase, with energies over the complex noise
    power `first_esno` and `second_esno` (linear). The first is decided with the second as interference, subtracted as
    decided, wrong decisions included, and then the second is decided. On each axis y = a b1 + c b2 + n with b = +-1;
    with a and c in units of the noise's standard deviation, averaging over b2 and over the decision on b1 gives

        P1 = [Q(a+c) + Q(a-c)] / 2
        P2 = [2 Q(c) - Q(a+c) + Q(2a+c) + Q(a-c) - Q(2a-c)] / 2

    (the way of Kara and Kaya, "BER performances of downlink and uplink NOMA in the presence of SIC errors over fading
    channels", IET Commun. 2018, before the average over fading). Exact for any pair of powers; detection in this order
    makes sense where the first is the stronger.
    """
    # A real axis has half of the complex noise power, and for QPSK half of the symbol's energy.
    a, c = (np.sqrt(2.0 / bits_per_symbol * np.asarray(esno, float)) for esno in (first_esno, second_esno))

    def tail(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(special.ndtr(-x))

    first = (tail(a + c) + tail(a - c)) / 2.0
    second = (2.0 * tail(c) - tail(a + c) + tail(2.0 * a + c) + tail(a - c) - tail(2.0 * a - c)) / 2.0
    return first, second


def cancellation_rate(link: LinkConfig, esno_db: float, *, device: int) -> float:
    """Exact bit error rate of one of two users under successive cancellation over AWGN."""
    energies = linear(esno_db) * np.array(link.noma.power_shares)
    return float(sic_bit_error_rates(*energies, bits_per_symbol=link.bits_per_symbol)[device])


def esno_with_interference_db(link: LinkConfig, esno_db: float) -> float:
    """Es over noise and the interference that `phyloop check` predicts for a prefix too short [dB]."""
    assert link.ofdm != "none"
    delays, powers = power_delay_profile(link.channel.model)
    useful_s, delays_s = 1.0 / link.ofdm.subcarrier_spacing_hz, delays * link.channel.delay_spread_s
    share = interference_share(delays_s, powers, prefix_s=link.ofdm.prefix_s, useful_s=useful_s)
    return float(-10.0 * np.log10(1.0 / linear(esno_db) + share))
