"""Variables of MATLAB files of version 5, read in parts.

SciPy needs twice the size of a complex array for it: real part, imaginary part, their product with 1j and the sum.
Source: MathWorks, MAT-File Format, R2024a, "Level 5 MAT-File Format".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from phy.traces.recording import PART, check_size

_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_NUMBERS |= {16: "u1", 17: "u2"}
"""Types of stored numbers, and of characters in UTF-8 and UTF-16."""
_CLASSES = {4: "u2", 6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""Classes of arrays of numbers and, 4, of characters."""
_IS_COMPLEX, _CHARACTERS = 0x0800, 4
_MOST_AXES = 32

Opener = Callable[[], IO[bytes]]


class _Readable(Protocol):
    def read(self, size: int) -> bytes: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Variable:
    """An array of a file: complex ones are `complex64`, `characters` are numbers of letters."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    load: Callable[[], NDArray[Any]]
    characters: bool = False


@dataclass(kw_only=True)
class _Inflated:
    """The bytes of a compressed element, as many as are asked for."""

    file: IO[bytes]
    left: int

    def __post_init__(self) -> None:
        self._inflate = zlib.decompressobj()

    def read(self, size: int) -> bytes:
        found = []
        while size > 0:
            data = self._inflate.unconsumed_tail
            if not data and self.left:
                data = self.file.read(min(self.left, 1 << 16))
                self.left = self.left - len(data) if data else 0
            piece = self._inflate.decompress(data, size)
            if not piece and not data:
                break
            found.append(piece)
            size -= len(piece)
        return b"".join(found)


def variables_of_5(open_file: Opener) -> dict[str, Variable]:
    """Return the arrays of numbers and characters of a file, whose numbers are read when they are loaded.

    ValueError for a damaged file, with the reason.
    """
    found: dict[str, Variable] = {}
    with open_file() as file:
        head = file.read(128)
        if len(head) < 128 or head[126:] not in (b"IM", b"MI"):
            raise ValueError("it has no header of version 5 or 7.3")
        order, place = "<" if head[126:] == b"IM" else ">", 128
        while len(tag := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}2I", tag)
            if kind in (_MATRIX, _COMPRESSED):
                named = _described(_stream(file, order, kind, size), order)
                if named is not None:
                    name, shape, dtype, letters = named
                    load = partial(_load, open_file, order, place)
                    found[name] = Variable(shape=shape, dtype=dtype, load=load, characters=letters)
            place += 8 + size
            file.seek(place)
    return found


def _stream(file: IO[bytes], order: str, kind: int, size: int) -> _Readable:
    """The inside of a matrix that begins in `file`."""
    if kind != _COMPRESSED:
        return file
    stream = _Inflated(file=file, left=size)
    _tag(stream, order)
    return stream


def _tag(stream: _Readable, order: str) -> tuple[int, int, bytes]:
    """Type, size, and of a small element its bytes."""
    raw = _exactly(stream, 8)
    kind, size = struct.unpack(f"{order}2I", raw)
    if kind >> 16:
        return kind & 0xFFFF, kind >> 16, raw[4 : 4 + (kind >> 16)]
    return kind, size, b""


def _element(stream: _Readable, order: str, *, most: int) -> bytes:
    """The bytes of a short element."""
    _, size, raw = _tag(stream, order)
    if size > most:
        raise ValueError(f"a header of {size} bytes")
    return raw or _exactly(stream, -(-size // 8) * 8)[:size]


def _exactly(stream: _Readable, size: int) -> bytes:
    if len(found := stream.read(size)) < size:
        raise ValueError("the file ends too early")
    return found


def _described(stream: _Readable, order: str) -> tuple[str, tuple[int, ...], np.dtype[Any], bool] | None:
    """Name, shape and type of a matrix, and if it holds letters; None for cells and structures."""
    flags = struct.unpack(f"{order}2I", _element(stream, order, most=8))[0]
    axes = np.frombuffer(_element(stream, order, most=4 * _MOST_AXES), f"{order}i4")
    name = _element(stream, order, most=1024).decode("latin-1")
    if (flags & 0xFF) not in _CLASSES or (axes < 0).any():
        return None
    dtype = np.dtype(np.complex64 if flags & _IS_COMPLEX else _CLASSES[flags & 0xFF])
    return name, tuple(axes.tolist()), dtype, (flags & 0xFF) == _CHARACTERS


def _load(open_file: Opener, order: str, place: int) -> NDArray[Any]:
    """The array that begins at `place` [B] in the file."""
    with open_file() as file:
        file.seek(place)
        kind, size = struct.unpack(f"{order}2I", file.read(8))
        stream = _stream(file, order, kind, size)
        named = _described(stream, order)
        assert named is not None
        name, shape, dtype, _ = named
        check_size(name, shape, dtype)
        found = np.empty(shape, dtype, order="F")
        flat = found.reshape(-1, order="F")
        for half in (flat.real, flat.imag) if dtype.kind == "c" else (flat,):
            for first, numbers in _numbers(stream, order, flat.size):
                half[first : first + len(numbers)] = numbers
        return found


def _numbers(stream: _Readable, order: str, count: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the numbers of an element in parts, each with the place of its first one."""
    kind, size, raw = _tag(stream, order)
    if kind not in _NUMBERS:
        raise ValueError(f"numbers of an unknown type ({kind})")
    dtype = np.dtype(order + _NUMBERS[kind])
    if size != count * dtype.itemsize:
        raise ValueError(f"{size} bytes for {count} numbers of {dtype.itemsize}")
    if raw:
        yield 0, np.frombuffer(raw, dtype)
        return
    for first in range(0, count, PART):
        yield first, np.frombuffer(_exactly(stream, min(PART, count - first) * dtype.itemsize), dtype)
    _exactly(stream, -size % 8)
