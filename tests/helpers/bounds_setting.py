"""Flipped fractions the slow way, and a small convex task, shared by the tests of bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def recovered(
    weights: NDArray[np.float64], *, p: NDArray[np.float64] | float, value_range: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Li et al. 2025 (7) and back, over binary32 of which every fraction bit is flipped by itself."""
    pattern = (weights + 3 * value_range).astype(np.float32).view(np.uint32)
    for bit in range(23):
        pattern = pattern ^ ((rng.random(weights.shape) < p).astype(np.uint32) << np.uint32(bit))
    return pattern.view(np.float32).astype(np.float64) - 3 * value_range


def a_task() -> tuple[NDArray[np.float64], NDArray[np.int64], list[NDArray[np.int64]], NDArray[np.float64]]:
    """Three noisy classes of 6 features; devices hold different mixtures."""
    rng = np.random.default_rng(11)
    y = rng.integers(3, size=120)
    x = 0.6 * rng.normal(size=(120, 6)) + np.eye(3, 6)[y]
    devices = [part.astype(np.int64) for part in np.array_split(np.argsort(y + 1.5 * rng.random(120)), 6)]
    shares = np.array([len(part) for part in devices]) / 120
    return x, y, devices, shares
