"""One checkpoint as a file: plain numbers in an order that is written down, and a checksum over all of it.

    magic (8 bytes) | version, length of the header (2 x uint64) | header: JSON | arrays, raw | SHA-256 (32 bytes)

All numbers are little-endian. The header says of what the file is a checkpoint, and holds the state with a place for
every array. Nothing is believed before the checksum holds, nothing larger than the file is ever allocated, and no byte
of it is ever run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"PHYLOOPC"
VERSION = 1

_FRONT = struct.Struct("<8sQQ")
_SUM_BYTES = 32
_MOST_HEADER = 16 << 20
_MOST_DEPTH = 16
_SLICE = 1 << 20
_KINDS = frozenset(("|b1", "|u1", "|i1", *(f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8)), "<f4", "<f8"))
_ARRAY = "\0array"
"""Key of the place of an array; no name of a state begins with NUL."""


class DamagedError(Exception):
    """A file that is no whole checkpoint of this version; the sentence says why."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """`about`: plain data that tells what it is a checkpoint of; `state`: nested, see `fl.checkpoints.State`."""

    about: Mapping[str, Any]
    state: Mapping[str, Any]


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the file so that it is there whole or not at all, also after a power cut. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with temporary.open("wb") as file:
            _write(file, checkpoint)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write(file: IO[bytes], checkpoint: Checkpoint) -> None:
    arrays: list[NDArray[Any]] = []
    tree = _laid_out(checkpoint.state, arrays)
    header = json.dumps({"about": checkpoint.about, "state": tree}, ensure_ascii=True).encode("ascii")
    front = _FRONT.pack(MAGIC, VERSION, len(header)) + header
    digest = hashlib.sha256(front)
    file.write(front)
    for array in arrays:
        raw = array.data.cast("B") if array.size else b""
        digest.update(raw)
        file.write(raw)
    file.write(digest.digest())


def _laid_out(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """The state as JSON, arrays in the order in which they follow the header."""
    if isinstance(value, Mapping):
        return {str(name): _laid_out(part, arrays) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        plain = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        if plain.dtype.str not in _KINDS:
            raise TypeError(f"a checkpoint holds no arrays of {value.dtype}")
        arrays.append(plain)
        return {_ARRAY: [plain.dtype.str, list(value.shape)]}
    if value is None or isinstance(value, int | float | str):
        return value
    raise TypeError(f"a checkpoint holds no {type(value).__name__}")


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a file. Raises DamagedError for whatever is not one, OSError where it cannot be read."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        header, start = _header(file, size)
        _check_sum(file, size)
        file.seek(start)
        reader = _Reader(file, left=size - _SUM_BYTES - start)
        try:
            state = reader.rebuilt(header["state"], depth=0)
        except (ValueError, TypeError, OverflowError) as error:
            raise DamagedError(f"its header makes no sense ({error})") from error
        if reader.left:
            raise DamagedError(f"{reader.left} bytes of it belong to no array")
    if not isinstance(state, dict):
        raise DamagedError("its state has no names")
    return Checkpoint(about=header["about"], state=state)


def read_about(path: Path) -> Mapping[str, Any]:
    """What a file says it is a checkpoint of, its checksum unseen. Raises as `read_checkpoint` does."""
    with _opened(path) as file:
        return dict(_header(file, os.fstat(file.fileno()).st_size)[0]["about"])


def _opened(path: Path) -> BufferedReader:
    # A link could lead anywhere, and a pipe would be waited for.
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise DamagedError("it is no file")
    return os.fdopen(number, "rb")


def _header(file: IO[bytes], size: int) -> tuple[dict[str, Any], int]:
    """The header, and where it ends."""
    front = file.read(_FRONT.size)
    if len(front) < _FRONT.size:
        raise DamagedError(f"it ends after {size} bytes")
    magic, version, length = _FRONT.unpack(front)
    if magic != MAGIC:
        raise DamagedError("it does not begin as one")
    if version != VERSION:
        raise DamagedError(f"it is of version {version}, and this phyloop writes version {VERSION}")
    if length > min(_MOST_HEADER, size - _FRONT.size - _SUM_BYTES):
        raise DamagedError(f"it ends after {size} bytes, before its header does")
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise DamagedError("its header is no JSON") from error
    if not isinstance(header, dict) or not isinstance(header.get("about"), dict) or "state" not in header:
        raise DamagedError("its header lacks what it is about")
    return header, _FRONT.size + length


def _check_sum(file: IO[bytes], size: int) -> None:
    file.seek(0)
    digest, left = hashlib.sha256(), size - _SUM_BYTES
    while left > 0 and (part := file.read(min(left, _SLICE))):
        digest.update(part)
        left -= len(part)
    if file.read(_SUM_BYTES) != digest.digest():
        raise DamagedError("its checksum does not hold")


class _Reader:
    """Arrays one after the other, `left` bytes of them in all."""

    def __init__(self, file: BufferedReader, *, left: int) -> None:
        self._file, self.left = file, left

    def rebuilt(self, value: Any, *, depth: int) -> Any:
        if depth > _MOST_DEPTH:
            raise ValueError(f"nested deeper than {_MOST_DEPTH}")
        if isinstance(value, dict):
            if _ARRAY in value:
                return self._array(*value[_ARRAY])
            return {name: self.rebuilt(part, depth=depth + 1) for name, part in value.items()}
        if isinstance(value, list):
            raise TypeError("a list where a name, a number or an array belongs")
        return value

    def _array(self, kind: str, shape: list[int]) -> NDArray[Any]:
        if kind not in _KINDS or not all(isinstance(one, int) and one >= 0 for one in shape) or len(shape) > 8:
            raise ValueError("an array of no known kind")
        count = 1
        for one in shape:
            count *= one
        if count * np.dtype(kind).itemsize > self.left:
            raise ValueError("an array larger than the file")
        flat = np.empty(count, kind)
        if count:
            raw = flat.data.cast("B")
            if self._file.readinto(raw) != len(raw):
                raise ValueError("an array larger than the file")
            self.left -= len(raw)
        return flat.astype(flat.dtype.newbyteorder("="), copy=False).reshape(shape)
