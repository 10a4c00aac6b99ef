"""The blocks of a sweep, and the groups of lists in a block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scenarios.schema.errors import KeyPath, mapping


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
