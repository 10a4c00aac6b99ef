"""Keys of one round for many trials at once: the words of `phy.random.threefry`, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.fused.compiled import kernel, read_only
from phy.fused.threefry import threefry


@kernel
def _of_round(keys: Any, round_index: Any, out: Any) -> None:
    for row in range(len(keys)):
        out[row, 0], out[row, 1] = threefry(keys[row, 0], keys[row, 1], round_index, np.uint32(0))


def keys_of_round(keys: NDArray[np.uint32], round_index: int) -> NDArray[np.uint32]:
    """Threefry of every trial's key `[num_trials, 2]` and the counter (`round_index`, 0), `[num_trials, 2]`."""
    out = np.empty_like(keys)
    _of_round(read_only(keys), np.uint32(round_index), out)
    return out
