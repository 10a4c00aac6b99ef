"""The one format of bytes for arrays: in the store, in checkpoints and in what workers send.

    magic (8 bytes) | SHA-256 of what follows in the front (32) | length of the header (uint32) | header | parts

The front ends with the header: JSON, deflated, with `about` (any plain JSON), an entry per array, and the SHA-256 of
the parts. Numbers are little-endian. The part of an array is its bytes, or its byte planes: the first bytes of all
numbers, then the second bytes and so on. Each plane is deflated where that makes it smaller: the mantissas of measured
floats do not shrink, and their planes cost no time.

A reader uses nothing before the SHA-256 holds, inflates no more than `MOST_BYTES` per array, and runs no byte.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenarios.files.plain_json import fits

Array = NDArray[Any]
Part = bytes | memoryview

MOST_BYTES = 1 << 28
"""Bytes of an array that is deflated: a blob from elsewhere may claim more. Larger ones are written as they are."""
MOST_HEADER = 4 << 20
"""Bytes of the header, inflated."""

_MAGIC = b"phyblob2"
_HEADER_AT = 44
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
    part: memoryview


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A blob whose SHA-256 holds: `about` is plain JSON, arrays are decoded when asked for."""

    about: Mapping[str, Any]
    _entries: Mapping[str, _Entry]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all arrays, in the order written."""
        return tuple(self._entries)

    def array(self, name: str) -> Array:
        """Return the array, read-only. Raises BlobError if there is none of this name or its part is not an array."""
        entry = self._entries.get(name)
        if entry is None:
            raise BlobError(f"there is no array {name!r}")
        raw = _from_planes(entry) if entry.planes else entry.part
        try:
            array = np.frombuffer(raw, entry.dtype).reshape(entry.shape)
        except ValueError as error:  # empty, with axes whose product no array has
            raise BlobError(f"{name!r} has an impossible shape") from error
        array.flags.writeable = False
        return array if entry.rows is None else np.broadcast_to(array, (entry.rows, *entry.shape))

    def rows_of(self, prefix: str, *, rows: int) -> dict[str, Array]:
        """Return the arrays whose names begin with `prefix`, by the rest of the name: one row per task.

        Raises BlobError for an array of any other length.
        """
        found = {name[len(prefix) :]: self.array(name) for name in self.names if name.startswith(prefix)}
        for name, array in found.items():
            if array.shape[:1] != (rows,):
                raise BlobError(f"{prefix}{name} has not one row for each of {rows} tasks")
        return found


def pack(arrays: Mapping[str, Array | Sequence[Array]], *, about: Mapping[str, Any]) -> bytes:
    """Return the blob of these arrays; see `pack_parts`."""
    return b"".join(pack_parts(arrays, about=about))


def pack_parts(
    arrays: Mapping[str, Array | Sequence[Array]], *, about: Mapping[str, Any], compress: bool = True
) -> list[Part]:
    """Return the blob of these arrays as its front and the parts to write behind it.

    A sequence of arrays of one shape and dtype becomes the rows of one array; rows that are all equal are kept once.
    Raises ValueError for an array that is no array of numbers, and for `about` beyond `MOST_HEADER`.
    """
    entries: list[object] = []
    parts: list[Part] = []
    for name, given in arrays.items():
        rows, array = _rows_once(given)
        plain = np.ascontiguousarray(array)
        plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
        if plain.dtype.str not in _KINDS:
            raise ValueError(f"{name} has type {plain.dtype}; only numbers can be stored")
        planes = _planes(plain) if compress and 0 < plain.nbytes <= MOST_BYTES else []
        parts += planes or [plain.reshape(-1).view(np.uint8).data]
        entries.append([name, plain.dtype.str, list(array.shape), rows, [len(one) for one in planes]])
    header = {"about": about, "arrays": entries, "sha256": _sha256(*parts).hex()}
    text = json.dumps(header, separators=(",", ":")).encode()
    if len(text) > MOST_HEADER:
        raise ValueError(f"the header of a blob would have {len(text)} bytes; {MOST_HEADER} is the most")
    deflated = zlib.compress(text, 1)
    rest = len(deflated).to_bytes(4, "little") + deflated
    return [_MAGIC + _sha256(rest) + rest, *parts]


def unpack(data: bytes | mmap, parts: bytes | None = None) -> Blob:
    """Return the blob of these bytes, of its front and its parts if they are apart. Raises BlobError for others."""
    header, end = _header(data)
    view = memoryview(data)[end:] if parts is None else memoryview(parts)
    if _sha256(view).hex() != header["sha256"]:
        raise BlobError("the SHA-256 of its arrays differs from what was written")
    entries: dict[str, _Entry] = {}
    start = 0
    for given in header["arrays"]:
        name, entry = _entry(given, view[start:])
        if name in entries:
            raise BlobError(f"{name!r} is there twice")
        entries[name] = entry
        start += len(entry.part)
    if start != len(view):
        raise BlobError(f"{len(view)} bytes of arrays are there and {start} are described")
    return Blob(about=header["about"], _entries=entries)


def about_of(data: bytes | mmap) -> Mapping[str, Any]:
    """Return `about` of the blob whose front these bytes begin with. Raises BlobError."""
    about: Mapping[str, Any] = _header(data)[0]["about"]
    return about


def _header(data: bytes | mmap) -> tuple[dict[str, Any], int]:
    """Return the header of a blob, and where its parts begin."""
    end = _HEADER_AT + min(int.from_bytes(data[_HEADER_AT - 4 : _HEADER_AT], "little"), MOST_HEADER)
    if data[:8] != _MAGIC or len(data) < end:
        raise BlobError("it does not begin as a blob")
    if _sha256(data[40:end]) != data[8:40]:
        raise BlobError("the SHA-256 of its header differs from what was written")
    text = _inflated(data[_HEADER_AT:end], most=MOST_HEADER)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BlobError("its header is no JSON") from error
    if not fits(header, {"about": {}, "arrays": list, "sha256": str}):
        raise BlobError("its header is not one that a blob has")
    return header, end


def _entry(given: Any, view: memoryview) -> tuple[str, _Entry]:
    """Return the name of an array and the array, whose part `view` begins with."""
    shapes = (str, str, [int], (int, None), [int])
    if not (fits(given, list) and len(given) == len(shapes) and all(map(fits, given, shapes))):
        raise BlobError("an entry of its header describes no array")
    name, kind, shape, rows, planes = given
    if kind not in _KINDS or len(shape) > _MOST_AXES or not all(0 <= n < 1 << 40 for n in (*shape, *planes, rows or 0)):
        raise BlobError("an entry of its header describes no array")
    dtype = np.dtype(kind)
    size = sum(planes) if planes else prod(shape) * dtype.itemsize
    too_large = size > len(view) or (planes and prod(shape) * dtype.itemsize > MOST_BYTES)
    if too_large or len(planes) not in (0, dtype.itemsize):
        raise BlobError(f"{name!r} has no size that an array of a blob has")
    return name, _Entry(dtype=dtype, shape=tuple(shape), rows=rows, planes=tuple(planes), part=view[:size])


def _rows_once(given: Array | Sequence[Array]) -> tuple[int | None, Array]:
    """Return an array and None, or of a sequence of several equal ones their number and the first."""
    if isinstance(given, np.ndarray):
        return None, given
    first = given[0]
    raw = first.tobytes()
    if len(given) > 1 and all(one is first or one.tobytes() == raw for one in given):
        return len(given), first
    return None, np.concatenate([one.reshape(-1) for one in given]).reshape(len(given), *first.shape)


def _planes(array: Array) -> list[Part]:
    """Return the byte planes of an array, deflated where that pays."""
    planes = np.ascontiguousarray(array.reshape(-1).view(np.uint8).reshape(-1, array.dtype.itemsize).T)
    parts: list[Part] = []
    for plane in planes:
        probe = plane[:: max(1, plane.size // _PROBED)]
        deflated = b""
        if len(zlib.compress(probe.tobytes(), 1)) < _WORTH_IT * probe.size:
            deflated = zlib.compress(plane.data, 1)
        parts.append(deflated if 0 < len(deflated) < plane.size else plane.data)
    return parts


def _from_planes(entry: _Entry) -> Part:
    count, part = prod(entry.shape), entry.part
    whole = np.empty((count, len(entry.planes)), np.uint8)
    for place, length in enumerate(entry.planes):
        plane: Part = part[:length]
        plane, part = plane if length == count else _inflated(plane, most=count), part[length:]
        if len(plane) != count:
            raise BlobError("an array has fewer numbers than its shape")
        whole[:, place] = np.frombuffer(plane, np.uint8)
    return whole.data.cast("B") if count else b""


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


def _sha256(*parts: Part) -> bytes:
    digest = hashlib.sha256()
    for one in parts:
        digest.update(one)
    return digest.digest()
