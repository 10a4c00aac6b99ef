"""The one format of bytes for arrays: in the store, in checkpoints and in what workers send.

    magic (8 bytes) | SHA-256 of the rest (32) | length of the header (uint32) | header: JSON, deflated | parts

All numbers are little-endian. The header holds `about`, any plain JSON, and one entry per array. The part of an array
is its bytes, or its byte planes: the first bytes of all numbers, then the second bytes and so on. Each plane is
deflated where that makes it smaller. The mantissas of measured floats do not shrink, and their planes cost no time.

A reader believes nothing before the SHA-256 holds, inflates no more than `MOST_BYTES` per array, and runs no byte.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Part = bytes | memoryview

MOST_BYTES = 1 << 28
"""Bytes of an array that is deflated: a blob from elsewhere may claim more. Larger ones are written as they are."""
MOST_HEADER = 4 << 20
"""Bytes of the header, inflated."""

_MAGIC = b"phyblob1"
_DIGEST_AT, _HEADER_AT = 8, 44
_MOST_AXES = 8
_KINDS = frozenset(("|b1", "|u1", "|i1", *(f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8)), "<f4", "<f8"))
_PROBED = 2048
_WORTH_IT = 0.75


class BlobError(ValueError):
    """Bytes that are no blob; the message says why."""


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One array: `rows` equal rows of `shape`, or one array of it (None); `planes`: their lengths, none if raw."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    rows: int | None
    planes: tuple[int, ...]
    start: int

    @property
    def count(self) -> int:
        return prod(self.shape)

    @property
    def size(self) -> int:
        return sum(self.planes) if self.planes else self.count * self.dtype.itemsize


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A blob whose SHA-256 holds: `about` is plain JSON, arrays are decoded when asked for."""

    about: Mapping[str, Any]
    sha256: bytes
    _entries: Mapping[str, _Entry]
    _data: memoryview

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all arrays, in the order written."""
        return tuple(self._entries)

    def array(self, name: str) -> Array:
        """Return the array, read-only. Raises BlobError if there is none of this name or its part is not an array."""
        entry = self._entries.get(name)
        if entry is None:
            raise BlobError(f"there is no array {name!r}")
        part = self._data[entry.start : entry.start + entry.size]
        raw = _from_planes(part, entry) if entry.planes else part
        try:
            array = np.frombuffer(raw, entry.dtype).reshape(entry.shape)
        except ValueError as error:  # empty, with axes whose product no array has
            raise BlobError(f"{name!r} has an impossible shape") from error
        array.flags.writeable = False
        return array if entry.rows is None else np.broadcast_to(array, (entry.rows, *entry.shape))


def pack(arrays: Mapping[str, Array | Sequence[Array]], *, about: Mapping[str, Any]) -> bytes:
    """Return the blob of these arrays; see `pack_parts`."""
    return b"".join(pack_parts(arrays, about=about))


def pack_parts(
    arrays: Mapping[str, Array | Sequence[Array]], *, about: Mapping[str, Any], compress: bool = True
) -> list[Part]:
    """Return the blob of these arrays as parts to write one after the other.

    A sequence of arrays of one shape and dtype becomes the rows of one array; rows that are all equal are kept once.
    Raises ValueError for an array that is no array of numbers, and for `about` beyond `MOST_HEADER`.
    """
    entries: list[object] = []
    parts: list[Part] = []
    for name, given in arrays.items():
        rows = None if isinstance(given, np.ndarray) else len(given)
        array = _joined(given)
        rows = rows if rows is not None and len(array) != rows else None
        plain = np.ascontiguousarray(array[0] if rows else array)
        plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
        if plain.dtype.str not in _KINDS:
            raise ValueError(f"{name} has type {plain.dtype}; only numbers can be stored")
        shape = array.shape[1:] if rows else array.shape
        planes = _planes(plain) if compress and 0 < plain.nbytes <= MOST_BYTES else []
        parts += planes or [plain.reshape(-1).view(np.uint8).data]
        entries.append([name, plain.dtype.str, list(shape), rows, [len(one) for one in planes]])
    text = json.dumps({"about": about, "arrays": entries}, separators=(",", ":")).encode()
    if len(text) > MOST_HEADER:
        raise ValueError(f"the header of a blob would have {len(text)} bytes; {MOST_HEADER} is the most")
    header = zlib.compress(text, 1)
    rest = [struct.pack("<I", len(header)), header, *parts]
    digest = hashlib.sha256()
    for one in rest:
        digest.update(one)
    return [_MAGIC, digest.digest(), *rest]


def unpack(data: bytes | mmap) -> Blob:
    """Return the blob of these bytes. Raises BlobError for anything else."""
    about, entries, start = _front(data)
    view = memoryview(data)
    digest = sha256_of(data)
    if hashlib.sha256(view[_HEADER_AT - 4 :]).digest() != digest:
        raise BlobError("its SHA-256 differs from what was written")
    found: dict[str, _Entry] = {}
    for one in entries:
        name, entry = _entry(one, start)
        if name in found:
            raise BlobError(f"{name!r} is there twice")
        found[name] = entry
        start += entry.size
    if start != len(data):
        raise BlobError(f"{len(data)} bytes are there and {start} are described")
    return Blob(about=about, sha256=digest, _entries=found, _data=view)


def sha256_of(data: bytes | mmap) -> bytes:
    """Return the SHA-256 that a blob says it has."""
    return data[_DIGEST_AT : _HEADER_AT - 4]


def about_of(data: bytes) -> Mapping[str, Any]:
    """Return `about` of the blob that begins with these bytes, its SHA-256 unseen. Raises BlobError."""
    return _front(data)[0]


def front_size(data: bytes | mmap) -> int:
    """Return how many bytes hold the front of the blob that begins with these bytes. Raises BlobError."""
    if data[:_DIGEST_AT] != _MAGIC or len(data) < _HEADER_AT:
        raise BlobError("it does not begin as a blob")
    return min(_HEADER_AT + int.from_bytes(data[_HEADER_AT - 4 : _HEADER_AT], "little"), MOST_HEADER)


def rows_of(blob: Blob, prefix: str, *, rows: int) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with `prefix`, by the rest of the name: one row per task.

    Raises BlobError for an array of any other length.
    """
    found = {name[len(prefix) :]: blob.array(name) for name in blob.names if name.startswith(prefix)}
    for name, array in found.items():
        if array.shape[:1] != (rows,):
            raise BlobError(f"{prefix}{name} has not one row for each of {rows} tasks")
    return found


def _front(data: bytes | mmap) -> tuple[Mapping[str, Any], list[Any], int]:
    """Return `about`, the entries of the arrays, and where their parts begin."""
    end = front_size(data)
    inflated = _inflated(data[_HEADER_AT:end], most=MOST_HEADER)
    try:
        header = json.loads(inflated)
        about, arrays = header["about"], header["arrays"]
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise BlobError("its header is no JSON that a blob has") from error
    if not isinstance(about, dict) or not isinstance(arrays, list):
        raise BlobError("its header is no JSON that a blob has")
    return about, arrays, end


def _entry(given: Any, start: int) -> tuple[str, _Entry]:
    try:
        name, kind, shape, rows, planes = given
        numbers = [*shape, *planes, *([] if rows is None else [rows])]
    except (ValueError, TypeError) as error:
        raise BlobError("an entry of its header describes no array") from error
    sound = (
        isinstance(name, str)
        and name.isprintable()
        and isinstance(kind, str)
        and kind in _KINDS
        and len(shape) <= _MOST_AXES
    )
    if not sound or any(type(one) is not int or not 0 <= one < 1 << 40 for one in numbers):
        raise BlobError("an entry of its header describes no array")
    entry = _Entry(dtype=np.dtype(kind), shape=tuple(shape), rows=rows, planes=tuple(planes), start=start)
    if len(planes) not in (0, entry.dtype.itemsize) or (planes and entry.count * entry.dtype.itemsize > MOST_BYTES):
        raise BlobError(f"{name!r} has no size that an array of a blob has")
    return name, entry


def _joined(given: Array | Sequence[Array]) -> Array:
    """Return the rows as one array `[n, ...]`, or `[1, ...]` where there are several and all are equal."""
    if isinstance(given, np.ndarray):
        return given
    first = given[0]
    raw = first.tobytes()
    if len(given) > 1 and all(one is first or one.tobytes() == raw for one in given):
        return first[None]
    return np.concatenate([one.reshape(-1) for one in given]).reshape(len(given), *first.shape)


def _planes(array: Array) -> list[Part]:
    """Return the byte planes of an array, deflated where that pays."""
    size = array.dtype.itemsize
    planes = np.ascontiguousarray(array.reshape(-1).view(np.uint8).reshape(-1, size).T)
    parts: list[Part] = []
    for plane in planes:
        probe = plane[:: max(1, plane.size // _PROBED)]
        deflated = b""
        if len(zlib.compress(probe.tobytes(), 1)) < _WORTH_IT * probe.size:
            deflated = zlib.compress(plane.data, 1)
        parts.append(deflated if 0 < len(deflated) < plane.size else plane.data)
    return parts


def _from_planes(part: memoryview, entry: _Entry) -> Part:
    planes: list[Part] = []
    for length in entry.planes:
        plane, part = part[:length], part[length:]
        planes.append(plane if length == entry.count else _inflated(plane, most=entry.count))
    if any(len(one) != entry.count for one in planes):
        raise BlobError("an array has fewer numbers than its shape")
    whole = np.empty((entry.count, len(planes)), np.uint8)
    for place, one in enumerate(planes):
        whole[:, place] = np.frombuffer(one, np.uint8)
    return whole.data.cast("B") if entry.count else b""


def _inflated(data: Part, *, most: int) -> bytes:
    """Inflate, to `most` bytes at the most. Raises BlobError."""
    inflating = zlib.decompressobj()
    try:
        found = inflating.decompress(data, most + 1)
    except zlib.error as error:
        raise BlobError("a part of it cannot be inflated") from error
    if len(found) > most or not inflating.eof:
        raise BlobError("a part of it inflates to another size")
    return found
