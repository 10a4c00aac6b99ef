"""Amounts in words. A module of its own, so that `phyloop status` loads no pydantic."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Seconds in words: `80 s`, `5 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def time_left(seconds: float) -> str:
    """The time that a run still takes, in words: `about 5 min left`."""
    return "less than 1 s left" if seconds < 1.0 else f"about {duration(seconds)} left"


def byte_size(number: int) -> str:
    """Bytes in words: `1.2 GB`, `35 MB`, `4 kB`."""
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if number >= size:
            return f"{number / size:.{1 if number < 10 * size else 0}f} {unit}"
    return f"{-(-number // 1000)} kB"
