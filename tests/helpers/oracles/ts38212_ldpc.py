"""A slow reading of TS 38.212 5.2.2, 5.3.2, 5.4.2 and 5.5 for LDPC, word by word: it shares no code with the product.

Base graphs come from the files of Sionna's package; parity bits are solved for by elimination over GF(2).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

SETS = (
    *((2, 4, 8, 16, 32, 64, 128, 256), (3, 6, 12, 24, 48, 96, 192, 384), (5, 10, 20, 40, 80, 160, 320)),
    *((7, 14, 28, 56, 112, 224), (9, 18, 36, 72, 144, 288), (11, 22, 44, 88, 176, 352), (13, 26, 52, 104, 208)),
    (15, 30, 60, 120, 240),
)
"""Table 5.3.2-1."""
NULL = -1
CRC24B = 0b1100000000000000001100011
CRC24A = 0b1100001100100110011111011
CRC16 = 0b10001000000100001


def crc(bits: list[int], generator: int) -> list[int]:
    """Return the parity bits of 5.1 by long division."""
    degree = generator.bit_length() - 1
    divided = [*bits, *[0] * degree]
    for i in range(len(bits)):
        if divided[i]:
            for j in range(degree + 1):
                divided[i + j] ^= generator >> (degree - j) & 1
    return divided[len(bits) :]


@cache
def base_graph(graph: int, size: int) -> dict[tuple[int, int], int]:
    """Return the shift V of every (row, column) of Tables 5.3.2-2 and 5.3.2-3 for lifting size `size`."""
    index = next(i for i, sizes in enumerate(SETS) if size in sizes)
    shifts, row = {}, 0
    for line in files("sionna").joinpath(f"phy/fec/ldpc/codes/5G_bg{graph}.csv").read_text().splitlines()[2:]:
        first, column, *values = line.split(";")
        row = int(first or row)
        shifts[row, int(column)] = int(values[index]) % size
    return shifts


def solve(matrix: NDArray[np.uint8], right: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return x of matrix x = right over GF(2), by elimination."""
    system = np.concatenate([matrix, right[:, None]], axis=1)
    size = len(right)
    for pivot in range(size):
        found = pivot + int(np.argmax(system[pivot:, pivot]))
        system[[pivot, found]] = system[[found, pivot]]
        others = np.flatnonzero(system[:, pivot])
        others = others[others != pivot]
        system[others] ^= system[pivot]
    return np.asarray(system[:, -1])


def lifting_size(information: int, graph: int, block: int) -> int:
    """Return Z_c of 5.2.2: K_b from B, then the smallest of all sizes with K_b Z_c >= K'."""
    if graph == 1:
        columns = 22
    elif information > 640:
        columns = 10
    elif information > 560:
        columns = 9
    else:
        columns = 8 if information > 192 else 6
    return min(size for sizes in SETS for size in sizes if columns * size >= block)


def code_blocks(bits: list[int], graph: int) -> list[list[int]]:
    """Return c_r of 5.2.2 with CRC24B, without filler bits; zeros behind make the blocks equal."""
    largest = 8448 if graph == 1 else 3840
    if len(bits) <= largest:
        return [bits]
    count = -(-len(bits) // (largest - 24))
    own = -(-len(bits) // count)
    padded = bits + [0] * (count * own - len(bits))
    parts = [padded[r * own : (r + 1) * own] for r in range(count)]
    return [part + crc(part, CRC24B) for part in parts]


def encode(block: list[int], graph: int, size: int) -> list[int]:
    """Return d of 5.3.2, filler bits as `NULL`."""
    columns, rows = (22, 46) if graph == 1 else (10, 42)
    length, shifts = columns * size, base_graph(graph, size)
    code = np.zeros(((columns + rows) * size,), np.uint8)
    code[: len(block)] = block

    def checks(row: int) -> NDArray[np.uint8]:
        """Sums of the bits of `code` over a row of the base graph."""
        total = np.zeros(size, np.uint8)
        for (own, column), shift in shifts.items():
            if own == row:
                total ^= np.roll(code[column * size : (column + 1) * size], -shift)
        return total

    core = np.zeros((4 * size, 4 * size), np.uint8)
    for (row, column), shift in shifts.items():
        if row < 4 and column >= columns:
            for i in range(size):
                core[row * size + i, (column - columns) * size + (i + shift) % size] ^= 1
    code[length : length + 4 * size] = solve(core, np.concatenate([checks(row) for row in range(4)]))
    for row in range(4, rows):
        assert shifts[row, columns + row] == 0
        code[(columns + row) * size : (columns + row + 1) * size] = checks(row)
    word = [*block, *[NULL] * (length - len(block)), *code[length:].tolist()]
    return word[2 * size :]


def match(
    word: list[int], *, graph: int, size: int, version: int, sent: int, per_symbol: int, limit: int | None
) -> list[int]:
    """Return f of 5.4.2: bit selection from the circular buffer, then interleaving."""
    full = (66 if graph == 1 else 50) * size
    length = full if limit is None else min(full, limit)
    numerator = {1: (0, 17, 33, 56), 2: (0, 13, 25, 43)}[graph][version]
    start = numerator * length // ((66 if graph == 1 else 50) * size) * size
    selected: list[int] = []
    j = 0
    while len(selected) < sent:
        if word[(start + j) % length] != NULL:
            selected.append(word[(start + j) % length])
        j += 1
    out = [0] * sent
    for j in range(sent // per_symbol):
        for i in range(per_symbol):
            out[i + j * per_symbol] = selected[i * (sent // per_symbol) + j]
    return out


def transport_block(
    bits: list[int], *, graph: int, coded: int, per_symbol: int, version: int, tbs_lbrm: int | None
) -> list[int]:
    """Return g of 5.5 for B bits (their CRC included) in `coded` = G bits of one layer."""
    blocks = code_blocks(bits, graph)
    size = lifting_size(len(bits), graph, len(blocks[0]))
    out: list[int] = []
    for r, block in enumerate(blocks):
        symbols, over = divmod(coded // per_symbol, len(blocks))
        sent = per_symbol * (symbols if r <= len(blocks) - over - 1 else symbols + 1)
        limit = None if tbs_lbrm is None else tbs_lbrm * 3 // (len(blocks) * 2)
        word = encode(block, graph, size)
        out += match(word, graph=graph, size=size, version=version, sent=sent, per_symbol=per_symbol, limit=limit)
    return out
