"""A scenario file, its bases and its overrides, merged into one checked `Scenario`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from .errors import KeyPath, ScenarioError, listing, value_at
from .explain import explain
from .schema import Scenario
from .schema_keys import schema_keys, unknown_key
from .shorthand import SECTIONS, is_another, named_section, normalise
from .yaml_marks import parse_yaml, read_yaml

LIBRARY = Path(__file__).parent / "library"
OVERRIDE = "--set"
"""What errors name in place of a file for an override."""
MAX_BASES = 16
_SUFFIXES = (".yaml", ".yml")


class Mark(NamedTuple):
    """Where a value was written; an override from the command line has no line."""

    file: Path | str
    line: int | None


@dataclass(frozen=True, kw_only=True)
class LoadedScenario:
    """A checked scenario, the plain data it was made of, and where each value was written."""

    scenario: Scenario
    document: dict[str, Any]
    marks: dict[KeyPath, Mark]
    source: Path


def load_scenario(
    source: str | Path,
    *,
    overrides: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
) -> LoadedScenario:
    """Read a file, or a scenario of the library by its bare name, and check it.

    `overrides` are `dotted.path=value` and win over the file and over its sweep; `trials` and `seed`
    are such overrides, already numbers. Raises ScenarioError for whatever is wrong with the input.
    """
    path = find_source(source)
    document, marks = _load_merged(path, ())
    for text in overrides:
        dotted_path, value, lines = _parse_override(text)
        _override(document, marks, path=dotted_path, value=value, name=OVERRIDE, lines=lines)
    for name, number in (("trials", trials), ("seed", seed)):
        if number is not None:
            _override(document, marks, path=name, value=number, name=f"--{name}", lines=((),))
    normalise(document)
    scenario = validate(document, marks=marks)
    return LoadedScenario(scenario=scenario, document=document, marks=marks, source=path)


def unswept(loaded: LoadedScenario, paths: Sequence[str]) -> LoadedScenario:
    """The same scenario whose sweep leaves `paths`, and what lies below them, as they are at the root."""
    document, marks = deepcopy(loaded.document), dict(loaded.marks)
    for path in paths:
        _unsweep(document, marks, path=path, name=str(loaded.source))
    return replace(loaded, document=document, marks=marks)


def validate(document: dict[str, Any], *, marks: Mapping[KeyPath, Mark], prefer: Collection[KeyPath] = ()) -> Scenario:
    """Plain data as a Scenario; raises ScenarioError with the place `marks` gives."""
    try:
        return validate_quickly(document)
    except ValidationError as error:
        raise explain(error, document=document, marks=marks, prefer=prefer) from None


def validate_quickly(document: dict[str, Any]) -> Scenario:
    """Plain data as a Scenario; raises pydantic's ValidationError."""
    # Through JSON, because pydantic's strict mode then takes lists as tuples and 20 as 20.0, and
    # still refuses "20", true as a number and 20.0 as a count.
    return Scenario.model_validate_json(json.dumps(document), strict=True)


def resolved_root(loaded: LoadedScenario, *, swept_paths: Collection[str]) -> dict[str, Any]:
    """The scenario with every default written out; its sweep gives the same plan.

    Of a section whose kind is swept only what was written stands: a default of one kind is none of another.
    """
    root = resolved_data(loaded.scenario)
    for section, key in SECTIONS.items():
        if ".".join(map(str, (*section, key))) not in swept_paths:
            continue
        around, written = value_at(root, section[:-1]), value_at(loaded.document, section)
        if written is not None:
            around[section[-1]] = deepcopy(written)
        else:
            around.pop(section[-1], None)
    return root


def resolved_yaml(scenario: Scenario) -> str:
    """The scenario as YAML with every default written out; loading it gives an equal scenario."""
    return as_yaml(resolved_data(scenario))


def as_yaml(data: dict[str, Any]) -> str:
    """Plain data as YAML, keys in their order."""
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def resolved_data(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain data with every default written out."""
    # Keys without a value (None) mean "left out", and a null would not load again.
    return dict(_without_null(scenario.model_dump(mode="json")))


def _without_null(value: Any) -> Any:
    """Plain data without keys that have no value; pydantic would drop those, too, that write None as a word."""
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else value


def library_names() -> list[tuple[str, str]]:
    """Name and description of each scenario in the library, by name."""
    entries = []
    for path in sorted(LIBRARY.glob("*.yaml")):
        description = read_yaml(path).data.get("description", "")
        entries.append((path.stem, " ".join(str(description).split())))
    return entries


def find_source(source: str | Path) -> Path:
    """The file meant by a path or a library name; raises ScenarioError for an unknown name."""
    path = Path(source)
    is_bare = len(path.parts) == 1 and path.suffix not in _SUFFIXES
    if not is_bare or isinstance(source, Path):
        return path
    return _in_library(str(source)) or _existing(path) or _unknown_name(str(source))


def _existing(path: Path) -> Path | None:
    try:
        return path if path.exists() else None
    except (OSError, ValueError):  # a name too long, or with a null character
        return None


def _in_library(name: str) -> Path | None:
    if "/" in name or "\\" in name:
        return None
    return _existing(LIBRARY / f"{name}.yaml")


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a file lies in or below a folder, links followed."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False


def _unknown_name(name: str) -> Path:
    names = [path.stem for path in LIBRARY.glob("*.yaml")]
    near = get_close_matches(name, names)
    raise ScenarioError(
        problem="no scenario of the library and no file has this name",
        remedy=(f"did you mean {listing(near)}? " if near else "") + "see phyloop list",
        file=name,
    )


# --- bases ------------------------------------------------------------------------------------


def _load_merged(path: Path, chain: tuple[Path, ...]) -> tuple[dict[str, Any], dict[KeyPath, Mark]]:
    """A file over its base, its base's base, and so on; `chain` are the files that led here."""
    data, lines = read_yaml(path)
    marks = {key: Mark(path, line) for key, line in lines.items()}
    if "base" not in data:
        return data, marks
    base = data.pop("base")
    line = marks.pop(("base",)).line

    def refuse(problem: str, remedy: str) -> ScenarioError:
        return ScenarioError(problem=problem, remedy=remedy, file=path, line=line, key="base", value=base)

    if not isinstance(base, str):
        raise refuse("must be the name of one file", "write for example base: other.yaml")
    below = _existing(path.parent / base)
    target = below if below is not None and below.is_file() else _in_library(base)
    if target is not None and target is below and not _is_inside(target, path.parent):
        raise refuse(
            "names a file outside the folder of this one",
            "copy that file beside this one: a scenario from elsewhere must not open what it likes",
        )
    if target is None:
        raise refuse(
            "neither a file beside this one nor a scenario of the library",
            "check the name, or see phyloop list",
        )
    chain = (*chain, path.resolve())
    if target.resolve() in chain:
        names = [one.name for one in (*chain, target)]
        raise refuse(f"bases go round in a circle, {' -> '.join(names)}", "remove one of these base: lines")
    if len(chain) > MAX_BASES:
        raise refuse(f"more than {MAX_BASES} files, each the base of another", "merge some of them")
    merged, merged_marks = _load_merged(target, chain)
    _merge(merged, data, path=(), into=merged_marks, marks=marks)
    return merged, merged_marks


def _merge(
    under: dict[str, Any],
    over: dict[str, Any],
    *,
    path: KeyPath,
    into: dict[KeyPath, Mark],
    marks: dict[KeyPath, Mark],
) -> None:
    """Put `over` on top of `under`, in place, and the marks of the winning values with them."""
    into[path] = marks[path]
    old_marks, new_marks = _by_key(into, path), _by_key(marks, path)
    for key, value in over.items():
        here = (*path, key)
        old = under.get(key)
        if here in SECTIONS and key in under:
            # Another task has other keys: those of the base's task say nothing about it.
            old = named_section(here, old, algorithm=under.get("algorithm"))
            value = named_section(here, value) if isinstance(value, str) else value
            if is_another(here, old=old, new=value):
                old = None
        if isinstance(old, dict) and isinstance(value, dict) and here != ("sweep",):
            under[key] = old
            _merge(old, value, path=here, into=into, marks=marks)
        else:
            for at in old_marks.get(key, ()):
                del into[at]
            under[key] = value
            into.update({at: marks[at] for at in new_marks.get(key, ())})


def _by_key(marks: Mapping[KeyPath, Mark], path: KeyPath) -> dict[str | int, list[KeyPath]]:
    """Paths at and below each key of the mapping at `path`: looked up key by key, a long file would take minutes."""
    depth = len(path)
    found: dict[str | int, list[KeyPath]] = {}
    for at in marks:
        if len(at) > depth and at[:depth] == path:
            found.setdefault(at[depth], []).append(at)
    return found


def _forget(marks: dict[KeyPath, Mark], path: KeyPath) -> None:
    for key in [key for key in marks if key[: len(path)] == path]:
        del marks[key]


# --- overrides --------------------------------------------------------------------------------


def _parse_override(text: str) -> tuple[str, Any, Collection[KeyPath]]:
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
    key = schema_keys().get(path)
    if key is None or key.indexed:
        known = [one for one, entry in schema_keys().items() if not entry.indexed]
        raise ScenarioError(
            problem="the override names an unknown key",
            remedy=unknown_key(path, among=known),
            file=OVERRIDE,
            key=path,
        )
    try:
        marked = parse_yaml(value, file=OVERRIDE)
    except ScenarioError as error:  # a line of a command line helps nobody, the key does
        raise replace(error, line=None, key=path, value=value) from None
    if marked is None:
        raise ScenarioError(problem="the override has no value", remedy=f"write {path}=value", file=OVERRIDE, key=path)
    return path, marked.data, marked.lines


def _override(
    document: dict[str, Any],
    marks: dict[KeyPath, Mark],
    *,
    path: str,
    value: Any,
    name: str,
    lines: Collection[KeyPath],
) -> None:
    parts: KeyPath = tuple(path.split("."))
    if path != "sweep":
        _unsweep(document, marks, path=path, name=name)
    _forget(marks, parts)
    marks.update({(*parts, *below): Mark(name, None) for below in lines})
    set_path(document, path, value)


def set_path(document: dict[str, Any], path: str, value: Any) -> None:
    """Set a dotted path, making mappings of what is left out, `none` or a bare name on the way.

    Changes `document` itself; the mappings on the way are copied, for points of a plan share them.
    """
    *parents, leaf = path.split(".")
    here = document
    for depth, part in enumerate(parents):
        inner = here.get(part)
        section = tuple(parents[: depth + 1])
        if section in SECTIONS:
            inner = named_section(section, {} if inner is None else inner, algorithm=here.get("algorithm"))
        here[part] = here = dict(inner) if isinstance(inner, dict) else {}
    here[leaf] = value


def _unsweep(document: dict[str, Any], marks: dict[KeyPath, Mark], *, path: str, name: str) -> None:
    """Take `path` and what lies below it out of the sweep: the user's last word wins."""
    sweep = document.get("sweep")
    if isinstance(sweep, dict):
        _unsweep_block(sweep, marks, ("sweep",), path, name)
    elif isinstance(sweep, list):
        kept = []
        for number, block in enumerate(sweep):
            # A block that only swept this path has nothing left to say; one that was empty keeps its point.
            if not isinstance(block, dict) or not block:
                kept.append(number)
                continue
            _unsweep_block(block, marks, ("sweep", number), path, name)
            if block:
                kept.append(number)
        document["sweep"] = [sweep[number] for number in kept]
        _renumber(marks, ("sweep",), kept)


def _unsweep_block(block: dict[str, Any], marks: dict[KeyPath, Mark], at: KeyPath, path: str, name: str) -> None:
    zips = block.get("zip")
    groups: list[tuple[KeyPath, Any]] = [(at, block)]
    if isinstance(zips, list):
        groups += [((*at, "zip", number), group) for number, group in enumerate(zips)]
    else:
        groups.append(((*at, "zip"), zips))
    for here, group in groups:
        if not isinstance(group, dict):
            continue  # whatever it is, the checks of the sweep will say
        above = next((one for one in group if path.startswith(one + ".")), None)
        if above is not None:
            raise ScenarioError(
                problem=f"{above} is swept as a whole", remedy=f"override {above} itself", file=name, key=path
            )
        for swept in [one for one in group if one == path or one.startswith(path + ".")]:
            del group[swept]
            if group is not block:
                kept = _first_rows(list(group.values()))
                for other in group if kept is not None else ():
                    group[other] = [group[other][number] for number in kept or ()]
                    _renumber(marks, (*here, other), kept or [])
    if isinstance(zips, dict) and not zips:
        del block["zip"]
    elif isinstance(zips, list) and not all(zips):
        kept = [number for number, group in enumerate(zips) if group != {}]
        block["zip"] = [zips[number] for number in kept]
        _renumber(marks, (*at, "zip"), kept)
        if not kept:
            del block["zip"]


def _first_rows(lists: list[Any]) -> list[int] | None:
    """Rows to keep of lists walked together: without the removed one they may meet the same values again."""
    if not lists or not all(isinstance(one, list) and len(one) == len(lists[0]) for one in lists):
        return None
    first: dict[str, int] = {}
    for number, row in enumerate(zip(*lists, strict=True)):
        first.setdefault(json.dumps(row, sort_keys=True), number)
    return list(first.values())


def _renumber(marks: dict[KeyPath, Mark], at: KeyPath, kept: list[int]) -> None:
    """Follow a list at `at` of which only the items `kept` are left."""
    depth = len(at)
    items = {key: mark for key, mark in marks.items() if key[:depth] == at and len(key) > depth}
    new_number = {old: new for new, old in enumerate(kept)}
    for key in items:
        del marks[key]
    for key, mark in items.items():
        number = key[depth]
        if isinstance(number, int) and number in new_number:
            marks[(*at, new_number[number], *key[depth + 1 :])] = mark
