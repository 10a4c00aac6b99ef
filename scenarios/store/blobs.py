"""The one format of bytes for arrays, in the store and in checkpoints.

    magic (8 bytes) | SHA-256 of the next four (32) | lengths of about, index, parts (4, 4, 8) | about | index | parts

`about` and the index are JSON. `about` is read at once. The index, deflated, is read with the arrays: it has further
plain values, `detail`, and an entry per array with a digest of its part. Numbers are little-endian, integers of the
smallest type that has them all; rows that are all equal are kept once. A part is deflated where that halves it: the
mantissas of measured floats do not shrink, and cost no time.

A reader uses nothing before its SHA-256 holds, inflates no more than `MOST_BYTES` per array, and runs no byte.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from functools import cached_property
from math import prod
from typing import IO, Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

Array = NDArray[Any]
Part = bytes | memoryview

MAGIC = b"phyblob4"
MOST_BYTES = 1 << 28
"""Bytes of an array that is deflated: a blob from elsewhere may claim more. Larger ones are written as they are."""
MOST_FRONT = 1 << 24
"""Bytes of `about`, and of the index, inflated."""

_FRONT = struct.Struct("<8s32sIIQ")
_PROBED = 256
_DIGEST = 16
"""Characters of the SHA-256 of a part."""

_Size = Annotated[int, Field(ge=0, lt=1 << 40)]
_Kind = Literal["|b1", "|u1", "|i1", "<i2", "<i4", "<i8", "<u2", "<u4", "<u8", "<f4", "<f8"]


class _Entry(NamedTuple):
    """One array of type `kind`, its numbers written as `stored`: `rows` equal rows of `shape`, or one array (None)."""

    name: str
    kind: _Kind
    stored: _Kind
    shape: Annotated[tuple[_Size, ...], Field(max_length=8)]
    rows: _Size | None
    length: _Size
    digest: str


_INDEX = TypeAdapter(tuple[Any, list[_Entry]])


class BlobError(ValueError):
    """Bytes that are not a blob; the message is the reason."""


class Blob:
    """A blob in a file, between `start` and at most `most`: `about` is JSON, arrays are read when asked for."""

    def __init__(self, file: IO[bytes], *, start: int = 0, most: int) -> None:
        self._file, self.start = file, start
        file.seek(start)
        fixed = file.read(_FRONT.size)
        if len(fixed) < _FRONT.size or not fixed.startswith(MAGIC):
            raise BlobError("it does not begin as a blob")
        _, sha256, *lengths = _FRONT.unpack(fixed)
        self._parts = start + _FRONT.size + lengths[0] + lengths[1]
        self.end = self._parts + lengths[2]
        if self.end > most or max(lengths[:2]) > MOST_FRONT:
            raise BlobError("it is longer than its file")
        self.about, self._index = file.read(lengths[0]), file.read(lengths[1])
        if hashlib.sha256(fixed[40:] + self.about + self._index).digest() != sha256:
            raise BlobError("the SHA-256 of its header differs from what was written")

    @cached_property
    def _content(self) -> tuple[Any, dict[str, tuple[_Entry, int]]]:
        """`detail`, and each array with the place of its part."""
        try:
            detail, entries = _INDEX.validate_json(_inflated(self._index, size=MOST_FRONT))
        except ValidationError as error:
            raise BlobError("its index does not describe arrays") from error
        place, places = self._parts, {}
        for one in entries:
            size = prod(one.shape) * np.dtype(one.stored).itemsize
            if one.length > size or (one.length < size and size > MOST_BYTES):
                raise BlobError(f"{one.name!r} does not have the size of an array of a blob")
            places[one.name] = one, place
            place += one.length
        if place != self.end or len(places) < len(entries):
            raise BlobError("its bytes are not those of the arrays that its index describes")
        return detail, places

    @property
    def detail(self) -> Any:
        """Plain values beside the arrays."""
        return self._content[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all arrays, in the order written."""
        return tuple(self._content[1])

    def array(self, name: str) -> Array:
        """Return the array, read-only. Raises BlobError if there is none of this name, or not as it was written."""
        if name not in self._content[1]:
            raise BlobError(f"there is no array {name!r}")
        entry, place = self._content[1][name]
        raw, stored = self._part(entry, place), np.dtype(entry.stored)
        if len(raw) < (size := prod(entry.shape) * stored.itemsize):
            raw = _inflated(raw, size=size)
        try:
            array = np.frombuffer(raw, stored).reshape(entry.shape).astype(entry.kind, copy=False)
            array.flags.writeable = False
            return array if entry.rows is None else np.broadcast_to(array, (entry.rows, *entry.shape))
        except ValueError as error:
            raise BlobError(f"{name!r} has an impossible shape") from error

    def verify(self) -> None:
        """Read all arrays; BlobError unless they are as they were written."""
        for entry, place in self._content[1].values():
            self._part(entry, place)

    def _part(self, entry: _Entry, place: int) -> bytes:
        self._file.seek(place)
        raw = self._file.read(entry.length)
        if _digest(raw) != entry.digest:
            raise BlobError(f"the SHA-256 of {entry.name!r} differs from what was written")
        return raw


def pack(arrays: Mapping[str, Array], *, about: Any, detail: Any = None, compress: bool = True) -> list[Part]:
    """Return the blob of these arrays in parts to write one after the other.

    Raises ValueError for an array that is not one of numbers, and for more plain values than `MOST_FRONT`.
    """
    entries: list[object] = []
    parts: list[Part] = []
    for name, given in arrays.items():
        array = np.asarray(given)
        rows, array = _rows_once(array.astype(array.dtype.newbyteorder("<"), order="C", copy=False))
        if array.dtype.str not in get_args(_Kind):
            raise ValueError(f"{name} has type {array.dtype}; only numbers can be stored")
        small = _smallest(array).reshape(-1)
        part: Part = small.view(np.uint8).data
        probe = small[:: small.size // _PROBED + 1].tobytes()
        if compress and small.nbytes <= MOST_BYTES and 2 * len(zlib.compress(probe, 1)) < len(probe):
            part = min(zlib.compress(part, 1), part, key=len)
        entries.append((name, array.dtype.str, small.dtype.str, array.shape, rows, len(part), _digest(part)))
        parts.append(part)
    text, index = (json.dumps(one, separators=(",", ":")).encode() for one in (about, (detail, entries)))
    if (most := max(len(text), len(index))) > MOST_FRONT:
        raise ValueError(f"the plain values of a blob have {most} bytes; {MOST_FRONT} are the most")
    index = zlib.compress(index, 1)
    fixed = _FRONT.pack(MAGIC, b"", len(text), len(index), sum(map(len, parts)))
    return [MAGIC, hashlib.sha256(rest := fixed[40:] + text + index).digest(), rest, *parts]


def _rows_once(array: Array) -> tuple[int | None, Array]:
    """Return an array and None, or the number of its rows, which all have the same bits, and the first."""
    if array.ndim and len(array) > 1 and array[0].tobytes() == array[-1].tobytes():
        bits = array.reshape(len(array), -1).view(np.uint8)
        if (bits == bits[0]).all():
            return len(array), array[0]
    return None, array


def _smallest(array: Array) -> Array:
    """Return 64-bit integers in the smallest type that has them all, and any other array as it is."""
    if array.dtype.str != "<i8" or not array.size:
        return array
    kind = np.promote_types(np.min_scalar_type(array.min()), np.min_scalar_type(array.max()))
    return array.astype(kind) if kind.kind in "iu" else array


def _inflated(data: bytes, *, size: int) -> bytes:
    """Inflate to at most `size` bytes. Raises BlobError."""
    inflating = zlib.decompressobj()
    try:
        found = inflating.decompress(data, size + 1)
    except zlib.error as error:
        raise BlobError("a part of it cannot be inflated") from error
    if len(found) > size or not inflating.eof:
        raise BlobError("a part of it inflates to another size")
    return found


def _digest(part: Part) -> str:
    return hashlib.sha256(part).hexdigest()[:_DIGEST]
