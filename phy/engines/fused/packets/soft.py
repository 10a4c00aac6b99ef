"""Soft bits of a line inside kernels: `phy.receivers.demapping.bit_llrs` with the demapper maxlog.

LLRs are ln P(1) / P(0). Where an axis has one bit, maxlog is exact and is what app gives too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.engines.fused.packets.lines import BEST, ENERGY, MATCHED, ROOM, VARIANCE
from phy.numerics.compiled import inlined

_TWO = np.float32(2.0)
_LOWEST = np.float32(-3.0e38)


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
    for i in range(count):
        exponent = double * lanes[axis + i] - square * lanes[ENERGY + i]
        lanes[best + i] = max(lanes[best + i], exponent)


@inlined
def llrs_of_line(lanes: Any, points: Any, llrs: Any, count: Any) -> None:
    """`llrs` `[>= count * bits_per_symbol]`, in the order of the labels' bits, of what `normalise` left."""
    bits = points.bits_per_symbol
    axes = 1 if bits == 1 else 2
    per_axis = bits // axes
    if per_axis == 1:
        # Bit 1 is the negative level: -2 spacing times what the matched filter has on its axis.
        slope = -_TWO * points.spacing
        for axis in range(axes):
            for i in range(count):
                llrs[axes * i + axis] = slope * lanes[MATCHED + axis * ROOM + i]
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
                _consider(lanes, MATCHED + axis * ROOM, level, BEST + (2 * bit + sign) * ROOM, count)
        for bit in range(per_axis):
            ones, zeros = BEST + (2 * bit + 1) * ROOM, BEST + 2 * bit * ROOM
            for i in range(count):
                llrs[bits * i + axes * bit + axis] = lanes[ones + i] - lanes[zeros + i]
