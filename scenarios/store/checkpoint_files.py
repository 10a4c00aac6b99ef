"""One checkpoint as a file: a blob, whose `about` holds the state with a place for every array."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenarios.files.plain_files import open_plain
from scenarios.files.plain_json import fits
from scenarios.files.replacement import Replacement
from scenarios.store.blobs import Blob, BlobError, about_of, pack_parts, unpack

VERSION = 3

_MOST_DEPTH = 16
_ARRAY = "\0array"
"""Key of the place of an array; no name of a state begins with NUL."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """`about`: plain data that tells what it is a checkpoint of; `state`: nested, see `fl.checkpoints.State`."""

    about: Mapping[str, Any]
    state: Mapping[str, Any]


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the file whole or not at all; one that a power cut tears does not verify, and the older one is taken.

    Raises OSError; TypeError or ValueError for a state that no blob holds.
    """
    arrays: dict[str, NDArray[Any]] = {}
    tree = _laid_out(checkpoint.state, arrays)
    about = {"version": VERSION, "about": dict(checkpoint.about), "state": tree}
    # Not deflated: weights hardly shrink, and a checkpoint must not hold up the rounds.
    parts = pack_parts(arrays, about=about, compress=False)
    with Replacement(path) as file:
        file.writelines(parts)


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint in a file. Raises BlobError for whatever is not one, OSError where it cannot be read."""
    blob = unpack(_mapped(path))
    about = _checked(blob.about)
    return Checkpoint(about=about["about"], state={name: _rebuilt(one, blob) for name, one in about["state"].items()})


def read_about(path: Path) -> Mapping[str, Any]:
    """Return what a file says it is a checkpoint of, its arrays unread. Raises as `read_checkpoint` does."""
    about: Mapping[str, Any] = _checked(about_of(_mapped(path)))["about"]
    return about


def _mapped(path: Path) -> mmap:
    """Map a file: one that claims terabytes takes no memory before its SHA-256 fails."""
    with os.fdopen(open_plain(path), "rb") as file:
        try:
            return mmap(file.fileno(), 0, access=ACCESS_READ)
        except ValueError as error:
            raise BlobError("it is empty") from error


def _checked(about: Mapping[str, Any]) -> Mapping[str, Any]:
    if about.get("version") != VERSION:
        raise BlobError(f"it is of version {about.get('version')}, and this phyloop writes version {VERSION}")
    if not fits(about, {"about": {}, "state": {}}):
        raise BlobError("its header lacks what it is about")
    return about


def _laid_out(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the state as JSON, its arrays taken out."""
    match value:
        case Mapping():
            return {str(name): _laid_out(part, arrays) for name, part in value.items()}
        case np.ndarray():
            arrays[name := str(len(arrays))] = value
            return {_ARRAY: name}
        case None | int() | float() | str():
            return value
    raise TypeError(f"a checkpoint holds no {type(value).__name__}")


def _rebuilt(value: Any, blob: Blob, depth: int = 1) -> Any:
    if depth > _MOST_DEPTH or fits(value, list):
        raise BlobError(f"a list, or nested deeper than {_MOST_DEPTH}, where a name, a number or an array belongs")
    if not fits(value, {}):
        return value
    if _ARRAY in value:
        return blob.array(str(value[_ARRAY]))
    return {name: _rebuilt(part, blob, depth + 1) for name, part in value.items()}
