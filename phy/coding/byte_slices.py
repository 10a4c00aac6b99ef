"""Bits of eight blocks in the bytes of one array, for encoders that go from bit to bit: a step serves all eight."""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.numerics.compiled import inlined

AT_ONCE = 8


@inlined
def clear(octets: Any) -> None:
    for i in range(len(octets)):
        octets[i] = np.uint8(0)


@inlined
def join(bits: Any, weight: Any, octets: Any) -> None:
    """Bits in {0, 1} of one block to their place, of value `weight`, in bytes where it is 0."""
    for i in range(len(bits)):
        octets[i] |= np.uint8(np.uint8(-bits[i]) & weight)


@inlined
def split(octets: Any, weight: Any, bits: Any) -> None:
    """Bits of one block from their place."""
    for i in range(len(bits)):
        bits[i] = np.uint8(np.uint8(octets[i] & weight) != 0)
