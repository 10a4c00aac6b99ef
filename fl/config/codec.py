"""How numbers become bits on the air."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from fl.config.base import Frozen, Probability

Bound = Annotated[float, Field(ge=1e-30, le=1e30, allow_inf_nan=False)]
ClippedLimit = Annotated[Probability, Field(description="share of values beyond the bound that ends the trial")]


class Binary32Config(Frozen):
    """IEEE 754 single precision, all 32 bits exposed: a flipped exponent bit is a catastrophe."""

    name: Literal["binary32"] = "binary32"

    @property
    def bits_per_value(self) -> int:
        """Bits on the air per number."""
        return 32


class FixedPointConfig(Frozen):
    """Fraction bits only, Li et al. 2025 (7): sign and exponent are made constant and never sent.

    `bound` is nu_inf of the paper; values are clipped to +-2^(e-126), e its binary32 exponent field.
    """

    name: Literal["fixed-point"] = "fixed-point"
    fraction_bits: Literal[10, 23, 52] = Field(default=23, description="of binary16, binary32, binary64")
    bound: Bound = 0.5
    max_clipped: ClippedLimit = 0.01

    @property
    def bits_per_value(self) -> int:
        """Bits on the air per number."""
        return self.fraction_bits

    @property
    def value_range(self) -> float:
        """Values are clipped to +- this, the next power of two above nu_inf: 2^(e - 126)."""
        return 2.0 ** (math.frexp(self.bound)[1])


class UniformConfig(Frozen):
    """2^bits levels evenly over [-bound, bound], the two ends included; one bit keeps the sign (QSGD-like).

    `stochastic`: rounded up or down at random so that the mean is exact, else to the nearest level.
    """

    name: Literal["uniform"] = "uniform"
    bits: Annotated[int, Field(ge=1, le=16, strict=True)] = 8
    bound: Bound = 1.0
    stochastic: bool = True
    max_clipped: ClippedLimit = 0.05

    @property
    def bits_per_value(self) -> int:
        """Bits on the air per number."""
        return self.bits

    @property
    def value_range(self) -> float:
        """Values are clipped to +- this."""
        return self.bound


CodecConfig = Annotated[Binary32Config | FixedPointConfig | UniformConfig, Field(discriminator="name")]
