"""Split of a packet into code blocks: pure arithmetic, so that a scenario is checked without TensorFlow.

A packet of `payload_bits` gets its CRC, then zero filler bits until it is `num_blocks` equal blocks of `block_bits`;
each becomes `coded_block_bits`, and zero padding completes the last symbol. Under `standard: 3gpp` a block of `turbo`
and `polar5g` is a transport block, which these codes cut into code blocks of their own as their standards do.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from phy.coding.ldpc.segmentation import LdpcSegments, base_graph_of, segment
from phy.coding.polar import sizes as polar_sizes
from phy.coding.transport.block_size import smallest_allocation
from phy.coding.turbo import sizes as turbo_sizes
from phy.config.coding import CRC_BITS, CodingConfig
from phy.config.conflict import Conflict, Remedy, Say, Write

Coding = Literal["none"] | CodingConfig

INTERLEAVER_SEED = 38212
"""Key of the Philox generator that draws the permutation of a packet's coded bits, the same for every packet."""

LDPC_MAX_RATE = Fraction(948, 1024)
"""Largest code rate of TS 38.212 5.4.2.1."""
LDPC_SHORT_RATE = Fraction(8, 9)
"""Largest rate of blocks up to 292 bits (base graph 2): at 948/1024 belief propagation leaves some of them undecided
without any noise, measured from 12 to 299 bits."""
LDPC_SHORT_BITS = 292
LDPC_MOTHER_RATE = Fraction(1, 5)
"""Lowest rate of base graph 2; below it the code word is repeated."""
TURBO_MAX_RATE = Fraction(93, 100)
"""Largest rate at which a receiver of LTE must decode, TS 36.213 7.1.7."""

_KEYS = "coding.block_length coding.rate coding.code coding mcs"
_SMALLEST_BLOCK = {"repetition": 1, "convolutional": 1, "turbo": 40, "polar5g": 12, "ldpc5g": 12}
# Of Sionna's polar encoder.
_POLAR_MAX_INFORMATION, _POLAR_MIN_CODED, _POLAR_MAX_CODED = 1013, 18, 1088
_POLAR_SLOWEST = Fraction(1, 8)
_TRELLIS_RATES = (Fraction(1, 2), Fraction(1, 3))
# A whole packet as one trellis would hold its every state at every bit; the tail costs a longer block nothing.
_CONVOLUTIONAL_BLOCK = 1024


@dataclass(frozen=True)
class PacketPlan:
    """Sizes of one packet on its way through a code, all in bits.

    `payload_bits + stuffing_bits + crc_bits + filler_bits = num_blocks * block_bits` and
    `num_blocks * coded_block_bits + padding_bits = coded_bits`, a multiple of the bits per symbol. Stuffing completes
    a transport block size of TS 38.214, or 12 bits of a smaller packet. Code blocks by TS 38.212 are `segments`, of
    different coded lengths; the whole transport block is then the one block of the packet.
    """

    payload_bits: int
    crc_bits: int
    filler_bits: int
    num_blocks: int
    block_bits: int
    coded_block_bits: int
    padding_bits: int
    stuffing_bits: int = 0
    segments: LdpcSegments | None = None

    @property
    def coded_bits(self) -> int:
        """Bits on the air."""
        return self.num_blocks * self.coded_block_bits + self.padding_bits

    @property
    def rate(self) -> float:
        """Payload bits per bit on the air: code rate less CRC, tails, filler and padding."""
        return self.payload_bits / self.coded_bits


def exact_rate(coding: CodingConfig) -> Fraction:
    """The fraction that was meant: 0.3333333 is 1/3, and 38.214 counts in 1024ths."""
    return Fraction(coding.rate).limit_denominator(4096)


def plan_packet(coding: Coding, *, payload_bits: int, bits_per_symbol: int, crc: str | None) -> PacketPlan:
    """Sizes of a packet of `payload_bits` >= 1; `crc` names a polynomial of `CRC_BITS`.

    An automatic block length gives as few and equal blocks as the code allows; an explicit one is kept, and filler
    completes the last block. Raises ValueError with problem and remedy where the code cannot do it.
    """
    problem = coding_problem(coding, payload_bits=payload_bits, bits_per_symbol=bits_per_symbol, crc=crc)
    if problem is not None:
        raise ValueError(problem)
    crc_bits = 0 if crc is None else CRC_BITS[crc]
    if coding != "none" and coding.cuts_by_standard:
        return _by_standard(coding, payload_bits=payload_bits, bits_per_symbol=bits_per_symbol, crc_bits=crc_bits)
    information = payload_bits + crc_bits
    if coding == "none":
        num_blocks, block_bits, coded_block_bits = 1, information, information
    else:
        num_blocks, block_bits = _segments(coding, information)
        coded_block_bits = _coded_block_bits(coding, block_bits, bits_per_symbol)
    return PacketPlan(
        payload_bits=payload_bits,
        crc_bits=crc_bits,
        filler_bits=num_blocks * block_bits - information,
        num_blocks=num_blocks,
        block_bits=block_bits,
        coded_block_bits=coded_block_bits,
        padding_bits=-num_blocks * coded_block_bits % bits_per_symbol,
    )


def _by_standard(coding: CodingConfig, *, payload_bits: int, bits_per_symbol: int, crc_bits: int) -> PacketPlan:
    """LDPC under TS 38.212: A is the payload, or the next transport block size of TS 38.214 5.1.3.2."""
    rate = exact_rate(coding)
    if coding.transport_block == "ts38214":
        symbols, transport = smallest_allocation(payload_bits, rate=rate, bits_per_symbol=bits_per_symbol)
    else:
        # Of fewer bits, belief propagation leaves some undecided; the smallest block of TS 38.214 5.1.3.2 has 24.
        transport = max(payload_bits, _SMALLEST_BLOCK[coding.code])
        # The scheduler chooses how many symbols are sent: enough that belief propagation decodes small blocks.
        held = min(rate, LDPC_SHORT_RATE) if transport <= LDPC_SHORT_BITS else rate
        symbols = _ceil((transport + crc_bits) / held / bits_per_symbol)
    information = transport + crc_bits
    segments = segment(
        information,
        base_graph=base_graph_of(transport, rate),
        coded_bits=symbols * bits_per_symbol,
        bits_per_symbol=bits_per_symbol,
        tbs_lbrm_bits=coding.tbs_lbrm_bits,
    )
    return PacketPlan(
        payload_bits=payload_bits,
        crc_bits=crc_bits,
        filler_bits=0,
        num_blocks=1,
        block_bits=information,
        coded_block_bits=symbols * bits_per_symbol,
        padding_bits=0,
        stuffing_bits=transport - payload_bits,
        segments=segments,
    )


def coding_problem(coding: Coding, *, payload_bits: int, bits_per_symbol: int, crc: str | None) -> Conflict | None:
    """The conflict where a code cannot carry such packets, else None."""
    if payload_bits < 1 or bits_per_symbol < 1:
        problem = f"a packet of {payload_bits} bits at {bits_per_symbol} bits per symbol is empty"
        return Conflict(_KEYS, problem, Say("send at least one"))
    if crc is not None and crc not in CRC_BITS:
        return Conflict(_KEYS, f"crc {crc} is not known", Say(f"use one of {', '.join(CRC_BITS)}"))
    if coding == "none":
        return None
    return _rate_problem(coding) or _block_problem(coding)


def _rate_problem(coding: CodingConfig) -> Conflict | None:
    rate = exact_rate(coding)
    said = f"{coding.code} cannot do rate {coding.rate:.4g}"
    by_standard = coding.standard == "3gpp"
    trellis = coding.code == "convolutional" or (coding.code == "turbo" and not by_standard)
    if trellis and rate not in _TRELLIS_RATES:
        return Conflict(
            _KEYS,
            f"{said}; it has the rates 1/2 and 1/3",
            Write({"rate": "1/2"}),
            Write({"rate": "1/3"}),
            Write({"code": "ldpc5g"}, note="for any other"),
        )
    if coding.code == "turbo" and rate > TURBO_MAX_RATE:
        return Conflict(_KEYS, f"{said}; its largest is 0.93 (TS 36.213 7.1.7)", *_lower("9/10"))
    slowest, fastest = polar_sizes.SMALLEST_RATE if by_standard else _POLAR_SLOWEST, polar_sizes.LARGEST_RATE
    if coding.code == "polar5g" and not slowest <= rate <= fastest:
        return Conflict(
            _KEYS,
            f"{said}; it has rates from {slowest} to {fastest}",
            Write({"rate": "1/2"}),
            Write({"code": "ldpc5g"}),
        )
    if coding.code == "ldpc5g" and rate > LDPC_MAX_RATE:
        return Conflict(_KEYS, f"{said}; its largest is 948/1024 (TS 38.212 5.4.2.1)", *_lower("8/9"))
    return None


def _lower(rate: str) -> tuple[Remedy, ...]:
    return Write({"rate": rate}, note="or less"), Write({"coding": "none"})


def _block_problem(coding: CodingConfig) -> Conflict | None:
    if coding.block_length == "auto":
        return None
    smallest, largest = _smallest_block(coding), largest_block(coding)
    if smallest <= coding.block_length and (largest is None or coding.block_length <= largest):
        return None
    limits = f"from {smallest} to {largest}"
    return Conflict(
        _KEYS,
        f"{coding.code} at rate {coding.rate:.4g} has blocks {limits} bits, block_length is {coding.block_length}",
        Write({"block_length": "auto"}),
        Say(f"one {limits}"),
    )


def _smallest_block(coding: CodingConfig) -> int:
    return 1 if coding.code == "turbo" and coding.standard == "3gpp" else _SMALLEST_BLOCK[coding.code]


def largest_block(coding: CodingConfig) -> int | None:
    """Most information bits of one block at this rate, None without a limit."""
    if coding.code == "turbo":
        return turbo_sizes.SIZES[-1]
    if coding.code == "polar5g" and coding.standard == "3gpp":
        return polar_sizes.largest_block(exact_rate(coding))
    if coding.code == "polar5g":
        return min(_POLAR_MAX_INFORMATION, int(_POLAR_MAX_CODED * exact_rate(coding)))
    if coding.code == "ldpc5g":
        # Base graph 1 starts at rate 1/3; base graph 2 serves everything below, up to 3824 bits.
        return 8448 if exact_rate(coding) >= Fraction(1, 3) else 3824
    return None


def _segments(coding: CodingConfig, information: int) -> tuple[int, int]:
    if coding.block_length != "auto":
        return -(-information // coding.block_length), coding.block_length
    if coding.code == "turbo" and coding.standard == "3gpp":
        return 1, information
    largest = _CONVOLUTIONAL_BLOCK if coding.code == "convolutional" else largest_block(coding) or information
    num_blocks = -(-information // largest)
    return num_blocks, max(-(-information // num_blocks), _smallest_block(coding))


def _coded_block_bits(coding: CodingConfig, block_bits: int, bits_per_symbol: int) -> int:
    rate = exact_rate(coding)
    if coding.code == "ldpc5g" and block_bits <= LDPC_SHORT_BITS:
        rate = min(rate, LDPC_SHORT_RATE)
    if coding.code == "convolutional":
        return (block_bits + coding.constraint_length - 1) * rate.denominator
    if coding.code == "turbo" and coding.standard == "3gpp":
        return turbo_sizes.coded_bits_of(block_bits, rate, bits_per_symbol)
    if coding.code == "turbo":
        # Four tail symbols of three bits (TS 36.212 5.1.3.2.2), punctured with the rest.
        return (block_bits + turbo_sizes.TAIL_STEPS + 1) * rate.denominator
    if coding.code == "polar5g" and coding.standard == "3gpp":
        return polar_sizes.coded_bits_of(block_bits, rate)
    coded = _ceil(block_bits / rate)
    if coding.code == "polar5g":
        return max(coded, block_bits + polar_sizes.crc_bits(block_bits), _POLAR_MIN_CODED)
    if coding.code == "ldpc5g":
        return _whole_symbols(coded, block_bits, bits_per_symbol)
    return coded


def _whole_symbols(coded: int, block_bits: int, bits_per_symbol: int) -> int:
    """The interleaver of TS 38.212 5.4.2.2 fills whole symbols, where possible without leaving the base graph."""
    rounded = _ceil(Fraction(coded, bits_per_symbol)) * bits_per_symbol
    for mother in (Fraction(1, 3), LDPC_MOTHER_RATE):
        limit = int(block_bits / mother)
        if coded <= limit < rounded and limit // bits_per_symbol * bits_per_symbol >= block_bits:
            return limit // bits_per_symbol * bits_per_symbol
    return rounded


def ldpc_mother_bits(block_bits: int, coded_block_bits: int, bits_per_symbol: int) -> int:
    """Length of the code word that is sent, or repeated cyclically where the rate is below 1/5."""
    longest = int(block_bits / LDPC_MOTHER_RATE) // bits_per_symbol * bits_per_symbol
    return min(coded_block_bits, longest)


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
