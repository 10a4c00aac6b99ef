"""MVU, the minimum-variance unbiased mechanism as a code: grid, private table, few bits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl.draws import chosen
from phy.numerics.random import Purpose
from privacy.mechanisms.mvu import MvuTable, mvu_table

if TYPE_CHECKING:
    from fl.schemes.values.value_coder import Part


@dataclass(frozen=True, kw_only=True)
class MvuCode:
    """h clipped to [-C, C], C = `clip`, and brought to [0, 1]; rounded stochastically to 2^`input_bits` points; sent as
    a symbol of `output_bits` drawn from the private table; read as C (2 alpha - 1): unbiased for |h| <= C.

    eps holds per number and round. See `privacy.mechanisms.mvu.mvu_table`.
    """

    epsilon: float
    clip: float
    input_bits: int = 1
    output_bits: int = 1
    block: int = 1

    def __post_init__(self) -> None:
        _ = self.table

    @property
    def bits_per_block(self) -> int:
        """See `ValueCode`."""
        return self.output_bits

    @cached_property
    def table(self) -> MvuTable:
        """P and alpha."""
        return mvu_table(epsilon=self.epsilon, input_bits=self.input_bits, output_bits=self.output_bits)

    @cached_property
    def _aliases(self) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        return alias_tables(self.table.probabilities)

    def to_codes(self, x: NDArray[np.float32], *, part: Part) -> NDArray[Any]:
        """See `ValueCode.to_codes`."""
        np.clip(x, -self.clip, self.clip, out=x)
        x *= np.float32(0.5 / self.clip)
        x += np.float32(0.5)
        words = part.words(Purpose.PRIVACY, count=x.shape[1])
        if self.output_bits == 1:
            # P_i1 is linear in the grid point, so that rounding first changes nothing.
            low, high = self.table.probabilities[[0, -1], 1].astype(np.float32)
            x *= high - low
            x += low
            return chosen(words, share=x)
        steps = np.float32(len(self.table.grid) - 1)
        x *= steps
        lower = np.minimum(x, steps - 1).astype(np.int32)
        x -= lower
        row = lower + chosen(part.words(Purpose.ROUNDING, count=x.shape[1]), share=x)
        # Walker's aliases: one word picks a column and says whether to stay there.
        stay, other = self._aliases
        column = words >> np.uint32(32 - self.output_bits)
        place = (row.astype(np.uint32) << np.uint32(self.output_bits)) | column
        stays = chosen(words << np.uint32(self.output_bits), share=stay[place])
        return np.where(stays, column, other[place])

    def to_values(self, codes: NDArray[Any], *, part: Part) -> NDArray[np.float32]:
        """See `ValueCode.to_values`."""
        return np.asarray((self.clip * (2.0 * self.table.symbols - 1.0)).astype(np.float32)[codes])

    def log_ratio(self, codes: NDArray[np.int64], read: NDArray[np.float64], *, end: float) -> NDArray[np.float64]:
        """See `ValueCode.log_ratio`: ln P(code | 1) / P(code | 0) of the table."""
        del read, end
        table = self.table.probabilities
        return np.asarray(np.log(table[-1] / table[0])[codes])


def alias_tables(probabilities: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Share that stays in a column, and the column that the rest goes to (Walker 1977), rows one after another."""
    count = probabilities.shape[1]
    stay, other = np.ones(probabilities.shape), np.tile(np.arange(count), (len(probabilities), 1))
    for row, chances in enumerate(probabilities):
        left = chances * count
        small, large = list(np.flatnonzero(left < 1.0)), list(np.flatnonzero(left >= 1.0))
        while small and large:
            less, more = small.pop(), large[-1]
            stay[row, less], other[row, less] = left[less], more
            left[more] -= 1.0 - left[less]
            if left[more] < 1.0:
                small.append(large.pop())
    return stay.astype(np.float32).ravel(), other.astype(np.uint8).ravel()
