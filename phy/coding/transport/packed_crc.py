"""The check sum of packed bits, eight at a time by table; see `phy.coding.crc`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config.coding import CRC_POLYNOMIALS
from phy.numerics.compiled import lean_kernel, read_only

_TOP = np.uint32(1 << 31)


@lean_kernel
def _remainders(packed: Any, num_bits: Any, table: Any, out: Any) -> None:
    """Remainder of every row in the highest bits of `out` `[rows]` uint32; bits from `num_bits` on are zero."""
    for row in range(len(packed)):
        register = np.uint32(0)
        for byte in range(num_bits // 8):
            index = np.uint32(np.uint32(register >> np.uint32(24)) ^ np.uint32(packed[row, byte]))
            register = np.uint32(np.uint32(register << np.uint32(8)) ^ table[index])
        if num_bits % 8:
            register = np.uint32(register ^ np.uint32(np.uint32(packed[row, num_bits // 8]) << np.uint32(24)))
            for _ in range(num_bits % 8):
                leaving = np.uint32(register & _TOP)
                register = np.uint32(register << np.uint32(1))
                if leaving != np.uint32(0):
                    register = np.uint32(register ^ table[1 << 8])
        out[row] = register


@dataclass(frozen=True, eq=False)
class PackedCrc:
    """A CRC of TS 38.212 5.1, sent `inverted` or as it is.

    `table` `[257]` uint32: what each byte leaves in a register aligned to its highest bit, and the polynomial itself.
    """

    degree: int
    table: NDArray[np.uint32]
    inverted: bool

    @classmethod
    @lru_cache(maxsize=8)
    def named(cls, name: str, *, inverted: bool = True) -> PackedCrc:
        """The CRC of a name in `phy.config.coding.CRC_POLYNOMIALS`."""
        degree, *powers = CRC_POLYNOMIALS[name]
        polynomial = sum(1 << power for power in powers) << (32 - degree)
        table = np.empty(257, np.uint32)
        for byte in range(256):
            register = byte << 24
            for _ in range(8):
                register = (register << 1 & 0xFFFFFFFF) ^ (polynomial if register >> 31 else 0)
            table[byte] = register
        table[256] = polynomial
        return cls(degree, table, inverted)

    def append(self, packed: NDArray[np.uint8], *, num_bits: int) -> NDArray[np.uint8]:
        """`[n, ceil(num_bits / 8)]`, padding zero, to `[n, ceil((num_bits + degree) / 8)]`."""
        register = np.empty(len(packed), np.uint32)
        _remainders(read_only(packed), num_bits, self.table, register)
        sent = (~register if self.inverted else register) & np.uint32((0xFFFFFFFF << (32 - self.degree)) & 0xFFFFFFFF)
        # The register's bits behind the last bit of the message, wherever in its byte that is.
        shifted = (sent.astype(np.uint64) << np.uint64(32 - num_bits % 8)).astype(">u8").view(np.uint8).reshape(-1, 8)
        whole = num_bits // 8
        out = np.zeros((len(packed), -(-(num_bits + self.degree) // 8)), np.uint8)
        out[:, : packed.shape[1]] = packed
        width = out.shape[1] - whole
        out[:, whole:] |= shifted[:, :width]
        return out
