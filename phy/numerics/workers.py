"""Kernels on all cores: independent tasks in blocks, each block a plain thread that holds no lock.

What a task computes depends on its number alone, so blocks and threads change no value.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache

_BLOCKS_PER_THREAD = 4
"""More than one, so that a thread that was held up elsewhere does not keep the others waiting."""


THREADS_VARIABLE = "PHYLOOP_THREADS"
"""Environment variable: threads that this process may use, where cores are shared with others."""


def available_threads() -> int:
    """Cores that this process may use: those of PHYLOOP_THREADS, a number from 1, else all it is let on.

    ValueError for another value of that variable.
    """
    return _threads(os.environ.get(THREADS_VARIABLE, ""))


@lru_cache(maxsize=8)
def _threads(told: str) -> int:
    if told:
        if not told.isascii() or not told.isdigit() or int(told) < 1:
            raise ValueError(f"{THREADS_VARIABLE}={told} is no number of threads; set it to 1 or more, or unset it")
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=8)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    del process  # threads do not survive a fork: a child starts its own
    return ThreadPoolExecutor(threads, thread_name_prefix="fused")


def run_tasks(run: Callable[[int, int], None], *, num_tasks: int, threads: int) -> None:
    """Call `run(first, last)` until tasks 0 to `num_tasks` - 1 are done, on `threads` threads, the caller's among them.

    Returns, or raises what a call raised, once no call is going on.
    """
    blocks = min(num_tasks, threads * _BLOCKS_PER_THREAD)
    if threads == 1 or blocks < 2:
        run(0, num_tasks)
        return
    bounds = [num_tasks * block // blocks for block in range(blocks + 1)]
    turns = iter(range(blocks))  # each number is handed out once, whoever asks for it

    def work() -> None:
        for block in turns:
            run(bounds[block], bounds[block + 1])

    pool = _pool(threads - 1, os.getpid())
    others = [pool.submit(work) for _ in range(min(threads, blocks) - 1)]
    try:
        work()
    finally:
        # One that has not begun by now would find nothing left.
        begun = [other for other in others if not other.cancel()]
        wait(begun)
    for other in begun:
        other.result()
