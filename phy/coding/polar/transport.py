"""Uplink control information under the polar code, exactly TS 38.212 6.3.1: one code block, or two and their bits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from phy.coding.polar.code import PolarCode
from phy.coding.polar.sizes import num_code_blocks


@dataclass(frozen=True)
class PolarTransport:
    """Polar code of `block_bits` sent as `coded_bits`; `list_size` as in `PolarCode`.

    Two code blocks are equally long: a zero is in front of an odd number of bits (5.2.1), and a bit of an odd number
    of coded bits is sent as zero (6.3.1.4.1, 6.3.1.5).
    """

    block_bits: int
    coded_bits: int
    list_size: int

    @cached_property
    def _num_blocks(self) -> int:
        return num_code_blocks(self.block_bits, self.coded_bits)

    @cached_property
    def _code(self) -> PolarCode:
        return PolarCode(-(-self.block_bits // self._num_blocks), self.coded_bits // self._num_blocks, self.list_size)

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Bits `[n, block_bits]` to `[n, coded_bits]`, both in {0, 1}."""
        if self._num_blocks == 1:
            return self._code.encode(bits)
        filler = -self.block_bits % self._num_blocks
        message = np.pad(bits, ((0, 0), (filler, 0))).reshape(-1, self._code.block_bits)
        coded = self._code.encode(message).reshape(len(bits), -1)
        return np.pad(coded, ((0, 0), (0, self.coded_bits - coded.shape[1])))

    def decode(self, llrs: NDArray[np.float32]) -> NDArray[np.uint8]:
        """LLRs ln P(1) / P(0) `[n, coded_bits]` to bits `[n, block_bits]`."""
        words = llrs[:, : self._num_blocks * self._code.coded_bits].reshape(-1, self._code.coded_bits)
        return self._code.decode(words).reshape(len(llrs), -1)[:, -self.block_bits :]
