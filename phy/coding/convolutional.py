"""Terminated convolutional codes: encoder in NumPy, Viterbi decoder in a kernel.

The state of the shift register is its last m = K - 1 input bits, the latest highest. States 2j and 2j + 1 lead to j
(input 0) and to j + S / 2 (input 1), S = 2^m. Every polynomial has both outer taps, so the four branches of this
butterfly carry a word c and its complement: their metrics are +M(c) and -M(c), with M(c) = sum_i (2 c_i - 1) LLR_i.

Path metrics are 16-bit numbers modulo 2^16. Those of two states differ by less than 2^15, so the sign of a difference
is right although metrics wrap around (Hekstra, IEEE Trans. Commun. 37, 1989).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.coding.soft_lanes import LANES, quantise, run_lanes, to_lanes
from phy.config.coding import CodingStandard
from phy.numerics.compiled import aligned_zeros, inlined, lean_kernel

POLYNOMIALS: dict[tuple[int, int], tuple[int, ...]] = {
    (2, 3): (0o5, 0o7),
    (2, 4): (0o15, 0o17),
    (2, 5): (0o23, 0o35),
    (2, 6): (0o65, 0o57),
    (2, 7): (0o133, 0o171),
    (2, 8): (0o345, 0o237),
    (3, 3): (0o5, 0o7, 0o7),
    (3, 4): (0o13, 0o15, 0o17),
    (3, 5): (0o25, 0o33, 0o37),
    (3, 6): (0o47, 0o53, 0o75),
    (3, 7): (0o133, 0o145, 0o175),
    (3, 8): (0o225, 0o331, 0o367),
}
"""Generators of the largest free distance by (outputs, constraint length), the current bit highest.

T. K. Moon, Error Correction Coding, 2005, Table 12.1; K. J. Larsen, IEEE Trans. Inf. Theory 19, 1973."""
SIONNA_POLYNOMIALS: dict[tuple[int, int], tuple[int, ...]] = {
    **POLYNOMIALS,
    (2, 4): (0o15, 0o13),
    (2, 5): (0o23, 0o33),
    (3, 7): (0o171, 0o145, 0o133),
}
"""Those of `ConvEncoder` of Sionna 1.2.2; these three differ from the table."""

_WORD = 16
"""Decisions of one lane in one word."""
_STEPS, _LARGEST = np.float32(16.0), np.float32(512.0)
"""Steps per unit of LLR, and the largest LLR in steps: a probability of error of e^-32."""
_ZERO = np.int16(0)
_NONE, _ONE, _SIGN = np.uint16(0), np.uint16(1), np.uint16(15)
_HERE, _SHIFT = np.int16(1), np.int16(15)


def polynomials_of(outputs: int, constraint_length: int, *, standard: CodingStandard) -> tuple[int, ...]:
    """Return those of the table, or the ones of Sionna 1.2.2 under `sionna`."""
    table = POLYNOMIALS if standard == "3gpp" else SIONNA_POLYNOMIALS
    return table[outputs, constraint_length]


@dataclass(frozen=True)
class ConvolutionalCode:
    """Feed-forward code of rate 1 / `outputs` that starts in and returns to the zero state."""

    block_bits: int
    outputs: int
    constraint_length: int
    standard: CodingStandard = "3gpp"

    @property
    def polynomials(self) -> tuple[int, ...]:
        """Generator polynomials, the current bit highest."""
        return polynomials_of(self.outputs, self.constraint_length, standard=self.standard)

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Bits `[n, block_bits]` to `[n, (block_bits + K - 1) outputs]`, both in {0, 1}."""
        memory = self.constraint_length - 1
        steps = self.block_bits + memory
        packed = np.pad(np.packbits(bits, axis=1), ((0, 0), (1, 1)))
        # A byte and the bits before it that are in the register still.
        register = packed[:, :-1].astype(np.uint16) << 8 | packed[:, 1:]
        register &= (1 << 8 + memory) - 1
        # `take` copies rows ten times as fast as an index of arrays.
        return self._coded_bytes.take(register, axis=0).reshape(len(bits), -1)[:, : steps * self.outputs]

    @cached_property
    def _coded_bytes(self) -> NDArray[np.uint8]:
        """Coded bits of eight steps, `[2^(K + 7), 8 outputs]`, by input bits, the latest lowest."""
        inputs = np.arange(1 << self.constraint_length + 7)
        latest_lowest = [int(f"{polynomial:0{self.constraint_length}b}"[::-1], 2) for polynomial in self.polynomials]
        registers = inputs[:, None, None] >> np.arange(7, -1, -1)[:, None] & np.array(latest_lowest)
        parities: NDArray[np.uint8] = np.bitwise_count(registers) & np.uint8(1)
        return parities.reshape(len(inputs), -1)

    def decode(self, llrs: NDArray[np.float32]) -> NDArray[np.uint8]:
        """LLRs ln P(1) / P(0) `[n, coded bits]` to the bits `[n, block_bits]` of the likeliest code word."""
        llrs = np.ascontiguousarray(llrs, np.float32)
        packed = np.empty((len(llrs), -(-self.block_bits // 8)), np.uint8)
        memory = self.constraint_length - 1
        steps, states = self.block_bits + memory, 1 << memory
        words = -(-states // 2 // _WORD)

        def run(first: int, last: int) -> None:
            _viterbi(
                llrs,
                self.outputs,
                memory,
                self._butterflies,
                np.empty((LANES, llrs.shape[1]), np.int16),
                aligned_zeros((llrs.shape[1], LANES), np.int16),
                aligned_zeros((4, LANES), np.int16),
                aligned_zeros((2, states, LANES), np.int16),
                aligned_zeros((steps, 2 * words, LANES), np.uint16),
                aligned_zeros((4, LANES), np.uint16),
                packed,
                first,
                last,
            )

        run_lanes(run, count=len(llrs))
        return np.unpackbits(packed, axis=1, count=self.block_bits)

    @cached_property
    def _butterflies(self) -> NDArray[np.uint64]:
        """Of states 2j and 2j + 1, `[S / 2, 5]`.

        Place of the metric, the two states that 2j reaches with it and with its negative, and the words of decisions of
        both.
        """
        most, half = (1 << (self.outputs - 1)) - 1, 1 << (self.constraint_length - 2)
        words = -(-half // _WORD)
        rows = []
        for j in range(half):
            word = 0
            for polynomial in self.polynomials:
                word = 2 * word + (2 * j & polynomial).bit_count() % 2
            negative = int(not word >> (self.outputs - 1))
            ends = [(negative, j), (1 - negative, j)]
            states, decisions = [half * bit + j for bit, j in ends], [words * bit + j // _WORD for bit, j in ends]
            rows.append([~word & most if negative else word & most, *states, *decisions])
        return np.array(rows, np.uint64)


@inlined
def _branch_metric(first: Any, second: Any, second_sign: Any, third: Any, third_sign: Any, metrics: Any) -> None:
    """Metric of a word that begins with 1."""
    for i in range(LANES):
        metrics[i] = np.int16(first[i] + second_sign * second[i] + third_sign * third[i])


@inlined
def _first_steps(start: Any, branch: Any, plus: Any, minus: Any) -> None:
    """A butterfly before step m: only state 2j can have been reached from the zero state."""
    for i in range(LANES):
        plus[i] = np.int16(start[i] + branch[i])
        minus[i] = np.int16(start[i] - branch[i])


@inlined
def _butterfly(even: Any, odd: Any, branch: Any, plus: Any, minus: Any, plus_decided: Any, minus_decided: Any) -> None:
    """From states 2j and 2j + 1 to the two states whose branch from 2j has the metric +M and -M.

    Shifts into what is decided a 1 where the path over 2j + 1 is better.
    """
    for i in range(LANES):
        a, b = np.int16(even[i] + branch[i]), np.int16(odd[i] - branch[i])
        plus[i] = np.int16(a + max(np.int16(b - a), _ZERO))
        better = np.uint16(np.uint16(np.int16(a - b)) >> _SIGN)
        plus_decided[i] = np.uint16(np.uint16(plus_decided[i] << _ONE) | better)
        c, d = np.int16(even[i] - branch[i]), np.int16(odd[i] + branch[i])
        minus[i] = np.int16(c + max(np.int16(d - c), _ZERO))
        better = np.uint16(np.uint16(np.int16(c - d)) >> _SIGN)
        minus_decided[i] = np.uint16(np.uint16(minus_decided[i] << _ONE) | better)


@inlined
def _find(decided: Any, word: Any, word_of: Any, found: Any) -> None:
    """Take the decisions of that word in the lanes whose state has its own there."""
    for i in range(LANES):
        elsewhere = np.int16(np.uint16(word_of[i] ^ word))  # 0 if here; LLVM takes lane by lane what is written as `==`
        found[i] |= np.uint16(decided[i] & np.uint16(np.int16(np.int16(elsewhere - _HERE) >> _SHIFT)))


@inlined
def _step_back(
    state: Any, word_of: Any, found: Any, history: Any, half: Any, top: Any, latest: Any, shift: Any
) -> None:
    """One step back along the best paths: `history` takes in the bit that led to each state.

    Shifts are masked for LLVM to see that 16 bits are enough: numba shifts in 64.
    """
    for i in range(LANES):
        before, bit = np.uint16(state[i] & half), np.uint16(state[i] >> np.uint16(latest & _SIGN))
        place = np.uint16(np.uint16(top - np.uint16(before & top)) & _SIGN)
        new = np.uint16(np.uint16(before + before) + np.uint16(np.uint16(found[i] >> place) & _ONE))
        history[i] = np.uint16(np.uint16(history[i] >> _ONE) | np.uint16(bit << np.uint16(7)))
        state[i], found[i] = new, _NONE
        word_of[i] = np.uint16(new >> np.uint16(shift & _SIGN))


@lean_kernel
def _viterbi(
    llrs: Any,
    outputs: Any,
    memory: Any,
    butterflies: Any,
    rows: Any,
    values: Any,
    branch: Any,
    metrics: Any,
    decided: Any,
    back: Any,
    packed: Any,
    begin: Any,
    end: Any,
) -> None:
    """Decide code words `begin` to `end` - 1, `LANES` at once; `decided` is zero in the first m steps."""
    half, stride = 1 << (memory - 1), llrs.shape[1]
    words, steps = (half + _WORD - 1) // _WORD, stride // outputs
    state, word_of, found, history = back[0], back[1], back[2], back[3]
    latest, below, top = np.uint16(memory - 1), np.uint16(half - 1), np.uint16(min(half, _WORD) - 1)
    word_shift = np.uint16(min(memory - 1, 4))  # 16 states to a word
    for first in range(begin, end, LANES):
        for i in range(LANES):
            quantise(llrs[min(first + i, end - 1)], _STEPS, _LARGEST, rows[i])
        for place in range(stride):
            to_lanes(rows, place, values[place])
        for i in range(LANES):
            metrics[0, 0, i] = _ZERO
        for t in range(steps):
            for place in range(1 << (outputs - 1)):
                second = np.int16(2 * (place >> (outputs - 2) & 1) - 1)
                third = np.int16((2 * (place & 1) - 1) * (outputs - 2))
                at, last = t * outputs, (t + 1) * outputs - 1
                _branch_metric(values[at], values[at + 1], second, values[last], third, branch[place])
            old, new = metrics[t & 1], metrics[1 - (t & 1)]
            for j in range(half):
                metric, even, odd = branch[butterflies[j, 0]], old[2 * j], old[2 * j + 1]
                plus, minus = new[butterflies[j, 1]], new[butterflies[j, 2]]
                if t < memory:
                    _first_steps(even, metric, plus, minus)
                else:
                    plus_decided, minus_decided = decided[t, butterflies[j, 3]], decided[t, butterflies[j, 4]]
                    _butterfly(even, odd, metric, plus, minus, plus_decided, minus_decided)
        for i in range(LANES):
            state[i] = word_of[i] = found[i] = np.uint16(0)
        for t in range(steps - 1, -1, -1):
            for word in range(2 * words):
                _find(decided[t, word], np.uint16(word), word_of, found)
            _step_back(state, word_of, found, history, below, top, latest, word_shift)
            if t % 8 == 0 and t < steps - memory:
                for i in range(min(LANES, end - first)):
                    packed[first + i, t // 8] = np.uint8(history[i])
