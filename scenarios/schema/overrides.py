"""Overrides `dotted.path=value`, which win over the scenario file and over its sweep, and `sweep.dotted.path=[...]`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from scenarios.schema.errors import KeyPath, Mark, ScenarioError, has_parts, items_of, mapping
from scenarios.schema.schema_keys import meant_key, schema_keys
from scenarios.schema.shorthand import SECTIONS, named_section
from scenarios.schema.sweep import blocks_of, groups_of, swept_marks
from scenarios.schema.yaml_marks import parse_yaml

OVERRIDE = "--set"
"""Name of an override in errors, in place of a file."""
SWEEP = "sweep."
"""Before a path: the value is the list of its values in the sweep."""


def parse_override(text: str) -> tuple[str, Any, Collection[KeyPath]]:
    """Path and value of `dotted.path=value`, and the key paths within the value; raises ScenarioError."""
    path, sign, value = text.partition("=")
    path = path.strip()
    if not sign or not path:
        missing = "has no value" if path else "names no key"
        raise ScenarioError(
            problem=f"the override {missing}",
            remedy="write dotted.path=value, for example learning.rounds=500",
            file=OVERRIDE,
            key=path or None,
        )
    key = schema_keys().get(path.removeprefix(SWEEP))
    if key is None or key.indexed:
        known = [one for one, entry in schema_keys().items() if not entry.indexed]
        raise ScenarioError(
            problem="the override names an unknown key",
            remedy=meant_key(path.removeprefix(SWEEP), among=known).remedy,
            file=OVERRIDE,
            key=path,
        )
    try:
        marked = parse_yaml(value, file=OVERRIDE)
    except ScenarioError as error:  # an override has no line; its key is its place
        raise replace(error, line=None, key=path, value=value) from None
    if marked is None:
        raise ScenarioError(problem="the override has no value", remedy=f"write {path}=value", file=OVERRIDE, key=path)
    return path, marked.data, marked.lines


def override(
    document: dict[str, Any],
    marks: dict[KeyPath, Mark],
    *,
    path: str,
    value: Any,
    name: str,
    lines: Collection[KeyPath],
) -> None:
    """Set `path` in `document`, with mark `name`, and remove it from the sweep; `document` and `marks` change.

    A path after SWEEP is swept instead: in the blocks of the sweep that sweep it already, else in all.
    """
    parts: KeyPath = tuple(path.split("."))
    swept = path.removeprefix(SWEEP)
    sweep: Any = document.setdefault("sweep", {})
    if swept != path and has_parts(sweep):
        blocks = blocks_of(sweep)
        sweeping = [at for at, block in blocks.items() if swept in _paths(block)]
        for at in sweeping or blocks:
            _unsweep_block(blocks[at], marks, at, swept, name)
            blocks[at][swept] = value
            marks.update({(*at, swept, *below): Mark(name, None) for below in lines})
        return
    if path != "sweep":
        unsweep(document, marks, path=path, name=name)
    _forget(marks, parts)
    marks.update({(*parts, *below): Mark(name, None) for below in lines})
    set_path(document, path, value)


def _paths(block: Any) -> set[str]:
    """The paths that one block of a sweep sets, alone or zipped."""
    return {path for _, group in groups_of(block, ()) for path in mapping(group)}


def first_point(
    document: dict[str, Any], marks: Mapping[KeyPath, Mark]
) -> tuple[dict[str, Any], dict[KeyPath, Mark], set[KeyPath]]:
    """Document and marks with the first value of each path that every block of the sweep sets, and these paths.

    The sweep stays, so that the sweep points are the same: the values which it replaces are in none of them.
    """
    first, swept = dict(document), {}
    blocks = blocks_of(document.get("sweep") or {})
    at, block = next(iter(blocks.items()), ((), {}))
    for place, group in groups_of(block, at):
        for path, values in mapping(group).items():
            in_all = path in schema_keys() and all(path in _paths(one) for one in blocks.values())
            if in_all and isinstance(values, list) and values:  # `expand` reports other lists
                set_path(first, path, deepcopy(values[0]))
                swept[tuple(path.split("."))] = (*place, path, 0)
    return first, swept_marks(marks, swept), set(swept)


def set_path(document: dict[str, Any], path: str, value: Any) -> None:
    """Set a dotted path, with a mapping in place of a missing section, of `none` and of a bare name on the way.

    Changes `document` itself, but copies the mappings on the way, which points of a plan share.
    """
    *parents, leaf = path.split(".")
    here = document
    for depth, part in enumerate(parents):
        inner = here.get(part)
        section = tuple(parents[: depth + 1])
        if section in SECTIONS:
            inner = named_section(section, {} if inner is None else inner, algorithm=here.get("algorithm"))
        here[part] = here = dict(mapping(inner))
    here[leaf] = value


def unsweep(document: dict[str, Any], marks: dict[KeyPath, Mark], *, path: str, name: str) -> None:
    """Remove `path` and the paths below it from the sweep; items of lists that become shorter lose their lines."""
    sweep = document.get("sweep")
    kept = [
        block
        for at, block in blocks_of(sweep).items()
        # A block that swept only this path is dropped; a block that was empty keeps its sweep point.
        if not mapping(block) or _unsweep_block(block, marks, at, path, name)
    ]
    if isinstance(sweep, list) and len(kept) < len(sweep):
        document["sweep"] = kept
        _forget(marks, ("sweep",))


def _unsweep_block(
    block: dict[str, Any], marks: dict[KeyPath, Mark], at: KeyPath, path: str, name: str
) -> dict[str, Any]:
    """Return the block without `path` and the paths below it."""
    zips = items_of(block.get("zip", []))
    for group in (block, *map(mapping, zips)):  # `expand` reports what is no mapping
        above = next((one for one in group if path.startswith(one + ".")), None)
        if above is not None:
            raise ScenarioError(
                problem=f"{above} is swept as a whole", remedy=f"override {above} itself", file=name, key=path
            )
        removed = [one for one in group if one == path or one.startswith(path + ".")]
        for one in removed:
            del group[one]
        if removed and group is not block:
            _forget(marks, (*at, "zip"))
            _drop_equal_rows(group)
    if {} in zips:
        zips = [group for group in zips if group != {}]
        block["zip"] = zips
        if not zips:
            del block["zip"]
    return block


def _drop_equal_rows(group: dict[str, Any]) -> None:
    """Keep each row of zipped lists once: without a removed list, rows may repeat."""
    lists = list(group.values())
    if lists and all(isinstance(one, list) and one and len(one) == len(lists[0]) for one in lists):
        rows = {json.dumps(row, sort_keys=True): row for row in zip(*lists, strict=True)}
        group.update(zip(group, map(list, zip(*rows.values(), strict=True)), strict=True))


def _forget(marks: dict[KeyPath, Mark], path: KeyPath) -> None:
    """Remove the marks below a path."""
    for key in [key for key in marks if key[: len(path)] == path and len(key) > len(path)]:
        del marks[key]
