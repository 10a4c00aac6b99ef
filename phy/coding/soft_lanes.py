"""Soft values of code words side by side, for decoders that go through the time of a trellis.

A lane is one code word. Values are LLRs ln P(1) / P(0) in 16 bits, in equal steps. The value of lane i at place t of a
code word lies at `LANES * t + i`.
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
def quantise(llrs: Any, row: Any, steps_per_unit: Any, most: Any, values: Any, at: Any, count: Any) -> None:
    """The first `count` LLRs of a row in steps, at most `most` of them, into `values` from `at` on."""
    for i in range(count):
        steps = min(max(llrs[row, i] * steps_per_unit, -most), most)
        values[at + np.uint64(i)] = np.int16(np.int32(np.floor(steps + _HALF)))


@inlined
def to_lanes(values: Any, stride: Any, lanes: Any, count: Any) -> None:
    """Rows of `values`, `stride` apart, to `count` places of lanes."""
    for place in range(count):
        at = np.uint64(LANES * place)
        for i in range(LANES):
            lanes[at + np.uint64(i)] = values[np.uint64(i) * stride + np.uint64(place)]
