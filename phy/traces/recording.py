"""Channels of foreign files on their way into an `.npz`: arrays that come in parts, few of which are in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.traces.errors import MOST_BYTES, TraceError

PART = 1 << 18
"""Entries of a part, a few MB."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """An array that comes in parts: `make` returns them one behind the other, in C order."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    make: Callable[[], Iterable[NDArray[Any]]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """A channel in a foreign file: the arrays of a recorded channel, and what was assumed, a sentence each."""

    arrays: Mapping[str, Parts]
    assumed: tuple[str, ...] = ()


def whole(value: ArrayLike) -> Parts:
    """Return an array that is in memory."""
    found = np.asarray(value)
    return Parts(shape=found.shape, dtype=found.dtype, make=lambda: [found])


def rows(count: int, width: int) -> Iterator[slice]:
    """Yield slices of `count` rows of `width` entries, of about `PART` entries each."""
    step = max(PART // max(width, 1), 1)
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))


def check_size(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise TraceError for an array that is larger than the largest one of an `.npz`, or holds Python objects."""
    if dtype.hasobject:
        raise TraceError(f"array {name} holds Python objects, which are never opened", "write plain numbers")
    if (size := float(np.prod(shape, dtype=float)) * dtype.itemsize) > MOST_BYTES:
        limit = f"at most {MOST_BYTES >> 30} GiB are read"
        raise TraceError(f"array {name} takes {size / 2**30:.0f} GiB", f"{limit}: split the file")


def write_recording(stream: IO[bytes], recording: Recording) -> None:
    """Write `.npz`, not compressed: a run then reads single snapshots, and numbers with noise hardly shrink."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, one in recording.arrays.items():
            check_size(name, one.shape, one.dtype)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                descr = np.lib.format.dtype_to_descr(one.dtype)
                header = {"descr": descr, "fortran_order": False, "shape": one.shape}
                np.lib.format.write_array_header_1_0(out, header)
                for part in one.make():
                    out.write(np.ascontiguousarray(part, one.dtype).reshape(-1).view(np.uint8).data)
