"""Stores whose rows were changed by hand, with or without the SHA-256 that they then need."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from scenarios.files.plain_files import RESULTS
from scenarios.store.blobs import MAGIC, Blob, Part, pack
from scenarios.store.store import write_anew


def blobs_in(folder: Path) -> Iterator[tuple[Blob, dict[str, Any]]]:
    """Yield each blob of a store, and what it is about."""
    content = (folder / RESULTS).read_bytes()
    place = content.index(MAGIC)
    while place < len(content):
        blob = Blob(io.BytesIO(content), start=place, most=len(content))
        yield blob, json.loads(blob.about)
        place = blob.end


def packed_again(blob: Blob) -> list[Part]:
    return pack(json.loads(blob.about), blob.read())


def replace_batches(folder: Path, make: Callable[[Blob], Iterable[Part]]) -> None:
    """Put what `make` makes of the blob of each batch in its place."""
    rows = [make(blob) if "batch" in about else packed_again(blob) for blob, about in blobs_in(folder)]
    write_anew(folder / RESULTS, chain(*rows))


def change_heads(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what all batches are about, each with the SHA-256 of what it has become."""

    def changed(blob: Blob) -> list[Part]:
        about = json.loads(blob.about)
        change(about["batch"])
        return pack(about, blob.read())

    replace_batches(folder, changed)


def change_row(folder: Path, about: object) -> None:
    """Add a row that is about this, with its SHA-256."""
    rows = [packed_again(blob) for blob, _ in blobs_in(folder)]
    write_anew(folder / RESULTS, chain(*rows, pack(about)))


def flip_arrays(folder: Path, *, place: int = -1) -> None:
    """Flip the lowest bit of one byte of the first batch, by default the last byte of its arrays."""
    end = next(blob.end for blob, about in blobs_in(folder) if "batch" in about)
    spoilt = bytearray((folder / RESULTS).read_bytes())
    spoilt[end + place] ^= 1
    (folder / RESULTS).write_bytes(spoilt)
