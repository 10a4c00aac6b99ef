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
from phy.numerics.compiled import aligned_zeros, inlined, lean_kernel

POLYNOMIALS: dict[tuple[int, int], tuple[int, ...]] = {
    (2, 3): (0o5, 0o7),
    (2, 4): (0o15, 0o13),
    (2, 5): (0o23, 0o33),
    (2, 6): (0o65, 0o57),
    (2, 7): (0o133, 0o171),
    (2, 8): (0o345, 0o237),
    (3, 3): (0o5, 0o7, 0o7),
    (3, 4): (0o13, 0o15, 0o17),
    (3, 5): (0o25, 0o33, 0o37),
    (3, 6): (0o47, 0o53, 0o75),
    (3, 7): (0o171, 0o145, 0o133),
    (3, 8): (0o225, 0o331, 0o367),
}
"""Generators by (outputs, constraint length), the current bit highest: T. K. Moon, Error Correction Coding, 2005,
Table 12.1, as in Sionna's `ConvEncoder`."""

_WORD = 16
"""Decisions of one lane in one word."""
_STEPS, _LARGEST = np.float32(16.0), np.float32(512.0)
"""Steps per unit of LLR, and the largest LLR in steps: a probability of error of e^-32."""
_ZERO = np.int16(0)
_ONE, _SIGN = np.uint16(1), np.uint16(15)


@dataclass(frozen=True)
class ConvolutionalCode:
    """Feed-forward code of rate 1 / `outputs` that starts in and returns to the zero state."""

    block_bits: int
    outputs: int
    constraint_length: int

    @property
    def polynomials(self) -> tuple[int, ...]:
        """Generator polynomials, the current bit highest."""
        return POLYNOMIALS[self.outputs, self.constraint_length]

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Bits `[n, block_bits]` to `[n, (block_bits + K - 1) outputs]`, both in {0, 1}."""
        memory = self.constraint_length - 1
        padded = np.pad(bits, ((0, 0), (memory, memory)))
        steps = self.block_bits + memory
        coded = np.empty((len(bits), steps, self.outputs), np.uint8)
        total = np.empty((len(bits), steps), np.uint8)  # outputs side by side take twice as long to add up
        for output, polynomial in enumerate(self.polynomials):
            total[:] = padded[:, memory : memory + steps]
            for delay in range(1, memory + 1):
                if polynomial >> (memory - delay) & 1:
                    total ^= padded[:, memory - delay : memory - delay + steps]
            coded[:, :, output] = total
        return coded.reshape(len(bits), -1)

    def decode(self, llrs: NDArray[np.float32]) -> NDArray[np.uint8]:
        """LLRs ln P(1) / P(0) `[n, coded bits]` to the bits `[n, block_bits]` of the likeliest code word."""
        llrs = np.ascontiguousarray(llrs, np.float32)
        bits = np.empty((len(llrs), self.block_bits), np.uint8)
        memory = self.constraint_length - 1
        steps, states = self.block_bits + memory, 1 << memory
        words = -(-states // 2 // _WORD)

        def run(first: int, last: int) -> None:
            _viterbi(
                llrs,
                self.outputs,
                memory,
                self._branches,
                aligned_zeros(LANES * steps * self.outputs, np.int16),
                aligned_zeros(LANES * steps * self.outputs, np.int16),
                aligned_zeros(4 * LANES, np.int16),
                aligned_zeros((2, LANES * states), np.int16),
                aligned_zeros(2 * words * LANES * steps, np.uint16),
                np.empty(LANES, np.int64),
                np.empty(LANES, np.uint8),
                bits,
                first,
                last,
            )

        run_lanes(run, count=len(llrs))
        return bits

    @cached_property
    def _branches(self) -> NDArray[np.int64]:
        """(place of the metric, 1 for its negative) of the branch from 2j to j, `[S / 2, 2]`."""
        most = (1 << (self.outputs - 1)) - 1
        places = []
        for register in range(0, 1 << (self.constraint_length - 1), 2):
            word = 0
            for polynomial in self.polynomials:
                word = 2 * word + (register & polynomial).bit_count() % 2
            negative = not word >> (self.outputs - 1)
            places.append((~word & most if negative else word & most, int(negative)))
        return np.array(places, np.int64)


@inlined
def _branch_metric(values: Any, at: Any, second: Any, third: Any, third_at: Any, metrics: Any, out: Any) -> None:
    """Metric of a word that begins with 1: LLR + `second` LLR + `third` LLR."""
    for i in range(LANES):
        u = np.uint64(i)
        total = values[at + u] + second * values[at + np.uint64(LANES) + u] + third * values[third_at + u]
        metrics[out + u] = np.int16(total)


@inlined
def _first_steps(old: Any, start: Any, branch: Any, at: Any, new: Any, plus: Any, minus: Any) -> None:
    """A butterfly before step m: only state 2j can have been reached from the zero state."""
    for i in range(LANES):
        u = np.uint64(i)
        new[plus + u] = np.int16(old[start + u] + branch[at + u])
        new[minus + u] = np.int16(old[start + u] - branch[at + u])


@inlined
def _butterfly(
    old: Any, start: Any, branch: Any, at: Any, new: Any, plus: Any, minus: Any, decided: Any, plus_at: Any,
    minus_at: Any,
) -> None:  # fmt: skip
    """From states 2j and 2j + 1 to the two states whose branch from 2j has the metric +M and -M.

    Shifts into `decided` a 1 where the path over 2j + 1 is better.
    """
    for i in range(LANES):
        u = np.uint64(i)
        even, odd, metric = old[start + u], old[start + np.uint64(LANES) + u], branch[at + u]
        a, b = np.int16(even + metric), np.int16(odd - metric)
        new[plus + u] = np.int16(a + max(np.int16(b - a), _ZERO))
        better = np.uint16(np.uint16(np.int16(a - b)) >> _SIGN)
        decided[plus_at + u] = np.uint16(np.uint16(decided[plus_at + u] << _ONE) | better)
        c, d = np.int16(even - metric), np.int16(odd + metric)
        new[minus + u] = np.int16(c + max(np.int16(d - c), _ZERO))
        better = np.uint16(np.uint16(np.int16(c - d)) >> _SIGN)
        decided[minus_at + u] = np.uint16(np.uint16(decided[minus_at + u] << _ONE) | better)


@inlined
def _step_back(decided: Any, at: Any, state: Any, bits: Any, half: Any, memory: Any, words: Any) -> None:
    """One step back along the best paths: the bit that led to each state, and the state before."""
    top_place = min(half, _WORD) - 1
    for i in range(LANES):
        j, bit = state[i] & (half - 1), state[i] >> (memory - 1)
        word = np.int64(decided[at + LANES * (bit * words + j // _WORD) + i])
        bits[i] = np.uint8(bit)
        state[i] = 2 * j + (word >> (top_place - j % _WORD) & 1)


@lean_kernel
def _viterbi(
    llrs: Any,
    outputs: Any,
    memory: Any,
    branches: Any,
    rows: Any,
    values: Any,
    branch: Any,
    metrics: Any,
    decided: Any,
    state: Any,
    step_bits: Any,
    bits: Any,
    begin: Any,
    end: Any,
) -> None:
    """Decide code words `begin` to `end` - 1, `LANES` at once."""
    half, block_bits = 1 << (memory - 1), bits.shape[1]
    words, steps = (half + _WORD - 1) // _WORD, block_bits + memory
    stride = steps * outputs
    for first in range(begin, end, LANES):
        for i in range(LANES):
            quantise(llrs, min(first + i, end - 1), _STEPS, _LARGEST, rows, np.uint64(i * stride), stride)
        to_lanes(rows, np.uint64(stride), values, stride)
        for i in range(LANES):
            metrics[0, i] = _ZERO
        for t in range(steps):
            at = np.uint64(LANES * t * outputs)
            for place in range(1 << (outputs - 1)):
                second = np.int16(2 * (place >> (outputs - 2) & 1) - 1)
                third = np.int16((2 * (place & 1) - 1) * (outputs - 2))
                third_at = at + np.uint64(LANES * (outputs - 1))
                _branch_metric(values, at, second, third, third_at, branch, np.uint64(LANES * place))
            old, new = metrics[t & 1], metrics[1 - (t & 1)]
            for j in range(half):
                swap = branches[j, 1]
                start, metric = np.uint64(2 * LANES * j), np.uint64(LANES * branches[j, 0])
                plus, minus = np.uint64(LANES * (j + swap * half)), np.uint64(LANES * (j + (1 - swap) * half))
                if t < memory:
                    _first_steps(old, start, branch, metric, new, plus, minus)
                word = LANES * (2 * words * t + j // _WORD)
                plus_at, minus_at = np.uint64(word + swap * words * LANES), np.uint64(word + (1 - swap) * words * LANES)
                if t >= memory:
                    _butterfly(old, start, branch, metric, new, plus, minus, decided, plus_at, minus_at)
        for i in range(LANES):
            state[i] = 0
        for t in range(steps - 1, -1, -1):
            if t >= memory:
                _step_back(decided, LANES * 2 * words * t, state, step_bits, half, memory, words)
            else:
                for i in range(LANES):
                    step_bits[i] = np.uint8(state[i] >> (memory - 1))
                    state[i] = 2 * (state[i] & (half - 1))
            if t < block_bits:
                for i in range(min(LANES, end - first)):
                    bits[first + i, t] = step_bits[i]
