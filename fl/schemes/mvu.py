"""MVU, the minimum-variance unbiased mechanism: grid, private table, few bits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fl.base.arrays import F32, F64, I64, U8
from fl.base.fields import PositiveFloat, whole
from fl.schemes.coders.value_scheme import ValueScheme
from fl.schemes.scheme import SCHEME_KEYS, Epsilon, schemes
from phy.config.conflict import Conflict, Write, rounded
from phy.numerics.draws import chosen
from phy.numerics.random import Purpose
from privacy.events.releases import Release
from privacy.mechanisms.mvu import MvuTable, mvu_table

if TYPE_CHECKING:
    from fl.schemes.coders.law import Law
    from fl.schemes.coders.value_coder import CodedPart


@schemes.register
class MvuScheme(ValueScheme):
    """Minimum-variance unbiased mechanism: few bits per number through an optimised private table.

    h is clipped to [-C, C], C = `clip`, and brought to [0, 1]; rounded stochastically to 2^`input_bits` points; sent as
    a symbol of `output_bits` drawn from the private table; read as C (2 alpha - 1): unbiased for |h| <= C.
    """

    label: ClassVar[str] = "MVU"
    epsilon_source: ClassVar[str] = "MVU, P_ij <= e^eps P_i'j"
    largest_epsilon: ClassVar[float] = 20.0
    unbiased: ClassVar[bool] = True  # for numbers within the clip

    name: Literal["mvu"]
    epsilon: Epsilon = Field(default=0.5, description="per number and round; 0.5 as in Lang et al. 2023")
    clip: PositiveFloat = Field(
        default=0.05,
        description="limit of every number of an update; larger is more noise, smaller clips more; 0.05 as b of probit",
    )
    input_bits: int = whole(1, "bits of the stochastic rounding; 1 is the rate in Lang et al. 2023", most=4)
    output_bits: int = whole(1, "bits of the symbol that is sent; 1 is the rate in Lang et al. 2023", most=4)

    @property
    def bits_per_block(self) -> int:
        return self.output_bits

    @property
    def table(self) -> MvuTable:
        """P and alpha."""
        return mvu_table(epsilon=self.epsilon, input_bits=self.input_bits, output_bits=self.output_bits)

    def to_codes(self, x: F32, *, part: CodedPart) -> NDArray[Any]:
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
        stay, other = _aliases(self)
        column = words >> np.uint32(32 - self.output_bits)
        place = (row.astype(np.uint32) << np.uint32(self.output_bits)) | column
        stays = chosen(words << np.uint32(self.output_bits), share=stay[place])
        return np.where(stays, column, other[place])

    def to_values(self, codes: NDArray[Any], *, part: CodedPart) -> F32:
        return np.asarray((self.clip * (2.0 * self.table.symbols - 1.0)).astype(np.float32)[codes])

    def log_ratio(self, codes: I64, read: F64, *, end: float) -> F64:
        """See `ValueScheme.log_ratio`: ln P(code | 1) / P(code | 0) of the table."""
        table = self.table.probabilities
        return np.asarray(np.log(table[-1] / table[0])[codes])

    def conflicts(self, *, num_rounds: int, num_values: int | None, calibrated: bool) -> Iterator[Conflict]:
        if self.epsilon > self.largest_epsilon:
            problem = f"beyond epsilon {self.largest_epsilon:g} the table of mvu gives no noticeable privacy"
            yield Conflict(
                f"learning.aggregation.epsilon {SCHEME_KEYS}",
                problem,
                Write({"epsilon": rounded(self.largest_epsilon, 6)}),
                Write({"aggregation": "mean"}),
            )

    def law(self, *, num_values: int | None) -> Law:
        from fl.schemes.coders.value_coder import ValueLaw

        source = "the private table's own bound"
        return ValueLaw(code=self, bits_per_value=self.output_bits, epsilon=self.epsilon, source=source)

    def release(self, num_values: int) -> Release:
        """See `Scheme.release`: every number at epsilon."""
        return Release(kind="pure", unit="device", coordinates=num_values, parameter=self.epsilon)


@lru_cache(maxsize=8)
def _aliases(scheme: MvuScheme) -> tuple[F32, U8]:
    return alias_tables(scheme.table.probabilities)


def alias_tables(probabilities: F64) -> tuple[F32, U8]:
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
