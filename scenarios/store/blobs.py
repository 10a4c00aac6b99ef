"""The one format of bytes: of the store, of checkpoints, and of results on their way from workers.

    magic (8 bytes) | SHA-256 of the next two (32) | lengths of front and parts (8, 8) | front | parts

The front has two lines of JSON: `about`, read at once, and `content`, read on demand: plain values, and for each array
its entry, with a digest of its part. Numbers are little-endian, integers of the smallest type that has them all; rows
that are all equal are kept once. A part is deflated where that halves it: the mantissas of measured floats do not
shrink, and cost no time. A reader uses nothing before its SHA-256 holds, and runs no byte.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from functools import cached_property
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Part = bytes | memoryview

MAGIC = b"phyblob5"
MOST_BYTES = 1 << 28
"""Bytes of an array that is deflated: a blob from elsewhere may claim more. Larger ones are written as they are."""
MOST_FRONT = 1 << 24
EXPANSION = 64
"""Bytes that the arrays of a blob may have in memory, in their declared types, for each byte of its parts.

A part that deflates further is padded, so that nothing that a run writes is refused."""

_FRONT = struct.Struct("<8s32sQQ")
_SUMMED = 40
"""Where the bytes begin that the SHA-256 is of."""
_PROBED = 256
_ARRAY = "\0array"
"""Key of the entry of an array; no name begins with NUL."""
_KINDS = frozenset(("|b1", "|u1", "|i1", "<i2", "<i4", "<i8", "<u2", "<u4", "<u8", "<f4", "<f8"))


class BlobError(ValueError):
    """Bytes that are not a blob; the message is the reason."""


class _Entry(NamedTuple):
    """An array of type `kind`, its numbers written as `stored`: `rows` equal rows of `shape`, or one array (None)."""

    kind: str
    stored: str
    shape: tuple[int, ...]
    rows: int | None
    start: int
    length: int
    digest: str


class Blob:
    """A blob in a file, between `start` and at most `most`; `about` is JSON, `read` returns the content."""

    def __init__(self, file: IO[bytes], *, start: int = 0, most: int) -> None:
        self._file = file
        file.seek(start)
        fixed = file.read(_FRONT.size)
        if len(fixed) < _FRONT.size or not fixed.startswith(MAGIC):
            raise BlobError("it does not begin as a blob")
        _, sha256, length, parts = _FRONT.unpack(fixed)
        self._parts, self._length = start + _FRONT.size + length, parts
        self.end = self._parts + parts
        if self.end > most or length > MOST_FRONT:
            raise BlobError("it is longer than its file")
        front = file.read(length)
        if hashlib.sha256(fixed[_SUMMED:] + front).digest() != sha256:
            raise BlobError("the SHA-256 of its front differs from what was written")
        self.about, _, self._text = front.partition(b"\n")

    @cached_property
    def _content(self) -> tuple[Any, list[_Entry]]:
        """The content with the entries of arrays in their place, and these alone."""
        entries: list[_Entry] = []

        def rebuilt(plain: dict[str, Any]) -> Any:
            if _ARRAY not in plain:
                return plain
            entries.append(entry := _Entry(*plain[_ARRAY]))
            if not {entry.kind, entry.stored} <= _KINDS:
                raise BlobError("an array of it is not one of numbers")
            if not all(type(one) is int and one >= 0 for one in (*entry.shape, entry.start, entry.length)):
                raise BlobError("an array of it has no shape or place")
            return entry

        try:
            content = json.loads(self._text, object_hook=rebuilt)
            if sum(prod(one.shape) * np.dtype(one.kind).itemsize for one in entries) > EXPANSION * self._length:
                raise BlobError("its arrays are larger than its bytes can hold")
            return content, entries
        except BlobError:
            raise
        except (ValueError, TypeError, RecursionError) as error:
            raise BlobError("its content is not JSON of a blob") from error

    def read(self, *names: str) -> Any:
        """Return the content below these names, arrays read-only; an empty mapping where there is none.

        Raises BlobError for an array that is not as it was written.
        """
        found = self._content[0]
        try:
            for name in names:
                found = found.get(name, {})
            return self._filled(found)
        except (AttributeError, TypeError, OverflowError, RecursionError) as error:
            raise BlobError("its content is not that of a blob") from error

    def verify(self) -> None:
        """Read all bytes. Raises BlobError unless they are as they were written."""
        for entry in self._content[1]:
            self._part(entry)

    def _filled(self, value: Any) -> Any:
        match value:
            case dict():
                return {name: self._filled(one) for name, one in value.items()}
            case _Entry():
                return self._array(value)
        return value

    def _array(self, entry: _Entry) -> Array:
        raw = self._part(entry)
        try:
            size = prod(entry.shape) * np.dtype(entry.stored).itemsize
            if len(raw) < size <= MOST_BYTES:
                raw = zlib.decompressobj().decompress(raw, size + 1)
            array = np.frombuffer(raw, entry.stored).reshape(entry.shape).astype(entry.kind, copy=False)
            array.flags.writeable = False
            return array if entry.rows is None else np.broadcast_to(array, (entry.rows, *entry.shape))
        except (ValueError, zlib.error) as error:
            raise BlobError(f"an array of it cannot be read ({error})") from error

    def _part(self, entry: _Entry) -> bytes:
        if entry.start + entry.length > self._length:
            raise BlobError("an array of it lies outside of it")
        self._file.seek(self._parts + entry.start)
        raw = self._file.read(entry.length)
        if _digest(raw) != entry.digest:
            raise BlobError("the SHA-256 of an array differs from what was written")
        return raw


def pack(about: Any, content: Mapping[str, Any] | None = None) -> list[Part]:
    """Return a blob in parts to write one after the other; `content` is plain values and arrays in nested mappings.

    Raises ValueError for an array that is not one of numbers, and for more plain values than `MOST_FRONT`.
    """
    parts: list[Part] = []

    def plain(value: Any) -> object:
        if hasattr(value, "items"):
            return dict(value)
        start, array = sum(map(len, parts)), np.asarray(value)
        array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        if (kind := array.dtype.str) not in _KINDS:
            raise ValueError(f"an array has type {array.dtype}; only numbers can be stored")
        rows, array = _rows_once(array)
        small = _smallest(array)
        parts.append(part := _deflated(small.reshape(-1), least=-(-array.nbytes // EXPANSION)))
        return {_ARRAY: (kind, small.dtype.str, array.shape, rows, start, len(part), _digest(part))}

    front = b"\n".join(json.dumps(one, default=plain, separators=(",", ":")).encode() for one in (about, content or {}))
    if len(front) > MOST_FRONT:
        raise ValueError(f"the plain values of a blob have {len(front)} bytes; {MOST_FRONT} are the most")
    summed = _FRONT.pack(MAGIC, b"", len(front), sum(map(len, parts)))[_SUMMED:] + front
    return [MAGIC + hashlib.sha256(summed).digest() + summed, *parts]


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


def _deflated(flat: Array, *, least: int) -> Part:
    """Return the bytes of an array, deflated if a sample of them shrinks to half, and then `least` bytes or more."""
    part: Part = flat.view(np.uint8).data
    probe = flat[:: flat.size // _PROBED + 1].tobytes()
    if flat.nbytes <= MOST_BYTES and 2 * len(zlib.compress(probe, 1)) < len(probe):
        return min(zlib.compress(part, 1).ljust(least, b"\0"), part, key=len)  # the deflated stream knows its end
    return part


def _digest(part: Part) -> str:
    return hashlib.sha256(part).hexdigest()[:16]
