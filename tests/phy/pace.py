"""How long calls take, for tests that compare two of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def fastest_s(call: Callable[[], Any], *, repeats: int = 15) -> float:
    """Shortest time of a call [s]: what else the machine does can only add to it."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
