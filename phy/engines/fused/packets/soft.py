"""Soft bits of a line inside kernels: `phy.receivers.demapping.bit_llrs` with both demappers.

LLRs are ln P(1) / P(0). Where an axis has one bit, maxlog is exact and is what app gives too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.engines.fused.packets.lines import BEST, ENERGY, MATCHED, ROOM, VARIANCE
from phy.numerics.compiled import inlined

HARD, MAXLOG, APP = np.int64(0), np.int64(1), np.int64(2)
"""What a line is decided to: symbols alone, or soft bits of a demapper too."""

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
def _consider(lanes: Any, axis: Any, level: Any, best: Any, count: Any) -> None:
    double, square = _TWO * level, level * level
    x, energy, out = np.uint64(axis), np.uint64(ENERGY), np.uint64(best)
    for i in range(count):
        u = np.uint64(i)
        exponent = double * lanes[x + u] - square * lanes[energy + u]
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
def _accumulate(lanes: Any, axis: Any, level: Any, best: Any, count: Any) -> None:
    """ln(e^best + e^exponent) in the place of best."""
    double, square = _TWO * level, level * level
    x, energy, out = np.uint64(axis), np.uint64(ENERGY), np.uint64(best)
    for i in range(count):
        u = np.uint64(i)
        exponent, held = double * lanes[x + u] - square * lanes[energy + u], lanes[out + u]
        lanes[out + u] = max(held, exponent) + log_of_one_more(abs(exponent - held))


@inlined
def llrs_of_line(lanes: Any, points: Any, soft: Any, llrs: Any, count: Any) -> None:
    """`llrs` `[>= count * bits_per_symbol]`, in the order of the labels' bits, of what `normalise` left."""
    bits = points.bits_per_symbol
    axes = 1 if bits == 1 else 2
    per_axis = bits // axes
    if per_axis == 1:
        # Bit 1 is the negative level: -2 spacing times what the matched filter has on its axis.
        slope = -_TWO * points.spacing
        if axes == 1:
            for i in range(count):
                llrs[i] = slope * lanes[MATCHED + i]
        else:
            for i in range(count):
                first = np.uint64(2 * i)
                llrs[first] = slope * lanes[MATCHED + i]
                llrs[first + np.uint64(1)] = slope * lanes[MATCHED + ROOM + i]
        return
    levels = 1 << per_axis
    for axis in range(axes):
        for lane in range(2 * per_axis):
            lanes[BEST + lane * ROOM : BEST + lane * ROOM + count] = _LOWEST
        for k in range(levels):
            label = k ^ (k >> 1) ^ (levels // 2 - 1)
            level = (points.top - np.float32(k)) * points.spacing
            for bit in range(per_axis):
                sign = (label >> (per_axis - 1 - bit)) & 1
                best = BEST + (2 * bit + sign) * ROOM
                if soft == APP:
                    _accumulate(lanes, MATCHED + axis * ROOM, level, best, count)
                else:
                    _consider(lanes, MATCHED + axis * ROOM, level, best, count)
        for bit in range(per_axis):
            ones, zeros = BEST + (2 * bit + 1) * ROOM, BEST + 2 * bit * ROOM
            for i in range(count):
                llrs[bits * i + axes * bit + axis] = lanes[ones + i] - lanes[zeros + i]
