"""CIFAR-10 and CIFAR-100 as their author packed them for Python: a folder of pickles, or its .tar.gz.

A pickle is a program. The reader here lets it call nothing but what makes the arrays of NumPy.
"""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.config.data import DataName, Pair
from fl.data.arrays import AGAIN, damaged, image_facts
from fl.tasks.base import LearningError

FOLDERS: dict[DataName, str] = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
ARCHIVES: dict[DataName, str] = {"cifar10": "cifar-10-python.tar.gz", "cifar100": "cifar-100-python.tar.gz"}
FILES: dict[DataName, tuple[str, ...]] = {
    "cifar10": (*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch"),
    "cifar100": ("train", "test"),
}
"""To train on, and the last to test on."""

_LABELS: dict[DataName, str] = {"cifar10": "labels", "cifar100": "fine_labels"}
_DAMAGE = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, TypeError, ValueError),
    *(pickle.UnpicklingError, struct.error, tarfile.TarError, zlib.error),
)
_ARRAYS = {"multiarray._reconstruct", "numeric._frombuffer"}
_CALLED = {"_codecs.encode", "numpy.dtype", "numpy.ndarray"} | {
    f"numpy.{core}.{name}" for core in ("core", "_core") for name in _ARRAYS
}


def read_cifar(path: Path, *, name: DataName) -> tuple[Pair, Pair]:
    """The set in the folder or archive `path`, fine labels of CIFAR-100; LearningError, one sentence, if damaged."""
    parts: dict[str, Pair] = {}
    where = str(path)
    try:
        for member, content in _members(path, wanted=FILES[name]):
            where = f"{path}, {member}"
            parts[member] = _part(content, name=name)
    except _DAMAGE as error:
        raise damaged(f"file of {name}", error, source=where) from error
    if absent := [member for member in FILES[name] if member not in parts]:
        raise LearningError(f"{path}: {absent[0]} is missing, {name} has {', '.join(FILES[name])}; {AGAIN}")
    *train, test = (parts[member] for member in FILES[name])
    return (np.concatenate([x for x, _ in train]), np.concatenate([y for _, y in train])), test


def _members(path: Path, *, wanted: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the wanted files; nothing is unpacked to disk."""
    if path.is_dir():
        yield from ((name, (path / name).read_bytes()) for name in wanted if (path / name).is_file())
        return
    with gzip.open(path, "rb") as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as archive:
        for member in archive:
            if member.isfile() and (name := PurePosixPath(member.name).name) in wanted:
                packed = archive.extractfile(member)
                assert packed is not None  # a regular file
                yield name, packed.read()


def _part(content: bytes, *, name: DataName) -> Pair:
    """Images `[N, 32, 32, 3]` and labels: rows in the file hold all red, then all green, then all blue pixels."""
    read = read_pickle(content)
    height, width, channels = image_facts(name).image_shape
    images: NDArray[Any] = np.asarray(read["data"])
    return images.reshape(-1, channels, height, width).transpose(0, 2, 3, 1), np.asarray(read[_LABELS[name]])


def read_pickle(content: bytes) -> dict[str, Any]:
    """Return the dictionary in `content`, keys as str. Raises UnpicklingError if it calls anything but arrays."""
    items = _Reader(io.BytesIO(content), encoding="bytes").load().items()
    return {key if isinstance(key, str) else key.decode("latin1"): value for key, value in items}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in _CALLED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)
