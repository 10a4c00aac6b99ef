"""Compressed private aggregation the slow way, Lang et al. 2023 Algorithm 1: one device, block and point at a time.

Shares with the product only Threefry and the points; whole numbers are Python's own.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from phy.numerics.random import threefry


def word(key: np.ndarray, *, stage: int, draw: int, block: int, device: int) -> int:
    """The word of 32 bits that stands for one draw of one block: blocks go to counters in groups of 128."""
    group, place = divmod(block, 128)

    def one(number: int) -> np.ndarray:
        return np.array([number], np.uint32)

    folded = threefry((one(key[0]), one(key[1])), (one(stage), one(draw)))
    return int(threefry(folded, (one(64 * group + place % 64), one(device)))[place // 64][0])


def codeword(key: np.ndarray, *, num_points: int, balanced: bool, stage: int, block: int, device: int) -> list[int]:
    """v in {-1, +1}^n."""

    def draw(number: int) -> int:
        return word(key, stage=stage, draw=number, block=block, device=device)

    if not balanced:
        return [1 if draw(point // 32) >> (point % 32) & 1 else -1 for point in range(num_points)]
    plus = math.ceil(num_points / 2)
    if num_points <= 32 and math.comb(num_points, plus) < 65536:
        chosen = list(combinations(range(num_points), plus))[draw(0) * math.comb(num_points, plus) >> 32]
        return [1 if point in chosen else -1 for point in range(num_points)]
    out = []
    for point in range(num_points):
        is_plus = draw(point) * (num_points - point) >> 32 < plus - sum(one > 0 for one in out)
        out.append(1 if is_plus else -1)
    return out


def nearest(points: np.ndarray, vector: np.ndarray) -> int:
    """The number of the point that is nearest."""
    return min(range(len(points)), key=lambda number: float(((points[number] - vector) ** 2).sum()))


def encode(
    updates: np.ndarray,
    *,
    stages: list[np.ndarray],
    balanced: bool,
    devices: list[int],
    key: np.ndarray,
    dither: np.ndarray | None = None,
) -> np.ndarray:
    """Bits 0 and 1, `[K, stages x num_blocks]`, of updates `[K, num_blocks, L]` in units of the radius."""
    bits = np.zeros((len(devices), len(stages), updates.shape[1]), np.uint8)
    for row, device in enumerate(devices):
        for block in range(updates.shape[1]):
            rest = updates[row, block] + (0.0 if dither is None else dither[row, block])
            for stage, points in enumerate(stages):
                level = nearest(points, rest)
                v = codeword(key, num_points=len(points), balanced=balanced, stage=stage, block=block, device=device)
                bits[row, stage, block] = v[level] == 1
                rest = rest - points[level]
    return bits.reshape(len(devices), -1)


def decode(
    bits: np.ndarray,
    *,
    stages: list[np.ndarray],
    balanced: bool,
    devices: list[int],
    key: np.ndarray,
    weights: np.ndarray,
    factor: np.ndarray,
    known: np.ndarray,
    decode: str,
    keep: float,
    negative_bins: str,
    dither: np.ndarray | None = None,
) -> np.ndarray:
    """The update `[num_blocks, L]` in units of the radius, by (12) to (14) and (17); `keep` is 2 p - 1."""
    n, num_blocks = len(stages[0]), bits.shape[1] // len(stages)
    rho = 0.0
    if balanced:
        rho = -1 / (n - 1) if n % 2 == 0 else -1 / n
    scale = {"coded": keep, "printed": 1.0, "unbiased": 1 / (1 - rho)}[decode]
    out = np.zeros((num_blocks, stages[0].shape[1]))
    for stage, points in enumerate(stages):
        for block in range(num_blocks):
            at = stage * num_blocks + block
            heard = [row for row in range(len(devices)) if known[row, at]]
            if not heard:
                continue
            total = sum(weights[row] for row in heard)
            bins = np.zeros(n)
            for row in heard:
                v = codeword(key, num_points=n, balanced=balanced, stage=stage, block=block, device=devices[row])
                sign = 1 if bits[row, at] else -1
                bins += weights[row] / total * scale / factor[row] * sign * np.array(v)
            if decode == "unbiased":
                bins -= rho * scale
            if negative_bins == "zero":
                bins = np.maximum(bins, 0.0)
            out[block] += bins @ points
            if dither is not None and stage == len(stages) - 1:
                mean = sum(weights[row] / total * dither[row, block] for row in heard)
                out[block] -= (1 - rho) * scale * mean
    return out
