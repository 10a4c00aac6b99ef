"""Encoder of the 5G polar code in a kernel, one block after the other, a byte per bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.numerics.compiled import inlined, lean_kernel

_EVEN = (np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(0x00000000FFFFFFFF))
"""First halves of pairs of one, two and four bytes, the first byte lowest."""


@inlined
def _place(bits: Any, row: Any, places: Any, octets: Any, count: Any) -> None:
    for t in range(count):
        octets[places[t]] = bits[row, t]


@inlined
def _remainder(bits: Any, row: Any, remainders: Any, count: Any) -> Any:
    total = np.uint16(0)
    for t in range(count):
        total ^= np.uint16(remainders[t] * np.uint16(bits[row, t]))
    return total


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
def _read(octets: Any, places: Any, coded: Any, row: Any, count: Any) -> None:
    for t in range(count):
        coded[row, t] = octets[places[t]]


@lean_kernel
def encode_blocks(
    bits: Any, sent: Any, information: Any, remainders: Any, degree: Any, words: Any, octets: Any, coded: Any
) -> None:
    """Encode all blocks; `octets` are the bytes of `words`, in which the host stores low bytes first.

    `remainders` `[block bits]`: what each bit leaves of the check sum.
    """
    num_bits = bits.shape[1]
    for row in range(len(bits)):
        for i in range(len(words)):
            words[i] = np.uint64(0)
        _place(bits, row, information, octets, num_bits)
        total = np.int64(_remainder(bits, row, remainders, num_bits))
        for power in range(degree):
            octets[information[num_bits + power]] = np.uint8(total >> (degree - 1 - power) & 1)
        for stage in range(3):
            _within_words(words, _EVEN[stage], 8 << stage)
        half = 1
        while half < len(words):
            _across_words(words, half)
            half *= 2
        _read(octets, sent, coded, row, len(sent))
