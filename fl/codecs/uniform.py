"""Uniform quantisation, with stochastic or nearest rounding."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from fl.config.codec import Bound, ClippedLimit, Codec, Encoded, codecs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fl.codecs.bits.parts import Codes, Floats


@codecs.register
class Uniform(Codec):
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
        """See `Codec`."""
        return self.bits

    @property
    def value_range(self) -> float:
        """B: values are clipped to +- this."""
        return self.bound

    @cached_property
    def levels(self) -> NDArray[np.float32]:
        """What `decode` can give, `[2^bits]`, in the order of the codes."""
        import numpy as np

        n = (1 << self.bits) - 1
        return (self.bound * ((2.0 * np.arange(n + 1) - n) / n)).astype(np.float32)

    def encode(self, values: Floats, *, keys: NDArray[np.uint32]) -> Encoded:
        """See `Codec.encode`; values are read as float32."""
        import numpy as np

        from fl.codecs.bits.parts import encode_in_parts
        from phy.numerics.random import uniform_words

        def to_codes(part: NDArray[np.float32], first: int) -> Codes:
            if not self.stochastic:
                return self._nearest(part)
            words = uniform_words(keys, num_devices=part.shape[1], num_words=part.shape[2], first_pair=first // 2)
            return self._up_or_down(part, words)

        ends = (float(self.levels[0]), float(self.levels[-1]))
        return encode_in_parts(values, bits=self.bits, dtype=np.float32, limits=ends, to_codes=to_codes)

    def decode(self, payload: NDArray[np.uint8], *, num_values: int) -> NDArray[np.float32]:
        """See `Codec.decode`; float32."""
        import numpy as np

        from fl.codecs.bits.parts import decode_in_parts

        return decode_in_parts(
            payload,
            bits=self.bits,
            num_values=num_values,
            dtype=np.float32,
            to_values=lambda codes: self.levels[codes],
        )

    def _position(self, part: NDArray[np.float32]) -> NDArray[np.float32]:
        """Where values lie on the scale of the codes, 0 to 2^bits - 1, to the precision of float32."""
        import numpy as np

        n = (1 << self.bits) - 1
        return np.asarray((part - self.levels[0]) * np.float32(n / (2.0 * self.bound)))

    def _nearest(self, part: NDArray[np.float32]) -> Codes:
        import numpy as np

        return np.rint(np.clip(self._position(part), 0, (1 << self.bits) - 1)).astype(np.uint32)

    def _up_or_down(self, part: NDArray[np.float32], words: NDArray[np.uint32]) -> Codes:
        import numpy as np

        if self.bits == 1:
            return _chosen(words, share=(part - self.levels[0]) / (self.levels[1] - self.levels[0]))
        lower = np.clip(self._position(part), 0, (1 << self.bits) - 2).astype(np.uint32)
        # Distances to the very levels that decoding gives, or a level would not surely stay where it is.
        share = (part - self.levels[lower]) / np.diff(self.levels)[lower]
        return lower + _chosen(words, share=share)


def _chosen(words: NDArray[np.uint32], *, share: NDArray[np.float32]) -> NDArray[np.bool_]:
    """True with probability `share`: 0 and 1 are sure, others exact to 2^-30, in 32-bit arithmetic for speed."""
    import numpy as np

    return np.asarray((words >> np.uint32(2)).view(np.int32) < (share * np.float32(2.0**30)).astype(np.int32))
