"""One-bit stochastic quantisation, Zhang et al. 2022 (8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl.codecs.bits.parts import Floats, decode_in_parts, encode_in_parts
from fl.config.codec import Encoded

_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, kw_only=True)
class StochasticOneBit:
    """g~ = +1 with probability Phi(g) = 1 / (1 + exp(-a g)), else -1, with a = `slope`.

    The bit 0 stands for +1, as in BPSK. E[g~] = tanh(a g / 2), so decoding keeps the sign and about a/2
    of the size. Every finite value has its probability: nothing is clipped.
    """

    slope: float

    @property
    def bits_per_value(self) -> int:
        """See `Codec`."""
        return 1

    def encode(self, values: Floats, *, keys: NDArray[np.uint32]) -> Encoded:
        """See `Codec.encode`."""
        # numba takes a while to import, and few who import a codec encode with this one.
        from fl.codecs.bits.one_bit_kernel import stochastic_signs

        def to_bytes(part: NDArray[np.float64], first: int) -> NDArray[np.uint8]:
            return stochastic_signs(part, slope=self.slope, keys=keys, first=first)

        return encode_in_parts(values, bits=1, dtype=np.float64, limits=(-_LARGEST, _LARGEST), to_bytes=to_bytes)

    def decode(self, payload: NDArray[np.uint8], *, num_values: int) -> NDArray[np.float64]:
        """See `Codec.decode`; signs in {-1, +1}, float64."""
        return decode_in_parts(
            payload,
            bits=1,
            num_values=num_values,
            dtype=np.float64,
            to_values=lambda codes: 1.0 - 2.0 * codes,
        )
