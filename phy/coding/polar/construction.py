"""Construction of the 5G polar code of the uplink: information set, rate matching and interleavers of TS 38.212.

Standard `sionna` has the positions of Sionna's `Polar5GEncoder` 1.2.2. Where it punctures, it departs from 5.4.1.1
twice: the sub-block interleaver that names the frozen positions is no longer than what is left out, and one position
less is frozen before them. The three parity-check bits of 12 to 19 information bits are left out.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.coding.polar.sizes import parity_check_bits
from phy.config.coding import CodingStandard

_SMALLEST, _LARGEST = 5, 10
"""Exponents of the mother code's length in the uplink."""
_PUNCTURED = Fraction(7, 16)
"""Largest rate at which bits are punctured; above it they are shortened."""
_SUB_BLOCKS = (
    0, 1, 2, 4, 3, 5, 6, 7, 8, 16, 9, 17, 10, 18, 11, 19,
    12, 20, 13, 21, 14, 22, 15, 23, 24, 25, 26, 28, 27, 29, 30, 31,
)  # fmt: skip
"""Table 5.4.1.1-1."""


class PolarPlan(NamedTuple):
    """Positions of one code.

    - `information` `[K]`: ascending places of the message with its CRC among the N inputs of the mother code;
    - `parity` `[0 or 3]`: ascending places of parity-check bits among them;
    - `sent` `[coded bits]`: place among the N outputs of each bit on the air;
    - `shortened`: bits that are not sent are zero, else they are unknown.
    """

    length: int
    information: NDArray[np.int64]
    parity: NDArray[np.int64]
    sent: NDArray[np.int64]
    shortened: bool


@lru_cache(maxsize=64)
def plan_polar(protected_bits: int, coded_bits: int, *, standard: CodingStandard) -> PolarPlan:
    """Return the code of K = `protected_bits` >= 18, the CRC among them, and `coded_bits` from 18 to 8192.

    K and its parity-check bits must fit into `coded_bits`, and no more than 1024 can be free.
    """
    num_parity = parity_check_bits(protected_bits) if standard == "3gpp" else 0
    length = _mother_length(protected_bits, coded_bits)
    shortened = Fraction(protected_bits, coded_bits) > _PUNCTURED
    candidates = _reliability()
    candidates = candidates[candidates < length]
    if coded_bits < length:
        if shortened:
            frozen = _sub_block_interleaver(length)[coded_bits:]
        else:
            frozen = (_punctured if standard == "3gpp" else _punctured_by_sionna)(coded_bits, length)
        candidates = candidates[~np.isin(candidates, frozen)]
    free = candidates[len(candidates) - protected_bits - num_parity :]
    parity = _parity_positions(free, num_parity, by_weight=int(num_parity > 0 and coded_bits - protected_bits > 189))
    first = length - coded_bits if coded_bits < length and not shortened else 0
    circular = (first + _channel_interleaver(coded_bits)) % length
    return PolarPlan(
        length=length,
        information=np.setdiff1d(free, parity),
        parity=parity,
        sent=_sub_block_interleaver(length)[circular],
        shortened=shortened,
    )


def _mother_length(protected_bits: int, coded_bits: int) -> int:
    """Clause 5.3.1: the next power of two, or the one before if little is repeated; the rate is at least 1/8."""
    exponent = (coded_bits - 1).bit_length()
    if 8 * coded_bits <= 9 << (exponent - 1) and 16 * protected_bits < 9 * coded_bits:
        exponent -= 1
    return 1 << max(min(exponent, (8 * protected_bits - 1).bit_length(), _LARGEST), _SMALLEST)


def _parity_positions(free: NDArray[np.int64], count: int, *, by_weight: int) -> NDArray[np.int64]:
    """Clause 5.3.1.2, Q_PC of the `free` positions, the least reliable first; `by_weight` is n_PC^wm.

    The last `by_weight` of them have the smallest row weight, 2 to the number of ones of the position, among all
    positions but the `count` least reliable, and of those the greatest reliability.
    """
    least = free[: count - by_weight]
    others = free[count:][::-1]
    lightest = others[np.argsort(np.bitwise_count(others), kind="stable")[:by_weight]]
    return np.sort(np.concatenate([least, lightest]))


def _punctured(coded_bits: int, length: int) -> NDArray[np.int64]:
    """Clause 5.4.1.1: inputs frozen because outputs are punctured."""
    quarters = 3 * length - 2 * coded_bits if 4 * coded_bits >= 3 * length else 9 * length // 4 - coded_bits
    return np.concatenate([_sub_block_interleaver(length)[: length - coded_bits], np.arange(-(-quarters // 4))])


def _punctured_by_sionna(coded_bits: int, length: int) -> NDArray[np.int64]:
    """What Sionna 1.2.2 freezes instead."""
    missing = length - coded_bits
    punctured = _sub_block_interleaver(-(-missing // 32) * 32)[:missing]
    quarters = 3 * length - 2 * coded_bits if 4 * coded_bits >= 3 * length else 9 * length // 4 - coded_bits
    more = -(-quarters // 4) - 1
    return np.concatenate([punctured, np.arange(more)])


def _sub_block_interleaver(length: int) -> NDArray[np.int64]:
    """Clause 5.4.1.1."""
    places: NDArray[np.int64] = np.arange(length).reshape(32, -1)[np.array(_SUB_BLOCKS)].ravel()
    return places


def _channel_interleaver(coded_bits: int) -> NDArray[np.int64]:
    """Clause 5.4.1.3: a triangle written row by row and read column by column."""
    side = 1
    while side * (side + 1) < 2 * coded_bits:
        side += 1
    triangle = np.full((side, side), coded_bits)
    rows, columns = np.nonzero(np.arange(side)[:, None] + np.arange(side) < side)
    triangle[rows, columns] = np.arange(len(rows))
    read = triangle.T.ravel()
    return read[read < coded_bits]


@lru_cache(maxsize=1)
def _reliability() -> NDArray[np.int64]:
    """Table 5.3.1.2-1: positions of the longest mother code, the least reliable first."""
    lines = files("phy.coding.polar").joinpath("reliability.csv").read_text().splitlines()
    return np.loadtxt(lines, np.int64, delimiter=",").ravel()
