"""5G LDPC of a whole transport block (TS 38.212 5.2.2 to 5.5): CRC24B, code blocks, rate matching, concatenation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from phy.coding.ldpc.buffer import CircularBuffer, circular_buffer, plan_places
from phy.coding.ldpc.decoder import LdpcDecoder
from phy.coding.ldpc.encoder import LdpcEncoder
from phy.coding.ldpc.plan import LdpcPlan
from phy.coding.ldpc.segmentation import LdpcSegments
from phy.coding.transport.packed_crc import PackedCrc


def folded(llrs: NDArray[np.float32], *, bits_per_symbol: int, start: int, length: int) -> NDArray[np.float32]:
    """Return soft values of a buffer `[n, length]`: those of bits sent from `start` on, interleaved, copies added."""
    count = llrs.shape[1]
    selected = np.ascontiguousarray(llrs.reshape(len(llrs), -1, bits_per_symbol).transpose(0, 2, 1))
    selected = selected.reshape(len(llrs), count)
    buffer = np.zeros((len(llrs), length), np.float32)
    first = 0
    while first < count:
        many = min(length - start, count - first)
        buffer[:, start : start + many] += selected[:, first : first + many]
        first, start = first + many, 0
    return buffer


@lru_cache(maxsize=128)
def _plan_of_one(buffer: CircularBuffer, version: int, coded_bits: int, bits_per_symbol: int) -> LdpcPlan:
    """The code of the bits of one redundancy version, once each, in the order in which they are sent."""
    sent = buffer.sent(version, min(coded_bits, buffer.num_bits))
    return plan_places(buffer, sent, coded_bits=coded_bits, bits_per_symbol=bits_per_symbol)


@lru_cache(maxsize=128)
def _plan_of_several(
    buffer: CircularBuffer, versions: tuple[int, ...], coded_bits: int
) -> tuple[LdpcPlan, NDArray[np.int64]]:
    """(code, places in the buffer) of the bits that any of these redundancy versions sends."""
    sent = np.unique([buffer.sent(version, coded_bits) for version in versions])
    return plan_places(buffer, sent, coded_bits=len(sent), bits_per_symbol=1), sent


@dataclass(frozen=True)
class MatchedBlocks:
    """Code blocks that are sent with equally many bits: encoding, rate matching and bit interleaving (5.3.2, 5.4.2).

    `iterations` as of `phy.coding.kernel_codes.Ldpc`.
    """

    buffer: CircularBuffer
    version: int
    coded_bits: int
    bits_per_symbol: int
    iterations: int

    @property
    def plan(self) -> LdpcPlan:
        """The code as it is sent."""
        return _plan_of_one(self.buffer, self.version, self.coded_bits, self.bits_per_symbol)

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """`[n, block_bits]` to `[n, coded_bits]`."""
        return LdpcEncoder(self.plan).encode(bits)

    def decode(self, llrs: NDArray[np.float32]) -> NDArray[np.uint8]:
        """LLRs ln P(1) / P(0) `[n, coded_bits]` to decided bits `[n, block_bits]`."""
        return LdpcDecoder(plan=self.plan, iterations=self.iterations).decode(llrs)[0]

    def into_buffer(self, llrs: NDArray[np.float32]) -> NDArray[np.float32]:
        """LLRs `[n, coded_bits]` to those of the buffer `[n, buffer.num_bits]`, zero where nothing was sent."""
        start, length = self.buffer.start[self.version], self.buffer.num_bits
        return folded(llrs, bits_per_symbol=self.bits_per_symbol, start=start, length=length)

    def decode_buffer(self, soft: NDArray[np.float32], versions: tuple[int, ...]) -> NDArray[np.uint8]:
        """Soft values of the buffer, of attempts with these redundancy versions, to decided bits `[n, block_bits]`."""
        plan, sent = _plan_of_several(self.buffer, tuple(sorted(set(versions))), self.coded_bits)
        known = soft if len(sent) == self.buffer.num_bits else soft[:, sent]
        return LdpcDecoder(plan=plan, iterations=self.iterations).decode(known)[0]


@dataclass(frozen=True)
class LdpcTransportBlock:
    """A transport block with its CRC behind it as one code: bits `[n, information_bits]` to `[n, sum of E_r]`.

    `versions` are the redundancy versions of all attempts so far, the present one last. With `buffered`, `decode` takes
    what `into_buffer` returns, added up over the attempts: incremental redundancy.
    """

    segments: LdpcSegments
    information_bits: int
    versions: tuple[int, ...]
    iterations: int
    buffered: bool = False

    @property
    def classes(self) -> tuple[tuple[int, MatchedBlocks], ...]:
        """(number, code) of blocks that are sent with equally many bits, in the order of the blocks."""
        segments = self.segments
        buffer = circular_buffer(segments.block_bits, segments.base_graph, segments.buffer_limit)
        return tuple(
            (
                segments.coded_bits.count(length),
                MatchedBlocks(
                    buffer,
                    self.versions[-1],
                    length,
                    segments.bits_per_symbol,
                    self.iterations,
                ),
            )
            for length in dict.fromkeys(segments.coded_bits)
        )

    @property
    def soft_bits(self) -> int:
        """Soft values that are kept of one transport block between attempts."""
        if not self.buffered:
            return sum(self.segments.coded_bits)
        return self.segments.num_blocks * self.classes[0][1].buffer.num_bits

    def blocks_of(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Bits `[n, information_bits]` to code blocks with their own CRC `[n, num_blocks, block_bits]`."""
        own = self.segments.block_bits - self.segments.block_crc_bits
        padded = np.pad(bits, ((0, 0), (0, self.segments.padding_bits))) if self.segments.padding_bits else bits
        blocks = padded.reshape(-1, own)
        if self.segments.block_crc_bits:
            packed = _block_crc().append(np.packbits(blocks, axis=1), num_bits=own)
            blocks = np.unpackbits(packed, axis=1, count=self.segments.block_bits)
        return blocks.reshape(len(bits), self.segments.num_blocks, self.segments.block_bits)

    def information_of(self, blocks: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Decided code blocks `[n, num_blocks, block_bits]` to bits `[n, information_bits]`."""
        own = self.segments.block_bits - self.segments.block_crc_bits
        return blocks[:, :, :own].reshape(len(blocks), -1)[:, : self.information_bits]

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Bits `[n, information_bits]` in {0, 1} to `[n, coded bits]`."""
        blocks, parts, first = self.blocks_of(bits), [], 0
        for number, code in self.classes:
            part = blocks[:, first : first + number].reshape(-1, self.segments.block_bits)
            parts.append(code.encode(part).reshape(len(bits), -1))
            first += number
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def decode(self, llrs: NDArray[np.float32]) -> NDArray[np.uint8]:
        """LLRs ln P(1) / P(0) `[n, coded bits]`, or soft values `[n, soft_bits]`, to bits `[n, information_bits]`."""
        blocks, first = [], 0
        for number, code in self.classes:
            width = code.buffer.num_bits if self.buffered else code.coded_bits
            part = llrs[:, first : first + number * width].reshape(-1, width)
            decided = code.decode_buffer(part, self.versions) if self.buffered else code.decode(part)
            blocks.append(decided.reshape(len(llrs), number, -1))
            first += number * width
        return self.information_of(blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1))

    def into_buffer(self, llrs: NDArray[np.float32]) -> NDArray[np.float32]:
        """LLRs of this attempt `[n, coded bits]` to soft values `[n, soft_bits]` that add up over attempts."""
        parts, first = [], 0
        for number, code in self.classes:
            width = number * code.coded_bits
            part = llrs[:, first : first + width].reshape(-1, code.coded_bits)
            parts.append(code.into_buffer(part).reshape(len(llrs), -1))
            first += width
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _block_crc() -> PackedCrc:
    return PackedCrc.named("crc24b", inverted=False)
