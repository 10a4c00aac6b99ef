"""A table of text, and numbers with their intervals as text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scenarios.report.tables.intervals import Mean, Rate

_SAME = 1e-12
"""Relative width of an interval around one value that every trial has."""

_SMALL_COUNT, _LARGE_COUNT = 1e3, 1e15
"""Between these a whole number that every trial has is a count, shown with all its digits."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text; `numeric` columns are aligned to the right, None is an empty cell."""

    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str | None, ...], ...]


def format_mean(mean: Mean) -> str:
    """`mean [low, high]`, digits as the interval allows; without an interval, or where all are one, the mean alone."""
    if mean.mean.is_integer() and _SMALL_COUNT <= abs(mean.mean) <= _LARGE_COUNT and mean.low in (None, mean.mean):
        return f"{mean.mean:,.0f}"
    if mean.low is None or mean.high is None:
        return f"{mean.mean:.4g}"
    if mean.high - mean.low <= _SAME * abs(mean.mean):
        return f"{mean.mean:.6g}"
    return with_interval(mean.mean, low=mean.low, high=mean.high)


def format_rate(rate: Rate) -> str:
    """`rate [low, high]`; without errors only `< high`."""
    if not rate.errors:
        return f"< {rate.high:.2g}"
    return with_interval(rate.value, low=rate.low, high=rate.high)


def with_interval(value: float, *, low: float, high: float) -> str:
    """`value [low, high]`, digits as the interval allows."""
    digits = _digits(value, high - low)
    # Alternate form: it keeps trailing zeros, which are digits that were measured.
    shown, bottom, top = (f"{number:#.{digits}g}".rstrip(".") for number in (value, low, high))
    return f"{shown} [{bottom}, {top}]"


def _digits(value: float, width: float) -> int:
    """Significant digits of `value` such that the interval shows two of its own; 3 to 8."""
    if width <= 0 or value == 0 or not math.isfinite(value):
        return 4
    return min(max(2 + math.floor(math.log10(abs(value))) - math.floor(math.log10(width)), 3), 8)
