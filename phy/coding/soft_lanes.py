"""Soft values of code words side by side, for decoders that go through the time of a trellis.

A lane is one code word. Values are LLRs ln P(1) / P(0) in 16 bits, in equal steps. Arrays of kernels end in an axis of
lanes. Parts take rows of them, a vector each: LLVM need not ask whether arguments overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phy.numerics.compiled import inlined
from phy.numerics.workers import run_tasks

LANES = 32
"""One vector of 512 bits, or two of 256."""
_HALF = np.float32(0.5)


def run_lanes(run: Callable[[int, int], None], *, count: int) -> None:
    """Call `run(first, last)` on all cores until code words 0 to `count` - 1 are done, whole groups of `LANES` each."""
    run_tasks(lambda first, last: run(LANES * first, min(LANES * last, count)), num_tasks=-(-count // LANES))


@inlined
def quantise(llrs: Any, steps_per_unit: Any, most: Any, values: Any) -> None:
    """LLRs in steps, at most `most` of them."""
    for i in range(len(llrs)):
        steps = min(max(llrs[i] * steps_per_unit, -most), most)
        values[i] = np.int16(np.int32(np.floor(steps + _HALF)))


@inlined
def to_lanes(rows: Any, place: Any, lanes: Any) -> None:
    """Values of all code words at one place."""
    for i in range(LANES):
        lanes[i] = rows[i, place]
