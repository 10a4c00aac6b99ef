"""Encoding of 5G LDPC codes by their quasi-cyclic structure: shifted columns added.

One thread does it twenty times as fast as two decode.

With s_i the sum of the shifted information columns of core layer i, the four core parity columns p_1..p_4 solve
P_a p_1 + p_2 = s_1, p_2 + p_3 [+ P_b p_1] = s_2, p_3 + p_4 [+ P_b p_1] = s_3, P_a p_1 + p_4 = s_4, P_b p_1 standing in
row 2 of base graph 1 and in row 3 of base graph 2 (TS 38.212 Tables 5.3.2-2, 5.3.2-3). Their sum is P_b p_1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.coding.ldpc.plan import CORE_LAYERS, LdpcPlan
from phy.numerics.compiled import inlined, lean_kernel

_BITS_AT_ONCE = 128
"""Columns are added in whole vectors, what is beyond their last bit means nothing; see `ldpc.decoder`."""


@dataclass(frozen=True)
class LdpcEncoder:
    """Encoder of one code."""

    plan: LdpcPlan

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Bits `[n, block_bits]` to `[n, coded_bits]`, both in {0, 1}, in the order in which they go on the air."""
        plan = self.plan
        bits = np.ascontiguousarray(bits, np.uint8)
        coded = np.empty((len(bits), plan.coded_bits), np.uint8)
        num_layers = len(plan.layer_start) - 1
        _encode(
            bits,
            plan.layer_start,
            plan.column,
            plan.shift,
            self._place(plan.column, plan.shift),
            self._place(*np.divmod(plan.sent, plan.lifting_size)),
            np.uint64(plan.lifting_size),
            np.uint64(self._stride),
            np.uint64(plan.information_columns),
            coded,
            np.zeros(plan.num_columns * 2 * self._stride, np.uint8),
            np.empty(num_layers * self._stride, np.uint8),
        )
        return coded

    @property
    def _stride(self) -> int:
        return -(-self.plan.lifting_size // _BITS_AT_ONCE) * _BITS_AT_ONCE

    def _place(self, column: NDArray[np.int32], bit: NDArray[np.int32]) -> NDArray[np.uint64]:
        """Return the place of a bit of a column among the doubled columns."""
        return (2 * self._stride * column.astype(np.int64) + bit).astype(np.uint64)


@inlined
def _add(word: Any, start: Any, sums: Any, row: Any, stride: Any) -> None:
    for bit in range(stride):
        sums[row + np.uint64(bit)] ^= word[start + np.uint64(bit)]


@inlined
def _store(sums: Any, row: Any, word: Any, start: Any, size: Any, stride: Any) -> None:
    """A column twice in a row, so that any cyclic shift of it is one contiguous read."""
    for bit in range(stride):
        word[start + np.uint64(bit)] = sums[row + np.uint64(bit)]
    # After the first copy: it covers what that one left beyond the last bit.
    for bit in range(stride):
        word[start + size + np.uint64(bit)] = sums[row + np.uint64(bit)]


@inlined
def _add_column(
    wanted: Any, word: Any, sums: Any, layer: Any, layer_start: Any, column: Any, start: Any, stride: Any
) -> None:
    """Add the edge of `layer` to column `wanted`, if there is one."""
    for edge in range(layer_start[layer], layer_start[layer + 1]):
        if column[edge] == wanted:
            _add(word, start[edge], sums, np.uint64(layer) * stride, stride)


@inlined
def _solve_core(
    word: Any,
    sums: Any,
    layer_start: Any,
    column: Any,
    shift: Any,
    start: Any,
    size: Any,
    stride: Any,
    information: Any,
) -> None:
    unpaired = np.uint64(0)
    for edge in range(layer_start[CORE_LAYERS]):
        if column[edge] == information:
            # Of the three shifts of p_1 two are equal: their columns cancel in the sum of the layers.
            unpaired ^= np.uint64(shift[edge])
    doubled = stride + stride
    first = information * doubled
    for bit in range(size):
        total = np.uint8(0)
        for layer in range(CORE_LAYERS):
            total ^= sums[np.uint64(layer) * stride + np.uint64(bit)]
        place = (np.uint64(bit) + unpaired) % size
        word[first + place] = total
        word[first + size + place] = total
    for layer in range(CORE_LAYERS):
        _add_column(information, word, sums, layer, layer_start, column, start, stride)
    second = first + doubled
    third = second + doubled
    _store(sums, np.uint64(0), word, second, size, stride)
    _add(word, second, sums, stride, stride)
    _store(sums, stride, word, third, size, stride)
    _store(sums, stride + doubled, word, third + doubled, size, stride)


@lean_kernel
def _encode(
    bits: Any,
    layer_start: Any,
    column: Any,
    shift: Any,
    start: Any,
    cell: Any,
    size: Any,
    stride: Any,
    information: Any,
    coded: Any,
    word: Any,
    sums: Any,
) -> None:
    num_layers = len(layer_start) - 1
    doubled = stride + stride
    block_bits = np.uint64(bits.shape[1])
    for frame in range(len(bits)):
        given, sent = bits[frame], coded[frame]
        for block in range((block_bits + size - np.uint64(1)) // size):
            first, own = np.uint64(block) * size, np.uint64(block) * doubled
            for bit in range(min(size, block_bits - first)):
                word[own + np.uint64(bit)] = given[first + np.uint64(bit)]
            for bit in range(min(size, block_bits - first)):
                word[own + size + np.uint64(bit)] = given[first + np.uint64(bit)]
        sums[:] = 0
        for layer in range(num_layers):
            row = np.uint64(layer) * stride
            for edge in range(layer_start[layer], layer_start[layer + 1]):
                if column[edge] < information:
                    _add(word, start[edge], sums, row, stride)
        _solve_core(word, sums, layer_start, column, shift, start, size, stride, information)
        for layer in range(CORE_LAYERS, num_layers):
            for parity in range(CORE_LAYERS):
                _add_column(information + np.uint64(parity), word, sums, layer, layer_start, column, start, stride)
            own = (information + np.uint64(layer)) * doubled
            _store(sums, np.uint64(layer) * stride, word, own, size, stride)
        for i in range(len(cell)):
            sent[i] = word[cell[i]]
