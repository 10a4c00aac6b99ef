"""What following a remedy does to a document."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import deepcopy
from typing import Any

from phy.config.conflict import LeaveOut, Remedy, Write
from scenarios.schema.errors import Change, KeyPath, Mark, has_parts, mapping, names_of, value_at


def change_of(remedies: Sequence[Remedy], at: KeyPath, *, known: Collection[str]) -> Change | None:
    """Return the change of the first remedy for the key `at`; None for advice in words.

    `known`: the dotted paths of all keys.
    """
    match remedies[:1]:
        case [LeaveOut(keys=keys)]:
            return Change(gone=tuple(_place(name, at, known) for name in keys or ("",)))
        case [Write(lines=lines, over=over)]:
            return Change(
                gone=tuple(_place(name, at, known) for name in over),
                new=tuple((_place(name, at, known), value) for name, value in lines.items()),
            )
    return None


def _place(name: str, at: KeyPath, known: Collection[str]) -> KeyPath:
    """The path of a key that a remedy for `at` names: in the nearest section that has it."""
    if not name:
        return at
    parts = tuple(name.split("."))
    for depth in range(len(at), -1, -1):
        if names_of((*at[:depth], *parts)) in known:
            return (*at[:depth], *parts)
    return (*at[:-1], *parts)


def follow(change: Change, document: dict[str, Any], marks: dict[KeyPath, Mark], *, tags: Collection[str]) -> None:
    """Change a document as a remedy says; the place of what comes is that of what goes.

    A wrong section whose value is up to the user keeps its `tags`, which name its kind.
    """
    old = next((path for path in change.gone if path in marks), None)
    for path in change.gone:
        around = mapping(value_at(document, path[:-1]))
        section = mapping(around.pop(path[-1], None))
        kind = {tag: section[tag] for tag in tags if tag in section}
        if kind and not change.sure:
            around[path[-1]] = kind
    for path, value in change.new:
        inside: Any = document
        for part in path[:-1]:
            if isinstance(inside, list) and not isinstance(part, int):  # a key of a list, such as figures.x
                return
            if not has_parts(value_at(inside, (part,))):
                inside[part] = {}
            inside = inside[part]
        if isinstance(inside, dict) or isinstance(path[-1], int):
            inside[path[-1]] = deepcopy(value)
        if old is not None and path not in marks:
            marks.update({(*path, *at[len(old) :]): marks[at] for at in [*marks] if at[: len(old)] == old})
