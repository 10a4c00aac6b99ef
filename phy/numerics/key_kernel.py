"""Keys of some rounds for many trials at once: the words of `phy.numerics.random.threefry`, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.compiled import kernel, read_only
from phy.numerics.threefry import threefry


@kernel
def _of_rounds(keys: Any, first: Any, out: Any) -> None:
    for place in range(len(out)):
        for row in range(len(keys)):
            words = threefry(keys[row, 0], keys[row, 1], np.uint32(first + place), np.uint32(0))
            out[place, row, 0], out[place, row, 1] = words


def keys_of_rounds(keys: NDArray[np.uint32], *, first: int, count: int) -> NDArray[np.uint32]:
    """Threefry of every trial's key `[num_trials, 2]` and the counters (round, 0), `[count, num_trials, 2]`."""
    out = np.empty((count, *keys.shape), np.uint32)
    _of_rounds(read_only(keys), first, out)
    return out
