"""The `.npz` layout of keras: x_train, y_train, x_test, y_test in one file."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from fl.config.data import DataName
from fl.data.arrays import AGAIN, Arrays, check_counts, check_layout, check_most, checked_arrays
from fl.tasks.base import LearningError

KEYS = ("x_train", "y_train", "x_test", "y_test")

_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)
"""What NumPy and zipfile raise for a file that is torn (EOFError, OSError), has flipped bytes (BadZipFile, zlib.error,
ValueError), is packed in a way they do not know (NotImplementedError), or is encrypted (RuntimeError)."""


def read_npz(path: Path, *, name: DataName) -> Arrays:
    """The set in `path`, nothing unpickled.

    Headers are read before the arrays: a file that claims more than fits into memory is refused by its shape, and a
    wrong file is refused at once. LearningError for a damaged file and for one that holds something else.
    """
    check_headers(path, name=name)
    try:
        with np.load(path, allow_pickle=False) as file:
            x_train, y_train, x_test, y_test = (file[key] for key in KEYS)
    except _DAMAGE as error:
        raise _damaged(path, error) from error
    return checked_arrays(name, train=(x_train, y_train), test=(x_test, y_test), source=str(path))


def check_headers(path: Path, *, name: DataName) -> tuple[int, int]:
    """Train and test images that `path` says to hold, from its headers alone; LearningError as `read_npz`."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename for member in archive.infolist()}
            absent = [key for key in KEYS if f"{key}.npy" not in members]
            headers = {} if absent else {key: _header(archive, key) for key in KEYS}
    except _DAMAGE as error:
        raise _damaged(path, error) from error
    if absent:
        raise LearningError(f"{path}: there is no array {absent[0]}, it needs {', '.join(KEYS)}; write the file anew")
    for key, (shape, dtype) in headers.items():
        check_most(name, claimed=shape[0] if shape else 0, what=key, source=str(path))
        check_layout(name, shape=shape, dtype=dtype, what=key, source=str(path))
    counts = {key: shape[0] for key, (shape, _) in headers.items()}
    check_counts(counts["x_train"], counts["y_train"], part="train", source=str(path))
    check_counts(counts["x_test"], counts["y_test"], part="test", source=str(path))
    return counts["x_train"], counts["x_test"]


def _header(archive: zipfile.ZipFile, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    member = archive.getinfo(f"{key}.npy")
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
        start = stream.tell()
    if dtype.hasobject:
        raise ValueError("it holds pickled objects")
    claimed = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if claimed != member.file_size - start:
        raise ValueError(f"{key} claims {claimed} bytes and has {member.file_size - start}")
    return shape, dtype


def _damaged(path: Path, error: Exception) -> LearningError:
    if isinstance(error, PermissionError):
        return LearningError(f"{path}: it cannot be read ({error.strerror}); allow it")
    reason = str(error).strip().rstrip(".") or type(error).__name__
    return LearningError(f"{path}: not a whole .npz file ({reason}); {AGAIN}")
