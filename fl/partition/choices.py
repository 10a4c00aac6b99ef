"""Many small draws without replacement in one pass: the numbers of `Generator.choice`, device after device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.compiled import kernel

_LARGE, _SHARE = 10_000, 50
"""From so many on, of which more than 1 / `_SHARE` are taken, NumPy goes another way."""

_MOST_SIZE = 64
"""Numbers taken that are compared one by one."""


@kernel
def _draw(words: Any, population: Any, out: Any) -> Any:
    """Rows of `out` `[rows, size]` from 32-bit `words`; words used, or -1 where they do not suffice.

    Floyd's algorithm (Bentley, Programming Pearls, CACM 1987), then a shuffle, each number by Lemire's bounded draw
    (ACM TOMACS 2019): as NumPy has them.
    """
    rows, size = out.shape
    used = np.int64(0)
    for row in range(rows):
        for step in range(2 * size - 1):
            # First 0 .. population - size + step, then 0 .. size - 1, .., 0 .. 1.
            most = population - size + step if step < size else 2 * size - 1 - step
            span = np.uint64(most + 1)
            drawn = np.uint64(0)
            if most > 0:
                least = np.uint64(np.uint64(4294967296) - span) % span
                while True:
                    if used >= len(words):
                        return -1
                    product = np.uint64(words[used]) * span
                    used += 1
                    if (product & np.uint64(0xFFFFFFFF)) >= least:
                        break
                drawn = product >> np.uint64(32)
            found = np.int64(drawn)
            if step < size:
                for earlier in range(step):
                    if out[row, earlier] == found:
                        found = np.int64(most)
                        break
                out[row, step] = found
            else:
                out[row, most], out[row, found] = out[row, found], out[row, most]
    return used


def choose_for_each(generator: np.random.Generator, *, population: int, size: int, rows: int) -> NDArray[np.int64]:
    """`generator.choice(population, size, replace=False)` of every row, `[rows, size]`, of a fresh Philox generator."""
    plain = size <= _MOST_SIZE and population < 1 << 31 and not (population > _LARGE and size > population // _SHARE)
    if not plain or generator.bit_generator.state.get("has_uint32") != 0:
        return np.array([generator.choice(population, size, replace=False) for _ in range(rows)], np.int64)
    out = np.empty((rows, size), np.int64)
    # Few draws are rejected, one in 2^32 / population at most.
    count = rows * (2 * size - 1)
    while True:
        state = generator.bit_generator.state
        words = generator.bit_generator.random_raw(-(-count // 2)).astype("<u8", copy=False).view("<u4")
        if _draw(words, population, out) >= 0:
            return out
        generator.bit_generator.state = state
        count += max(count // 64, 64)
