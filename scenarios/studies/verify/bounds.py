"""What no code can beat, and what Viterbi decoding cannot miss: bounds on error rates, as closed forms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import exp, log2, sqrt

import numpy as np
from numpy.typing import NDArray


def best_packet_error_rate(snr: float, *, coded_bits: int, information_bits: int) -> float:
    """Normal approximation to the smallest block error rate of any binary code over the real AWGN channel.

        Q((n C - k + log2(n) / 2) / sqrt(n V))

    with C and V the mean and variance of 1 - log2(1 + exp(-L)), L ~ N(2 s, 4 s), at `snr` s = amplitude^2 over noise
    variance of one coded bit (Polyanskiy, Poor and Verdu, "Channel coding rate in the finite blocklength regime", IEEE
    Trans. Inf. Theory 2010, (223) with the term of their (296)). The mean is taken by Gauss-Hermite with 120 nodes.
    """
    from scipy import special

    nodes, weights = _gauss_hermite()
    llr = 2.0 * snr + 2.0 * np.sqrt(snr) * nodes
    density = 1.0 - np.logaddexp(0.0, -llr) / np.log(2.0)
    capacity = float(weights @ density)
    dispersion = float(weights @ (density - capacity) ** 2)
    margin = coded_bits * capacity - information_bits + log2(coded_bits) / 2.0
    return float(special.ndtr(-margin / sqrt(coded_bits * dispersion)))


@cache
def _gauss_hermite() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of the mean over N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    return nodes, weights / weights.sum()


def union_bound(snr: float, *, free_distance: int, bit_weights: Sequence[int]) -> float:
    """Union bound on the bit error rate of a terminated or endless rate 1/v code: sum_d B_d Q(sqrt(d s)).

    `snr` s = amplitude^2 over noise variance of a coded bit; `bit_weights` B_d for d = free_distance, + 2, and so on
    (Viterbi, "Convolutional codes and their performance in communication systems", IEEE Trans. Commun. 1971).
    """
    from scipy import special

    weights = np.arange(len(bit_weights)) * 2 + free_distance
    return float(min(np.asarray(bit_weights, float) @ special.ndtr(-np.sqrt(weights * snr)), 0.5))


def log_linear(x: float, points: Sequence[tuple[float, float]]) -> float:
    """exp of the straight lines through (x, log y), the first and last of them prolonged; at most 1."""
    at, logs = np.array(points).T[0], np.log(np.array(points).T[1])
    piece = int(np.clip(np.searchsorted(at, x) - 1, 0, len(at) - 2))
    slope = (logs[piece + 1] - logs[piece]) / (at[piece + 1] - at[piece])
    return min(exp(logs[piece] + slope * (x - at[piece])), 1.0)
