"""Small sets of images, written in every layout that `fl.data` reads."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def images_of(shape: tuple[int, ...], *, num_classes: int, num_train: int = 12, num_test: int = 7) -> Arrays:
    """A set in keras' layout; no two pixels of an image are like by rule, so that a turned image shows."""
    rng = np.random.default_rng(num_classes)
    return {
        "x_train": rng.integers(0, 256, (num_train, *shape), np.uint8),
        "y_train": rng.integers(0, num_classes, num_train).astype(np.uint8),
        "x_test": rng.integers(0, 256, (num_test, *shape), np.uint8),
        "y_test": rng.integers(0, num_classes, num_test).astype(np.uint8),
    }


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    """Header by hand: two zeros, type 8, number of axes, lengths in big endian."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(
    folder: Path, arrays: Arrays, *, parts: tuple[str, str] = ("train", "t10k"), packed: bool = False, dot: bool = False
) -> dict[str, Path]:
    """The four files; their paths by the keys of `arrays`."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for part, suffix in zip(parts, ("train", "test"), strict=True):
        for kind, key in (("images-idx3", f"x_{suffix}"), ("labels-idx1", f"y_{suffix}")):
            name = f"{part}-{kind}-ubyte"
            path = folder / ((name.replace("-idx", ".idx") if dot else name) + (".gz" if packed else ""))
            content = idx_bytes(arrays[key])
            path.write_bytes(gzip.compress(content) if packed else content)
            paths[key] = path
    return paths


def cifar_files(arrays: Arrays, *, fine: bool, protocol: int = 2) -> dict[str, bytes]:
    """The author's files: rows of all red, all green, all blue pixels; CIFAR-10 in five batches."""

    def packed(x: NDArray[Any], y: NDArray[Any]) -> bytes:
        rows = np.ascontiguousarray(x.transpose(0, 3, 1, 2)).reshape(len(x), -1)
        labels: dict[Any, Any] = {b"fine_labels": y.tolist(), b"coarse_labels": [0] * len(y)}
        content = {b"data": rows, b"filenames": [b"a.png"] * len(x), **(labels if fine else {b"labels": y.tolist()})}
        return pickle.dumps(content, protocol=protocol)

    x, y = arrays["x_train"], arrays["y_train"]
    if fine:
        return {"train": packed(x, y), "test": packed(arrays["x_test"], arrays["y_test"])}
    batches = zip(np.array_split(x, 5), np.array_split(y, 5), strict=True)
    files = {f"data_batch_{number}": packed(*batch) for number, batch in enumerate(batches, start=1)}
    return {**files, "test_batch": packed(arrays["x_test"], arrays["y_test"])}


def write_folder(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def write_archive(path: Path, files: dict[str, bytes], *, folder: str) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in reversed(files.items()):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
