"""The circular buffer of TS 38.212 5.4.2.1: places of its bits, and the code of any bits that are sent of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from phy.coding.ldpc.plan import CORE_LAYERS, INFORMATION_COLUMNS, PUNCTURED_COLUMNS, LdpcPlan, base_matrix, lifting_of
from phy.coding.ldpc.segmentation import BaseGraph

_COLUMNS: dict[BaseGraph, int] = {1: 66, 2: 50}
"""Columns of the buffer: all of the base graph but the punctured ones."""
_START_COLUMN: dict[BaseGraph, tuple[int, int, int, int]] = {1: (0, 17, 33, 56), 2: (0, 13, 25, 43)}
"""Numerators of k_0 for redundancy versions 0 to 3, TS 38.212 Table 5.4.2.1-2."""


@dataclass(frozen=True, eq=False)
class CircularBuffer:
    """The buffer of one code block, without the filler bits, which are never sent.

    `places` `[num_bits]` int32: place `column * lifting_size + bit` in the code word of every bit;
    `start`: first bit of redundancy versions 0 to 3, k_0 less the filler bits before it.
    """

    base_graph: BaseGraph
    lifting_size: int
    set_index: int
    block_bits: int
    places: NDArray[np.int32]
    start: tuple[int, int, int, int]

    @property
    def num_bits(self) -> int:
        """Bits of the buffer: N_cb less filler bits."""
        return len(self.places)

    def sent(self, version: int, count: int) -> NDArray[np.int64]:
        """Return where in the buffer `count` bits of a redundancy version are, `[count]`, from the start if it ends."""
        return (self.start[version] + np.arange(count)) % self.num_bits


@lru_cache(maxsize=64)
def circular_buffer(block_bits: int, base_graph: BaseGraph, limit: int | None = None) -> CircularBuffer:
    """Return the buffer of a block of `block_bits` (K'); `limit` is N_ref of a limited buffer.

    Raises ValueError for a limit that does not hold the block.
    """
    size, set_index = lifting_of(block_bits, base_graph)
    num_columns = _COLUMNS[base_graph]
    length = num_columns * size if limit is None else min(num_columns * size, limit)
    first_filler = block_bits - PUNCTURED_COLUMNS * size
    last_filler = (INFORMATION_COLUMNS[base_graph] - PUNCTURED_COLUMNS) * size
    if length < last_filler:
        raise ValueError(
            f"a limited buffer of {length} bits per block does not hold the {last_filler} bits before the parity bits; "
            "write a larger coding.tbs_lbrm_bits"
        )
    index = np.arange(length)
    kept = index[(index < first_filler) | (index >= last_filler)]
    starts = [column * length // (num_columns * size) * size for column in _START_COLUMN[base_graph]]
    one, two, three, four = (int(np.searchsorted(kept, start)) % len(kept) for start in starts)
    places = (kept + PUNCTURED_COLUMNS * size).astype(np.int32)
    places.flags.writeable = False
    return CircularBuffer(base_graph, size, set_index, block_bits, places, (one, two, three, four))


def plan_places(buffer: CircularBuffer, sent: NDArray[np.int64], *, coded_bits: int, bits_per_symbol: int) -> LdpcPlan:
    """Return the code that sends the bits `sent` of the buffer, each at most once, `coded_bits` in turn.

    A layer behind the core whose own parity bits are not sent constrains nothing; it is left out, and the columns
    behind it move up.
    """
    size, information = buffer.lifting_size, INFORMATION_COLUMNS[buffer.base_graph]
    matrix = base_matrix(buffer.base_graph, buffer.set_index)
    places = buffer.places[sent]
    layers = np.union1d(np.arange(CORE_LAYERS), places[places >= information * size] // size - information)
    used = matrix[layers][:, np.concatenate([np.arange(information), information + layers])].copy()
    used[:, -(-buffer.block_bits // size) : information] = -1
    layer, column = np.nonzero(used >= 0)
    moved = np.arange(matrix.shape[1])
    moved[information + layers] = information + np.arange(len(layers))
    return LdpcPlan(
        base_graph=buffer.base_graph,
        lifting_size=size,
        block_bits=buffer.block_bits,
        coded_bits=coded_bits,
        bits_per_symbol=bits_per_symbol,
        layer_start=np.searchsorted(layer, np.arange(len(layers) + 1)).astype(np.int32),
        column=column.astype(np.int32),
        shift=(used[layer, column] % size).astype(np.int32),
        selected=(moved[places // size] * size + places % size).astype(np.int32),
    )
