"""Arrays as bytes, little-endian whatever the machine, with a checksum; and back, whatever the bytes are."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGEST_SERIES = 1 << 32
_MOST_AXES = 8
_KINDS = {np.dtype(np.int64): "<i8", np.dtype(np.float64): "<f8"}
_PROBED = 64
_STORED_BLOCK = 0xFFFF


LastSeries = dict[tuple[str, str], tuple[NDArray[Any], bytes, tuple[object, ...], bool]]
"""By name and dtype: an array, its bytes, its row, and whether the row's bytes are fewer."""


def pack_series(series: Mapping[str, NDArray[Any]], *, last: LastSeries | None = None) -> list[tuple[object, ...]]:
    """Rows (name, dtype, shape, crc32, data, total) of arrays, little-endian whatever the machine.

    Deflated where that makes them smaller, else as they are, in the same format. `last` keeps the arrays of the trial
    before: many are the same in all.
    """
    rows: list[tuple[object, ...]] = []
    for name, values in series.items():
        array = np.asarray(values)
        kind = kind_of(name, array)
        before = None if last is None else last.get((name, kind))
        raw = before[1] if before is not None and before[0] is array else array.astype(kind, copy=False).tobytes()
        again = before is not None and before[1] == raw and before[0].shape == array.shape
        if before is not None and again and before[3]:
            rows.append(before[2])
            continue
        total = int(array.sum()) if kind == "<i8" else None
        as_it_is = kind == "<f8" and not again and is_random(raw)
        # Level 1: counts shrink about as well as at 6, several times faster.
        data = _undeflated(raw) if as_it_is else zlib.compress(raw, 1)
        rows.append((name, kind, _shape_text(array.shape), zlib.crc32(raw), data, total))
        if last is not None:
            last[name, kind] = (array, raw, rows[-1], len(data) < len(raw))
    return rows


def kind_of(name: str, array: NDArray[Any]) -> str:
    """The type of an array as stores write it; ValueError if it is neither int64 nor float64."""
    kind = _KINDS.get(array.dtype)
    if kind is None:
        raise ValueError(f"{name} has type {array.dtype}; int64 and float64 can be stored")
    return kind


def is_random(raw: bytes) -> bool:
    """Whether the last bits of floats, looked at here and there, hardly repeat: deflate would save some percent.

    Of 64 draws out of 256 some 57 differ, with a standard deviation of 2.4.
    """
    found = raw[:: 8 * (len(raw) // (8 * _PROBED) or 1)][:_PROBED]
    return 4 * len(set(found)) > 3 * len(found)


def _undeflated(raw: bytes) -> bytes:
    """As `zlib.compress` at level 0, which clears a quarter of a megabyte first, for arrays of one block."""
    if len(raw) > _STORED_BLOCK:
        return zlib.compress(raw, 0)
    size = len(raw).to_bytes(2, "little") + (len(raw) ^ 0xFFFF).to_bytes(2, "little")
    return b"".join((b"\x78\x01\x01", size, raw, zlib.adler32(raw).to_bytes(4, "big")))  # RFC 1950, RFC 1951


@lru_cache(maxsize=256)
def _shape_text(shape: tuple[int, ...]) -> str:
    return json.dumps(shape)


def unpack_series(dtype: str, shape: str, crc32: int, data: bytes) -> NDArray[Any] | None:
    """The array of a row of `pack_series`, or None if its bytes are not those that were written."""
    axes = axes_of(shape)
    if axes is None or not isinstance(data, bytes):
        return None
    raw = inflated(data, size=8 * prod(axes))
    return None if raw is None else array_of(raw, dtype=dtype, axes=axes, crc32=crc32)


def inflated(data: bytes, *, size: int) -> bytes | None:
    """The `size` bytes that were deflated to `data`; None if they were not."""
    # So much can deflate hold at most: a store from elsewhere may claim any shape.
    if size > min(_LARGEST_SERIES, 1100 * len(data)):
        return None
    unpacking = zlib.decompressobj()
    try:
        raw = unpacking.decompress(data, size + 1)
    except (zlib.error, MemoryError):
        return None
    return raw if len(raw) == size and (unpacking.eof or size == 0) else None


def array_of(raw: bytes, *, dtype: str, axes: tuple[int, ...], crc32: int) -> NDArray[Any] | None:
    """The array of these bytes, read-only; None if they have another checksum, or are of no such array."""
    if dtype not in _KINDS.values() or zlib.crc32(raw) != crc32:
        return None
    try:
        return np.frombuffer(raw, dtype=dtype).reshape(axes)
    except ValueError:  # of no entries, but of axes whose product no array has
        return None


def axes_of(shape: str) -> tuple[int, ...] | None:
    """The lengths of an array's axes, None where the text is no such list."""
    try:
        axes = json.loads(shape)
    except (ValueError, TypeError, RecursionError):
        return None
    return tuple(axes) if are_axes(axes) else None


def are_axes(axes: object) -> bool:
    """Whether these can be the lengths of an array's axes."""
    if not isinstance(axes, list) or len(axes) > _MOST_AXES:
        return False
    return all(type(one) is int and 0 <= one < 1 << 40 for one in axes)
