"""Layouts of a set of images in files: keras' `.npz`, IDX files of MNIST and its kin, python archives of CIFAR."""

from __future__ import annotations

import gzip
import io
import pickle
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from fl.base.arrays import U8
from fl.base.errors import LearningError
from fl.data.arrays import AGAIN, image_facts, reading
from fl.data.data_set import DataName, Pair

FOLDERS: dict[DataName, str] = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
ARCHIVES: dict[DataName, str] = {"cifar10": "cifar-10-python.tar.gz", "cifar100": "cifar-100-python.tar.gz"}
FILES: dict[DataName, tuple[str, ...]] = {
    "cifar10": (*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch"),
    "cifar100": ("train", "test"),
}
"""To train on, and the last to test on."""

_LABELS: dict[DataName, str] = {"cifar10": "labels", "cifar100": "fine_labels"}
_NAMES = re.compile(
    r"numpy\.(dtype|ndarray)|numpy\._?core\.(multiarray\._reconstruct|numeric\._frombuffer)|_codecs\.encode"
)
"""All that a pickle of bytes and arrays calls."""


def read_npz(path: Path, *keys: str) -> list[NDArray[Any]]:
    """The arrays `keys` in `path`, nothing unpickled; LearningError for a damaged file."""
    with reading(".npz file", source=path), path.open("rb") as stream, NpzFile(stream) as file:
        return [file[key] for key in keys]


def idx_names(name: DataName) -> tuple[str, ...]:
    """Patterns of the four IDX files of a set, without .gz: train images and labels, test images and labels.

    EMNIST says its split and `test` for `t10k`; some copies write a dot for the hyphen before `idx`.
    """
    parts = ("emnist-byclass-train", "emnist-byclass-test") if name == "emnist" else ("train", "t10k")
    kinds = (("images", 3), ("labels", 1))
    return tuple(f"{part}-{kind}[.-]idx{axes}-ubyte" for part in parts for kind, axes in kinds)


def read_idx_set(paths: tuple[Path, ...], *, name: DataName) -> tuple[Pair, Pair]:
    """The set in four files as `idx_names` orders them; LearningError for damaged ones.

    EMNIST's images lie on their side, as its authors' Matlab wrote them: they are put upright.
    """
    x_train, y_train, x_test, y_test = map(read_idx, paths)
    if name == "emnist":
        x_train, x_test = x_train.swapaxes(1, 2), x_test.swapaxes(1, 2)
    return (x_train, y_train), (x_test, y_test)


def read_idx(path: Path) -> U8:
    """The array of unsigned bytes in `path`, plain or gzipped.

    Bytes 0 0 8 and the number of axes, then the length of each axis as big-endian uint32, then the entries row by row.
    LearningError, one sentence, for anything else.
    """
    with reading("IDX file", source=path):
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read()
        if content[:3] != bytes((0, 0, 8)):
            raise ValueError(f"it begins with {content[:3].hex(' ')}, an IDX file of bytes with 00 00 08")
        shape = np.frombuffer(content, ">u4", content[3], 4).astype(np.int64)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def read_cifar(path: Path, *, name: DataName) -> tuple[Pair, Pair]:
    """The set in the folder or archive `path`, fine labels of CIFAR-100; LearningError, one sentence, if damaged.

    A pickle is a program: of the functions that it names, only those that make bytes and arrays are called.
    """
    parts: dict[str, tuple[U8, NDArray[Any]]] = {}
    with reading(f"file of {name}", source=path):
        for member, content in _members(path, wanted=FILES[name]):
            with reading(f"file of {name}", source=f"{path}, {member}"):
                parts[member] = _part(content, name=name)
    if absent := [member for member in FILES[name] if member not in parts]:
        raise LearningError(f"{path}: {absent[0]} is missing, {name} has {', '.join(FILES[name])}", AGAIN)
    *train, test = (parts[member] for member in FILES[name])
    return (np.concatenate([x for x, _ in train]), np.concatenate([y for _, y in train])), test


def _members(path: Path, *, wanted: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the wanted files; nothing is unpacked to disk."""
    if path.is_dir():
        yield from ((name, (path / name).read_bytes()) for name in wanted if (path / name).is_file())
        return
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            if member.isfile() and (name := PurePosixPath(member.name).name) in wanted:
                packed = archive.extractfile(member)
                assert packed is not None  # a regular file
                yield name, packed.read()


def _part(content: bytes, *, name: DataName) -> tuple[U8, NDArray[Any]]:
    """Images `[N, 32, 32, 3]` and labels: rows in the file hold all red, then all green, then all blue pixels."""
    read, keys = _Reader(io.BytesIO(content), encoding="bytes").load(), (b"data", _LABELS[name].encode())
    if absent := [key.decode() for key in keys if key not in read]:
        raise ValueError(f"there is no {absent[0]}")
    images, labels = (read[key] for key in keys)
    height, width, channels = image_facts(name).image_shape
    return images.reshape(-1, channels, height, width).transpose(0, 2, 3, 1), np.asarray(labels, np.int64)


class _Reader(pickle._Unpickler):
    """Python's reader written in Python: the one written in C takes the memory that a damaged file claims to need."""

    def find_class(self, module: str, name: str) -> Any:
        if not _NAMES.fullmatch(f"{module}.{name}"):
            raise pickle.UnpicklingError(f"it calls {module}.{name}"[:80])
        return super().find_class(module, name)
