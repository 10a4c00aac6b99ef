"""A transport block under the turbo code, exactly TS 36.212: segmentation, turbo code, rate matching of every block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from phy.coding.transport.packed_crc import PackedCrc
from phy.coding.turbo.code import TurboCode, interleaver
from phy.coding.turbo.sizes import TAIL_STEPS, CodeBlocks, segment

_COLUMNS = (
    0, 16, 8, 24, 4, 20, 12, 28, 2, 18, 10, 26, 6, 22, 14, 30,
    1, 17, 9, 25, 5, 21, 13, 29, 3, 19, 11, 27, 7, 23, 15, 31,
)  # fmt: skip
"""Table 5.1.4-1, columns of the sub-block interleaver in the order in which they are read."""
_NULL = -1


def circular_buffer(size: int, *, filler: int, redundancy_version: int) -> NDArray[np.int64]:
    """Return the places of the bits of one turn of the buffer in the order they are sent, without nulls (5.1.4.1).

    `size` is K of Table 5.1.3-3, its first `filler` bits nulls; the buffer holds all of the code word, N_cb = K_w.
    Places are those of `TurboCode`.
    """
    steps = size + TAIL_STEPS + 1
    rows = -(-steps // len(_COLUMNS))
    length = rows * len(_COLUMNS)
    # Rows of d0, d1 and d2, with nulls in front.
    streams = np.full((3, length), _NULL)
    streams[:, length - steps :] = np.arange(3 * steps).reshape(steps, 3).T
    streams[:2, length - steps : length - steps + filler] = _NULL
    read = np.arange(length)
    in_columns = np.array(_COLUMNS)[read // rows] + len(_COLUMNS) * (read % rows)
    buffer = np.concatenate(
        [
            streams[0, in_columns],
            np.stack([streams[1, in_columns], streams[2, (in_columns + 1) % length]], axis=1).ravel(),
        ]
    )
    start = rows * (2 * -(-len(buffer) // (8 * rows)) * redundancy_version + 2)
    turn = np.roll(buffer, -start)
    sent: NDArray[np.int64] = turn[turn != _NULL]
    return sent


@dataclass(frozen=True)
class TurboTransport:
    """Turbo code of `block_bits`, their CRC included, sent as `coded_bits`, whole symbols of `bits_per_symbol`.

    `iterations` is the most that the decoder makes; `redundancy_version` is rv_idx, 0 to 3, of 5.1.4.1.2. The check
    sum of a code block is sent and not checked: that of the packet decides.
    """

    block_bits: int
    coded_bits: int
    bits_per_symbol: int
    iterations: int
    redundancy_version: int = 0

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Bits `[n, block_bits]` to `[n, coded_bits]`, both in {0, 1}."""
        words, taken = [], 0
        for blocks, code in self._codes:
            message = bits[:, taken : taken + blocks.count * blocks.message_bits].reshape(-1, blocks.message_bits)
            taken += blocks.count * blocks.message_bits
            if blocks.crc_bits:
                packed = _block_crc().append(np.packbits(message, axis=1), num_bits=blocks.message_bits)
                message = np.unpackbits(packed, axis=1, count=blocks.message_bits + blocks.crc_bits)
            coded = code.encode(np.pad(message, ((0, 0), (blocks.filler, 0))))
            turns = -(-blocks.coded_bits // coded.shape[1])
            words.append(np.tile(coded, (1, turns))[:, : blocks.coded_bits].reshape(len(bits), -1))
        return np.concatenate(words, axis=1)

    def decode(self, llrs: NDArray[np.float32]) -> NDArray[np.uint8]:
        """LLRs ln P(1) / P(0) `[n, coded_bits]` to bits `[n, block_bits]`."""
        decided, taken = [], 0
        for blocks, code in self._codes:
            words = llrs[:, taken : taken + blocks.count * blocks.coded_bits].reshape(-1, blocks.coded_bits)
            taken += blocks.count * blocks.coded_bits
            turn = len(code.sent)
            if turn < blocks.coded_bits:
                missing = -blocks.coded_bits % turn
                words = np.pad(words, ((0, 0), (0, missing))).reshape(len(words), -1, turn).sum(axis=1)
            message = code.decode(words)[:, blocks.filler : blocks.filler + blocks.message_bits]
            decided.append(message.reshape(len(llrs), -1))
        return np.concatenate(decided, axis=1)

    @cached_property
    def _codes(self) -> tuple[tuple[CodeBlocks, TurboCode], ...]:
        segments = segment(self.block_bits, self.coded_bits, self.bits_per_symbol)
        return tuple((blocks, self._code_of(blocks)) for blocks in segments)

    def _code_of(self, blocks: CodeBlocks) -> TurboCode:
        turn = circular_buffer(blocks.size, filler=blocks.filler, redundancy_version=self.redundancy_version)
        return TurboCode(
            self.iterations, interleaver(blocks.size), sent=turn[: blocks.coded_bits], filler=blocks.filler
        )


def _block_crc() -> PackedCrc:
    return PackedCrc.named("crc24b", inverted=False)
