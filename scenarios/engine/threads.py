"""How many threads a process starts, and in what: the last bits of a sum hang on how many parts it was made of.

Matrix products, sums over whole arrays and factorisations come out otherwise in TensorFlow and BLAS with another number
of threads (about 1e-7 of a float32). These have one thread each, in every process, so that numbers are the same on any
machine and for any number of workers. Kernels whose threads share no sum, and independent operations of TensorFlow,
have all cores that the process may use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from phy.numerics.workers import THREADS_VARIABLE, available_threads

_ALWAYS_ONE = (
    "TF_NUM_INTRAOP_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_ALL_CORES = (THREADS_VARIABLE, "NUMBA_NUM_THREADS", "TF_NUM_INTEROP_THREADS")


def threads_per_worker(workers: int) -> int:
    """An equal share of the cores that this process may use, at least one."""
    return max(available_threads() // workers, 1)


def thread_variables(threads: int) -> Mapping[str, str]:
    """Environment of a process that may use `threads` cores; read by libraries when they are loaded."""
    return dict.fromkeys(_ALWAYS_ONE, "1") | dict.fromkeys(_ALL_CORES, str(threads))


def limit_threads() -> None:
    """Hold this process to the cores of PHYLOOP_THREADS, else all it is let on; before TensorFlow is imported.

    Libraries of linear algebra that are loaded already are told; the others find it in the environment.
    """
    from threadpoolctl import threadpool_limits

    variables = thread_variables(available_threads())
    os.environ.update({name: value for name, value in variables.items() if name != THREADS_VARIABLE})
    threadpool_limits(1)
