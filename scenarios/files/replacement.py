"""Files that appear whole or not at all, and one sentence where a folder cannot be written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO

from scenarios.schema.errors import ScenarioError


class Replacement:
    """A file written beside `path` and renamed onto it when whole; after an error nothing is left.

    A class, not a generator, so that errors of the body pass through untouched.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._file: IO[bytes] | None = None

    def __enter__(self) -> IO[bytes]:
        self._file = self._temporary.open("wb")
        return self._file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None  # entered
        try:
            self._file.close()
            if error is None:
                self._temporary.replace(self._path)
        finally:
            self._temporary.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> Path:
    """Write `text` into the file `path`, whole or not at all; returns `path`."""
    with Replacement(path) as file:
        file.write(text.encode(errors="surrogateescape"))
    return path


@contextmanager
def writing(folder: Path, what: str) -> Iterator[None]:
    """Make `folder` for the block, which writes `what` into it; ScenarioError where the disk refuses."""
    if folder.exists() and not folder.is_dir():
        raise ScenarioError(file=folder, problem="is a file, not a folder", remedy=f"name a folder for {what}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ScenarioError(
            file=folder,
            problem=f"{what} cannot be written here ({error.strerror})",
            remedy="choose a folder on a writable disk",
        ) from error


def file_name(text: str) -> str:
    """`text` with only letters, digits, dots, lines and hyphens."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)
