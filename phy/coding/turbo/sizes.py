"""Sizes of the turbo code of TS 36.212: code block segmentation (5.1.2) and bits after rate matching (5.1.4.1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

SIZES: tuple[int, ...] = (*range(40, 513, 8), *range(528, 1025, 16), *range(1056, 2049, 32), *range(2112, 6145, 64))
"""Table 5.1.3-3."""
CRC_BITS = 24
"""CRC24B of every code block where there is more than one."""
TAIL_STEPS = 3
"""Steps that lead a component encoder back to the zero state."""


@dataclass(frozen=True)
class CodeBlocks:
    """`count` equal code blocks, one after another.

    - `size`: K, a length of Table 5.1.3-3;
    - `filler`: zeros in front of the block, which are not sent;
    - `crc_bits`: of the block's own CRC;
    - `coded_bits`: E, bits on the air of one block.
    """

    count: int
    size: int
    filler: int
    crc_bits: int
    coded_bits: int

    @property
    def message_bits(self) -> int:
        """Bits of the transport block in one code block."""
        return self.size - self.filler - self.crc_bits


def segment(block_bits: int, coded_bits: int, bits_per_symbol: int) -> tuple[CodeBlocks, ...]:
    """Return the code blocks of a transport block of `block_bits`, its CRC included, in order.

    `coded_bits` G are a multiple of `bits_per_symbol`, on one layer.
    """
    crc_bits = CRC_BITS if block_bits > SIZES[-1] else 0
    count = -(-block_bits // (SIZES[-1] - crc_bits))
    total = block_bits + count * crc_bits
    larger = next(size for size in SIZES if count * size >= total)
    smaller = SIZES[SIZES.index(larger) - 1] if larger > SIZES[0] else 0
    num_smaller = (count * larger - total) // (larger - smaller) if count > 1 else 0
    filler = num_smaller * smaller + (count - num_smaller) * larger - total
    symbols = coded_bits // bits_per_symbol
    num_short = count - symbols % count
    kinds = [
        (
            smaller if number < num_smaller else larger,
            filler if number == 0 else 0,
            crc_bits,
            bits_per_symbol * (symbols // count + (number >= num_short)),
        )
        for number in range(count)
    ]
    return tuple(CodeBlocks(len([*equal]), *kind) for kind, equal in groupby(kinds))


def coded_bits_of(block_bits: int, rate: Fraction, bits_per_symbol: int) -> int:
    """Bits on the air of `block_bits` at `rate`, whole symbols."""
    return -(-block_bits * rate.denominator // (rate.numerator * bits_per_symbol)) * bits_per_symbol
