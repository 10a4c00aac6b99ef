"""Compressed private aggregation of a whole round beside a loop over devices, and how its cost grows.

    python benchmarks/one_bit.py

Rivals see the same updates of the linear model (7,850 numbers), the authors' three levels. The loop does what a device
and the server do for one device after the other: NumPy permutes a codeword for every number, picks the bit, and adds
the codeword to the histogram (the quickest whole-array form of it: the place of the -1). It is given its random numbers
by NumPy's own generator. Growth is the least-squares slope of log time over log size: 1 is linear.

Exit 1 if ours is the slower one, if K = 1000 takes longer than 0.1 s or K = 10,000 than 1.5 s for either verb, or if
cost grows faster than linearly (slope above 1.15) in devices or numbers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from timing import interleaved_medians, print_table

from fl.config.scheme import CpaScheme
from fl.one_bit.cpa_build import build_cpa
from phy.channels import UplinkContext

GAMMA = 0.05
LINEAR_MODEL = 7_850
DEVICES = (250, 500, 1000, 2000, 4000)
VALUES = (7_850, 15_700, 31_400, 62_800)
LIMITS = {1000: 0.1, 10_000: 1.5}
STEEPEST = 1.15
CONTEXT = UplinkContext(seed=1, trials=(0,))


def plain_encode(updates: np.ndarray) -> list[np.ndarray]:
    """Payloads of updates `[K, M]`, device by device."""
    payloads = []
    for device, row in enumerate(updates):
        minus = np.random.default_rng((1, device)).integers(0, 3, len(row), np.uint8)
        level = (np.clip(np.rint(row / np.float32(2 * GAMMA / 3)), -1, 1) + 1).astype(np.uint8)
        payloads.append(np.packbits(level != minus))
    return payloads


def plain_aggregate(payloads: list[np.ndarray], num_values: int) -> np.ndarray:
    """The update `[M]`, device by device into one histogram."""
    bins = np.zeros((3, num_values), np.float32)
    for device, payload in enumerate(payloads):
        minus = np.random.default_rng((1, device)).integers(0, 3, num_values, np.uint8)
        sign = 2 * np.unpackbits(payload, count=num_values).astype(np.float32) - 1
        for point in range(3):
            bins[point] += np.where(minus == point, -sign, sign)
    return (bins[2] - bins[0]) * np.float32(2 * GAMMA / 3 / len(payloads))


def calls(num_devices: int, num_values: int) -> dict[str, Callable[[], Any]]:
    """Both verbs of ours for one size."""
    scheme = build_cpa(CpaScheme(name="cpa", gamma=GAMMA, epsilon=None), num_values=num_values)
    updates = draw(num_devices, num_values)
    devices = np.arange(num_devices)
    payload = scheme.encode(updates, devices=devices, context=CONTEXT)
    told = {"weights": np.full(num_devices, 1 / num_devices), "factor": np.ones(num_devices)}
    return {
        "encode": lambda: scheme.encode(updates, devices=devices, context=CONTEXT),
        "aggregate": lambda: scheme.aggregate(payload, devices=devices, context=CONTEXT, **told),
    }


def draw(num_devices: int, num_values: int) -> np.ndarray:
    """Updates `[K, M]` float32 that use all three levels."""
    updates = np.random.default_rng(0).standard_normal((num_devices, num_values), np.float32)
    updates *= np.float32(GAMMA / 2)
    return updates


def against_loop() -> tuple[list[tuple[str, ...]], bool]:
    """Rows of the table and whether ours was the slower one or too slow anywhere."""
    rows, bad = [], False
    for num_devices in (100, 1000, 10_000):
        updates = draw(num_devices, LINEAR_MODEL)
        payloads = plain_encode(updates)
        plain = {
            "encode": lambda updates=updates: plain_encode(updates),
            "aggregate": lambda payloads=payloads: plain_aggregate(payloads, LINEAR_MODEL),
        }
        ours = calls(num_devices, LINEAR_MODEL)
        for verb, call in ours.items():
            seconds = interleaved_medians({"ours": call, "loop": plain[verb]}, repeats=5, warm_up=1)
            ratio = seconds["loop"] / seconds["ours"]
            bad |= (num_devices >= 1000 and ratio < 1.0) or seconds["ours"] > LIMITS.get(num_devices, np.inf)
            rows.append(
                (f"K = {num_devices}, {verb}", f"{seconds['ours']:.4f}", f"{seconds['loop']:.4f}", f"{ratio:.1f}")
            )
    return rows, bad


def growth(name: str, sizes: tuple[tuple[int, int], ...]) -> tuple[list[tuple[str, ...]], bool]:
    """Rows of the table and whether time grows faster than linearly over sizes (K, M)."""
    # All sizes take turns, so that a busy moment of the machine does not look like growth.
    every = {(verb, size): call for size in sizes for verb, call in calls(*size).items()}
    named = {f"{verb} {size}": call for (verb, size), call in every.items()}
    seconds = interleaved_medians(named, repeats=7, warm_up=1)
    rows, bad = [], False
    amounts = np.log([k * m for k, m in sizes])
    for verb in ("encode", "aggregate"):
        times = [seconds[f"{verb} {size}"] for size in sizes]
        slope = float(np.polyfit(amounts, np.log(times), 1)[0])
        bad |= slope > STEEPEST
        rows.append((f"{verb}, {name}", *(f"{time:.3f}" for time in times), f"{slope:.2f}"))
    return rows, bad


def main() -> int:
    """Print the tables and the verdict."""
    rows, slow = against_loop()
    print_table(("median of 5 turns, M = 7,850", "ours [s]", "loop [s]", "loop over ours"), rows)
    print()
    over_devices, steep_devices = growth("K x 7,850", tuple((k, LINEAR_MODEL) for k in DEVICES))
    print_table(("seconds at K =", *(str(k) for k in DEVICES), "slope"), over_devices)
    print()
    over_values, steep_values = growth("100 x M", tuple((100, m) for m in VALUES))
    print_table(("seconds at M =", *(str(m) for m in VALUES), "slope"), over_values)
    return 1 if slow or steep_devices or steep_values else 0


if __name__ == "__main__":
    sys.exit(main())
