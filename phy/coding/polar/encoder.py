"""Encoder of the 5G polar code in a kernel: eight blocks at once, a byte with a bit of each per position."""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.coding.byte_slices import AT_ONCE, clear, join, split
from phy.numerics.compiled import inlined, lean_kernel

_EVEN = (np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(0x00000000FFFFFFFF))
"""First halves of pairs of one, two and four bytes, the first byte lowest."""


@inlined
def _sum_of(joined: Any, taps: Any) -> Any:
    total = np.uint8(0)
    for t in range(len(joined)):
        total ^= np.uint8(joined[t] & taps[t])
    return total


@inlined
def _sum_before(octets: Any, place: Any) -> Any:
    total = np.uint8(0)
    for earlier in range(place - 5, -1, -5):
        total ^= octets[earlier]
    return total


@inlined
def _place(joined: Any, places: Any, octets: Any) -> None:
    for t in range(len(joined)):
        octets[places[t]] = joined[t]


@inlined
def _within_words(words: Any, even: Any, shift: Any) -> None:
    for i in range(len(words)):
        words[i] ^= np.uint64(np.uint64(words[i] >> np.uint64(shift)) & even)


@inlined
def _across_words(words: Any, half: Any) -> None:
    for start in range(0, len(words), 2 * half):
        for i in range(half):
            words[start + i] ^= words[start + half + i]


@inlined
def _read(octets: Any, places: Any, joined: Any) -> None:
    for t in range(len(joined)):
        joined[t] = octets[places[t]]


@lean_kernel
def encode_blocks(
    bits: Any, sent: Any, information: Any, parity: Any, taps: Any, words: Any, octets: Any, joined: Any, read: Any,
    coded: Any,
) -> None:  # fmt: skip
    """Encode all blocks; `octets` are the bytes of `words`, in which the host stores low bytes first.

    `taps` `[degree, block bits]`: 255 where a bit is in the sum of a bit of the check sum, else 0. `parity` are places
    of parity-check bits: each is the sum of the information bits a multiple of five places before it (5.3.1.2).
    """
    num_bits = bits.shape[1]
    for first in range(0, len(bits), AT_ONCE):
        present = min(AT_ONCE, len(bits) - first)
        clear(joined)
        for row in range(present):
            join(bits[first + row], np.uint8(1 << row), joined)
        clear(octets)
        _place(joined, information, octets)
        for power in range(len(taps)):
            octets[information[num_bits + power]] = _sum_of(joined, taps[power])
        # The last one first: it does not add up the parity-check bits before it.
        for number in range(len(parity) - 1, -1, -1):
            octets[parity[number]] = _sum_before(octets, parity[number])
        for stage in range(3):
            _within_words(words, _EVEN[stage], 8 << stage)
        half = 1
        while half < len(words):
            _across_words(words, half)
            half *= 2
        _read(octets, sent, read)
        for row in range(present):
            split(read, np.uint8(1 << row), coded[first + row])
