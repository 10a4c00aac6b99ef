"""Follow the first remedy of an error to the letter, as a reader does who knows nothing but the sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scenarios.schema.errors import KeyPath, ScenarioError, value_at
from scenarios.schema.loader import as_yaml
from scenarios.schema.schema import Scenario
from scenarios.schema.schema_keys import schema_keys
from scenarios.schema.sweep import blocks_of, groups_of
from scenarios.schema.yaml_marks import parse_yaml, read_yaml

Path_ = list[str | int]

_NEXT = re.compile(
    r", or | or (?:less|more)|, (?:so|as|in|which|the|and|with|for) | \(| for (?=\d|a )"
    r"| beside | under | without | in place of | and leave | in the sweep|: (?=the|all)"
)
"""Where the first of several remedies may end."""


def followed(path: Path, errors: Sequence[ScenarioError]) -> str:
    """The text of a scenario with the first remedy of every error followed."""
    document, lines = read_yaml(path)
    for error in errors:
        _follow(
            document, error, swept={at for at, line in lines.items() if line == error.line and at[:1] == ("sweep",)}
        )
    return as_yaml(document)


def _follow(document: dict[str, Any], error: ScenarioError, *, swept: set[KeyPath]) -> None:
    """Follow a remedy; `swept` are the places in the sweep on the line of the error."""
    remedy, at = error.remedy, _parts(error.key or "")
    named = (
        one
        for one in swept
        if ".".join(part for part in one[1:] if isinstance(part, str) and part != "zip") == error.key
    )
    place = list(max(named, key=len, default=_place(document, at)))
    if match := re.match(r"did you mean ([\w.-]*\w)", remedy):
        word = match[1]
        if at[:2] == ["tune", "keys"]:
            _rename(document["tune"]["keys"], place[-1], word)
        elif not error.problem.startswith(("unknown key", "the sweep names a path")):
            _put(document, place, word)
        elif place[0] == "sweep":
            _rename(value_at(document, tuple(place[:-1])), place[-1], word)
        else:
            _put(document, [*at[:-1], _parts(word)[-1]] if 0 in at else _parts(word), _taken(document, place))
    elif remedy.startswith(("leave it out", "leave this value out")):
        _taken(document, place)
    elif match := re.match(r"write (\w+) in place of (\w+)$", remedy):
        _put(document, [*place[:-1], match[1]], _taken(document, place))
    elif match := re.match(r"leave ([\w., ]+?) out\b", remedy):
        for name in re.split(r", | and ", match[1]):
            _taken(document, _place(document, _resolved(name, at)))
    elif match := re.match(r"write (\w+) at the top of the file", remedy):
        _put(document, [match[1]], _taken(document, place))
    elif match := re.match(r"move it out of zip: (\S+): (.+)", remedy):
        _taken(document, place)
        _put(document, [*place[: place.index("zip")], match[1]], _value(match[2]))
    elif match := re.match(r"nest it instead of dots: (.+)", remedy):
        _taken(document, place)
        _merge(value_at(document, tuple(place[:-1])), _value(f"{{{match[1]}}}"))
    elif match := re.match(
        r"add (\w+)(?:: (.+?))? (?:under ([\w.]+)|at the top)(?:: write (?:for example )?\w+: (.+))?", remedy
    ):
        text = match[2] or match[4]
        _put(document, [*_parts(match[3] or ""), match[1]], _longest(text, "")[1])
    elif match := re.match(r"move the list into the sweep: ([\w.]+): (.+)", remedy):
        values = _value(match[2])
        _put(document, place, values[0])
        document.setdefault("sweep", {})[match[1]] = values
    elif match := re.match(r"put it in quotes: (.+)", remedy):
        _put(document, place, json.loads(match[1]))
    elif not re.match("the (zip|list) ", remedy):
        _write(document, re.sub(r"^(write|add) (for example )?", "", remedy), at, place, error)


def _write(document: dict[str, Any], text: str, at: Path_, place: Path_, error: ScenarioError) -> None:
    """Write what comes after `write`: a value, or keys with their values, and take away what they replace."""
    rest, gone = text, re.search(r" in place of (.+?)(?: in the sweep|: |, or |$)", text)
    in_sweep = " in the sweep" in text or error.problem.startswith("must be a list of at least one value")
    in_tune = at[:2] == ["tune", "keys"]
    while rest:
        match = re.match(r"([A-Za-z_][\w.]*): ", rest)
        end, value = _longest(rest[match.end() :] if match else rest, error.remedy)
        rest = rest[(match.end() if match else 0) + end :]
        if match is None:
            _put(document, place, value)
        else:
            under = re.match(r" under ([\w.]+)", rest)
            named = [*_parts(under[1]), *_parts(match[1])] if under else _resolved(match[1], at, swept=in_sweep)
            target = ["tune", "keys", match[1]] if in_tune else _place(document, named)
            if gone:
                for name in re.split(r", | and ", gone[1]):
                    around = [
                        one for one in (at, at[:-1]) if value_at(document, (*one, name)) is not None and not in_sweep
                    ]
                    old = _place(document, [*around[0], name] if around else _resolved(name, at, swept=in_sweep))
                    if old != target and value_at(document, tuple(old)) is not None:
                        _taken(document, old)
            elif "key" in error.problem and target != place and value_at(document, tuple(place)) is not None:
                _taken(document, place)
            elif error.problem.startswith("the sweep names a path"):
                _taken(document, place)
                target = [*place[:-1], match[1]]
            _put(document, target, value)
        if without := re.match(r" without ([\w ]+)", rest):
            for name in without[1].split(" and "):
                value_at(document, tuple(target[:-1])).pop(name, None)
        more = re.match(r" and (?=[\w.]+: )", rest)
        rest = rest[more.end() :] if more else ""


def _longest(text: str, remedy: str) -> tuple[int, Any]:
    """The longest beginning of a text that is one value, and the value."""
    ends = [len(text), *(match.start() for match in reversed([*_NEXT.finditer(text)]))]
    ends += [match.start() for match in reversed([*re.finditer(r" and (?=[\w.]+: )", text)])]
    for end in sorted(set(ends), reverse=True):
        part = text[:end].strip()
        if not part or (part[0] not in '[{"' and re.search(r"[ ,]", part)):
            continue
        try:
            return end, _value(part)
        except ScenarioError:
            continue
    raise AssertionError(f"cannot be followed to the letter: {remedy or text}")


def _value(text: str) -> Any:
    marked = parse_yaml(f"value: {text}", file="remedy")
    assert marked is not None
    return marked.data["value"]


def _parts(key: str) -> Path_:
    return [int(part[1:-1]) if part[0] == "[" else part for part in re.findall(r"[^.\[\]]+|\[\d+\]", key)]


def _resolved(key: str, at: Path_, *, swept: bool = False) -> Path_:
    """The place of a key that a sentence about `at` names: from the top, or in the nearest section that has it."""
    names = [part for part in at if isinstance(part, str)]
    if swept:
        return ["sweep", key]
    if key.partition(".")[0] in Scenario.model_fields:
        return _parts(key)
    for depth in range(len(names), -1, -1):
        if ".".join((*names[:depth], key)) in schema_keys():
            return [*names[:depth], *_parts(key)]
    return [*at[:-1], *_parts(key)]


def _place(document: dict[str, Any], at: Path_) -> Path_:
    """A key path, or its place in the sweep if it is swept."""
    if value_at(document, tuple(at)) is not None:
        return at
    for depth in range(1, len(at)):  # a key that is written with dots
        if value_at(document, (*at[:depth], name := ".".join(map(str, at[depth:])))) is not None:
            return [*at[:depth], name]
    name = ".".join(str(part) for part in at if part != "sweep" and isinstance(part, str))
    for place, block in blocks_of(document.get("sweep")).items():
        for group_at, group in groups_of(block, place):
            if isinstance(group, dict) and name in group:
                return [*group_at, name]
    return at


def _taken(document: dict[str, Any], place: Path_) -> Any:
    section = value_at(document, tuple(place[:-1]))  # another error may have left the key out
    return section.pop(place[-1], None) if isinstance(section, dict) else section.pop(place[-1])


def _rename(section: dict[str, Any], old: str | int, new: str) -> None:
    items = {new if key == old else key: value for key, value in section.items()}
    section.clear()
    section.update(items)


def _put(document: Any, place: Path_, value: Any) -> None:
    for part in place[:-1]:
        inside = document.get(part) if isinstance(document, dict) else document[part]
        if not isinstance(inside, dict | list):
            tag = "kind" if part == "partition" else "name"
            document[part] = {tag: inside} if isinstance(inside, str) and inside != "none" else {}
        document = document[part]
    document[place[-1]] = value


def _merge(under: dict[str, Any], over: dict[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(under.get(key), dict):
            _merge(under[key], value)
        else:
            under[key] = value
