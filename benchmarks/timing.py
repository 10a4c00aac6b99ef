"""Medians of calls that take turns, so that a busy moment of the machine hits every rival alike."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def peak_gigabytes() -> float:
    """Peak memory of this process, not of the one that started it: Linux hands `ru_maxrss` down to a child."""
    told = Path("/proc/self/status")
    if told.exists():
        return 1024e-9 * int(told.read_text().split("VmHWM:")[1].split()[0])
    # Kilobytes, on macOS bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9


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


def print_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their widest cell, the first to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, tuple("-" * width for width in widths), *rows]:
        print("  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]))


SLOW_TURNS = 3
"""Of calls that take long."""


def interleaved_rates(
    calls: Mapping[str, Callable[[], float]], *, repeats: int, slow_s: float = 0.5, of_slow: int = SLOW_TURNS
) -> dict[str, list[float]]:
    """What each call tells of itself, in turns: two to warm up, then `repeats`.

    A call that still takes `slow_s` in its second turn has `of_slow` turns in all, the warm ones alone. Any other is
    called once more before it is timed: after seconds of a slow rival it may take twice as long.
    """
    told: dict[str, list[float]] = {name: [] for name in calls}
    slow: set[str] = set()
    for turn in range(2 + repeats):
        for name, call in calls.items():
            if name in slow and len(told[name]) >= of_slow:
                continue
            if turn >= 2 and name not in slow:
                call()
            start = time.perf_counter()
            value = call()
            if turn == 1 and time.perf_counter() - start > slow_s:
                slow.add(name)
            if turn >= 2 or name in slow:
                told[name].append(value)
    return told


def turn_ratios(numerator: list[float], denominator: list[float]) -> list[float]:
    """Ratios of calls of `interleaved_rates` that followed each other."""
    return [a / b for a, b in zip(numerator, denominator, strict=False)]


def median_ratio(numerator: list[float], denominator: list[float]) -> float:
    """Median of `turn_ratios`."""
    return statistics.median(turn_ratios(numerator, denominator))


def half_spread(values: Sequence[float]) -> float:
    """Half of the distance between the quartiles."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2


def markdown_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """The same table for a page of documentation, numbers to the right."""
    lines = [header, ("---", *["---:"] * (len(header) - 1)), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
