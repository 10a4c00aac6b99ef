"""What detectors of NOMA start from: the correlations of a received packet with its channels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.numerics.compiled import inlined


class Observed(NamedTuple):
    """What is left of received packets for a detector.

    - `values` `[rows, users (users + 2), num_symbols]` float32: real and imaginary part of z of every user, then the
      real G_kk of every user, then real and imaginary part of G_kj, k < j, in the order of `pair_lane`;
    - `power` `[rows, users]`: sum of G_kk over symbols, 0 for a silent user.
    """

    values: NDArray[np.float32]
    power: NDArray[np.float64]

    @staticmethod
    def lanes(users: int) -> int:
        """Numbers per symbol."""
        return users * (users + 2)

    @classmethod
    def room(cls, rows: int, users: int, num_symbols: int) -> Observed:
        """Arrays to be filled."""
        return cls(np.empty((rows, cls.lanes(users), num_symbols), np.float32), np.empty((rows, users)))

    def part(self, rows: slice) -> Observed:
        """Some of the rows."""
        return Observed(self.values[rows], self.power[rows])


@inlined
def pair_lane(users: Any, k: Any, j: Any) -> Any:
    """Place of G_kj, k < j, in `Observed.values`."""
    return 3 * users + 2 * (k * users - k * (k + 1) // 2 + j - k - 1)
