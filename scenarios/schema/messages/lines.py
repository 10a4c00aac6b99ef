"""The lines that the sentence of a remedy tells a user to write, as data."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import yaml

from scenarios.schema.errors import Change, KeyPath, names_of
from scenarios.schema.labels.units import number_in


def change_in(remedy: str, at: KeyPath, *, known: Collection[str]) -> Change | None:
    """Return the first change that a remedy about the key `at` names; None for a remedy in prose.

    `write KEY: VALUE and KEY: VALUE, or ...` and `leave KEY and KEY out, or ...`; `in place of KEY` leaves it out, too.
    `known`: the dotted paths of all keys.
    """
    gone: list[KeyPath] = []
    new: list[tuple[KeyPath, Any]] = []
    for step in re.split(r" and (?=write |leave )", remedy.partition(", or ")[0]):
        if match := re.fullmatch(r"leave ([\w., ]+?) out(?: here|: .*)?", step):
            gone += (_place(name, at, known) for name in re.split(r", | and ", match[1]))
            continue
        match = re.fullmatch(r"(?:write|add) (?:for example )?(.+?)(?: or less| or more)?", step)
        if match is None:
            return None
        lines, _, replaced = match[1].partition(" in place of ")
        gone += [_place(replaced, at, known)] if replaced else []
        for line in re.split(r" and (?=[\w.]+: )", lines):
            named = re.match(r"([a-z_][\w.]*): ", line)
            value = _value(line[named.end() if named else 0 :])
            if value is None or (isinstance(value, str) and " " in value):
                return None
            new.append((_place(named[1], at, known) if named else at, value))
    return Change(gone=tuple(gone), new=tuple(new))


def _value(text: str) -> Any:
    """The value that a line writes; None for what is no value."""
    if (number := number_in(text)) is not None:  # 1e5 is text for PyYAML
        return number
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def _place(name: str, at: KeyPath, known: Collection[str]) -> KeyPath:
    """The path of a key that a sentence about `at` names: in the nearest section that has it."""
    if name == "it":
        return at
    parts = tuple(name.split("."))
    for depth in range(len(at), -1, -1):
        if names_of((*at[:depth], *parts)) in known:
            return (*at[:depth], *parts)
    return (*at[:-1], *parts)
