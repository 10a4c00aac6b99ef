"""Threads of one process: cores are divided among workers, in every library that starts threads of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping

from phy.fused.workers import THREADS_VARIABLE, available_threads

_LIBRARIES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)


def threads_per_worker(workers: int) -> int:
    """An equal share of the cores that this process may use, at least one."""
    return max(available_threads() // workers, 1)


def thread_variables(threads: int) -> Mapping[str, str]:
    """Environment of a process that is to use `threads` threads; read by libraries when they are loaded."""
    return dict.fromkeys((THREADS_VARIABLE, *_LIBRARIES), str(threads))


def limit_threads() -> None:
    """Hold this process to PHYLOOP_THREADS threads, one where nobody says: call it before TensorFlow is imported.

    Libraries that are already loaded are told, the others find it in the environment.
    """
    from threadpoolctl import threadpool_limits

    os.environ.setdefault(THREADS_VARIABLE, "1")
    threads = available_threads()
    os.environ.update(thread_variables(threads))
    threadpool_limits(threads)
