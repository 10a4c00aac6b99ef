"""Pydantic's report as one sentence: what is wrong, where, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenarios.schema.errors import KeyPath, Mark, ScenarioError, dotted, flow, listing, mark_of, needs_quotes, value_at
from scenarios.schema.schema_keys import SECTIONS, TAGS, schema_keys, unknown_key

# Unions, whose every member complains: what the user may write, and an example.
_FORMS = {
    "privacy": ("must be none or a mapping with epsilon", "write none, or {epsilon: 5, delta: 0.01}"),
    "privacy.kappa": ("must be a number above 0, or measured", "write for example 0.02, or measured"),
    "link.csi": (
        "must be perfect or a mapping with error_variance or estimator",
        "write perfect, {error_variance: 0.01} or {estimator: ls}",
    ),
    "link.coding": (
        "must be none or a mapping with code",
        "write none, or {code: ldpc5g, rate: 1/2}",
    ),
    "link.ofdm": (
        "must be none or a mapping",
        "write none, or {num_subcarriers: 72, subcarrier_spacing_hz: 15e3}",
    ),
    "link.channel.gain": (
        "must be a number above 0, or a list of such numbers, one per device",
        "write for example 0.04",
    ),
    "link.channel.cell.positions_m": (
        "must be a list of [x, y] in metres within 100 km, one per device",
        "write for example [[40, 30], [-80, 10]]",
    ),
    "link.coding.block_length": (
        "must be auto or a whole number of bits from 8 to 8448",
        "write auto, or for example 1024",
    ),
    "link.ofdm.guard_carriers": (
        "must be a list of two whole numbers, guards on the left and on the right",
        "write for example [5, 6]",
    ),
    "learning.step_size": ("must be a number above 0, or auto", "write for example 1e-4, or auto"),
    "learning.task": (
        "must be gaussian-linear or logistic, or a mapping with that name",
        "write for example gaussian-linear",
    ),
    "learning.downlink": (
        "must be ideal or a mapping that describes a link",
        "write ideal, or {power: {snr_max_db: 20}}",
    ),
    "report.figures.series": (
        "must be a dotted path or a list of them",
        "write for example learning.scheme",
    ),
    "report.tables.published.values": (
        "must be a number or a list of numbers",
        "write for example 85, or [49, 81, 85]",
    ),
    "measure.bits_per_batch": (
        "must be auto or a whole number of bits",
        "write auto, or for example 1000000",
    ),
    "sweep": (
        "must be a mapping of dotted paths to lists, or a list of such mappings",
        "write for example learning.scheme: [analog, digital]",
    ),
}

_TYPES = {
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping of keys to values",
}

_EXAMPLES = {
    "model_type": "write key: value pairs below it",
    "dict_type": "write path: [value, value] below it",
    "tuple_type": "write it in brackets: [...]",
    "list_type": "write it in brackets: [...]",
}

_LIMITS = {
    "greater_than": ("gt", "above", "larger"),
    "greater_than_equal": ("ge", "at least", "larger"),
    "less_than": ("lt", "below", "smaller"),
    "less_than_equal": ("le", "at most", "smaller"),
}

_ERRORS_COMPARED = 5
"""Sentences made of the first errors, to find the first of all; of the rest of a file of nonsense only the number."""


def explain(
    error: ValidationError,
    *,
    document: dict[str, Any],
    marks: Mapping[KeyPath, Mark],
    prefer: Collection[KeyPath] = (),
) -> ScenarioError:
    """The first error (by line) as a ScenarioError, with a count of the others.

    `marks` tells where each value of `document` was written. Where an error lies between several
    keys, one of `prefer` (the swept paths) is blamed before the others.
    """
    found: dict[KeyPath, dict[str, Any]] = {}
    for item in error.errors(include_url=False):
        path = _without_union_tags(item["loc"], document, item["type"])
        found.setdefault(path, {**item})
    around = {path[:length] for path in found for length in range(len(path))}
    # Where the member of a union that is meant is known, its own complaint says more.
    paths = [path for path in found if not (path in around and _name(path) in _FORMS)]
    paths.sort(key=lambda path: _place(mark_of(path, marks)))
    told = [
        _told(path, found[path], document=document, marks=marks, prefer=prefer) for path in paths[:_ERRORS_COMPARED]
    ]
    first = min(told, key=lambda one: _place((one.file, one.line)))
    if len(paths) > 1:
        others = len(paths) - 1
        first.remedy += f" ({others} more error{'s' if others > 1 else ''} to mend after this)"
    return first


def _place(mark: tuple[Path | str | None, int | None]) -> tuple[str, int]:
    return str(mark[0]), mark[1] or 0


def _name(path: KeyPath) -> str:
    return ".".join(part for part in path if isinstance(part, str))


def _without_union_tags(loc: tuple[str | int, ...], document: Any, kind: str) -> KeyPath:
    """pydantic puts the tried member of a union into the path; the document tells which parts are keys."""
    path: list[str | int] = []
    for number, part in enumerate(loc):
        inside = (isinstance(document, dict) and part in document) or (
            isinstance(document, list) and isinstance(part, int) and part < len(document)
        )
        if inside:
            document = document[part]
            path.append(part)
        elif kind == "missing" and number == len(loc) - 1:
            path.append(part)
    return tuple(path)


def _told(
    path: KeyPath,
    item: dict[str, Any],
    *,
    document: dict[str, Any],
    marks: Mapping[KeyPath, Mark],
    prefer: Collection[KeyPath],
) -> ScenarioError:
    kind = item["type"]
    if kind == "value_error":
        problem, _, remedy = str(item["ctx"]["error"]).partition("; ")
        path = _blamed(path, problem, marks, prefer)
        remedy = remedy or "change one of them"
    elif kind == "union_tag_invalid":
        path = next((tag for name in TAGS if (tag := (*path, name)) in marks), path)
        item = {"ctx": {"expected": item["ctx"]["expected_tags"]}, "input": item["ctx"]["tag"]}
        problem, remedy = _choice(item)
    else:
        problem, remedy = _sentence(kind, path, item, owner=_owner(path, document), variant=_variant(path, document))
    value = value_at(document, path)
    if kind in ("extra_forbidden", "value_error") and isinstance(value, dict | list):
        value = None  # the key is the trouble, not what is in it
    if kind == "union_tag_invalid":
        value = item["input"]
    file, line = mark_of(path, marks)
    return ScenarioError(problem=problem, remedy=remedy, file=file, line=line, key=dotted(path), value=value)


def _blamed(
    path: KeyPath,
    problem: str,
    marks: Mapping[KeyPath, Mark],
    prefer: Collection[KeyPath],
) -> KeyPath:
    """The written key that a sentence about several keys speaks of first, swept ones before others."""
    named = [(*path, *word.split(".")) for word in re.findall(r"[a-z_0-9]+(?:\.[a-z_0-9]+)*", problem)]
    candidates = [key for key in named if key in marks]
    return min(candidates, key=lambda one: one not in prefer, default=path)


def _owner(path: KeyPath, document: dict[str, Any]) -> str:
    """The algorithm or mechanism of the section that `path` lies in; empty in the others."""
    if not path or path[0] not in SECTIONS:
        return ""
    tag, usual = SECTIONS[str(path[0])]
    section = document.get(str(path[0]))
    return str(section.get(tag, usual)) if isinstance(section, dict) else usual


def _variant(path: KeyPath, document: dict[str, Any]) -> str:
    """The word of the section that `path` is directly in."""
    section = value_at(document, path[:-1])
    return next((str(section[tag]) for tag in TAGS if tag in section), "") if isinstance(section, dict) else ""


def _choice(item: dict[str, Any]) -> tuple[str, str]:
    # The bound of flmc is what a privacy section without `mechanism` is: a word that nobody writes.
    named = re.findall(r"'([^']*)'", item["ctx"]["expected"])
    choices = [word for word in named if word != "amplitude" and " " not in word]
    if not choices:  # numbers, which pydantic leaves without quotes
        return f"must be {item['ctx']['expected']}", "write one of these numbers"
    near = get_close_matches(str(item["input"]), choices, n=1, cutoff=0.5)
    return f"must be {listing(choices)}", f"did you mean {near[0]}" if near else "write one of these words"


def _sentence(kind: str, path: KeyPath, item: dict[str, Any], *, owner: str, variant: str) -> tuple[str, str]:
    """What is wrong and what to do about it; the key is part of `owner`, an algorithm or mechanism, and `variant`."""
    name, value = _name(path), item["input"]
    key = schema_keys().get(name)
    default = getattr(key.meant(variant, owner), "default", None) if key is not None else None
    usual = isinstance(default, int | float | str) and default != ""
    if kind == "extra_forbidden":
        if isinstance(path[-1], str) and "." in path[-1]:
            return (
                "unknown key",
                f"nest it instead of dots: {path[-1].replace('.', ': {')}: ...{'}' * path[-1].count('.')}",
            )
        in_section = [one for one, key in schema_keys().items() if owner in key.fields] if owner else None
        return "unknown key", unknown_key(name, among=in_section)
    if kind == "missing":
        parent = dotted(path[:-1])
        return (
            "it is needed and missing",
            f"add {path[-1]}: under {parent}" if parent else f"add {path[-1]}: at the top",
        )
    if name in _FORMS:
        return _FORMS[name]
    if kind == "literal_error":
        return _choice(item)
    if kind == "string_pattern_mismatch" and name.endswith(".function"):
        return "must be module:function", "write for example my_package.models:build"
    if kind == "too_long":
        return f"must have at most {item['ctx']['max_length']} entries", "shorten it"
    if kind == "string_too_long":
        return f"must have at most {item['ctx']['max_length']} characters", "shorten it"
    if kind == "string_too_short":
        return "must not be empty", "write what it says"
    if kind == "string_pattern_mismatch" and (name.endswith(".digest") or name.startswith("code")):
        return "must be a SHA-256 of 64 hexadecimal digits", "leave it out: phyloop run writes it"
    if kind == "string_pattern_mismatch":
        return (
            "must be 1 to 80 letters, digits, dots, dashes or underscores, the first a letter or digit",
            "write for example my-study_2",
        )
    if kind in _LIMITS:
        entry, words, direction = _LIMITS[kind]
        limit = item["ctx"][entry]
        limit = int(limit) if float(limit).is_integer() else limit
        hint = f" (the default is {flow(default)})" if usual else ""
        return f"must be {words} {limit}", f"write a {direction} value{hint}"
    problem = _TYPES.get(kind)
    if problem is None:
        return item["msg"][:1].lower() + item["msg"][1:], "see the documentation of this key"
    if isinstance(value, str) and kind in ("float_type", "int_type") and needs_quotes(value) and value.strip():
        return f"{problem}, not text", f"write {value.strip()} without quotes"
    if kind == "int_type" and isinstance(value, float) and value.is_integer():
        return problem, f"write {int(value)}"
    if kind == "string_type" and not isinstance(value, dict | list):
        return problem, f'put it in quotes: "{flow(value)}"'
    return problem, f"write for example {flow(default)}" if usual else _EXAMPLES.get(kind, "write one")
