"""All 32 bits of IEEE 754 single precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl.codecs.base import Encoded
from fl.codecs.parts import Floats, decode_in_parts, encode_in_parts

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, kw_only=True)
class Binary32:
    """Sign, exponent, fraction, as they stand in the machine: decoding is exact while no bit is wrong.

    A wrong exponent bit changes a value by powers of two, up to infinity and NaN: `decode` gives back whatever the bits
    say. Values beyond the largest number of binary32 (3.4e38) are clipped to it.
    """

    @property
    def bits_per_value(self) -> int:
        """See `Codec`."""
        return 32

    def encode(self, values: Floats, *, keys: NDArray[np.uint32]) -> Encoded:
        """See `Codec.encode`; float64 is rounded to the nearest number of binary32."""
        del keys
        return encode_in_parts(
            values,
            bits=32,
            dtype=np.float32,
            limits=(-_LARGEST, _LARGEST),
            to_codes=lambda part, _: np.ascontiguousarray(part).view(np.uint32),
        )

    def decode(self, payload: NDArray[np.uint8], *, num_values: int) -> NDArray[np.float32]:
        """See `Codec.decode`; float32, infinity and NaN among it where the bits say so."""
        return decode_in_parts(
            payload,
            bits=32,
            num_values=num_values,
            dtype=np.float32,
            to_values=lambda codes: codes.view(np.float32),
        )
