"""The turbo code of TS 36.212 5.1.3.2: two recursive encoders of eight states and their interleaver."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.coding.byte_slices import AT_ONCE, clear, join, split
from phy.coding.soft_lanes import LANES, run_lanes
from phy.coding.turbo.bcjr import LARGEST, NUM_SCRATCH, decode_blocks
from phy.coding.turbo.sizes import TAIL_STEPS
from phy.numerics.compiled import aligned_zeros, lean_kernel


@dataclass(frozen=True, eq=False)
class TurboCode:
    """One terminated code block, of which the bits at the places `sent` are on the air.

    Places count, step by step, the information bit and the two parity bits, then the tails (x, z, x, z, x, z) of the
    first and of the second encoder: d0, d1, d2 of each step in turn (5.1.3.2.2). `permutation` is the place of the bit
    that the second encoder reads at each step. The first `filler` bits of a block are known to be zero. `iterations`
    is the most that the decoder makes: it stops when both component decoders agree on every bit.
    """

    iterations: int
    permutation: NDArray[np.int64]
    sent: NDArray[np.int64]
    filler: int = 0

    @property
    def block_bits(self) -> int:
        """Information bits, filler included."""
        return len(self.permutation)

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Bits `[n, block_bits]` to `[n, bits on the air]`, both in {0, 1}."""
        all_bits = 3 * self.block_bits + 4 * TAIL_STEPS
        coded, joined = np.empty((len(bits), all_bits), np.uint8), np.empty(self.block_bits, np.uint8)
        _encode(np.ascontiguousarray(bits), self.permutation, joined, np.empty(all_bits, np.uint8), coded)
        return coded if np.array_equal(self.sent, np.arange(all_bits)) else coded.take(self.sent, axis=1)

    def decode(self, llrs: NDArray[np.float32]) -> NDArray[np.uint8]:
        """LLRs ln P(1) / P(0) `[n, bits on the air]` to bits `[n, block_bits]`."""
        llrs = np.ascontiguousarray(llrs, np.float32)
        bits = np.empty((len(llrs), self.block_bits), np.uint8)
        steps = self.block_bits + TAIL_STEPS

        def run(first: int, last: int) -> None:
            values = aligned_zeros((3 * (steps + 1), LANES), np.int16)
            values[: 3 * self.filler : 3] = -LARGEST
            decode_blocks(
                llrs,
                self.sent,
                self._places,
                self.iterations,
                np.empty((LANES, llrs.shape[1]), np.int16),
                values,
                aligned_zeros((2, self.block_bits + 1, LANES), np.int16),
                aligned_zeros((self.block_bits, LANES), np.int16),
                aligned_zeros((steps, 8, LANES), np.int16),
                aligned_zeros((NUM_SCRATCH, LANES), np.int16),
                bits,
                first,
                last,
            )

        run_lanes(run, count=len(llrs))
        return bits

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Places of information, parity and a-priori value of both decoders at every step, `[2, 3, steps]`.

        Tail bits have no a-priori value: theirs is the place behind the block, which stays zero.
        """
        steps, tail = np.arange(self.block_bits), np.arange(TAIL_STEPS)
        order = (steps, self.permutation)
        return np.stack(
            [
                [
                    np.concatenate([3 * order[number], 3 * self.block_bits + 6 * number + 2 * tail]),
                    np.concatenate([3 * steps + 1 + number, 3 * self.block_bits + 6 * number + 2 * tail + 1]),
                    np.concatenate([order[number], np.full(TAIL_STEPS, self.block_bits)]),
                ]
                for number in range(2)
            ]
        )


def interleaver(size: int) -> NDArray[np.int64]:
    """Quadratic permutation f1 i + f2 i^2 mod K of the next length of Table 5.1.3-3 that is at least `size`."""
    lines = files("phy.coding.turbo").joinpath("interleavers.csv").read_text().splitlines()
    table = np.loadtxt(lines, np.int64, delimiter=",", skiprows=1)
    length, first, second = table[np.searchsorted(table[:, 0], size)]
    steps = np.arange(length)
    places: NDArray[np.int64] = (first * steps + second * steps**2) % length
    return places


def punctured_code(block_bits: int, outputs: int, iterations: int) -> TurboCode:
    """Return the code of Sionna 1.2.2: rate 1/3, or 1/2 with every other bit of both parities left out.

    Puncturing goes on through the tails. An interleaver that is too long leaves out what is beyond the block.
    """
    places = interleaver(block_bits)
    pattern = {3: [True, True, True], 2: [True, True, False, True, False, True]}[outputs]
    sent = np.flatnonzero(np.resize(pattern, 3 * block_bits + 4 * TAIL_STEPS))
    return TurboCode(iterations, places[places < block_bits], sent)


@lean_kernel
def _encode(bits: Any, permutation: Any, joined: Any, full: Any, coded: Any) -> None:
    """Feedback 1 + D^2 + D^3, parity 1 + D + D^3 (TS 36.212 5.1.3.2.1); tails feed back what clears the register."""
    length = bits.shape[1]
    for begin in range(0, len(bits), AT_ONCE):
        present = min(AT_ONCE, len(bits) - begin)
        clear(joined)
        for row in range(present):
            join(bits[begin + row], np.uint8(1 << row), joined)
        for number in range(2):
            first, second, third = np.uint8(0), np.uint8(0), np.uint8(0)
            for t in range(length + TAIL_STEPS):
                feedback = second ^ third
                if t < length:
                    bit = joined[permutation[t]] if number else joined[t]
                    at = 3 * t + number
                    if number == 0:
                        full[at] = bit
                else:
                    bit, at = feedback, 3 * length + 6 * number + 2 * (t - length)
                    full[at] = bit
                entered = bit ^ feedback
                full[at + 1] = entered ^ first ^ third
                first, second, third = entered, first, second
        for row in range(present):
            split(full, np.uint8(1 << row), coded[begin + row])
