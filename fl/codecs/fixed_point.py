"""Fraction bits of floating-point numbers whose sign and exponent were made constant, Li et al. 2025 (7)."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fl.codecs.bits.parts import Codes, Floats, PartwiseCodec
from fl.config.codec import Bound, ClippedLimit, codecs


@codecs.register
class FixedPoint(PartwiseCodec):
    """Fraction bits of w + 3 B, B = `value_range` = 2^(e-126), e the binary32 exponent field of nu_inf = `bound`.

    For w in [-B, B) the sum lies in [2 B, 4 B): its sign and exponent are the same for all w and are not sent. The
    receiver puts them back and subtracts 3 B. What can be sent is the grid w = n s with n = -2^(f-1) .. 2^(f-1) - 1,
    f = `fraction_bits` and step s = 2 B 2^-f, and the fraction is n + 2^(f-1). Values off the grid are rounded as
    IEEE 754 addition rounds the sum (to the nearest, ties to even), but those just below B stay at the last point of
    the grid, since B itself would change the exponent. Values outside [-B, B) are clipped and counted.

    10, 23 and 52 fraction bits are those of binary16, binary32 and binary64. Values are read as float32 (float64 for
    52 bits). A flip of bit i, counted from the most significant, moves the value by exactly B 2^-i.
    """

    name: Literal["fixed-point"] = "fixed-point"
    fraction_bits: Literal[10, 23, 52] = Field(default=23, description="of binary16, binary32, binary64")
    bound: Bound = Field(default=0.5, description="nu_inf: values are clipped to the next power of two")
    max_clipped: ClippedLimit = 0.01

    @property
    def bits_per_value(self) -> int:
        return self.fraction_bits

    @property
    def value_range(self) -> float:
        """B, the next power of two above nu_inf: values are clipped to +- this."""
        return 2.0 ** (math.frexp(self.bound)[1])

    def as_fractions(self) -> FixedPoint:
        return self

    @property
    def step(self) -> float:
        """Distance of neighbours on the grid, 2 B 2^-f."""
        return 2.0 * self.value_range * 2.0**-self.fraction_bits

    @property
    def dtype(self) -> type[np.float32] | type[np.float64]:
        return np.float64 if self.fraction_bits > 23 else np.float32

    @property
    def limits(self) -> tuple[float, float]:
        return -self.value_range, float(np.nextafter(self.dtype(self.value_range), self.dtype(0.0)))

    def to_codes(self, part: Floats, *, keys: NDArray[np.uint32], first: int) -> Codes:
        half = 1 << (self.fraction_bits - 1)
        # Scaling by a power of two is exact, and n + 2^(f-1) is even where n is: one rounding, the one of the sum.
        scaled = part * part.dtype.type(1.0 / self.step)
        np.rint(scaled, out=scaled)
        np.minimum(scaled, part.dtype.type(half - 1), out=scaled)
        # |n| and n + 2^(f-1) are whole and small enough to be exact in the float; never negative from here on.
        scaled += half
        return np.asarray(scaled.astype(np.uint32 if self.fraction_bits <= 32 else np.uint64))

    def to_values(self, codes: NDArray[np.unsignedinteger[Any]]) -> Floats:
        numbers: Floats = codes.astype(self.dtype)
        numbers -= 1 << (self.fraction_bits - 1)
        numbers *= self.step
        return numbers
