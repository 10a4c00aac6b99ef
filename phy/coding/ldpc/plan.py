"""A 5G LDPC code as arrays: base graph, lifting, shifts and the places of the bits on the air (TS 38.212)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from phy.coding.ldpc.segmentation import BaseGraph

CORE_LAYERS = 4
"""Rows of the core, whose parity bits depend on each other; every later row has one parity bit of its own."""
PUNCTURED_COLUMNS = 2
"""Columns that are never sent, TS 38.212 5.4.2.1."""

INFORMATION_COLUMNS: dict[BaseGraph, int] = {1: 22, 2: 10}
_SHAPE: dict[BaseGraph, tuple[int, int]] = {1: (46, 68), 2: (42, 52)}
_LOWEST_RATE: dict[BaseGraph, tuple[int, int]] = {1: (1, 3), 2: (1, 5)}
_LARGEST_BLOCK: dict[BaseGraph, int] = {1: 8448, 2: 3840}
# Lifting sizes a 2^j of TS 38.212 Table 5.3.2-1; their place is the set index.
_LIFTING_BASES = (2, 3, 5, 7, 9, 11, 13, 15)
_LARGEST_LIFTING = 384


@dataclass(frozen=True, eq=False)
class LdpcPlan:
    """One code of TS 38.212 5.3.2 with the rate matching and interleaving of 5.4.2, ready for kernels.

    The code word is a row of `num_columns` columns of `lifting_size` bits. Layer i is the `lifting_size` parity checks
    sum over its edges e of bit (r + `shift[e]`) mod `lifting_size` of column `column[e]` = 0, for all r at once.

    - `layer_start` `[num_layers + 1]` int32: edges of layer i are `layer_start[i] : layer_start[i + 1]`;
    - `column`, `shift` `[num_edges]` int32, `0 <= shift < lifting_size`;
    - `selected` `[<= coded_bits]` int32: place `column * lifting_size + bit` in the code word of every bit that is
      sent. Selected bits, from the first one again where they are fewer than `coded_bits`, are written in
      `bits_per_symbol` rows and go on the air column by column.

    Only what matters is kept: layers whose own parity bits are all punctured constrain nothing, and columns of filler
    bits alone are zeros that no check needs.
    """

    base_graph: BaseGraph
    lifting_size: int
    block_bits: int
    coded_bits: int
    bits_per_symbol: int
    layer_start: NDArray[np.int32]
    column: NDArray[np.int32]
    shift: NDArray[np.int32]
    selected: NDArray[np.int32]

    @property
    def information_columns(self) -> int:
        """Columns of information and filler bits."""
        return INFORMATION_COLUMNS[self.base_graph]

    @property
    def num_layers(self) -> int:
        """Rows of the base graph in use."""
        return len(self.layer_start) - 1

    @property
    def num_columns(self) -> int:
        """Columns of the base graph in use."""
        return self.information_columns + self.num_layers

    @property
    def num_edges(self) -> int:
        """Shifted identity matrices in use."""
        return len(self.column)

    @property
    def runs(self) -> NDArray[np.int64]:
        """Selected bits side by side in a column, `[runs, 4]`: the first of them, column, bit in it, number of bits."""
        column, bit = np.divmod(self.selected.astype(np.int64), self.lifting_size)
        first = np.flatnonzero((np.diff(self.selected, prepend=-2) != 1) | (np.diff(column, prepend=-1) != 0))
        return np.stack([first, column[first], bit[first], np.diff(first, append=len(self.selected))], axis=1)


def plan_ldpc(block_bits: int, coded_bits: int, *, bits_per_symbol: int) -> LdpcPlan:
    """The code that Sionna's `LDPC5GEncoder(block_bits, coded_bits, num_bits_per_symbol=bits_per_symbol)` has.

    Raises ValueError for sizes that no base graph has, and for a length that
    is no whole number of symbols.
    """
    if coded_bits % bits_per_symbol:
        raise ValueError(
            f"{coded_bits} coded bits are no whole number of symbols of {bits_per_symbol} bits; use a multiple"
        )
    graph = _base_graph(block_bits, coded_bits)
    lifting_size, set_index = lifting_of(block_bits, graph)
    shifts = base_matrix(graph, set_index)
    information = INFORMATION_COLUMNS[graph]
    filler = information * lifting_size - block_bits
    last = PUNCTURED_COLUMNS * lifting_size + coded_bits + filler
    num_layers = max(-(-last // lifting_size) - information, CORE_LAYERS)
    used = shifts[:num_layers, : information + num_layers].copy()
    used[:, -(-block_bits // lifting_size) : information] = -1
    layer, column = np.nonzero(used >= 0)
    return LdpcPlan(
        base_graph=graph,
        lifting_size=lifting_size,
        block_bits=block_bits,
        coded_bits=coded_bits,
        bits_per_symbol=bits_per_symbol,
        layer_start=np.searchsorted(layer, np.arange(num_layers + 1)).astype(np.int32),
        column=column.astype(np.int32),
        shift=(used[layer, column] % lifting_size).astype(np.int32),
        selected=_selected_places(block_bits, coded_bits, lifting_size, filler=filler),
    )


def _base_graph(block_bits: int, coded_bits: int) -> BaseGraph:
    """TS 38.212 7.2.2, with Sionna's reading of its rate limits."""
    rate = block_bits / coded_bits
    graph: BaseGraph = 2 if block_bits <= 292 or (block_bits <= 3824 and rate <= 0.67) or rate <= 0.25 else 1
    lowest, largest = _LOWEST_RATE[graph], _LARGEST_BLOCK[graph]
    if not 12 <= block_bits <= largest or block_bits * lowest[1] < coded_bits * lowest[0] or rate > 0.95:
        raise ValueError(
            f"base graph {graph} has no code of {block_bits} in {coded_bits} bits; it has blocks from 12 to {largest} "
            f"bits at rates from {lowest[0]}/{lowest[1]} to 0.95"
        )
    return graph


def lifting_of(block_bits: int, graph: BaseGraph) -> tuple[int, int]:
    """Return (lifting size, set index): the smallest size whose columns hold the block, TS 38.212 5.2.2."""
    columns = 22
    if graph == 2:
        columns = 10 if block_bits > 640 else 9 if block_bits > 560 else 8 if block_bits > 192 else 6
    sizes = [
        (base << power, index)
        for index, base in enumerate(_LIFTING_BASES)
        for power in range(8)
        if base << power <= _LARGEST_LIFTING and columns * (base << power) >= block_bits
    ]
    return min(sizes)


@lru_cache(maxsize=16)
def base_matrix(graph: BaseGraph, set_index: int) -> NDArray[np.int32]:
    """Shifts of TS 38.212 Tables 5.3.2-2 and 5.3.2-3 before the modulus, `[rows, columns]`, -1 where there is no edge.

    Read-only, since it is shared.
    """
    lines = files("phy.coding.ldpc").joinpath(f"base_graph_{graph}.csv").read_text().splitlines()
    table = np.loadtxt(lines, np.int32, delimiter=",", skiprows=1)
    matrix = np.full(_SHAPE[graph], -1, np.int32)
    matrix[table[:, 0], table[:, 1]] = table[:, 2 + set_index]
    matrix.flags.writeable = False
    return matrix


def _selected_places(block_bits: int, coded_bits: int, lifting_size: int, *, filler: int) -> NDArray[np.int32]:
    # Bit selection of 5.4.2.1: from behind the punctured columns on, filler bits skipped.
    places = np.arange(coded_bits) + PUNCTURED_COLUMNS * lifting_size
    places[places >= block_bits] += filler
    return places.astype(np.int32)
