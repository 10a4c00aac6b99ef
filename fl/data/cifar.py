"""CIFAR-10 and CIFAR-100 as their author packed them for Python: a folder of pickles, or its .tar.gz."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from pickle import UnpicklingError
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from fl.config.data import DataName
from fl.data.arrays import AGAIN, Arrays, checked_arrays
from fl.data.facts import image_facts
from fl.data.pickled import read_pickle
from fl.tasks.base import LearningError

FOLDERS: dict[DataName, str] = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
ARCHIVES: dict[DataName, str] = {"cifar10": "cifar-10-python.tar.gz", "cifar100": "cifar-100-python.tar.gz"}
TRAIN_FILES: dict[DataName, tuple[str, ...]] = {
    "cifar10": tuple(f"data_batch_{batch}" for batch in range(1, 6)),
    "cifar100": ("train",),
}
TEST_FILES: dict[DataName, str] = {"cifar10": "test_batch", "cifar100": "test"}
_LABELS: dict[DataName, str] = {"cifar10": "labels", "cifar100": "fine_labels"}
_LARGEST_BYTES = 1 << 28
"""CIFAR-100's training file has 155 MB."""

_LARGEST_ARCHIVE_BYTES = 1 << 29
"""Unpacked, CIFAR-10 and CIFAR-100 have 186 MB; of a .tar.gz that unpacks to more no more is read."""

_DAMAGE = (
    *(EOFError, ValueError, KeyError, OSError, OverflowError, MemoryError),
    *(UnpicklingError, tarfile.TarError, zlib.error),
)


def read_cifar(path: Path, *, name: DataName) -> Arrays:
    """The set in the folder or archive `path`, fine labels of CIFAR-100; LearningError, one sentence, if damaged."""
    wanted = (*TRAIN_FILES[name], TEST_FILES[name])
    parts: dict[str, tuple[NDArray[np.uint8], NDArray[Any]]] = {}
    where = str(path)
    try:
        for member, content in _members(path, wanted=wanted):
            where = f"{path}, {member}"
            if len(content) > _LARGEST_BYTES:
                raise LearningError(f"{where}: more than {_LARGEST_BYTES >> 20} MiB, larger than any of CIFAR; {AGAIN}")
            parts[member] = _part(content, name=name)
    except _DAMAGE as error:
        raise LearningError(f"{where}: not a whole file of {name} ({_reason(error)}); {AGAIN}") from error
    if absent := [member for member in wanted if member not in parts]:
        raise LearningError(f"{path}: {absent[0]} is missing, {name} has {', '.join(wanted)}; {AGAIN}")
    train = [parts[member] for member in TRAIN_FILES[name]]
    return checked_arrays(
        name,
        train=(np.concatenate([x for x, _ in train]), np.concatenate([y for _, y in train])),
        test=parts[TEST_FILES[name]],
        source=str(path),
    )


def _members(path: Path, *, wanted: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the wanted files; nothing is unpacked to disk."""
    if path.is_dir():
        for name in wanted:
            if (file := path / name).is_file():
                with file.open("rb") as stream:
                    yield name, stream.read(_LARGEST_BYTES + 1)
        return
    with (
        gzip.open(path, "rb") as unpacked,
        tarfile.open(fileobj=cast(IO[bytes], _Bounded(unpacked)), mode="r|") as archive,
    ):
        for member in archive:
            if member.isfile() and (name := PurePosixPath(member.name).name) in wanted:
                packed = archive.extractfile(member)
                assert packed is not None  # a regular file
                yield name, packed.read(_LARGEST_BYTES + 1)


def _part(content: bytes, *, name: DataName) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Images `[N, 32, 32, 3]` and labels: rows in the file hold all red, then all green, then all blue pixels."""
    read = read_pickle(content)
    height, width, channels = image_facts(name).image_shape
    images, labels = read["data"], read[_LABELS[name]]
    if not isinstance(images, np.ndarray):
        raise ValueError("its data are not an array of unsigned bytes")
    if not isinstance(labels, list) or not all(type(label) is int and abs(label) < 1 << 31 for label in labels):
        raise ValueError("its labels are not a list of whole numbers")
    return images.reshape(-1, channels, height, width).transpose(0, 2, 3, 1), np.asarray(labels, np.int64)


class _Bounded:
    """What is unpacked from an archive, up to a bound: a small file may unpack to anything."""

    def __init__(self, unpacked: gzip.GzipFile) -> None:
        self._unpacked, self._left = unpacked, _LARGEST_ARCHIVE_BYTES

    def read(self, size: int) -> bytes:
        """The next bytes; ValueError beyond the bound."""
        content = self._unpacked.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {_LARGEST_ARCHIVE_BYTES >> 20} MiB")
        return content


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r}"
    return str(error).strip().rstrip(".") or type(error).__name__
