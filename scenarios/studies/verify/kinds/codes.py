"""Bounds on coded error rates: what no code can beat, and what Viterbi decoding cannot miss."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import log2, sqrt
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from phy.config import BITS_PER_SYMBOL
from scenarios.studies.verify.check import Reference
from scenarios.studies.verify.expected import EXPECTED, Decibels, Expected

if TYPE_CHECKING:
    from scenarios.studies.link.plan import Curve, LinkPoint


class _Bound(Expected):
    """A bound on the error rate of a code over BPSK or QPSK without fading."""

    of_link = True
    within_db: Decibels

    @staticmethod
    def snr(curve: Curve, esno_db: float) -> float:
        """Return amplitude^2 over noise variance of one coded bit."""
        link = curve.link
        if link.bits_per_symbol > 2 or link.channel.fades:
            raise ValueError("bounds of codes are for BPSK and QPSK over AWGN")
        return 2.0 / BITS_PER_SYMBOL[link.modulation] * float(10.0 ** (esno_db / 10.0))


@EXPECTED.register
class FiniteLength(_Bound):
    """The normal approximation to the best code of this length: not better, and at most `within_db` worse."""

    kind: Literal["finite-length"]

    def references(self, curve: Curve, point: LinkPoint) -> Sequence[Reference]:
        """See `Expected`."""
        from phy.coding.plan import plan_packet

        link = curve.link
        payload_bits = 8 * link.packet_size_bytes
        crc = link.packets.crc_name(payload_bits)
        plan = plan_packet(link.coding, payload_bits=payload_bits, bits_per_symbol=link.bits_per_symbol, crc=crc)

        def rate(shift_db: float) -> float:
            return best_packet_error_rate(
                self.snr(curve, point.esno_db + shift_db),
                coded_bits=plan.coded_bits,
                information_bits=payload_bits + plan.crc_bits,
            )

        return (Reference(what="PER, best code", packets=True, rate=rate, worse_db=self.within_db),)


@EXPECTED.register
class UnionBound(_Bound):
    """Union bound of Viterbi decoding on the bit error rate: not worse, and at most `within_db` better.

    `bit_weights`: information bits on all paths of weight `free_distance`, `free_distance + 2`, and so on.
    """

    kind: Literal["union-bound"]
    free_distance: Annotated[int, Field(ge=1)]
    bit_weights: Annotated[tuple[int, ...], Field(min_length=1)]

    def references(self, curve: Curve, point: LinkPoint) -> Sequence[Reference]:
        """See `Expected`."""

        def rate(shift_db: float) -> float:
            snr = self.snr(curve, point.esno_db + shift_db)
            return union_bound(snr, free_distance=self.free_distance, bit_weights=self.bit_weights)

        return (Reference(what="BER, union bound", packets=False, rate=rate, better_db=self.within_db),)


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
