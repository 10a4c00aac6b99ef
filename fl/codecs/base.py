"""The seam between numbers and bits: what every codec does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Numbers of all devices as bits.

    - `payload` `[num_trials, num_devices, ceil(num_values * bits_per_value / 8)]` uint8, most significant bit first;
      bits beyond the last value are zero;
    - `clipped` `[num_trials, num_devices]` int64: values that lay outside the range of the codec.
    """

    payload: NDArray[np.uint8]
    clipped: NDArray[np.int64]


class Codec(Protocol):
    """Real numbers to bits and back, value by value."""

    @property
    def bits_per_value(self) -> int:
        """Bits on the air per number."""
        ...

    def encode(self, values: NDArray[np.floating[Any]], *, keys: NDArray[np.uint32]) -> Encoded:
        """Bits of `values` `[num_trials, num_devices, num_values]`, float32 or float64.

        `keys` `[num_trials, 2]` uint32 are the round's keys of the stream to draw from; codecs that round to the
        nearest number draw nothing. Raises LearningError for NaN and infinity.
        """
        ...

    def decode(self, payload: NDArray[np.uint8], *, num_values: int) -> NDArray[np.floating[Any]]:
        """Values `[num_trials, num_devices, num_values]` of packed bits, whatever the radio made of them.

        Raises LearningError for a payload of another length.
        """
        ...
