"""Base graph, code blocks and coded lengths of a transport block under TS 38.212; pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

BaseGraph = Literal[1, 2]

BLOCK_CRC_BITS = 24
"""CRC24B of every code block where there are several, TS 38.212 5.2.2."""
_LARGEST_BLOCK: dict[BaseGraph, int] = {1: 8448, 2: 3840}
_SMALL_PAYLOAD, _MEDIUM_PAYLOAD = 292, 3824
_MEDIUM_RATE, _LOW_RATE = Fraction(67, 100), Fraction(1, 4)
_VERSIONS = (0, 2, 3, 1)
_BUFFER_RATE = Fraction(2, 3)
"""R_LBRM of TS 38.212 5.4.2.1."""


@dataclass(frozen=True, kw_only=True)
class LdpcSegments:
    """Code blocks of one transport block, all sizes in bits.

    - `block_bits`: K', `block_crc_bits` of them the block's own CRC24B;
    - `padding_bits`: zeros behind the transport block and its CRC, with which its blocks are equal: none where the
      size is one of TS 38.214 5.1.3.2;
    - `coded_bits`: E_r of every block, TS 38.212 5.4.2.1;
    - `buffer_limit`: N_ref of the limited buffer, None without one.
    """

    base_graph: BaseGraph
    num_blocks: int
    block_bits: int
    block_crc_bits: int
    padding_bits: int
    coded_bits: tuple[int, ...]
    bits_per_symbol: int
    buffer_limit: int | None


def base_graph_of(payload_bits: int, rate: Fraction) -> BaseGraph:
    """Return the base graph of a payload (without its CRC) at a code rate, TS 38.212 6.2.2 and 7.2.2."""
    small = payload_bits <= _SMALL_PAYLOAD or (payload_bits <= _MEDIUM_PAYLOAD and rate <= _MEDIUM_RATE)
    return 2 if small or rate <= _LOW_RATE else 1


def segment(
    information_bits: int,
    *,
    base_graph: BaseGraph,
    coded_bits: int,
    bits_per_symbol: int,
    tbs_lbrm_bits: int | None = None,
) -> LdpcSegments:
    """Cut `information_bits` (B, the CRC of the transport block included) into code blocks of TS 38.212 5.2.2.

    The `coded_bits` (G, of one layer, whole symbols) are shared out by 5.4.2.1: the last blocks have one symbol more.
    """
    largest = _LARGEST_BLOCK[base_graph]
    crc = BLOCK_CRC_BITS if information_bits > largest else 0
    blocks = -(-information_bits // (largest - crc))
    own_bits = -(-information_bits // blocks)
    symbols = coded_bits // bits_per_symbol
    longer = symbols % blocks
    short = symbols // blocks * bits_per_symbol
    return LdpcSegments(
        base_graph=base_graph,
        num_blocks=blocks,
        block_bits=own_bits + crc,
        block_crc_bits=crc,
        padding_bits=blocks * own_bits - information_bits,
        coded_bits=(short,) * (blocks - longer) + (short + bits_per_symbol,) * longer,
        bits_per_symbol=bits_per_symbol,
        buffer_limit=None if tbs_lbrm_bits is None else int(tbs_lbrm_bits / (blocks * _BUFFER_RATE)),
    )


def versions_until(attempt: int, *, first: int) -> tuple[int, ...]:
    """Return the redundancy versions of the attempts up to `attempt` (0 is the first one), of the last four at most.

    The order is 0, 2, 3, 1, as of repetitions in TS 38.214 6.1.2.1, from `first` on.
    """
    start = _VERSIONS.index(first)
    last = min(attempt + 1, len(_VERSIONS))
    return tuple(_VERSIONS[(start + one) % len(_VERSIONS)] for one in range(attempt + 1 - last, attempt + 1))
