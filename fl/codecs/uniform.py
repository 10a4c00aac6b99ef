"""Uniform quantisation, with stochastic or nearest rounding."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fl.codecs.bits.parts import Codes, PartwiseCodec
from fl.config.codec import Bound, ClippedLimit, codecs
from fl.draws import chosen
from phy.numerics.random import uniform_words


@codecs.register
class Uniform(PartwiseCodec):
    """2^bits levels l_i = B (2 i - n) / n, n = 2^bits - 1, i = 0 .. n, with B = `bound`; the code is i.

    `stochastic`: a value v between l_i and l_(i+1) goes up with probability (v - l_i) / (l_(i+1) - l_i), so that
    E[decoded] = v (the QSGD quantiser of Alistarh et al. 2017 with a fixed scale); else to the nearest level. Levels
    are float32, and a value that is a level stays where it is. Values beyond +-B are clipped and counted. Probabilities
    are those of float32 arithmetic, relative to the distance of two levels.
    """

    name: Literal["uniform"] = "uniform"
    bits: Annotated[int, Field(ge=1, le=16, strict=True)] = Field(default=8, description="per number: 2^bits levels")
    bound: Bound = Field(default=1.0, description="B: values are clipped to +-B")
    stochastic: bool = Field(
        default=True, description="round at random, so that the mean is exact; otherwise to the nearest level"
    )
    max_clipped: ClippedLimit = 0.05

    @property
    def bits_per_value(self) -> int:
        return self.bits

    @property
    def value_range(self) -> float:
        """B: values are clipped to +- this."""
        return self.bound

    @cached_property
    def levels(self) -> NDArray[np.float32]:
        """What `decode` can give, `[2^bits]`, in the order of the codes."""
        n = (1 << self.bits) - 1
        return (self.bound * ((2.0 * np.arange(n + 1) - n) / n)).astype(np.float32)

    @property
    def limits(self) -> tuple[float, float]:
        return float(self.levels[0]), float(self.levels[-1])

    def to_codes(self, part: NDArray[np.float32], *, keys: NDArray[np.uint32], first: int) -> Codes:
        top = (1 << self.bits) - 1
        # Where values lie on the scale of the codes, 0 to 2^bits - 1, to the precision of float32.
        position = (part - self.levels[0]) * np.float32(top / (2.0 * self.bound))
        if not self.stochastic:
            return np.asarray(np.rint(np.clip(position, 0, top)).astype(np.uint32))
        words = uniform_words(keys, num_devices=part.shape[1], num_words=part.shape[2], first_pair=first // 2)
        if self.bits == 1:
            return chosen(words, share=(part - self.levels[0]) / (self.levels[1] - self.levels[0]))
        lower = np.clip(position, 0, top - 1).astype(np.uint32)
        # Distances to the very levels that decoding gives, or a level would not surely stay where it is.
        share = (part - self.levels[lower]) / np.diff(self.levels)[lower]
        return np.asarray(lower + chosen(words, share=share))

    def to_values(self, codes: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.float32]:
        return np.asarray(self.levels[codes])
