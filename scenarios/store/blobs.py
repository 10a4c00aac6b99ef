"""The one format of bytes for arrays, in the store and in checkpoints.

    magic (8 bytes) | SHA-256 of what follows in the front (32) | length of the header (uint32) | header | parts

The front ends with the header: JSON, deflated, with `about` (any plain JSON), an entry per array, and the SHA-256 of
the parts. Numbers are little-endian, integers of the smallest type that has them all. A part is deflated where that
halves it: the mantissas of measured floats do not shrink, and cost no time.

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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenarios.files.plain_files import fits

Array = NDArray[Any]
Arrays = Mapping[str, Array | Sequence[Array]]
Part = bytes | memoryview

MOST_BYTES = 1 << 28
"""Bytes of an array that is deflated: a blob from elsewhere may claim more. Larger ones are written as they are."""
MOST_HEADER = 4 << 20
"""Bytes of the header, inflated."""

_MAGIC = b"phyblob3"
_HEADER_AT = 44
_KINDS = frozenset(("|b1", "|u1", "|i1", *(f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8)), "<f4", "<f8"))
_PROBED = 256


class BlobError(ValueError):
    """Bytes that are not a blob; the message is the reason."""


class _Entry(NamedTuple):
    """One array of `dtype`, its numbers written as `stored`: `rows` equal rows of `shape`, or one array (None)."""

    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    shape: tuple[int, ...]
    rows: int | None
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
        size = prod(entry.shape) * entry.stored.itemsize
        raw = entry.part if len(entry.part) == size else _inflated(entry.part, size=size)
        try:
            array = np.frombuffer(raw, entry.stored).reshape(entry.shape).astype(entry.dtype, copy=False)
        except ValueError as error:
            raise BlobError(f"{name!r} has an impossible shape") from error
        array.flags.writeable = False
        return array if entry.rows is None else np.broadcast_to(array, (entry.rows, *entry.shape))


def pack(arrays: Arrays, *, about: Mapping[str, Any]) -> bytes:
    """Return the blob of these arrays; see `pack_parts`."""
    return b"".join(pack_parts(arrays, about=about))


def pack_parts(arrays: Arrays, *, about: Mapping[str, Any], compress: bool = True) -> list[Part]:
    """Return the blob of these arrays as its front and the parts to write behind it.

    A sequence of arrays of one shape and dtype becomes the rows of one array; rows that are all equal are kept once.
    Raises ValueError for an array that is not an array of numbers, and for `about` beyond `MOST_HEADER`.
    """
    entries: list[object] = []
    parts: list[Part] = []
    for name, given in arrays.items():
        rows, array = _rows_once(given)
        plain = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        if plain.dtype.str not in _KINDS:
            raise ValueError(f"{name} has type {plain.dtype}; only numbers can be stored")
        small = _smallest(plain)
        raw = small.reshape(-1).view(np.uint8).data
        probe = small.reshape(-1)[:: small.size // _PROBED + 1].tobytes()
        worth = compress and small.nbytes <= MOST_BYTES and 2 * len(zlib.compress(probe, 1)) < len(probe)
        deflated = zlib.compress(raw, 1) if worth else b""
        parts.append(deflated if 0 < len(deflated) < small.nbytes else raw)
        entries.append([name, plain.dtype.str, small.dtype.str, list(array.shape), rows, len(parts[-1])])
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
    for given in header["arrays"]:
        name, entry = _entry(given, view)
        entries[name] = entry
        view = view[len(entry.part) :]
    if len(view) or len(entries) < len(header["arrays"]):
        raise BlobError("its bytes are not those of the arrays that its header describes")
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
    try:
        header = json.loads(_inflated(data[_HEADER_AT:end], size=MOST_HEADER))
    except (ValueError, RecursionError) as error:
        raise BlobError("its header is not JSON") from error
    if not fits(header, {"about": {}, "arrays": list, "sha256": str}):
        raise BlobError("its header is not one that a blob has")
    return header, end


def _entry(given: Any, view: memoryview) -> tuple[str, _Entry]:
    """Return the name of an array and the array, whose part `view` begins with."""
    shapes = (str, str, str, [int], (int, None), int)
    if not (fits(given, list) and len(given) == len(shapes) and all(map(fits, given, shapes))):
        raise BlobError("an entry of its header does not describe an array")
    name, kind, stored, shape, rows, length = given
    if not {kind, stored} <= _KINDS or len(shape) > 8 or not all(0 <= n < 1 << 40 for n in (*shape, length, rows or 0)):
        raise BlobError("an entry of its header does not describe an array")
    size = prod(shape) * np.dtype(stored).itemsize
    if length > min(size, len(view)) or (length < size and size > MOST_BYTES):
        raise BlobError(f"{name!r} does not have the size of an array of a blob")
    return name, _Entry(np.dtype(kind), np.dtype(stored), tuple(shape), rows, view[:length])


def _rows_once(given: Array | Sequence[Array]) -> tuple[int | None, Array]:
    """Return an array and None, or the number of several equal ones and the first."""
    if isinstance(given, np.ndarray):
        return None, given
    first = given[0]
    raw = first.tobytes()
    if len(given) > 1 and all(one is first or one.tobytes() == raw for one in given):
        return len(given), first
    return None, np.concatenate([one.reshape(-1) for one in given]).reshape(len(given), *first.shape)


def _smallest(array: Array) -> Array:
    """Return 64-bit integers in the smallest type that has them all, and any other array as it is."""
    if array.dtype.str != "<i8" or not array.size:
        return array
    kind = np.promote_types(np.min_scalar_type(array.min()), np.min_scalar_type(array.max()))
    return array.astype(kind) if kind.kind in "iu" else array


def _inflated(data: Part, *, size: int) -> bytes:
    """Inflate to at most `size` bytes. Raises BlobError."""
    inflating = zlib.decompressobj()
    try:
        found = inflating.decompress(data, size + 1)
    except zlib.error as error:
        raise BlobError("a part of it cannot be inflated") from error
    if len(found) > size or not inflating.eof:
        raise BlobError("a part of it inflates to another size")
    return found


def _sha256(*parts: Part) -> bytes:
    digest = hashlib.sha256()
    for one in parts:
        digest.update(one)
    return digest.digest()
