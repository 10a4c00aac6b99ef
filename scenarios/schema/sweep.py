"""The blocks of a sweep, and the groups of lists in a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scenarios.schema.errors import KeyPath, Mark, mapping, mark_of


def blocks_of(sweep: Any) -> dict[KeyPath, Any]:
    """The blocks of a sweep by their places."""
    if isinstance(sweep, list):
        return {("sweep", number): block for number, block in enumerate(sweep)}
    return {("sweep",): sweep}


def groups_of(block: Any, at: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    """Yield place and lists by path of every axis of a block: one path alone, or paths that step together."""
    for key, value in mapping(block).items():
        if key != "zip":
            yield at, {key: value}
        elif isinstance(value, list):
            yield from (((*at, key, number), group) for number, group in enumerate(value))
        else:
            yield (*at, key), value


def swept_marks(marks: Mapping[KeyPath, Mark], swept: Mapping[KeyPath, KeyPath]) -> dict[KeyPath, Mark]:
    """Marks of a document in which swept values are set: each has its place in the sweep, `swept` by its path."""
    found = {
        key: mark for key, mark in marks.items() if not any(key[:depth] in swept for depth in range(1, len(key) + 1))
    }
    for path, origin in swept.items():
        file, line = mark_of(origin, marks)
        found[path] = Mark(file or "", line)
        for depth in range(1, len(path)):  # a swept key writes its section
            found.setdefault(path[:depth], found[path])
        inside = {key[len(origin) :]: mark for key, mark in marks.items() if key[: len(origin)] == origin}
        found |= {(*path, *key): mark for key, mark in inside.items() if key}
    return found
