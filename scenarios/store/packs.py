"""How small arrays are written down: what the tasks of a batch share in one row for all, the rest in one row each.

A pack names the metrics of its tasks and lists their arrays in order. Of an array that is the same in all of them it
has checksum, sum and length (`[table, name, dtype, shape, crc32, total, length]`) and the bytes; of others (`[table,
name, dtype, shape]`) each task has `[crc32, total, length]` and the bytes. Bytes fewer than the numbers take are
deflated, others are the numbers. The account of a task is text, always deflated, in the place of an array.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from numpy.typing import NDArray

from scenarios.store.array_bytes import are_axes, array_of, inflated

ACCOUNT = "account"
"""Stands for a table where the text of an account stands for an array."""
TEXT = "text"
LARGEST_PACKED = 32 << 10
"""Bytes of an array; a table with a larger one has a row per array. The bytes of a task are read together: with counts
of 60 devices among them, reading its curves took a half longer."""
MOST_TEXT = 1 << 18
"""Bytes of the text of an account, which has some thousand: a store from elsewhere may hold a bomb."""
_MOST_TOTAL = 1 << 63
_HALVES = re.compile("[\ud800-\udfff]")
_FOREIGN = "no heads of arrays that were packed"


class Place(NamedTuple):
    """Where an array is within the bytes beside its head, its checksum, and the sum of one of counts."""

    crc32: int
    total: int | None
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One array of every task of a pack; `place` is None where each task has its own."""

    table: str
    name: str
    dtype: str
    axes: tuple[int, ...]
    place: Place | None


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a pack says of its tasks: the names of their metrics, and all their arrays."""

    metrics: tuple[str, ...]
    entries: tuple[Entry, ...]

    @cached_property
    def tables(self) -> frozenset[str]:
        """Tables that have an array here."""
        return frozenset(entry.table for entry in self.entries)

    @cached_property
    def own_tables(self) -> frozenset[str]:
        """Tables that have one of which each task has its own."""
        return frozenset(entry.table for entry in self.entries if entry.place is None)

    def places(self, heads: object) -> list[Place]:
        """Where each array of a task is that has these `heads`; ValueError if they are not of such a task."""
        own = _own_places(heads)
        if len(own) != sum(entry.place is None for entry in self.entries):
            raise ValueError(_FOREIGN)
        rest = iter(own)
        return [entry.place or next(rest) for entry in self.entries]

    def values(self, metrics: object) -> tuple[float, ...]:
        """The metrics of a task; ValueError if these are not their bytes."""
        if not isinstance(metrics, bytes) or len(metrics) != 8 * len(self.metrics):
            raise ValueError(_FOREIGN)
        return struct.unpack(f"<{len(self.metrics)}d", metrics)


def layout_of(heads: object) -> Layout:
    """What the heads of a pack say; ValueError if they are of no pack."""
    plain = _plain(heads)
    if not isinstance(plain, dict) or plain.keys() != {"metrics", "arrays"}:
        raise ValueError(_FOREIGN)
    names, arrays = plain["metrics"], plain["arrays"]
    if not _are_texts(names) or not isinstance(arrays, list):
        raise ValueError(_FOREIGN)
    entries: list[Entry] = []
    start = 0
    for one in arrays:
        if not isinstance(one, list) or len(one) not in (4, 7) or not _are_texts(one[:3]) or not are_axes(one[3]):
            raise ValueError(_FOREIGN)
        place = _place(one[4:], start) if len(one) == 7 else None
        start = start if place is None else place.stop
        entries.append(Entry(table=one[0], name=one[1], dtype=one[2], axes=tuple(one[3]), place=place))
    # Of two by one name a reader has the later, and totals count both.
    if len(set(names)) < len(names) or len({(one.table, one.name) for one in entries}) < len(entries):
        raise ValueError(_FOREIGN)
    return Layout(metrics=tuple(names), entries=tuple(entries))


def array_at(entry: Entry, place: Place, data: bytes) -> NDArray[Any] | None:
    """The array of an entry, read-only; None if its bytes are not those that were written."""
    raw = data[place.start : place.stop]
    size = 8 * prod(entry.axes)
    if size > LARGEST_PACKED:
        return None  # a store from elsewhere: a thousand tasks may claim what only memory limits
    if len(raw) != size:
        found = inflated(raw, size=size) if len(raw) == place.stop - place.start else None
        if found is None:
            return None
        raw = found
    return array_of(raw, dtype=entry.dtype, axes=entry.axes, crc32=place.crc32)


def text_at(place: Place, data: bytes) -> str | None:
    """The text of an account; None if its bytes are not those that were written."""
    unpacking = zlib.decompressobj()
    try:
        raw = unpacking.decompress(data[place.start : place.stop], MOST_TEXT + 1)
        whole = unpacking.eof and len(raw) <= MOST_TEXT
        return raw.decode() if whole and zlib.crc32(raw) == place.crc32 else None
    except (zlib.error, UnicodeDecodeError):
        return None


def is_pack(layout: Layout, data: object) -> bool:
    """Whether the bytes of a pack are those that its heads name, and no more."""
    return _are_at(((one, one.place) for one in layout.entries if one.place is not None), data)


def is_packed(layout: Layout, heads: object, *, metrics: object, data: object) -> bool:
    """The same of a task of that pack, whose heads name bytes of its own."""
    try:
        layout.values(metrics)
        pairs = zip(layout.entries, layout.places(heads), strict=True)
    except ValueError:
        return False
    return _are_at(((entry, place) for entry, place in pairs if entry.place is None), data)


def _are_at(arrays: Iterable[tuple[Entry, Place]], data: object) -> bool:
    if not isinstance(data, bytes):
        return False
    stop = 0
    for entry, place in arrays:
        found = text_at(place, data) if entry.dtype == TEXT else array_at(entry, place, data)
        if found is None:
            return False
        stop = place.stop
    return stop == len(data)


def _own_places(heads: object) -> list[Place]:
    plain = _plain(heads)
    if not isinstance(plain, list):
        raise ValueError(_FOREIGN)
    places: list[Place] = []
    for one in plain:
        places.append(_place(one, places[-1].stop if places else 0))
    return places


def _place(head: object, start: int) -> Place:
    if not isinstance(head, list) or len(head) != 3:
        raise ValueError(_FOREIGN)
    crc32, total, length = head
    if type(crc32) is not int or not 0 <= crc32 < 1 << 32 or type(length) is not int or length < 0:
        raise ValueError(_FOREIGN)
    if total is not None and (type(total) is not int or not -_MOST_TOTAL <= total < _MOST_TOTAL):
        raise ValueError(_FOREIGN)
    return Place(crc32, total, start, start + length)


def _plain(text: object) -> object:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (RecursionError, ValueError) as error:
        raise ValueError(_FOREIGN) from error


def _are_texts(values: object) -> bool:
    """Whether these are texts that can be written: JSON can spell halves of characters, which no file takes."""
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        return False
    return all(one.isascii() or not _HALVES.search(one) for one in values)
