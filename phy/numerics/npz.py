"""Headers of `.npz` files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np


def shapes_in_npz(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of every array, from its header alone: a small file may unpack to a very large array.

    Raises what `zipfile` and NumPy raise for a damaged file.
    """
    found = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if not name.endswith(".npy"):
                continue
            with archive.open(name) as stream:
                version = np.lib.format.read_magic(stream)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(stream)
            found[name.removesuffix(".npy")] = (shape, dtype)
    return found
