"""Compilation of kernels for a GPU, from the scalar parts of the fused kernels: one source for both processors.

numba takes a part of a kernel for CPUs as a plain function on a GPU, without the parts that it calls. So each of them
is compiled for the GPU once more, with the global names of its parts bound to what was compiled.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from numba import cuda

_cuda: Any = cuda
warnings.filterwarnings("ignore", ".*Grid size .* low occupancy")  # a small payload has few blocks, without a remedy


@cache
def _part(function: Callable[..., Any]) -> Any:
    """A part as a function that kernels on the GPU call."""
    return _cuda.jit(device=True)(_rebound(getattr(function, "py_func", function)))


def _rebound(function: Any) -> FunctionType:
    own = function.__globals__
    parts = {name: _part(own[name]) for name in function.__code__.co_names if _is_part(own.get(name))}
    return FunctionType(function.__code__, {**own, **parts}, function.__name__, function.__defaults__)


def _is_part(value: Any) -> bool:
    function = getattr(value, "py_func", value)
    return isinstance(function, FunctionType) and function.__module__.split(".")[0] == "phy"


def gpu_kernel(function: Callable[..., Any]) -> Any:
    """A kernel called as `kernel[blocks, threads, stream](..)`, compiled at its first call with all its parts."""
    return _cuda.jit(_rebound(function))


def fold(values: Any, count: Any, num_sums: Any) -> None:
    """Fold every row of `values` `[rows, count]` in shared memory into its first column; `count` a power of two.

    The first `num_sums` rows are added up, of the others the largest value is taken. All `count` threads call this.
    """
    thread, half = cuda.threadIdx.x, count // 2
    cuda.syncthreads()
    while half > 0:
        if thread < half:
            for row in range(values.shape[0]):
                one, other = values[row, thread], values[row, thread + half]
                values[row, thread] = one + other if row < num_sums else max(one, other)
        cuda.syncthreads()
        half //= 2
