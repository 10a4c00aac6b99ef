"""The file of results: a head, and blobs one behind the other (see `scenarios.store.blobs`).

The head has the version and where the last blob ends, with their SHA-256. A commit appends blobs behind this end,
brings them to the disk, and then writes the head: a kill at any moment leaves all of a commit or none. Bytes behind the
end do not count, and no byte before it ever changes, so that a reader needs no lock.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO

from scenarios.files.plain_files import LOCK
from scenarios.files.replacement import replacement
from scenarios.schema.errors import ScenarioError
from scenarios.store.blobs import MAGIC, Blob, Part
from scenarios.store.rows import ROW, Row

STORE_VERSION = 8
_MAGIC = b"phyloop\n"
_HEAD = struct.Struct("<8sIQ32s")
_SUMMED = 20
"""Bytes of the head that its SHA-256 is of."""
_READ_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""Errors of code that reads what nobody wrote."""


class DamagedStoreError(ScenarioError):
    """A damaged store; the next run keeps the batches that verify."""


@contextmanager
def telling_damage(path: Path) -> Iterator[None]:
    """Raise DamagedStoreError where the block meets bytes that nobody wrote."""
    try:
        yield
    except _READ_ERRORS as error:
        remedy = "run the scenario into this folder again: what still verifies is kept, the rest is computed again"
        why = "it holds what phyloop does not write" if "\n" in str(error) else str(error)
        raise DamagedStoreError(file=path, problem=f"is damaged ({why})", remedy=remedy) from error


def unwritable(path: Path, error: Exception) -> ScenarioError:
    """Return the error for a disk that refuses results."""
    remedy = "free or change the disk and run again, finished tasks are kept"
    return ScenarioError(file=path, problem=f"results cannot be written ({error})", remedy=remedy)


class ResultsFile:
    """The file at `path` as it is now. ScenarioError for a file of something else, DamagedStoreError."""

    def __init__(self, path: Path, *, write: bool = False) -> None:
        try:
            self._path, self._file = path, path.open("r+b" if write else "rb")
        except OSError as error:
            problem, remedy = f"cannot be read ({error.strerror})", "mend its permissions, or copy the folder"
            raise ScenarioError(file=path, problem=problem, remedy=remedy) from error
        try:
            self.end = self._read_end()
        except BaseException:
            self.close()
            raise

    def _read_end(self) -> int:
        for _ in range(2):
            self._file.seek(0)
            head = self._file.read(_HEAD.size).ljust(_HEAD.size, b"\0")
            magic, version, end, sha256 = _HEAD.unpack(head)
            whole = hashlib.sha256(head[:_SUMMED]).digest() == sha256
            if whole:
                break
            time.sleep(0.05)  # a run may just be writing it
        if magic != _MAGIC and not self._path.with_name(LOCK).exists():
            problem = "is not a phyloop result store"
            raise ScenarioError(file=self._path, problem=problem, remedy="choose another folder")
        with telling_damage(self._path):
            if not whole or magic != _MAGIC:
                raise ValueError("the SHA-256 of its head differs from what was written")
        if version != STORE_VERSION:
            problem = f"was written by another phyloop (store version {version}, not {STORE_VERSION})"
            remedy = "run the scenario into a new folder, or read this one with the phyloop that wrote it"
            raise ScenarioError(file=self._path, problem=problem, remedy=remedy)
        return int(end)

    def blob(self, start: int) -> Blob:
        """Return the blob that begins there. DamagedStoreError if it is not as it was written."""
        with telling_damage(self._path):
            return Blob(self._file, start=start, most=min(self.end, os.fstat(self._file.fileno()).st_size))

    def rows(self, start: int = _HEAD.size) -> Iterator[tuple[Blob, Row]]:
        """Yield the blobs from `start` on. DamagedStoreError where one is not as it was written."""
        while start < self.end:
            blob = self.blob(start)
            with telling_damage(self._path):
                row = ROW.validate_json(blob.about)
            start = blob.end
            yield blob, row

    def append(self, parts: Iterable[Part]) -> None:
        """Append blobs: all of them, or after an error none. Raises OSError."""
        self.end = _commit(self._file, parts, start=self.end)

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        with suppress(OSError):  # what a full disk refused is tried once more
            self._file.close()


def write_anew(path: Path, parts: Iterable[Part]) -> None:
    """Write a file in the place of `path`: no reader meets half a file. Raises OSError."""
    with replacement(path) as file:
        _commit(file, parts, start=_HEAD.size)


def repair(path: Path, identity: Iterable[Part]) -> Path:
    """Put a file with the blobs that verify in the place of a damaged one; return the copy that is kept of that.

    The caller holds the lock. Raises OSError where the disk refuses; nothing has changed then.
    """
    aside = next(one for k in count(1) if not (one := path.with_name(f"results.damaged-{k}.phyloop")).exists())
    shutil.copyfile(path, aside)
    write_anew(path, chain(_verified(aside), identity))
    return aside


def _verified(path: Path) -> Iterator[Part]:
    """Yield the blobs of a file that verify, wherever they begin."""
    if not path.stat().st_size:
        return
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        start = 0
        while (start := data.find(MAGIC, start)) >= 0:
            end = start + 1
            with suppress(*_READ_ERRORS):
                blob = Blob(file, start=start, most=len(data))
                blob.verify()
                row = ROW.validate_json(blob.about)
                if row.batch is not None:
                    row.batch.tasks(0)
                end = blob.end
                yield data[start:end]
            start = end


def _commit(file: IO[bytes], parts: Iterable[Part], *, start: int) -> int:
    """Write parts from `start` on, and when they are on the disk the head. Return where they end."""
    file.seek(start)
    file.writelines(parts)
    file.flush()
    os.fsync(file.fileno())
    end = file.tell()
    head = _HEAD.pack(_MAGIC, STORE_VERSION, end, b"")[:_SUMMED]
    file.seek(0)
    file.write(head + hashlib.sha256(head).digest())
    file.flush()
    os.fsync(file.fileno())
    return end
