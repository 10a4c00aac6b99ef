"""Flipped fractions the slow way, and a small convex task, shared by the tests of bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FORMATS = {10: (np.float16, np.uint16), 23: (np.float32, np.uint32), 52: (np.float64, np.uint64)}


def fractions_flipped(
    values: NDArray[np.float64], *, p: NDArray[np.float64] | float, bits: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The slow way: numbers in their own format, every fraction bit flipped by itself."""
    number, word = FORMATS[bits]
    pattern = values.astype(number).view(word)
    for bit in range(bits):
        pattern = pattern ^ ((rng.random(values.shape) < p).astype(word) << word(bit))
    return pattern.view(number).astype(np.float64)


def recovered(
    weights: NDArray[np.float64], *, p: NDArray[np.float64] | float, value_range: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Li et al. 2025 (7) and back, over flipped bits of binary32."""
    return fractions_flipped(weights + 3 * value_range, p=p, bits=23, rng=rng) - 3 * value_range


def a_task() -> tuple[NDArray[np.float64], NDArray[np.int64], list[NDArray[np.int64]], NDArray[np.float64]]:
    """Three noisy classes of 6 features; devices hold different mixtures."""
    rng = np.random.default_rng(11)
    y = rng.integers(3, size=120)
    x = 0.6 * rng.normal(size=(120, 6)) + np.eye(3, 6)[y]
    devices = [part.astype(np.int64) for part in np.array_split(np.argsort(y + 1.5 * rng.random(120)), 6)]
    shares = np.array([len(part) for part in devices]) / 120
    return x, y, devices, shares
