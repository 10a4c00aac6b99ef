"""Soft bits of a line inside kernels: `phy.receivers.demapping.bit_llrs` with both demappers.

LLRs are ln P(1) / P(0). Where an axis has one bit, maxlog is exact and is what app gives too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.engines.fused.packets.lines import BEST, ENERGY, LINE, MATCHED, NUM_LANES, ROOM, VARIANCE
from phy.engines.fused.symbols import Mapping
from phy.numerics.compiled import aligned_zeros, inlined, lean_kernel

HARD, MAXLOG, APP = np.int64(0), np.int64(1), np.int64(2)
"""What a line is decided to: symbols alone, or soft bits of a demapper too."""

_SYMBOLS_AT_ONCE = 1 << 15
"""Kept symbols that stay in a core's cache."""
_ENERGY = np.int64(2)

_TWO = np.float32(2.0)
_LOWEST = np.float32(-3.0e38)
_FAR, _SIXTEENTH = np.float32(16.0), np.float32(1.0 / 16.0)
# Chebyshev fits over [0, 1], the constant term first: e^-x, and ln(1 + t).
_EXPONENTIAL = (0.99999957, -0.99996861, 0.49962687, -0.16502942, 0.03835793, -0.00510731)
_LOGARITHM = (2.2159765e-7, 0.99997024, -0.49933395, 0.32751171, -0.2239669, 0.13198966, -0.053267477, 0.010243829)
_X0, _X1, _X2, _X3, _X4, _X5 = (np.float32(c) for c in _EXPONENTIAL)
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7 = (np.float32(c) for c in _LOGARITHM)


@inlined
def normalise(lanes: Any, count: Any) -> None:
    """Matched filter and energy over the noise: x^ / v and 1 / v."""
    for i in range(count):
        inverse = np.float32(1.0) / lanes[VARIANCE + i]
        lanes[MATCHED + i] *= inverse
        lanes[MATCHED + ROOM + i] *= inverse
        lanes[ENERGY + i] *= inverse


@inlined
def _consider(kept: Any, axis: Any, at: Any, level: Any, lanes: Any, best: Any, count: Any) -> None:
    double, square = _TWO * level, level * level
    x, out = np.uint64(at), np.uint64(best)
    for i in range(count):
        u = np.uint64(i)
        exponent = double * kept[axis, x + u] - square * kept[_ENERGY, x + u]
        lanes[out + u] = max(lanes[out + u], exponent)


@inlined
def log_of_one_more(distance: Any) -> Any:
    """ln(1 + e^-d) of float32 d >= 0, within 4e-6: e^-d as the 16th power of e^(-d / 16), 0 from e^-16 on."""
    x = min(distance, _FAR) * _SIXTEENTH
    root = ((((_X5 * x + _X4) * x + _X3) * x + _X2) * x + _X1) * x + _X0
    square = root * root
    fourth = square * square
    eighth = fourth * fourth
    t = eighth * eighth
    return ((((((_L7 * t + _L6) * t + _L5) * t + _L4) * t + _L3) * t + _L2) * t + _L1) * t + _L0


@inlined
def _accumulate(kept: Any, axis: Any, at: Any, level: Any, lanes: Any, best: Any, count: Any) -> None:
    """ln(e^best + e^exponent) in the place of best."""
    double, square = _TWO * level, level * level
    x, out = np.uint64(at), np.uint64(best)
    for i in range(count):
        u = np.uint64(i)
        exponent, held = double * kept[axis, x + u] - square * kept[_ENERGY, x + u], lanes[out + u]
        lanes[out + u] = max(held, exponent) + log_of_one_more(abs(exponent - held))


@inlined
def soften(lanes: Any, points: Any, llrs: Any, kept: Any, at: Any, count: Any) -> None:
    """LLRs `[>= count * bits_per_symbol]` of BPSK and QPSK, of what `normalise` left: bit 1 is the negative level.

    Where an axis has more bits, x^ / v and 1 / v go to `kept` `[3, num_symbols]` from `at` on, for `demap`.
    """
    slope = -_TWO * points.spacing
    if points.bits_per_symbol == 1:
        for i in range(count):
            llrs[i] = slope * lanes[MATCHED + i]
    elif points.bits_per_symbol == 2:
        for i in range(count):
            first = np.uint64(2 * i)
            llrs[first] = slope * lanes[MATCHED + i]
            llrs[first + np.uint64(1)] = slope * lanes[MATCHED + ROOM + i]
    else:
        first = np.uint64(at)
        for i in range(count):
            u = first + np.uint64(i)
            kept[0, u] = lanes[MATCHED + i]
            kept[1, u] = lanes[MATCHED + ROOM + i]
            kept[_ENERGY, u] = lanes[ENERGY + i]


@inlined
def _fill(lanes: Any, lane: Any, count: Any) -> None:
    first = np.uint64(lane)
    for i in range(count):
        lanes[first + np.uint64(i)] = _LOWEST


@inlined
def _subtract(lanes: Any, zeros: Any, llrs: Any, at: Any, bits: Any, count: Any) -> None:
    """LLRs from the lanes of both signs of a bit."""
    first = np.uint64(zeros)
    for i in range(count):
        u = first + np.uint64(i)
        llrs[at + bits * i] = lanes[u + np.uint64(ROOM)] - lanes[u]


@lean_kernel
def _demap(points: Any, soft: Any, kept: Any, llrs: Any, which: Any, lanes: Any) -> None:
    bits = points.bits_per_symbol
    per_axis = bits // 2
    levels = 1 << per_axis
    for place in range(len(which)):
        symbols, row = kept[place], llrs[which[place]]
        for at in range(0, kept.shape[2], LINE):
            count = min(kept.shape[2] - at, LINE)
            for axis in range(2):
                for lane in range(2 * per_axis):
                    _fill(lanes, BEST + lane * ROOM, count)
                for k in range(levels):
                    label = k ^ (k >> 1) ^ (levels // 2 - 1)
                    level = (points.top - np.float32(k)) * points.spacing
                    for bit in range(per_axis):
                        sign = (label >> (per_axis - 1 - bit)) & 1
                        best = BEST + (2 * bit + sign) * ROOM
                        if soft == APP:
                            _accumulate(symbols, axis, at, level, lanes, best, count)
                        else:
                            _consider(symbols, axis, at, level, lanes, best, count)
                for bit in range(per_axis):
                    _subtract(lanes, BEST + 2 * bit * ROOM, row, bits * at + 2 * bit + axis, bits, count)


def rows_at_once(rows: int, num_symbols: int, *, points: Mapping, soft: np.int64) -> int:
    """Rows of `num_symbols` that are received before `demap` takes what is kept of them; all where nothing is kept."""
    keeps = soft != HARD and points.bits_per_symbol > 2
    return max(_SYMBOLS_AT_ONCE // num_symbols, 1) if keeps else rows


def kept_symbols(rows: int, num_symbols: int, *, points: Mapping) -> NDArray[np.float32]:
    """Room for what `soften` keeps; of no symbols where it keeps nothing."""
    return np.empty((rows, 3, num_symbols if points.bits_per_symbol > 2 else 0), np.float32)


def demap(
    kept: NDArray[np.float32], llrs: NDArray[np.float32], which: NDArray[np.int64], *, points: Mapping, soft: np.int64
) -> None:
    """LLRs of `kept` symbols into the rows `which` of `llrs` `[rows, num_symbols * bits_per_symbol]`.

    In the caller's thread, by a kernel of its own, which links of BPSK and QPSK do not compile.
    """
    if kept.size:
        _demap(points, soft, kept, llrs, which, aligned_zeros(NUM_LANES, np.float32))
