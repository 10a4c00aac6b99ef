"""Encoding of 5G LDPC codes by their quasi-cyclic structure: shifted columns added, in vectors as by `ldpc.decoder`.

With s_i the sum of the shifted information columns of core layer i, the four core parity columns p_1..p_4 solve
P_a p_1 + p_2 = s_1, p_2 + p_3 [+ P_b p_1] = s_2, p_3 + p_4 [+ P_b p_1] = s_3, P_a p_1 + p_4 = s_4, P_b p_1 standing in
row 2 of base graph 1 and in row 3 of base graph 2 (TS 38.212 Tables 5.3.2-2, 5.3.2-3). Their sum is P_b p_1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.coding.byte_vectors import WIDTH, exclusive_or, filled, load, store
from phy.coding.ldpc.plan import CORE_LAYERS, LdpcPlan
from phy.numerics.compiled import aligned_zeros, inlined, lean_kernel


class _Sums(NamedTuple):
    """What is added up in each layer.

    - `read` `[edges]`: place of a shifted column in the word, whose columns lie there twice in a row;
    - `start`, `known`, `first` `[layers]`: edges `start : known` are known at once (in the core: those of the
      information), edges `known : first` once p_1 is;
    - `turn`: p_1 is the sum of the core layers, from this bit on;
    - `runs`: as in `LdpcPlan`, the column and its bit as one place in the word.
    """

    read: NDArray[np.int64]
    start: NDArray[np.int64]
    known: NDArray[np.int64]
    first: NDArray[np.int64]
    turn: int
    runs: NDArray[np.int64]


@lru_cache(maxsize=64)
def _sums(plan: LdpcPlan, lanes: int) -> _Sums:
    size, parity, column = plan.lifting_size, plan.information_columns, plan.column
    layer = np.repeat(np.arange(plan.num_layers), np.diff(plan.layer_start))
    core = layer < CORE_LAYERS
    start = plan.layer_start[:-1].astype(np.int64)
    known = start + np.bincount(
        layer, column < np.where(core, parity, parity + CORE_LAYERS), minlength=len(start)
    ).astype(np.int64)
    first = known + np.bincount(layer, core & (column == parity), minlength=len(start)).astype(np.int64)
    # Of the three shifts of p_1 two are equal: their columns cancel in the sum of the layers.
    unpaired = np.bitwise_xor.reduce(plan.shift[core & (column == parity)])
    bit, in_column, place, length = plan.runs.T
    return _Sums(
        read=2 * lanes * column.astype(np.int64) + plan.shift,
        start=start,
        known=known,
        first=first,
        turn=int(-unpaired % size),
        runs=np.stack([bit, 2 * lanes * in_column + place, length], axis=1),
    )


@dataclass(frozen=True)
class LdpcEncoder:
    """Encoder of one code."""

    plan: LdpcPlan

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Bits `[n, block_bits]` to `[n, coded_bits]`, both in {0, 1}, in the order in which they go on the air."""
        plan = self.plan
        coded = np.empty((len(bits), plan.coded_bits), np.uint8)
        lanes = -(-plan.lifting_size // WIDTH) * WIDTH
        _encode(
            np.ascontiguousarray(bits, np.uint8),
            _sums(plan, lanes),
            plan.lifting_size,
            lanes,
            plan.information_columns,
            plan.bits_per_symbol,
            len(plan.selected),
            coded,
            aligned_zeros(plan.num_columns * 2 * lanes, np.int8),
            aligned_zeros((CORE_LAYERS + 2) * lanes, np.int8),
            np.empty(plan.coded_bits, np.uint8),
        )
        return coded


@inlined
def _sum_of(word: Any, read: Any, first: Any, end: Any, lane: Any) -> Any:
    total = filled(np.int8(0))
    for edge in range(first, end):
        total = exclusive_or(total, load(word, read[np.uint64(edge)] + lane))
    return total


@inlined
def _put(word: Any, start: Any, size: Any, vector: Any) -> None:
    """A vector of a column twice in a row, so that any cyclic shift of the column is one contiguous read."""
    store(word, start, vector)
    store(word, start + size, vector)


@inlined
def _read_bits(bits: Any, word: Any, size: Any, lanes: Any) -> None:
    for column in range((len(bits) + size - 1) // size):
        first, start = np.uint64(column * size), np.uint64(2 * lanes * column)
        for bit in range(min(size, len(bits) - column * size)):
            word[start + np.uint64(bit)] = np.int8(bits[first + np.uint64(bit)])
        for lane in range(0, lanes, WIDTH):
            store(word, start + size + lane, load(word, start + lane))


@inlined
def _interleave(selected: Any, bits_per_symbol: Any, sent: Any) -> None:
    """Rows of selected bits to symbols, column by column."""
    rows, columns = bits_per_symbol, len(sent) // bits_per_symbol
    if rows == 2:
        for i in range(columns):
            u = np.uint64(i)
            sent[u + u] = selected[u]
            sent[u + u + np.uint64(1)] = selected[np.uint64(columns) + u]
    else:
        for row in range(rows):
            for i in range(columns):
                sent[np.uint64(rows * i + row)] = selected[np.uint64(columns * row + i)]


@lean_kernel
def _encode(
    bits: Any, steps: Any, size: Any, lanes: Any, information: Any, bits_per_symbol: Any, num_selected: Any, coded: Any,
    word: Any, sums: Any, selected: Any,
) -> None:  # fmt: skip
    read, start, known, first = steps.read, steps.start, steps.known, steps.first
    p1, p2 = 2 * lanes * information, 2 * lanes * (information + 1)
    p3, p4 = p2 + 2 * lanes, p2 + 4 * lanes
    total = CORE_LAYERS * lanes
    for frame in range(len(bits)):
        _read_bits(bits[frame], word, size, lanes)
        for lane in range(0, lanes, WIDTH):
            added = filled(np.int8(0))
            for layer in range(CORE_LAYERS):
                here = _sum_of(word, read, start[layer], known[layer], lane)
                store(sums, lanes * layer + lane, here)
                added = exclusive_or(added, here)
            _put(sums, total + lane, size, added)
        for lane in range(0, lanes, WIDTH):
            _put(word, p1 + lane, size, load(sums, total + steps.turn + lane))
        for lane in range(0, lanes, WIDTH):
            for layer in range(CORE_LAYERS):
                here = exclusive_or(
                    load(sums, lanes * layer + lane), _sum_of(word, read, known[layer], first[layer], lane)
                )
                store(sums, lanes * layer + lane, here)
            second = load(sums, lane)
            _put(word, p2 + lane, size, second)
            _put(word, p3 + lane, size, exclusive_or(second, load(sums, lanes + lane)))
            _put(word, p4 + lane, size, load(sums, 3 * lanes + lane))
        for layer in range(CORE_LAYERS, len(start)):
            for lane in range(0, lanes, WIDTH):
                own = 2 * lanes * (information + layer) + lane
                _put(word, own, size, _sum_of(word, read, start[layer], known[layer], lane))
        for run in range(len(steps.runs)):
            one, place, length = steps.runs[run, 0], steps.runs[run, 1], steps.runs[run, 2]
            for bit in range(length):
                selected[np.uint64(one + bit)] = np.uint8(word[np.uint64(place + bit)])
        for bit in range(num_selected, len(selected)):
            selected[np.uint64(bit)] = selected[np.uint64(bit - num_selected)]
        _interleave(selected, bits_per_symbol, coded[frame])
