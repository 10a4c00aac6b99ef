"""Memory of the GPU: copies there and back, and rows that fit.

Large arrays go through a page-locked buffer, which all threads fill and empty: a copy of ordinary memory takes the
driver's one thread, which is slow above all where the pages of the target are new.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from phy.numerics.workers import run_tasks, spans

_MOST_BYTES = 1 << 30
_SHARE = 4
"""One part in so many of the free memory is used at once."""
_STAGED = 1 << 26
"""Bytes of the page-locked buffer."""
_COPIED = 1 << 22
"""Bytes that a thread copies at once."""
_staging = Lock()


def on_gpu(array: NDArray[Any]) -> Any:
    """Return a copy on the GPU."""
    array = np.ascontiguousarray(array)
    if array.nbytes <= _COPIED:
        return cuda.to_device(array)
    there = cuda.device_array(array.shape, array.dtype)
    here, target = array.reshape(-1).view(np.uint8), there.view(np.uint8).reshape(-1)
    with _staging:
        for piece in spans(len(here), step=_STAGED):
            staged = _buffer()[: piece.stop - piece.start]
            _copy(here[piece], staged)
            target[piece].copy_to_device(staged)
    return there


def from_gpu(there: Any, array: NDArray[Any]) -> None:
    """Copy an array of the GPU into the contiguous `array` of its shape and type."""
    if array.nbytes <= _COPIED:
        there.copy_to_host(array)
        return
    here, source = array.reshape(-1).view(np.uint8), there.view(np.uint8).reshape(-1)
    with _staging:
        for piece in spans(len(here), step=_STAGED):
            staged = _buffer()[: piece.stop - piece.start]
            source[piece].copy_to_host(staged)
            _copy(staged, here[piece])


def row_chunks(count: int, *, bytes_per_row: int) -> Iterator[slice]:
    """Yield slices of `count` rows that fit into the free memory of the GPU."""
    free, _ = cuda.current_context().get_memory_info()
    return spans(count, step=max(int(min(free / _SHARE, _MOST_BYTES)) // bytes_per_row, 1))


@lru_cache(maxsize=1)
def _buffer() -> NDArray[np.uint8]:
    buffer: NDArray[np.uint8] = cuda.pinned_array(_STAGED, np.uint8)
    return buffer


def _copy(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    def copy(first: int, last: int) -> None:
        target[first * _COPIED : last * _COPIED] = source[first * _COPIED : last * _COPIED]

    run_tasks(copy, num_tasks=-(-len(source) // _COPIED))
