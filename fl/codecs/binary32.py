"""All 32 bits of IEEE 754 single precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fl.config.codec import Codec, Encoded, codecs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@codecs.register
class Binary32(Codec):
    """Sign, exponent, fraction of binary32, all 32 bits exposed: decoding is exact while no bit is wrong.

    A wrong exponent bit changes a value by powers of two, up to infinity and NaN: `decode` returns whatever the bits
    say. Values beyond the largest number of binary32 (3.4e38) are clipped to it.
    """

    name: Literal["binary32"] = "binary32"

    @property
    def bits_per_value(self) -> int:
        """See `Codec`."""
        return 32

    def encode(self, values: NDArray[np.floating[Any]], *, keys: NDArray[np.uint32]) -> Encoded:
        """See `Codec.encode`; float64 is rounded to the nearest number of binary32."""
        del keys
        import numpy as np

        from fl.codecs.bits.parts import encode_in_parts

        largest = float(np.finfo(np.float32).max)
        return encode_in_parts(
            values,
            bits=32,
            dtype=np.float32,
            limits=(-largest, largest),
            to_codes=lambda part, _: np.ascontiguousarray(part).view(np.uint32),
        )

    def decode(self, payload: NDArray[np.uint8], *, num_values: int) -> NDArray[np.float32]:
        """See `Codec.decode`; float32, infinity and NaN among it where the bits say so."""
        import numpy as np

        from fl.codecs.bits.parts import decode_in_parts

        return decode_in_parts(
            payload, bits=32, num_values=num_values, dtype=np.float32, to_values=lambda codes: codes.view(np.float32)
        )
