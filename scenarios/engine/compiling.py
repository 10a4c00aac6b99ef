"""Compiling of kernels as users see it: at a first use, once per machine, and not named it looks like a slow link."""

from __future__ import annotations

import sys
from typing import Any


def is_compiling() -> bool:
    """Return True while a kernel is compiled in this process, or waits for another process that compiles it."""
    return getattr(_compilations(), "under_way", 0) > 0


def compiling_s() -> float:
    """Return the time that this process has spent on compiling kernels [s]."""
    return float(getattr(_compilations(), "seconds", 0.0))


def told(seconds: float) -> str:
    """Return words for a time spent on compiling [s]; none below a second."""
    return f"{seconds:.0f} s of compiling kernels, which are kept for the next time" if seconds >= 1.0 else ""


def _compilations() -> Any:
    """Return the count of compilations; without kernels numba is not imported."""
    return getattr(sys.modules.get("phy.numerics.compiled"), "compilations", None)
