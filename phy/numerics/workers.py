"""Kernels on all cores: independent tasks in blocks, in plain threads without the interpreter's lock.

The result of a task depends on its number alone, so blocks and threads change no value.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from typing import Any, TypeVar

Made = TypeVar("Made")

_BLOCKS_PER_THREAD = 4
"""More than one, so that the other threads do not wait for a delayed one."""


_WORTH_A_THREAD_US = 200.0
"""Less is done before another thread has begun: waking it and taking turns in the interpreter cost as much."""

THREADS_VARIABLE = "PHYLOOP_THREADS"
"""Environment variable: number of threads of this process, for cores shared with other processes."""


def spans(count: int, *, step: int) -> Iterator[slice]:
    """Yield slices of at most `step` places, 0 to `count` - 1."""
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))


def available_threads() -> int:
    """Return the number of threads of PHYLOOP_THREADS, or the number of cores available to this process.

    Raises ValueError for a value that is not an integer from 1.
    """
    return _threads(os.environ.get(THREADS_VARIABLE, ""))


@lru_cache(maxsize=8)
def _threads(value: str) -> int:
    if value:
        if not value.isascii() or not value.isdigit() or int(value) < 1:
            raise ValueError(f"{THREADS_VARIABLE}={value} is not a number of threads; set it to 1 or more, or unset it")
        return int(value)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=8)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    del process  # threads do not survive a fork: a child starts its own
    return ThreadPoolExecutor(threads, thread_name_prefix="fused")


def of_thread(make: Callable[..., Made]) -> Callable[..., Made]:
    """`make` whose result each thread keeps for its next call with the same arguments: scratch arrays of a kernel.

    A kernel must not read what it has not written: it may be from the call before.
    """
    kept = threading.local()

    def made(*arguments: Any) -> Made:
        if getattr(kept, "arguments", None) != arguments:
            kept.arguments, kept.made = arguments, make(*arguments)
        found: Made = kept.made
        return found

    return made


def run_tasks(
    run: Callable[[int, int], None], *, num_tasks: int, threads: int | None = None, cost_us: float = math.inf
) -> None:
    """Call `run(first, last)` until tasks 0 to `num_tasks` - 1 are done, on `threads` threads, the caller's among them.

    Left out: all that are available. `cost_us`: microseconds that all tasks take on one thread, about; short work takes
    fewer threads. Waits for all calls, then returns or raises the first error of a call.
    """
    threads = available_threads() if threads is None else threads
    threads = int(min(threads, 1.0 + cost_us / _WORTH_A_THREAD_US))
    blocks = min(num_tasks, threads * _BLOCKS_PER_THREAD)
    if threads == 1 or blocks < 2:
        run(0, num_tasks)
        return
    bounds = [num_tasks * block // blocks for block in range(blocks + 1)]
    turns = iter(range(blocks))  # every number is drawn by one thread

    def work() -> None:
        for block in turns:
            run(bounds[block], bounds[block + 1])

    pool = _pool(threads - 1, os.getpid())
    others = [pool.submit(work) for _ in range(min(threads, blocks) - 1)]
    try:
        work()
    finally:
        # A task that has not begun by now has nothing left to do.
        begun = [other for other in others if not other.cancel()]
        wait(begun)
    for other in begun:
        other.result()
