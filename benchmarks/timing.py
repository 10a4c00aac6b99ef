"""Medians of calls that take turns, so that a busy moment of the machine hits every rival alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any


def interleaved(
    calls: Mapping[str, Callable[[], Any]],
    *,
    repeats: int,
    warm_up: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """What `clock` says of each call [s], wall time if left out, over `repeats` turns after `warm_up` that compile."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(warm_up + repeats):
        for name, call in calls.items():
            start = clock()
            call()
            if turn >= warm_up:
                seconds[name].append(clock() - start)
    return seconds


def interleaved_medians(
    calls: Mapping[str, Callable[[], Any]], *, repeats: int = 11, warm_up: int = 2
) -> dict[str, float]:
    """Median wall time of each call [s] over `repeats` turns, after `warm_up` turns that compile."""
    seconds = interleaved(calls, repeats=repeats, warm_up=warm_up)
    return {name: statistics.median(values) for name, values in seconds.items()}


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Columns as wide as their widest cell, the first to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, tuple("-" * width for width in widths), *rows]:
        print("  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]))
