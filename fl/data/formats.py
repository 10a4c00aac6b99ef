"""Two layouts of a set of images in files: keras' `.npz`, and the IDX files of MNIST and its kin.

Headers are read before the arrays: a file that claims more than fits into memory is refused by its shape, and a wrong
file is refused at once.
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from fl.arrays import U8
from fl.config.data import DataName, Pair
from fl.data.arrays import AGAIN, check_counts, check_layout, check_most, damaged
from fl.tasks.base import LearningError

_KEYS = ("x_train", "y_train", "x_test", "y_test")

_NPZ_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)
"""What NumPy and zipfile raise for a file that is torn (EOFError, OSError), has flipped bytes (BadZipFile, zlib.error,
ValueError), is packed in a way they do not know (NotImplementedError), or is encrypted (RuntimeError)."""


def read_npz(path: Path, *, name: DataName) -> tuple[Pair, Pair]:
    """The set in `path`, nothing unpickled; LearningError for a damaged file and for one that holds something else."""
    check_headers(path, name=name)
    try:
        with np.load(path, allow_pickle=False) as file:
            x_train, y_train, x_test, y_test = (file[key] for key in _KEYS)
    except _NPZ_DAMAGE as error:
        raise damaged(".npz file", error, source=path) from error
    return (x_train, y_train), (x_test, y_test)


def check_headers(path: Path, *, name: DataName) -> tuple[int, int]:
    """Train and test images that `path` says to hold, from its headers alone; LearningError as `read_npz`."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename for member in archive.infolist()}
            absent = [key for key in _KEYS if f"{key}.npy" not in members]
            headers = {} if absent else {key: _npy_header(archive, key) for key in _KEYS}
    except _NPZ_DAMAGE as error:
        raise damaged(".npz file", error, source=path) from error
    if absent:
        raise LearningError(f"{path}: there is no array {absent[0]}, it needs {', '.join(_KEYS)}; write the file anew")
    for key, (shape, dtype) in headers.items():
        check_most(name, claimed=shape[0] if shape else 0, what=key, source=str(path))
        check_layout(name, shape=shape, dtype=dtype, what=key, source=str(path))
    counts = {key: shape[0] for key, (shape, _) in headers.items()}
    for part in ("train", "test"):
        check_counts(counts[f"x_{part}"], counts[f"y_{part}"], part=part, source=str(path))
    return counts["x_train"], counts["x_test"]


def _npy_header(archive: zipfile.ZipFile, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
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


def idx_names(name: DataName) -> tuple[tuple[str, ...], ...]:
    """Spellings of the four IDX files of a set, without .gz: train images and labels, test images and labels.

    EMNIST says its split and `test` for `t10k`; some copies write a dot for the hyphen before `idx`.
    """
    parts = ("emnist-byclass-train", "emnist-byclass-test") if name == "emnist" else ("train", "t10k")
    kinds = (("images", 3), ("labels", 1))
    return tuple(
        (f"{part}-{kind}-idx{axes}-ubyte", f"{part}-{kind}.idx{axes}-ubyte") for part in parts for kind, axes in kinds
    )


def read_idx_set(paths: tuple[Path, ...], *, name: DataName) -> tuple[Pair, Pair]:
    """The set in four files as `idx_names` orders them; LearningError for damaged or foreign ones.

    EMNIST's images lie on their side, as its authors' Matlab wrote them: they are put upright.
    """
    x_train, y_train, x_test, y_test = (
        read_idx(path, name=name, what=what) for path, what in zip(paths, _KEYS, strict=True)
    )
    if name == "emnist":
        x_train, x_test = x_train.swapaxes(1, 2), x_test.swapaxes(1, 2)
    return (x_train, y_train), (x_test, y_test)


def read_idx(path: Path, *, name: DataName, what: str) -> U8:
    """The array of unsigned bytes in `path`, plain or gzipped.

    Bytes 0 0 8 `num_axes`, then the length of each axis as big-endian uint32, then the entries row by row.
    LearningError, one sentence, for anything else, and for what cannot be of the set `name`.
    """
    num_axes = 3 if what.startswith("x") else 1
    shape = read_idx_shape(path, num_axes=num_axes)
    check_most(name, claimed=shape[0], what="its header", source=str(path))
    check_layout(name, shape=shape, dtype=np.dtype(np.uint8), what=what, source=str(path))
    start, claimed = 4 + 4 * num_axes, int(np.prod(shape, dtype=object))
    content = _first_bytes(path, start + claimed + 1)
    if len(content) - start != claimed:
        follow = f"more than {claimed}" if len(content) - start > claimed else len(content) - start
        raise LearningError(f"{path}: {follow} bytes follow the header, its shape {shape} needs {claimed}; {AGAIN}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_idx_shape(path: Path, *, num_axes: int) -> tuple[int, ...]:
    """The shape in the header of `path`; LearningError as `read_idx`."""
    size = 4 + 4 * num_axes
    content = _first_bytes(path, size)
    if len(content) < size:
        raise LearningError(f"{path}: {len(content)} bytes, not even the header of {size}; {AGAIN}")
    magic = bytes((0, 0, 8, num_axes))
    if content[:4] != magic:
        raise LearningError(
            f"{path}: begins with {content[:4].hex(' ')}, an IDX file of bytes and {num_axes} axes with "
            f"{magic.hex(' ')}; {AGAIN}"
        )
    return tuple(int(length) for length in np.frombuffer(content, ">u4", num_axes, 4))


def _first_bytes(path: Path, num_bytes: int) -> bytes:
    """The first so many bytes, unpacked."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(num_bytes)
    except (EOFError, zlib.error, OSError) as error:
        raise damaged("file", error, source=path) from error
