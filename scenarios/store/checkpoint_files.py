"""One checkpoint as a file: a blob, whose `about` holds the state with a place for every array."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenarios.store.blobs import Blob, BlobError, about_of, front_size, pack_parts, unpack

VERSION = 2

_MOST_DEPTH = 16
_FRONT = 44
_ARRAY = "\0array"
"""Key of the place of an array; no name of a state begins with NUL."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """`about`: plain data that tells what it is a checkpoint of; `state`: nested, see `fl.checkpoints.State`."""

    about: Mapping[str, Any]
    state: Mapping[str, Any]


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the file so that it is there whole or not at all, also after a power cut.

    Raises OSError; TypeError or ValueError for a state that no blob holds.
    """
    arrays: dict[str, NDArray[Any]] = {}
    tree = _laid_out(checkpoint.state, arrays)
    about = {"version": VERSION, "about": dict(checkpoint.about), "state": tree}
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with temporary.open("wb") as file:
            # Not deflated: weights hardly shrink, and a checkpoint must not hold up the rounds.
            for part in pack_parts(arrays, about=about, compress=False):
                file.write(part)
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


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint in a file. Raises BlobError for whatever is not one, OSError where it cannot be read."""
    with _opened(path) as file:
        if not os.fstat(file.fileno()).st_size:
            raise BlobError("it is empty")
        # Mapped: a file that claims terabytes takes no memory before its SHA-256 fails.
        blob = unpack(mmap(file.fileno(), 0, access=ACCESS_READ))
    about = _checked(blob.about)
    state = _rebuilt(about["state"], blob, depth=0)
    if not isinstance(state, dict):
        raise BlobError("its state has no names")
    return Checkpoint(about=about["about"], state=state)


def read_about(path: Path) -> Mapping[str, Any]:
    """Return what a file says it is a checkpoint of, its SHA-256 unseen. Raises as `read_checkpoint` does."""
    with _opened(path) as file:
        front = file.read(_FRONT)
        return dict(_checked(about_of(front + file.read(front_size(front) - _FRONT)))["about"])


def _checked(about: Mapping[str, Any]) -> Mapping[str, Any]:
    if about.get("version") != VERSION:
        raise BlobError(f"it is of version {about.get('version')}, and this phyloop writes version {VERSION}")
    if not isinstance(about.get("about"), dict) or "state" not in about:
        raise BlobError("its header lacks what it is about")
    return about


def _laid_out(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the state as JSON, its arrays taken out."""
    if isinstance(value, Mapping):
        return {str(name): _laid_out(part, arrays) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        arrays[name] = value
        return {_ARRAY: name}
    if value is None or isinstance(value, int | float | str):
        return value
    raise TypeError(f"a checkpoint holds no {type(value).__name__}")


def _rebuilt(value: Any, blob: Blob, *, depth: int) -> Any:
    if depth > _MOST_DEPTH:
        raise BlobError(f"nested deeper than {_MOST_DEPTH}")
    if isinstance(value, dict):
        if _ARRAY in value:
            return blob.array(str(value[_ARRAY]))
        return {name: _rebuilt(part, blob, depth=depth + 1) for name, part in value.items()}
    if isinstance(value, list):
        raise BlobError("a list where a name, a number or an array belongs")
    return value


def _opened(path: Path) -> BufferedReader:
    # A link could lead anywhere, and a pipe would be waited for.
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise BlobError("it is no file")
    return os.fdopen(number, "rb")
