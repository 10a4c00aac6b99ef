"""Turn pydantic's list of errors into one ScenarioError."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from pydantic import ValidationError

from phy.config.conflict import problem_and_remedy
from scenarios.schema.errors import (
    MAX_SHOWN,
    KeyPath,
    Mark,
    ScenarioError,
    dotted,
    flow,
    listing,
    mark_of,
    names_of,
    needs_quotes,
    shorten,
    together,
    value_at,
)
from scenarios.schema.labels.forms import FORMS, LENGTHS, LIMITS, TYPES, pattern_of, share_of_devices
from scenarios.schema.labels.units import in_unit_of, likely_unit
from scenarios.schema.nearest import nearest
from scenarios.schema.schema import validate_quickly
from scenarios.schema.schema_keys import SECTIONS, TAGS, choices, schema_keys, unknown_key

_SWEPT = ("link.", "learning.", "privacy.")


def explain(
    error: ValidationError,
    *,
    document: dict[str, Any],
    marks: Mapping[KeyPath, Mark],
    prefer: Collection[KeyPath] = (),
) -> ScenarioError:
    """Return all errors as one ScenarioError, sorted by line.

    `marks` holds the place of each value of `document`. An error about several keys names one of `prefer` (the swept
    paths) before the others.
    """
    errors, unseen = _explained(_by_path(error, document), document=document, marks=marks, prefer=prefer)
    return together(errors, unseen=unseen)


def explain_within(
    error: ValidationError, paths: Collection[KeyPath], *, document: dict[str, Any], marks: Mapping[KeyPath, Mark]
) -> list[ScenarioError]:
    """Return the errors at or below some paths."""
    found = _by_path(error, document)
    inside = {path: item for path, item in found.items() if any(path[: len(one)] == one for one in paths)}
    return _explained(inside, document=document, marks=marks, prefer=())[0]


def _explained(
    found: dict[KeyPath, dict[str, Any]],
    *,
    document: dict[str, Any],
    marks: Mapping[KeyPath, Mark],
    prefer: Collection[KeyPath],
) -> tuple[list[ScenarioError], int]:
    named = _kinds(found, document)
    kept = {path: item for path, item in found.items() if path[:-1] not in named or path == named[path[:-1]].written}
    errors, unseen = _sentences(kept, document=document, marks=marks, prefer=prefer)
    if named:
        # The keys of a section are read only once its kind is known.
        corrected = deepcopy(document)
        for path, kind in named.items():
            section = value_at(corrected, path)
            section.pop(kind.written[-1], None)
            section[kind.key] = kind.word
        try:
            validate_quickly(corrected)
        except ValidationError as second:
            further = {
                path: item
                for path, item in _by_path(second, corrected).items()
                if any(path[: len(one)] == one for one in named)
            }
            errors += _sentences(further, document=corrected, marks=marks, prefer=prefer)[0]
    # A misspelt key is not missing.
    meant = {error.remedy.rpartition(" ")[2] for error in errors}
    errors = [one for one in errors if one.problem != "the key is missing" or not _written_as(one.key or "", meant)]
    return errors, unseen


def _by_path(error: ValidationError, document: dict[str, Any]) -> dict[KeyPath, dict[str, Any]]:
    found: dict[KeyPath, dict[str, Any]] = {}
    for item in error.errors(include_url=False):
        found.setdefault(_without_union_tags(item["loc"], document, item["type"]), {**item})
    return found


def _sentences(
    found: Mapping[KeyPath, dict[str, Any]],
    *,
    document: dict[str, Any],
    marks: Mapping[KeyPath, Mark],
    prefer: Collection[KeyPath],
) -> tuple[list[ScenarioError], int]:
    """One error for each path of `found`, at most MAX_SHOWN, and the number of the others."""
    around = {path[:length] for path in found for length in range(len(path))}
    # The error of the intended member of a union says more than that of the union, and a list of which every item is
    # wrong is not too short.
    paths = [
        path
        for path in found
        if not (path in around and (names_of(path) in FORMS or found[path]["type"] == "too_short"))
    ]
    paths.sort(key=lambda path: mark_of(path, marks)[1] or 0)
    # Each sentence takes milliseconds to find the nearest key.
    shown = [_as_error(path, found[path], document=document, marks=marks, prefer=prefer) for path in paths[:MAX_SHOWN]]
    return shown, len(paths[MAX_SHOWN:])


class _Kind(NamedTuple):
    """The likeliest kind of a section whose kind is wrong: `key: word` in place of what is at `written`."""

    written: KeyPath
    key: str
    word: str


def _kinds(found: Mapping[KeyPath, dict[str, Any]], document: dict[str, Any]) -> dict[KeyPath, _Kind]:
    """The likeliest kinds by the paths of their sections."""
    kinds = {}
    for path, item in found.items():
        section, context = value_at(document, path), item.get("ctx", {})
        if item["type"] == "extra_forbidden" and (tag := _selector(names_of(path), item["input"])) in TAGS:
            kinds[path[:-1]] = _Kind(path, str(tag), item["input"])
        if not isinstance(section, dict):
            continue
        if item["type"] == "no_word" and (kind := _misnamed(section, context)) is not None:
            kinds[path] = _Kind((*path, kind[1]), context["tag"], kind[0])
        elif item["type"] == "union_tag_invalid":
            tag = context["discriminator"].strip("'")
            tag = tag if tag.isidentifier() else SECTIONS[str(path[0])][0]
            if (near := nearest(context["tag"], _words(context["expected_tags"]))) is not None:
                kinds[path] = _Kind((*path, tag), tag, near)
    return kinds


def _misnamed(section: Mapping[str, Any], context: Mapping[str, str]) -> tuple[str, str] | None:
    """The kind of a section that the user wrote under another key, and that key."""
    words = context["words"].split(", ")
    written = ((nearest(word, words, least=0.8), key) for key, word in section.items() if isinstance(word, str))
    return next(((near, key) for near, key in written if near is not None), None)


def _written_as(missing: str, meant: Collection[str]) -> bool:
    """Return True if a key that is meant is the missing one, or one of its name in a section beside it."""
    section, _, leaf = missing.rpartition(".")
    return any(key.startswith(f"{section}.") and key.endswith(f".{leaf}") for key in meant) or missing in meant


def _without_union_tags(loc: tuple[str | int, ...], document: Any, kind: str) -> KeyPath:
    """Drop the members of unions that pydantic puts into a path: they are no keys of the document."""
    path: list[str | int] = []
    for number, part in enumerate(loc):
        found = value_at(document, (part,)) if type(document) in (dict, list) else None
        inside = found is not None
        if inside:
            document = found
        if inside or (kind == "missing" and number == len(loc) - 1):
            path.append(part)
    return tuple(path)


def _as_error(
    path: KeyPath,
    item: dict[str, Any],
    *,
    document: dict[str, Any],
    marks: Mapping[KeyPath, Mark],
    prefer: Collection[KeyPath],
) -> ScenarioError:
    kind = item["type"]
    if kind == "value_error":
        problem, remedy = problem_and_remedy(item["ctx"]["error"])
        # Of several keys in the sentence, name the first that the user wrote, swept keys before others.
        words = re.findall(r"[a-z_0-9]+(?:\.[a-z_0-9]+)*", problem)
        written = [key for word in words if (key := (*path, *word.split("."))) in marks]
        path = min(written, key=lambda one: one not in prefer, default=path)
    elif kind == "no_word":
        tag, section = item["ctx"]["tag"], value_at(document, path)
        problem, remedy = f"the key {tag} is missing", f"add {tag}: {listing(item['ctx']['words'].split(', '))}"
        if (near := _misnamed(section, item["ctx"])) is not None:
            remedy = f"write {tag}: {near[0]} in place of {near[1]}: {section[near[1]]}"
    elif kind == "union_tag_invalid":
        named = item["ctx"]["discriminator"].strip("'")
        path = next((tag for name in (*TAGS, named) if (tag := (*path, name)) in marks), path)
        problem, remedy = _choice(item["ctx"]["expected_tags"], item["ctx"]["tag"])
        if path[:1] == ("learning",) and path[1:2] != ("task",) and "these words" in remedy:
            remedy += ", or a plug-in of your own (docs/plugins.md)"
    else:
        problem, remedy = _sentence(kind, path, item, document)
    value = item["ctx"]["tag"] if kind == "union_tag_invalid" else value_at(document, path)
    if kind in ("extra_forbidden", "value_error") and isinstance(value, dict | list):
        value = None  # the error is about the key, not about its contents
    file, line = mark_of(path, marks)
    return ScenarioError(problem=problem, remedy=remedy, file=file, line=line, key=dotted(path), value=value)


def _owner(path: KeyPath, document: dict[str, Any]) -> str:
    """The algorithm or mechanism of the section around `path`; empty for the other sections."""
    if not path or path[0] not in SECTIONS:
        return ""
    tag, usual = SECTIONS[str(path[0])]
    section = document.get(str(path[0]))
    return str(section.get(tag, usual)) if isinstance(section, dict) else usual


def _variant(path: KeyPath, document: dict[str, Any]) -> str:
    """The word that selects the kind of the mapping around `path`."""
    section = value_at(document, path[:-1])
    return next((str(section[tag]) for tag in TAGS if tag in section), "") if isinstance(section, dict) else ""


def _words(expected: str) -> list[str]:
    # A privacy section without `mechanism` has the tag `amplitude`, which nobody writes.
    return [word for word in re.findall(r"'([^']*)'", expected) if word != "amplitude" and " " not in word]


def _choice(expected: str, given: object) -> tuple[str, str]:
    words = _words(expected)
    if not words:  # numbers, which pydantic does not quote
        return f"must be {expected}", "write one of these numbers"
    near = nearest(given, words)
    return f"must be {listing(words)}", f"did you mean {near}" if near else "write one of these words"


def _sentence(kind: str, path: KeyPath, item: dict[str, Any], document: dict[str, Any]) -> tuple[str, str]:
    """Problem and remedy of an error that pydantic reports by its kind."""
    name, value, leaf = names_of(path), item["input"], path[-1] if path else ""
    owner, variant = _owner(path, document), _variant(path, document)
    if kind == "extra_forbidden":
        if isinstance(leaf, str) and "." in leaf:
            nested = f"{leaf.replace('.', ': {')}: ...{'}' * leaf.count('.')}"
            return "unknown key", f"nest it instead of dots: {nested}"
        section, beside = f"{path[0]}.", value_at(document, path[:-1])
        written = {f"{name.rpartition('.')[0]}.{key}" for key in beside or ()}
        known = [
            one for one, key in schema_keys().items() if not owner or owner in key.fields or not one.startswith(section)
        ]
        if (tag := _selector(name, value)) is not None:
            return "unknown key", f"write {tag}: {value} in place of {leaf}: {value}"
        return "unknown key", unknown_key(name, among=known, value=value, written=written)
    if kind == "missing":
        where = f"under {dotted(path[:-1])}" if path[:-1] else "at the top"
        if name in FORMS:
            return "the key is missing", f"add {leaf} {where}: {FORMS[name][1]}"
        words = choices(name)
        return "the key is missing", f"add {leaf}: {listing(words)}{' ' * bool(words)}{where}"
    if name.endswith(".devices_per_round"):
        return FORMS[name][0], share_of_devices(value, value_at(document, ("learning", "num_devices"))) or FORMS[name][
            1
        ]
    if name in FORMS:
        return FORMS[name]
    if kind == "literal_error":
        problem, remedy = _choice(item["ctx"]["expected"], value)
        beside = _selector(name, value)
        return problem, f"write {beside}: {value} in place of {leaf}: {value}" if beside else remedy
    if kind == "string_pattern_mismatch":
        return pattern_of(name)
    if kind in LENGTHS:
        problem, remedy = LENGTHS[kind]
        return problem.format(**item["ctx"]), remedy
    key = schema_keys().get(name)
    default = getattr(key.meant(variant, owner), "default", None) if key is not None else None
    usual = isinstance(default, int | float | str) and default != ""
    if kind in LIMITS:
        entry, bound, direction, holds = LIMITS[kind]
        limit = item["ctx"][entry]
        limit = int(limit) if float(limit).is_integer() else limit
        number = default if isinstance(default, float | int) else None
        if (near := likely_unit(str(leaf), value, holds=lambda one: holds(one, limit), usual=number)) is not None:
            return f"must be {bound} {limit}", f"write {near}"
        more = f" (the default is {flow(default)})" if usual else ""
        return f"must be {bound} {limit}", f"write a {direction} value{more}"
    if kind not in TYPES:
        return item["msg"][:1].lower() + item["msg"][1:], "see the documentation of this key"
    problem, remedy = TYPES[kind]
    if kind == "tuple_type" and name == "measure.values":
        return f"{problem} or a range", "write for example {start: 0, stop: 20, step: 2}"
    if isinstance(value, list) and key is not None and dotted(path) == name and name.startswith(_SWEPT):
        return problem, f"write one value, or move the list into the sweep: {name}: {shorten(value)}"
    if kind == "float_type" and (converted := in_unit_of(str(leaf), value)) is not None:
        return f"{problem} without a unit", f"write {converted}"
    if isinstance(value, str) and kind in ("float_type", "int_type") and needs_quotes(value) and value.strip():
        return f"{problem}, not text", f"write {value.strip()} without quotes"
    if kind == "int_type" and isinstance(value, float) and value.is_integer():
        return problem, f"write {int(value)}"
    if kind == "string_type" and not isinstance(value, dict | list):
        return problem, f'put it in quotes: "{flow(value)}"'
    return problem, f"write for example {flow(default)}" if usual else remedy


def _selector(path: str, value: object) -> str | None:
    """The key beside an unknown one that takes its `value` as a word, as `kind` beside `name: labels`; None without."""
    section = path.rpartition(".")[0]
    if value in ("auto", "none"):  # words of many keys
        return None
    beside = (one for one in schema_keys() if one.rpartition(".")[0] == section and one != path)
    return next((one.rpartition(".")[2] for one in beside if isinstance(value, str) and value in choices(one)), None)
