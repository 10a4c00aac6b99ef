"""Packed bits and labels of symbols, row by row, in kernels, in the caller's thread."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.compiled import inlined, lean_kernel, read_only


@lean_kernel
def _to_labels(packed: Any, bits_per_symbol: Any, labels: Any) -> None:
    bits, mask = np.uint32(bits_per_symbol), np.uint32((1 << bits_per_symbol) - 1)
    num_symbols, num_bytes = labels.shape[1], packed.shape[1]
    for row in range(len(labels)):
        if bits_per_symbol == 2:
            for byte in range(num_symbols // 4):
                word = np.uint32(packed[row, byte])
                for k in range(4):
                    labels[row, 4 * byte + k] = np.uint8(np.uint32(word >> np.uint32(6 - 2 * k)) & mask)
            done = num_symbols // 4 * 4
        else:
            done = 0
        for i in range(done, num_symbols):
            # A label lies in two bytes at most.
            bit = i * bits_per_symbol
            high = np.uint32(packed[row, bit // 8])
            low = np.uint32(packed[row, bit // 8 + 1]) if bit // 8 + 1 < num_bytes else np.uint32(0)
            word = np.uint32(np.uint32(high << np.uint32(8)) | low)
            labels[row, i] = np.uint8(np.uint32(word >> np.uint32(16 - bit % 8 - bits)) & mask)


@inlined
def _append_signs(llrs: Any, first: Any, step: Any, labels: Any) -> None:
    for i in range(len(labels)):
        one = np.uint8(llrs[first + step * i] > np.float32(0.0))
        labels[i] = np.uint8(np.uint8(labels[i] + labels[i]) | one)


@lean_kernel
def fill_decided(llrs: Any, bits_per_symbol: Any, labels: Any) -> None:
    """Labels `[rows, num_symbols]` of the signs of `llrs` `[rows, >= num_symbols * bits_per_symbol]`."""
    for row in range(len(labels)):
        for i in range(labels.shape[1]):
            labels[row, i] = np.uint8(0)
        for bit in range(bits_per_symbol):
            _append_signs(llrs[row], bit, bits_per_symbol, labels[row])


@lean_kernel
def fill_bytes(labels: Any, bits_per_symbol: Any, num_bits: Any, packed: Any) -> None:
    """The first `num_bits` bits of labels, packed `[rows, ceil(num_bits / 8)]`, padding zero."""
    num_bytes, num_symbols = packed.shape[1], labels.shape[1]
    tail = np.uint8(0xFF << (8 * num_bytes - num_bits))
    for row in range(len(labels)):
        if bits_per_symbol == 2:
            for byte in range(num_symbols // 4 if num_symbols // 4 < num_bytes else num_bytes):
                word = np.uint32(0)
                for k in range(4):
                    word = np.uint32(np.uint32(word << np.uint32(2)) | np.uint32(labels[row, 4 * byte + k]))
                packed[row, byte] = np.uint8(word)
            done = num_symbols // 4 if num_symbols // 4 < num_bytes else num_bytes
        else:
            done = 0
        word, held, symbol = np.uint32(0), 0, 8 * done // bits_per_symbol
        for byte in range(done, num_bytes):
            while held < 8:
                label = np.uint32(labels[row, symbol]) if symbol < num_symbols else np.uint32(0)
                word = np.uint32(np.uint32(word << np.uint32(bits_per_symbol)) | label)
                held += bits_per_symbol
                symbol += 1
            held -= 8
            packed[row, byte] = np.uint8(np.uint32(word >> np.uint32(held)))
        packed[row, num_bytes - 1] &= tail


@inlined
def _count_ones(sent: Any, decided: Any, shift: Any, first: Any, count: Any) -> Any:
    """Labels from `first` on that differ in the bit at `shift`; fewer than 256, so that a byte holds their number."""
    wrong = np.uint8(0)
    for i in range(count):
        u = np.uint64(first + i)
        wrong = np.uint8(wrong + np.uint8(np.uint8(np.uint8(sent[u] ^ decided[u]) >> shift) & np.uint8(1)))
    return np.int32(wrong)


@lean_kernel
def count_label_errors(sent: Any, decided: Any, errors: Any) -> None:
    """Wrong bits by place in the label, `[rows, bits_per_symbol]`, the first bit first."""
    places, num_symbols = errors.shape[1], sent.shape[1]
    for row in range(len(sent)):
        for place in range(places):
            wrong, shift = np.int32(0), np.uint8(places - 1 - place)
            for first in range(0, num_symbols, 192):
                wrong += _count_ones(sent[row], decided[row], shift, first, min(num_symbols - first, 192))
            errors[row, place] = wrong


def fill_labels(packed: NDArray[np.uint8], *, bits_per_symbol: int, out: NDArray[np.uint8]) -> None:
    """Packed bits `[rows, num_bytes]` to labels `[rows, num_symbols]`, first bit highest; zeros where bits run out."""
    missing = -(-out.shape[1] * bits_per_symbol // 8) - packed.shape[1]
    whole = read_only(np.pad(packed, ((0, 0), (0, missing))) if missing > 0 else packed)
    _to_labels(whole, bits_per_symbol, out)
