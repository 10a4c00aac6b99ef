"""How long a piece of code takes by itself, whatever else the process and the machine do."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, Self


def fastest_s(call: Callable[[], Any], *, repeats: int = 15) -> float:
    """Shortest time of a call [s]: what else the machine does can only add to it."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


class OwnTime:
    """What the block computed, `seconds` of its thread.

    Other threads do not count, and no garbage is collected meanwhile: that of a session of tests takes a second, and
    falls on whoever makes the next object.
    """

    seconds = 0.0

    def __enter__(self) -> Self:
        self._collected = gc.isenabled()
        gc.disable()
        self._started = time.thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.thread_time() - self._started
        if self._collected:
            gc.enable()
