"""Turn pydantic's list of errors into one ScenarioError, and follow its remedies to find the errors behind them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from pydantic import ValidationError

from scenarios.schema.errors import (
    MAX_SHOWN,
    Change,
    KeyPath,
    Mark,
    ScenarioError,
    conflict_of,
    dotted,
    mapping,
    mark_of,
    names_of,
    shorten,
    together,
    value_at,
)
from scenarios.schema.messages.following import follow
from scenarios.schema.messages.forms import FORMS, Diagnosis
from scenarios.schema.messages.kinds import of_other_kinds
from scenarios.schema.messages.nearest import nearest
from scenarios.schema.schema import Scenario, validate_quickly
from scenarios.schema.schema_keys import OWNERS, left_out_keys, schema_keys
from scenarios.schema.shorthand import normalise

_PASSES = 4
"""Times that a document is corrected and read again."""


Answering = Callable[..., Diagnosis]
"""`remedies.answer`: path and error of pydantic -> problem and remedy."""


class Examined(NamedTuple):
    """All errors of a document, the number of those beyond the ones shown, and the scenario that was meant.

    `scenario` is None if nothing valid is left. `document` follows every remedy; what has none is left out, and its
    paths are `lost`.
    """

    errors: list[ScenarioError]
    unseen: int
    document: dict[str, Any]
    marks: dict[KeyPath, Mark]
    scenario: Scenario | None
    lost: set[KeyPath]


def explain(
    error: ValidationError,
    *,
    answer: Answering,
    document: dict[str, Any],
    marks: Mapping[KeyPath, Mark],
    prefer: Collection[KeyPath] = (),
) -> ScenarioError:
    """Return all errors as one ScenarioError, sorted by line.

    `marks` holds the place of each value of `document`. An error about several keys names one of `prefer` (the swept
    paths) before the others.
    """
    found = examine(error, answer=answer, document=document, marks=marks, prefer=prefer)
    return together(found.errors, unseen=found.unseen)


def explain_within(
    error: ValidationError,
    paths: Collection[KeyPath],
    *,
    answer: Answering,
    document: dict[str, Any],
    marks: Mapping[KeyPath, Mark],
) -> list[ScenarioError]:
    """Return the errors at or below some paths."""
    found = _by_path(error, document)
    inside = {path: item for path, item in found.items() if any(path[: len(one)] == one for one in paths)}
    return [
        _as_error(one, marks=marks)
        for one in _answers(inside, answer=answer, document=document, marks=marks, prefer=())[0]
    ]


def examine(
    error: ValidationError,
    *,
    answer: Answering,
    document: dict[str, Any],
    marks: Mapping[KeyPath, Mark],
    prefer: Collection[KeyPath] = (),
) -> Examined:
    """Explain the errors of a document, and those that show once their remedies are followed."""
    places, corrected = dict(marks), deepcopy(document)
    errors: list[ScenarioError] = []
    reported: set[tuple[KeyPath, str]] = set()
    dropped: set[KeyPath] = set()
    lost: set[KeyPath] = set()
    unseen, scenario = 0, None
    for number in range(_PASSES):
        found = _by_path(error, corrected)
        if number + 1 < _PASSES and any(item["type"] == "extra_forbidden" for item in found.values()):
            # What several keys say together is only known once misspelt ones have their names.
            found = {path: item for path, item in found.items() if item["type"] != "value_error"}
        # What follows from a section that lacks a key, because its value was wrong, is no mistake of the user.
        fresh = {
            path: item
            for path, item in found.items()
            if (path, _sentence(item)) not in reported
            and path not in dropped
            and path[:-1] not in dropped
            and not any((path[:at], "") in reported for at in range(1, len(path)) if type(path[at]) is int)
            and not _follows(path, item, lost)
        }
        answers, more = _answers(fresh, answer=answer, document=corrected, marks=places, prefer=prefer)
        errors += [_as_error(one, marks=places) for one in answers]
        unseen += more
        reported |= {(path, _sentence(item)) for path, item in fresh.items()}
        for change in (one.change for one in answers):
            follow(change, corrected, places, tags=OWNERS)
            lost |= set() if change.sure else set(change.gone)
            dropped |= set() if change.sure else {_around(path) for path in change.gone}
        for path in found.keys() - fresh.keys():
            path = path if value_at(corrected, path) is not None else path[:-1] or path
            follow(Change(gone=(path or (str(next(iter(corrected))),),)), corrected, places, tags=OWNERS)
            dropped.add(path)
            lost.add(path)
        normalise(corrected, left_out=left_out_keys())
        try:
            scenario = validate_quickly(corrected)
            break
        except ValidationError as further:
            error = further
    return Examined(errors, unseen, corrected, places, scenario, lost)


def _sentence(item: Mapping[str, Any]) -> str:
    """The sentence of a conflict within a section, which may have several; empty for the error of a value."""
    return str(item["msg"]) if item["type"] == "value_error" else ""


def _follows(path: KeyPath, item: Mapping[str, Any], lost: Collection[KeyPath]) -> bool:
    """Return True for a conflict within a section that names a lost key inside, or a section around it."""
    keys = conflict_of(item["ctx"]["error"]).named if item["type"] == "value_error" else ()
    named = {part for key in keys for part in key.split(".")}
    return any(one[: len(path)] == path and not named.isdisjoint(map(str, one[len(path) :])) for one in lost)


def _around(path: KeyPath) -> KeyPath:
    """The section that lacks a key once its value is left out; an unknown key itself, which no section lacks."""
    return path[:-1] if names_of(path) in schema_keys() else path


def _by_path(error: ValidationError, document: dict[str, Any]) -> dict[KeyPath, dict[str, Any]]:
    found: dict[KeyPath, dict[str, Any]] = {}
    for item in error.errors(include_url=False):
        found.setdefault(_without_union_tags(item["loc"], document, item["type"]), {**item})
    return found


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


def _answers(
    found: Mapping[KeyPath, dict[str, Any]],
    *,
    answer: Answering,
    document: dict[str, Any],
    marks: Mapping[KeyPath, Mark],
    prefer: Collection[KeyPath],
) -> tuple[list[Diagnosis], int]:
    """Return answers to the errors of `found`, at most MAX_SHOWN by line, and the number of the others."""
    around = {path[:length] for path in found for length in range(len(path))}
    # The error of the intended member of a union says more than that of the union, and a list of which every item is
    # wrong is not too short.
    left = {
        path: item
        for path, item in found.items()
        if not (path in around and (names_of(path) in FORMS or item["type"] == "too_short"))
    }
    left = _of_whole_sections(left, document)
    missing = {path for path, item in left.items() if item["type"] == "missing"}
    answers, explained = of_other_kinds(
        [path for path, item in left.items() if item["type"] == "extra_forbidden"], document
    )
    paths = sorted((path for path in left if path not in explained), key=lambda path: mark_of(path, marks)[1] or 0)
    # Each sentence takes milliseconds to find the nearest key.
    answers += [
        _of_card(path, missing, document) or answer(path, left[path], document=document, written=marks, prefer=prefer)
        for path in paths[:MAX_SHOWN]
    ]
    meant = {path for one in answers if one.path not in missing for path, _ in one.change.new}
    answers = [one for one in answers if one.path not in missing or not _is_written(one.path, meant)]
    return answers, len(paths[MAX_SHOWN:])


def _of_whole_sections(found: dict[KeyPath, dict[str, Any]], document: dict[str, Any]) -> dict[KeyPath, dict[str, Any]]:
    """Errors with one for a section that has none of its keys in place of one for each key that it lacks or has."""
    unknown = {path for path, item in found.items() if item["type"] == "extra_forbidden"}
    whole = {
        path[:-1]
        for path, item in found.items()
        if item["type"] == "missing" and names_of(path[:-1]) in FORMS and _all_in(path[:-1], unknown, document)
    }
    of_whole = {path: {"type": "no_known_key", "input": value_at(document, path)} for path in whole}
    return {path: item for path, item in found.items() if path[:-1] not in whole} | of_whole


def _all_in(section: KeyPath, unknown: set[KeyPath], document: dict[str, Any]) -> bool:
    """Return True if a section has keys, none of which is known or near a known one."""
    inside = [one.rpartition(".")[2] for one in schema_keys() if one.rpartition(".")[0] == names_of(section)]
    keys = [*mapping(value_at(document, section))]
    return bool(keys) and all((*section, key) in unknown and nearest(key, inside) is None for key in keys)


def _of_card(path: KeyPath, missing: Collection[KeyPath], document: dict[str, Any]) -> Diagnosis | None:
    """The missing key that was meant in the card of a reference check, whose keys the schema of scenarios lacks."""
    lacking = nearest(path[-1], (str(one[-1]) for one in missing if one[:-1] == path[:-1]))
    if path in missing or path[0] != "card" or lacking is None:
        return None
    change = Change(gone=(path,), new=(((*path[:-1], lacking), value_at(document, path)),))
    remedy = f"did you mean {dotted((*path[:-1], lacking))}"
    return Diagnosis(path, "unknown key", remedy, change, shorten(value_at(document, path)))


def _is_written(missing: KeyPath, meant: Iterable[KeyPath]) -> bool:
    """Return True if a key that is meant is the missing one, or one of its name in a section beside it."""
    depth = len(missing) - 1
    return any(path[:depth] == missing[:-1] and len(path) > depth and path[-1] == missing[-1] for path in meant)


def _as_error(one: Diagnosis, *, marks: Mapping[KeyPath, Mark]) -> ScenarioError:
    file, line = mark_of(one.path, marks)
    key = dotted(one.path)
    return ScenarioError(
        problem=one.problem, remedy=one.remedy, file=file, line=line, key=key, value=one.value, change=one.change
    )
