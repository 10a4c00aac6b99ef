"""Headers of `.npz` files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np


def shapes_in_npz(path: Path | IO[bytes]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of every array, from its header alone: a small file may unpack to a very large array.

    Raises what `zipfile` and NumPy raise for a damaged file.
    """
    found = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as stream:
                    shape, _, dtype = _header(stream)
                found[name.removesuffix(".npy")] = (shape, dtype)
    return found


def offsets_in_npz(path: Path) -> dict[str, int]:
    """Return where the numbers of every array begin in the file [B], of arrays in C order that are not compressed."""
    found = {}
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        for one in archive.infolist():
            if one.compress_type == zipfile.ZIP_STORED and one.filename.endswith(".npy"):
                file.seek(one.header_offset + 26)  # of a local header: lengths of name and extra field
                lengths = np.frombuffer(file.read(4), "<u2")
                file.seek(int(lengths.sum()), 1)
                _, reversed_axes, dtype = _header(file)
                if not reversed_axes and not dtype.hasobject:
                    found[one.filename.removesuffix(".npy")] = file.tell()
    return found


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, reversed_axes, dtype = read(stream)
    return shape, reversed_axes, dtype
