"""Files of the user that a scenario names: where they lie, and what they hold, by SHA-256.

A relative path is looked up beside the scenario, in the folder of PHYLOOP_DATA, and in the working directory, in this
order. A `*` in its name stands for any part: the files that match, in the order of their names.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from phy.config.conflict import ConflictError, LeaveOut, Say

VARIABLE = "PHYLOOP_DATA"
MOST_FILES = 10_000
DIGESTS = {"file": "sha256", "test_file": "test_sha256"}
"""Keys of files, and of their digests."""

FilePath = Annotated[str, Field(min_length=1, max_length=1000)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

_beside: ContextVar[Path | None] = ContextVar("folder of the scenario", default=None)


@contextmanager
def files_beside(folder: Path) -> Iterator[None]:
    """Look relative paths up in `folder` first, while scenarios are read in the block."""
    token = _beside.set(folder)
    try:
        yield
    finally:
        _beside.reset(token)


def files_of(written: str) -> tuple[Path, ...]:
    """Return the files that a path, with `*` for any part of its name, stands for; none if there are none."""
    path = Path(written).expanduser()
    places = [_beside.get(), os.environ.get(VARIABLE), Path.cwd()]
    for place in [None] if path.is_absolute() else [Path(place).expanduser() for place in places if place]:
        whole = path if place is None else place / path
        try:
            found = sorted(whole.parent.glob(whole.name)) if "*" in whole.name else [whole]
            if files := tuple(one.absolute() for one in found[: MOST_FILES + 1] if one.is_file()):
                return files
        except (OSError, ValueError):  # a name that no file can have
            return ()
    return ()


def digest_of(files: tuple[Path, ...]) -> str:
    """Return the SHA-256 of one file, or of the names and digests of several, in hexadecimal."""
    states = [(one, one.stat()) for one in files]
    digests = [_digest(one, state.st_mtime_ns, state.st_size) for one, state in states]
    if len(files) == 1:
        return digests[0]
    lines = [f"{one.name} {digest}\n" for one, digest in zip(files, digests, strict=True)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@lru_cache(maxsize=256)
def _digest(path: Path, _modified_ns: int, _size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def whole_paths(value: Any, key: str = "") -> Any:
    """Return plain data, such as a sweep, with the whole path of every file in it, and in mappings its SHA-256.

    What stands under a key `file` or `test_file`, or a dotted path that ends so, is a file; one that is not there stays
    as it is.
    """
    match value:
        case dict():
            found = {one: whole_paths(inner, str(one)) for one, inner in value.items()}
            for name, digest in DIGESTS.items():
                if isinstance(value.get(name), str) and found[name] != value[name] and value.get(digest) is None:
                    found[digest] = digest_of(files_of(value[name]))
            return found
        case list():
            return [whole_paths(one, key) for one in value]
        case str() if key.rpartition(".")[2] in DIGESTS and (files := files_of(value)):
            return _place_of(files, value)
    return value


def _place_of(files: tuple[Path, ...], written: str) -> str:
    """The whole path of a file, or the pattern of several."""
    return str(files[0]) if len(files) == 1 else str(files[0].parent / Path(written).name)


def pin_file(section: BaseModel, *, key: str = "file", digest: str = "sha256") -> None:
    """Write the whole path of the file under `key` of a section, and its SHA-256, into the section.

    For an `after` validator of the section, which nobody else has seen yet: one before it would make JSON lists Python
    lists, which strict fields refuse. Raises ConflictError for a file that is not there, unless its digest is: results
    can be looked at without it; and for a file that has changed since its digest was written.
    """
    written, known = getattr(section, key), getattr(section, digest)
    if written is None:
        return
    files = files_of(written)
    if len(files) > MOST_FILES:
        raise ConflictError(key, f"more than {MOST_FILES:,} files match {written}", Say("put them into fewer files"))
    if not files:
        if known is not None:
            return
        where = f" beside the scenario, in the folder of {VARIABLE} and in {Path.cwd()}"
        whole = Path(written).expanduser().is_absolute()
        raise ConflictError(
            key, f"no file {written}{'' if whole else where}", Say("correct the path, or put the file there")
        )
    found = digest_of(files)
    if known is not None and known != found:
        raise ConflictError(
            digest,
            f"{files[0]} now has SHA-256 {found[:12]}..., {known[:12]}... is written here",
            LeaveOut(digest, note=", so that every trial is computed anew"),
            Say("put the file back"),
        )
    section.__dict__.update({key: _place_of(files, written), digest: found})
    section.model_fields_set.update((key, digest))
