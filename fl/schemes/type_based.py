"""Type-based aggregation: the server learns how many devices round a number to each level, and of none to which.

Over the air (type-based multiple access, Mergen and Tong 2006) a number takes one symbol per level, real or imaginary,
and a device sends on that of its own level alone. With L levels v_l, n_l devices at each, and a = sqrt(L / 2), which
keeps the mean power at 1, the server receives a n_l + z / A and decides for whole numbers:

    n^_l = max(0, round(y_l / (a A))),    theta^_i = sum_l n^_l v_l / sum_l n^_l

Every device counts once, whatever its weight. Under orthogonal access the levels are sent as bits, and theta^_i is
their weighted mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fl.arrays import F32, F64, I64
from fl.config.base import PositiveFloat
from fl.config.scheme import schemes
from fl.schemes.coders.value_scheme import ValueScheme
from phy.config.base import Modulation
from phy.numerics.draws import chosen
from phy.numerics.random import Purpose
from privacy.events.releases import Release

if TYPE_CHECKING:
    from fl.schemes.coders.air import AirForm
    from fl.schemes.coders.value_coder import Part


@schemes.register
class TypeBasedScheme(ValueScheme):
    """How many devices are at each of a few levels: one symbol per level over the air, else bits of the level.

    h is clipped to [-B, B], B = `bound`, and rounded at random to one of 2^`bits` levels: unbiased for |h| <= B.
    """

    label: ClassVar[str] = "type-based"

    name: Literal["type-based"]
    bits: Annotated[int, Field(ge=1, le=5, strict=True)] = Field(
        default=2,
        description="per number: 2^bits levels, and as many symbols in the air; 2: four levels, as many symbols as two "
        "devices need for 8 bits of qpsk",
    )
    bound: PositiveFloat = Field(
        default=0.05,
        description="B, limit of every number of an update; larger is more noise of rounding, smaller clips more; 0.05 "
        "as b of probit",
    )

    @property
    def bits_per_block(self) -> int:
        return self.bits

    @property
    def levels(self) -> F64:
        """v_l from -B to B, `[2^bits]`."""
        return np.linspace(-self.bound, self.bound, 1 << self.bits)

    def to_codes(self, x: F32, *, part: Part) -> NDArray[Any]:
        top = np.float32((1 << self.bits) - 1)
        np.clip(x, -self.bound, self.bound, out=x)
        x *= top / np.float32(2.0 * self.bound)
        x += np.float32(0.5) * top
        lower = np.clip(x, 0, top - 1).astype(np.uint32)
        x -= lower
        return np.asarray(lower + chosen(part.words(Purpose.ROUNDING, count=x.shape[1]), share=x))

    def to_values(self, codes: NDArray[Any], *, part: Part) -> F32:
        return np.asarray(self.levels.astype(np.float32)[codes])

    def log_ratio(self, codes: I64, read: F64, *, end: float) -> F64:
        """See `ValueScheme.log_ratio`: it grows with the level."""
        return np.asarray(read.mean(axis=1))

    def over_air(self, num_values: int) -> AirForm:
        from fl.schemes.coders.histogram import Histogram

        return Histogram(self, levels=self.levels, num_values=num_values)

    @property
    def air_modulations(self) -> tuple[Modulation, ...]:
        return ("analog",)

    @property
    def unbiased(self) -> bool:
        """See `Scheme.unbiased`: for numbers within the bound."""
        return True

    def describe(self, num_values: int | None) -> list[str]:
        return []

    def release(self, num_values: int) -> Release:
        return self.unprotected("sends levels as they are, which nothing protects and no budget holds")
