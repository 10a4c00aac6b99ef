"""All 32 bits of IEEE 754 single precision."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fl.codecs.bits.parts import Codes, PartwiseCodec
from fl.config.codec import codecs


@codecs.register
class Binary32(PartwiseCodec):
    """Sign, exponent, fraction of binary32, all 32 bits exposed: decoding is exact while no bit is wrong.

    A wrong exponent bit changes a value by powers of two, up to infinity and NaN: `decode` returns whatever the bits
    say. Values beyond the largest number of binary32 (3.4e38) are clipped to it.
    """

    name: Literal["binary32"] = "binary32"

    @property
    def bits_per_value(self) -> int:
        return 32

    @property
    def limits(self) -> tuple[float, float]:
        largest = float(np.finfo(np.float32).max)
        return -largest, largest

    def to_codes(self, part: NDArray[np.float32], *, keys: NDArray[np.uint32], first: int) -> Codes:
        return np.ascontiguousarray(part).view(np.uint32)

    def to_values(self, codes: NDArray[np.uint32]) -> NDArray[np.float32]:
        return codes.view(np.float32)
