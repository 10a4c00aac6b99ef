"""Sizes of the polar code of the uplink, TS 38.212 5.2.1, 5.3.1 and 6.3.1: pure arithmetic for the plan of a packet."""

from __future__ import annotations

from fractions import Fraction

SMALLEST_BLOCK = 12
"""Fewer bits have other codes in the uplink (5.3.3)."""
LARGEST_BLOCK = 1706
"""Most bits of two code blocks (5.2.1)."""
_LARGEST_CODED = 8192
"""Bits of one code block after rate matching (5.4.1.3)."""
SMALLEST_RATE, LARGEST_RATE = Fraction(SMALLEST_BLOCK, _LARGEST_CODED), Fraction(9, 10)


def crc_bits(block_bits: int) -> int:
    """The CRC of a code block, 6.3.1.2.1: 6 bits up to 19 message bits, 11 from 20 on."""
    return 6 if block_bits < 20 else 11


def parity_check_bits(protected_bits: int) -> int:
    """n_PC of a message of K bits with its CRC, 6.3.1.3.1."""
    return 3 if 18 <= protected_bits <= 25 else 0


def num_code_blocks(block_bits: int, coded_bits: int) -> int:
    """Code blocks of `block_bits` message bits, 1 or 2; 6.3.1.2.1 and 5.2.1."""
    return 2 if block_bits >= 1013 or (block_bits >= 360 and coded_bits >= 1088) else 1


def coded_bits_of(block_bits: int, rate: Fraction) -> int:
    """Bits on the air of `block_bits` at `rate`, and at least as many as its code blocks need (5.3.1)."""
    coded = max(-(-block_bits * rate.denominator // rate.numerator), block_bits)
    blocks = num_code_blocks(block_bits, coded)
    message = -(-block_bits // blocks)
    protected = message + crc_bits(message)
    return max(coded, blocks * (protected + parity_check_bits(protected)))


def largest_block(rate: Fraction) -> int:
    """Most message bits at `rate`, up to two code blocks of 8192 coded bits; none are fewer than 12."""
    in_two = min(LARGEST_BLOCK, int(2 * _LARGEST_CODED * rate))
    if num_code_blocks(in_two, -(-in_two * rate.denominator // rate.numerator)) == 2:
        return in_two
    return min(359, int(_LARGEST_CODED * rate))
