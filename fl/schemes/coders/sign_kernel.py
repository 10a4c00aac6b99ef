"""Random signs and packed bits in kernels, see `stochastic_bits`."""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.numerics.compiled import exact_kernel, inlined
from phy.numerics.threefry import draw_lanes, positions

_SPAN, _BLOCK, _LANES = 512, 64, 32
_HALF = np.float32(1 << 22)
"""A word's upper 23 bits lie in -2^22 .. 2^22 - 1, and half a step more is still exact in float32."""

_GATHER = np.uint64(0x8040201008040201)
"""Times eight bytes of 0 or 1, it has them side by side in its highest byte (on a little-endian machine)."""


@inlined
def pack_eights(eights: Any, payload: Any) -> None:
    """Zeros and ones, eight in a word, into bytes, the first bit of memory highest."""
    for i in range(len(payload)):
        payload[i] = np.uint8(np.uint64(eights[i] * _GATHER) >> np.uint64(56))


@exact_kernel
def fill_signs(
    updates: Any, slopes: Any, ceilings: Any, sure: Any, key: Any, devices: Any, out: Any, first: Any, last: Any
) -> None:
    """Rows `first` to `last` of packed bits `out`: the two words of a counter lie 32 entries apart."""
    words, eights = np.empty(_SPAN, np.uint32), np.zeros(_SPAN // 8, np.uint64)
    bits = eights.view(np.uint8)
    for row in range(first, last):
        slope, top = slopes[row], ceilings[row] * _HALF
        for start in range(0, updates.shape[1], _SPAN):
            own = updates[row, start : start + _SPAN]
            for at in range(0, len(own), _BLOCK):
                counters = positions(devices[row], np.uint32((start + at) // 2), 1)
                draw_lanes((key[0], key[1]), counters, words, at, at + _LANES, _LANES)
            for i in range(len(own)):
                if sure:
                    mean = np.float32(np.sign(own[i])) * top
                else:
                    mean = min(max(np.float32(own[i] * slope) * _HALF, -top), top)
                level = np.float32(np.int32(words[i]) >> np.int32(9)) + np.float32(0.5)
                bits[i] = np.uint8(level < mean)
            bits[len(own) :] = np.uint8(0)
            pack_eights(eights, out[row, start // 8 : (start + len(own) + 7) // 8])
