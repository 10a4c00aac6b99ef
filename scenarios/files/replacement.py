"""Files that appear whole or not at all, and one sentence where a folder cannot be written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from scenarios.files.plain_files import refuse_links, run_folder_of
from scenarios.schema.errors import ScenarioError


@contextmanager
def replacement(path: Path) -> Iterator[IO[bytes]]:
    """A file written beside `path` and renamed onto it when whole; after an error nothing is left."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # left by a kill, or laid there: no link is followed
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> Path:
    """Write `text` into the file `path`, whole or not at all; returns `path`."""
    with replacement(path) as file:
        file.write(text.encode(errors="surrogateescape"))
    return path


@contextmanager
def writing(folder: Path, what: str) -> Iterator[None]:
    """Make `folder` for the block, which writes `what` into it.

    ScenarioError where the disk refuses, and for a link that leads out of a run folder.
    """
    if (root := run_folder_of(folder)) is not None:
        refuse_links(folder, within=root)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        problem = f"{what} cannot be written here ({error.strerror or error})"
        remedy = "free or change the disk and run again, or choose another folder"
        raise ScenarioError(file=folder, problem=problem, remedy=remedy) from error


def file_name(text: str) -> str:
    """`text` with only letters, digits, dots, lines and hyphens."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)
