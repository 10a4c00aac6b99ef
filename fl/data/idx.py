"""IDX, the format of MNIST and its kin: a big-endian header, then the bytes; plain or gzipped."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fl.config.data import DataName
from fl.data.arrays import AGAIN, Arrays, check_layout, check_most, checked_arrays
from fl.tasks.base import LearningError

_UNSIGNED_BYTE = 0x08
_KINDS = (("images", 3), ("labels", 1))


def file_names(name: DataName) -> tuple[tuple[str, ...], ...]:
    """Spellings of the four files of a set, without .gz: train images and labels, test images and labels.

    EMNIST says its split and `test` for `t10k`; some copies write a dot for the hyphen before `idx`.
    """
    parts = ("emnist-byclass-train", "emnist-byclass-test") if name == "emnist" else ("train", "t10k")
    return tuple(
        (f"{part}-{kind}-idx{axes}-ubyte", f"{part}-{kind}.idx{axes}-ubyte") for part in parts for kind, axes in _KINDS
    )


def read_idx_set(paths: tuple[Path, ...], *, name: DataName) -> Arrays:
    """The set in four files as `file_names` orders them; LearningError for damaged or foreign ones.

    EMNIST's images lie on their side, as its authors' Matlab wrote them: they are put upright.
    """
    x_train, y_train, x_test, y_test = (
        read_idx(path, name=name, what=what)
        for path, what in zip(paths, ("x_train", "y_train", "x_test", "y_test"), strict=True)
    )
    if name == "emnist":
        x_train, x_test = x_train.swapaxes(1, 2), x_test.swapaxes(1, 2)
    train, test = (f"{images} with {labels.name}" for images, labels in (paths[:2], paths[2:]))
    return checked_arrays(name, train=(x_train, y_train), test=(x_test, y_test), source=(train, test))


def read_idx(path: Path, *, name: DataName, what: str) -> NDArray[np.uint8]:
    """The array of unsigned bytes in `path`.

    Bytes 0 0 8 `num_axes`, then the length of each axis as big-endian uint32, then the entries row by row.
    LearningError, one sentence, for anything else, and for what cannot be of the set `name`: its header is looked at
    before more is unpacked.
    """
    num_axes = 3 if what.startswith("x") else 1
    shape = read_idx_shape(path, num_axes=num_axes)
    check_most(name, claimed=shape[0], what="its header", source=str(path))
    check_layout(name, shape=shape, dtype=np.dtype(np.uint8), what=what, source=str(path))
    start = _header_bytes(num_axes)
    claimed = int(np.prod(shape, dtype=object))
    content = _head(path, num_bytes=start + claimed + 1)
    if len(content) - start != claimed:
        follow = f"more than {claimed}" if len(content) - start > claimed else len(content) - start
        raise LearningError(f"{path}: {follow} bytes follow the header, its shape {shape} needs {claimed}; {AGAIN}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_idx_shape(path: Path, *, num_axes: int) -> tuple[int, ...]:
    """The shape in the header of `path`; LearningError as `read_idx`."""
    return _shape(_head(path, num_bytes=_header_bytes(num_axes)), path=path, num_axes=num_axes)


def _header_bytes(num_axes: int) -> int:
    return 4 + 4 * num_axes


def _head(path: Path, *, num_bytes: int) -> bytes:
    """The first so many bytes, unpacked."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(num_bytes)
    except (EOFError, zlib.error, OSError) as error:
        raise LearningError(f"{path}: not a whole file ({str(error) or type(error).__name__}); {AGAIN}") from error


def _shape(content: bytes, *, path: Path, num_axes: int) -> tuple[int, ...]:
    if len(content) < _header_bytes(num_axes):
        raise LearningError(f"{path}: {len(content)} bytes, not even the header of {_header_bytes(num_axes)}; {AGAIN}")
    magic = bytes((0, 0, _UNSIGNED_BYTE, num_axes))
    if content[:4] != magic:
        raise LearningError(
            f"{path}: begins with {content[:4].hex(' ')}, an IDX file of bytes and {num_axes} axes with "
            f"{magic.hex(' ')}; {AGAIN}"
        )
    return tuple(int(length) for length in np.frombuffer(content, ">u4", num_axes, 4))
