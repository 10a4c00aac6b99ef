"""Memory of the GPU: copies there and back, and rows that fit.

Large arrays go through two page-locked buffers, which all threads fill and empty while the other one is on the bus: a
copy of ordinary memory reaches a fifth of the bus's rate, and a tenth where its pages are new.
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
_STAGED = 1 << 24
"""Bytes of a page-locked buffer."""
_COPIED = 1 << 18
"""Bytes that a thread copies at once."""
_staging = Lock()


def on_gpu(array: NDArray[Any]) -> Any:
    """Return a copy on the GPU."""
    array = np.ascontiguousarray(array)
    if array.nbytes <= _STAGED:
        return cuda.to_device(array)
    there = cuda.device_array(array.shape, array.dtype)
    here, target = array.reshape(-1).view(np.uint8), there.view(np.uint8).reshape(-1)
    with _staging:
        pieces = spans(len(here), step=_STAGED)
        for piece, (buffer, stream) in zip(pieces, _turns(len(here)), strict=True):
            stream.synchronize()
            filled = buffer[: piece.stop - piece.start]
            _copy(here[piece], filled)
            target[piece].copy_to_device(filled, stream=stream)
        cuda.synchronize()
    return there


def from_gpu(there: Any, array: NDArray[Any]) -> None:
    """Copy an array of the GPU into the contiguous `array` of its shape and type."""
    if array.nbytes <= _STAGED:
        there.copy_to_host(array)
        return
    here, source = array.reshape(-1).view(np.uint8), there.view(np.uint8).reshape(-1)
    with _staging:
        cuda.synchronize()
        pieces = list(spans(len(here), step=_STAGED))
        under_way: list[tuple[slice, Any, Any]] = []
        for piece, (buffer, stream) in zip(pieces, _turns(len(here)), strict=True):
            source[piece].copy_to_host(buffer[: piece.stop - piece.start], stream=stream)
            under_way.append((piece, buffer, stream))
            if len(under_way) == 2:
                _empty(here, *under_way.pop(0))
        for last in under_way:
            _empty(here, *last)


def row_chunks(count: int, *, bytes_per_row: int) -> Iterator[slice]:
    """Yield slices of `count` rows that fit into the free memory of the GPU."""
    free, _ = cuda.current_context().get_memory_info()
    return spans(count, step=max(int(min(free / _SHARE, _MOST_BYTES)) // bytes_per_row, 1))


@lru_cache(maxsize=1)
def _buffers() -> list[tuple[NDArray[np.uint8], Any]]:
    return [(cuda.pinned_array(_STAGED, np.uint8), cuda.stream()) for _ in range(2)]


def _turns(num_bytes: int) -> Iterator[tuple[NDArray[np.uint8], Any]]:
    """A buffer and its stream for each piece."""
    return (_buffers()[piece % 2] for piece in range(-(-num_bytes // _STAGED)))


def _empty(here: NDArray[np.uint8], piece: slice, buffer: NDArray[np.uint8], stream: Any) -> None:
    stream.synchronize()
    _copy(buffer[: piece.stop - piece.start], here[piece])


def _copy(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    def copy(first: int, last: int) -> None:
        target[first * _COPIED : last * _COPIED] = source[first * _COPIED : last * _COPIED]

    run_tasks(copy, num_tasks=-(-len(source) // _COPIED))
