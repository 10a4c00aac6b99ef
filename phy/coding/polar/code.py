"""The 5G polar code in kernels: `encode` and `decode` of a batch on the host."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from phy.coding.polar.construction import PolarPlan, plan_polar
from phy.coding.polar.encoder import encode_blocks
from phy.coding.polar.lists import NUM_CHECKS, NUM_COSTS, PERMUTED, decode_blocks
from phy.coding.polar.parts import MOST
from phy.coding.polar.schedule import decoding_steps, selecting_pairs
from phy.coding.polar.sizes import crc_bits
from phy.coding.soft_lanes import LANES, run_lanes
from phy.config.coding import CRC_POLYNOMIALS, CodingStandard
from phy.numerics.compiled import aligned_zeros

_ALONE = np.int64(1)


@dataclass(frozen=True)
class PolarCode:
    """One code block of TS 38.212 5.3.1 and 5.4.1 in the uplink with the CRC of 6.3.1.2.1.

    Standard `sionna` has the code words of Sionna 1.2.2 instead, without parity-check bits; see
    `phy.coding.polar.construction`. CRC-aided successive cancellation list decoding with a list of `list_size` <= 16,
    a power of two; 1 is successive cancellation, which has no use for the CRC. Every path knows its parity-check bits
    and pays for what was received of them.
    """

    block_bits: int
    coded_bits: int
    list_size: int
    standard: CodingStandard = "3gpp"

    @cached_property
    def _plan(self) -> PolarPlan:
        return plan_polar(self.block_bits + crc_bits(self.block_bits), self.coded_bits, standard=self.standard)

    @cached_property
    def _polynomial(self) -> NDArray[np.bool_]:
        """Powers of x in the CRC's generator below the highest."""
        degree = crc_bits(self.block_bits)
        return np.isin(np.arange(degree), CRC_POLYNOMIALS[f"crc{degree}"])

    @cached_property
    def _taps(self) -> NDArray[np.uint8]:
        """255 where a bit of the block is in a bit of the check sum, else 0, `[degree, block_bits]`.

        The highest power comes first; bit t is the coefficient of x^(degree + block_bits - 1 - t).
        """
        degree = len(self._polynomial)
        polynomial = 1 << degree | int((self._polynomial << np.arange(degree)).sum())
        found, remainder = [], polynomial ^ 1 << degree
        for _ in range(self.block_bits):
            found.append(remainder)
            remainder <<= 1
            remainder ^= polynomial * (remainder >> degree)
        leaves = np.array(found[::-1]) >> np.arange(degree - 1, -1, -1)[:, None] & 1
        return np.where(leaves > 0, np.uint8(255), np.uint8(0))

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Bits `[n, block_bits]` to `[n, coded_bits]`, both in {0, 1}."""
        return self._encode(bits, self._taps)

    def encode_protected(self, protected: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Encode bits that have their CRC behind them, `[n, block_bits + CRC]`: what enters 5.3.1."""
        return self._encode(protected, np.zeros((0, protected.shape[1]), np.uint8))

    def _encode(self, bits: NDArray[np.uint8], taps: NDArray[np.uint8]) -> NDArray[np.uint8]:
        bits, plan = np.ascontiguousarray(bits), self._plan
        coded = np.empty((len(bits), self.coded_bits), np.uint8)
        words = np.empty(plan.length // 8, np.uint64)
        encode_blocks(
            bits,
            plan.sent,
            plan.information,
            plan.parity,
            taps,
            words,
            words.view(np.uint8),
            np.empty(bits.shape[1], np.uint8),
            np.empty(self.coded_bits, np.uint8),
            coded,
        )
        return coded

    def decode(self, llrs: NDArray[np.float32]) -> NDArray[np.uint8]:
        """LLRs ln P(1) / P(0) `[n, coded_bits]` to bits `[n, block_bits]`."""
        plan, paths = self._plan, self.list_size
        llrs = np.ascontiguousarray(self._combined(llrs), np.float32)
        num_soft = llrs.shape[1]
        bits = np.empty((len(llrs), self.block_bits), np.uint8)

        def run(first: int, last: int) -> None:
            lanes = aligned_zeros((num_soft + 2, LANES), np.int16)
            lanes[-1] = MOST
            chosen = origins = keys = picked = None
            if paths > 1:
                chosen = aligned_zeros(LANES * (PERMUTED + plan.length // 2), np.uint16)
                # Of a list of two, four rows are read at once.
                origins = aligned_zeros((2 * plan.length.bit_length() * paths + 4 + paths, LANES), np.int16)
                origins[-paths:] = np.arange(paths)[:, None]
                keys, picked = aligned_zeros(LANES * 2 * paths, np.uint32), aligned_zeros(LANES * 2, np.int16)
            decode_blocks(
                llrs,
                self._places,
                plan.information,
                self._polynomial,
                self._steps,
                self._pairs,
                paths,
                _ALONE if paths == 1 else None,
                aligned_zeros(LANES * NUM_CHECKS, np.uint16) if plan.parity.size else None,
                self._last_checks,
                np.empty((LANES, num_soft), np.int16),
                lanes,
                aligned_zeros(LANES * (paths * (plan.length - 1) + plan.length + 8), np.int16),
                aligned_zeros(LANES * (plan.length + 1 + len(self._polynomial)), np.uint16),
                chosen,
                None if origins is None else origins.ravel(),
                aligned_zeros(LANES * NUM_COSTS, np.int16),
                keys,
                picked,
                aligned_zeros(LANES * self.block_bits, np.uint8),
                bits,
                first,
                last,
            )

        run_lanes(run, count=len(llrs))
        return bits

    @property
    def _repeats(self) -> bool:
        """True if a bit is sent more than twice."""
        return self.coded_bits > 2 * self._plan.length

    def _combined(self, llrs: NDArray[np.float32]) -> NDArray[np.float32]:
        """LLRs of the mother code `[n, N]` where its bits are sent more than twice, else those on the air."""
        if not self._repeats:
            return llrs
        order = np.argsort(self._plan.sent, kind="stable")
        starts = np.searchsorted(self._plan.sent[order], np.arange(self._plan.length))
        return np.add.reduceat(llrs[:, order], starts, axis=1)

    @cached_property
    def _steps(self) -> NDArray[np.int64]:
        plan = self._plan
        return decoding_steps(plan.information, plan.parity, plan.length, list_size=self.list_size)

    @cached_property
    def _last_checks(self) -> NDArray[np.int64]:
        """Last position of a parity-check bit by its residue modulo five, -1 without one."""
        last = np.full(NUM_CHECKS, -1)
        np.maximum.at(last, self._plan.parity % NUM_CHECKS, self._plan.parity)
        return last

    @cached_property
    def _pairs(self) -> NDArray[np.int64]:
        return selecting_pairs(self.list_size)

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Places of the first and second LLR of each position of the mother code, `[2, N]`.

        Behind the last LLR there are the one of an unknown bit, and the one of a bit that is known to be zero.
        """
        plan, unknown = self._plan, self.coded_bits
        if self._repeats:
            return np.stack([np.arange(plan.length), np.full(plan.length, plan.length)])
        places = np.full((2, plan.length), unknown)
        if plan.shortened:
            places[0] += 1
        # The channel interleaver mixes first and second copies; their order does not matter.
        order = np.argsort(plan.sent, kind="stable")
        sent = plan.sent[order]
        again = np.append(False, sent[1:] == sent[:-1])
        places[0, sent[~again]], places[1, sent[again]] = order[~again], order[again]
        return places
