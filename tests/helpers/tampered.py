"""Stores whose rows were changed by hand, with or without the SHA-256 that they then need."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

from scenarios.files.plain_files import RESULTS
from scenarios.store.blobs import Blob, Part, pack
from scenarios.store.results_file import ResultsFile, write_anew


def packed_again(blob: Blob) -> list[Part]:
    return pack({name: blob.array(name) for name in blob.names}, about=json.loads(blob.about), detail=blob.detail)


def replace_batches(folder: Path, make: Callable[[Blob], Iterable[Part]]) -> None:
    """Put what `make` makes of the blob of each batch in its place."""
    with closing(ResultsFile(folder / RESULTS)) as file:
        rows = [make(blob) if row.batch is not None else packed_again(blob) for blob, row in file.rows()]
    write_anew(folder / RESULTS, chain(*rows))


def change_heads(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what all batches are about, each with the SHA-256 of what it has become."""

    def changed(blob: Blob) -> list[Part]:
        about = json.loads(blob.about)
        change(about["batch"])
        return pack({name: blob.array(name) for name in blob.names}, about=about, detail=blob.detail)

    replace_batches(folder, changed)


def change_row(folder: Path, about: object) -> None:
    """Add a row that is about this, with its SHA-256."""
    with closing(ResultsFile(folder / RESULTS)) as file:
        rows = [packed_again(blob) for blob, _ in file.rows()]
    write_anew(folder / RESULTS, chain(*rows, pack({}, about=about)))


def flip_arrays(folder: Path, *, place: int = -1) -> None:
    """Flip the lowest bit of one byte of the first batch, by default the last byte of its arrays."""
    with closing(ResultsFile(folder / RESULTS)) as file:
        end = next(blob.end for blob, row in file.rows() if row.batch is not None)
    spoilt = bytearray((folder / RESULTS).read_bytes())
    spoilt[end + place] ^= 1
    (folder / RESULTS).write_bytes(spoilt)
