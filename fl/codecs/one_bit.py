"""One-bit stochastic quantisation, Zhang et al. 2022 (8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from phy.random import uniform_words


@dataclass(frozen=True, kw_only=True)
class StochasticOneBit:
    """g~ = +1 with probability Phi(g) = 1 / (1 + exp(-a g)), else -1, with a = `slope`.

    The bit 0 stands for +1, as in BPSK. E[g~] = tanh(a g / 2), so decoding keeps the sign and about a/2
    of the size.
    """

    slope: float

    def encode(self, values: NDArray[np.float64], *, keys: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Packed bits `[num_trials, num_devices, ceil(m / 8)]` of values `[num_trials, num_devices, m]`.

        `keys` `[num_trials, 2]` uint32 are the round's keys of the stream to draw from.
        """
        _, num_devices, m = values.shape
        words = uniform_words(keys, num_devices=num_devices, num_words=m)
        minus = words >= expit(self.slope * values) * 2.0**32
        return np.packbits(minus, axis=-1)

    def decode(self, payload: NDArray[np.uint8], *, num_values: int) -> NDArray[np.float64]:
        """Signs `[..., num_values]` in {-1, +1} of packed bits `[..., ceil(num_values / 8)]`."""
        return 1.0 - 2.0 * np.unpackbits(payload, axis=-1, count=num_values).astype(np.float64)
