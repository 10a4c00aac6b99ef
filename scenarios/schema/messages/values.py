"""Values that a remedy writes in place of a wrong one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from phy.config.conflict import LeaveOut, Remedy, Say, Write, flow, listing
from scenarios.schema.errors import Change, KeyPath, ScenarioError, items_of, mapping, names_of, value_at
from scenarios.schema.labels.units import likely_unit, number_in, unit_of
from scenarios.schema.messages.following import change_of
from scenarios.schema.messages.forms import FORMS, LIMITS
from scenarios.schema.messages.nearest import nearest
from scenarios.schema.schema import validate_quickly
from scenarios.schema.schema_keys import TAGS, allows, choices, left_out_keys, owner_of, schema_keys
from scenarios.schema.shorthand import SECTIONS, USUAL_KINDS
from scenarios.schema.sweep import blocks_of, groups_of

MOST_ROUNDED = 1e9
"""Beyond this nobody means the next whole number."""

_OF_ROUNDS = ("test_accuracy", "validation_accuracy", "test_loss", "train_loss", "squared_error")
"""Metrics that every round has."""
_METRICS = {
    "flmc": ("mse", "squared_error"),
    "flip-moments": ("largest_mean_gap", "recovered_mean"),
    "bit-distance": ("kappa", "kappa"),
    "reconstruction": ("membership_auc", "membership_auc"),
}
"""A number of a whole trial and one of a round, by algorithm; others have an accuracy, and links a bit error rate."""


def example_of(name: str, document: Mapping[str, Any] | None = None, path: KeyPath = ()) -> Any:
    """A value of a key without a default, for figures of the algorithm and the sweep of a document."""
    if document is not None and name == "privacy" and owner_of(document, section="learning") != "flmc":
        return "none"
    if document is not None and name in ("report.figures.x", "report.figures.y", "report.figures.series"):
        figure = mapping(value_at(document, path[: path.index(name.rpartition(".")[2])]))
        blocks = [*blocks_of(document.get("sweep")).values()]
        swept = [one for block in blocks for _, group in groups_of(block, ()) for one in mapping(group)]
        if name == "report.figures.series":
            taken = (figure.get("x"), figure.get("panels"), *items_of(figure.get("series")))
            return next((one for one in swept if one not in taken), "label")
        of_link = "measure" in document and "learning" not in document
        if name == "report.figures.x":
            if of_link or figure.get("y") in _OF_ROUNDS:
                return "ebno_db" if of_link else "round"
            return next((one for one in swept if one != "label"), example_of(name))
        if of_link:
            return "bit_error_rate"
        of_trial, of_round = _METRICS.get(owner_of(document, section="learning"), ("test_accuracy",) * 2)
        return of_trial if figure.get("x") in schema_keys() else of_round
    if name in FORMS:
        return FORMS[name][1]
    key = schema_keys().get(name)
    return next((one.examples[0] for one in (key.definitions if key else ()) if one.examples), None)


def number_before(value: Any) -> int | float | None:
    """Return the number of a text that one or two letters follow, as in `50x`; None for other values."""
    match = re.fullmatch(r"\s*([-+]?[\d.]+(?:e[-+]?\d+)?)[^\d\s.,;:/%+-]{1,2}\s*", str(value).lower())
    return number_in(match[1]) if match and isinstance(value, str) else None


def is_reference(name: str) -> bool:
    """Return True for a key of the report that names a metric or a path, of which no number is one in quotes."""
    figure = ("x", "y", "series", "panels", "beside")
    return name in ("report.tables.metric", "tune.metric", *(f"report.figures.{key}" for key in figure))


def words_of_kinds(name: str) -> tuple[str, ...]:
    """The words that may stand in place of a section of several kinds, the usual first; empty for other keys."""
    path = tuple(name.split("."))
    if path not in SECTIONS or len(path) == 1:
        return ()
    words = choices(f"{name}.{SECTIONS[path]}")
    return tuple(dict.fromkeys([USUAL_KINDS.get(path, words[0]), *words]))


def _item_of(name: str) -> Any:
    """A value in a list, by the default or the example of the list."""
    key = schema_keys().get(name)
    lists = [*(one.default for one in key.definitions), example_of(name)] if key else []
    return next((one[0] for one in lists if isinstance(one, tuple | list) and one), None)


def by_example(path: KeyPath, remedy: Remedy, document: Mapping[str, Any]) -> tuple[Remedy, ...]:
    """Return the remedies for a wrong type by an example; without one, leave out a key that needs no value."""
    name = names_of(path)
    if type(path[-1]) is int:
        item = example_of(name, document, path) if name == "report.figures.series" else _item_of(name)
        return (remedy,) if item is None else (an_example(item),)
    if words := words_of_kinds(name):
        return (an_example(words[0]),)
    if (example := example_of(name, document, path)) is not None:
        return (an_example(example),)
    key = schema_keys().get(name)
    if key is None or any(one.is_required() for one in key.definitions):
        return (remedy,)
    return (Write({"": "none"}) if _has_none(name) else LeaveOut()), remedy


def _has_none(name: str) -> bool:
    """Return True for a key that may be left out, and for which `none` may be written instead."""
    return name in left_out_keys() and name.partition(".")[0] in ("link", "learning", "privacy", "tune")


def an_example(value: Any) -> Write:
    """Return the remedy that writes an example of a value in place of the wrong one."""
    return Write({"": value}, example=True)


def stand_in(remedies: Sequence[Remedy], path: KeyPath) -> Change:
    """The change of a remedy that leaves the value to the user: its example, or no value, in place of the wrong one."""
    change = change_of(remedies, path, known=schema_keys())
    new = tuple(one for one in change.new if one[0] == path) if change is not None else ()
    return Change(gone=(path,), new=new, sure=False)


def broken_limit(fields: Iterable[FieldInfo], value: Any) -> dict[str, Any] | None:
    """Return pydantic's error for a number beyond a limit of a key; None for another value, and where one allows it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    found: list[dict[str, Any]] = []
    for field in fields:
        kind: Any = Annotated[field.annotation, *field.metadata, None]
        try:
            TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            found += ({**one} for one in error.errors(include_url=False) if one["type"] in LIMITS)
        else:
            return None
    return next(iter(found), None)


def without_value(error: ScenarioError, read: Callable[[], Mapping[str, Any]]) -> ScenarioError:
    """The error of a key without a value, with a value to write where the key cannot be left out; others unchanged.

    `read` returns the file as far as it can be read.
    """
    if error.problem != "the key has no value" or error.key is None:
        return error
    path = re.sub(r"\[\d+\]", "", error.key)
    in_list = error.key.endswith("]") or ".at." in path
    name = path.removeprefix("sweep.").removeprefix("zip.")
    key = schema_keys().get(name)
    document = read() if name.startswith("report.figures.") else {}
    if document and "base" not in document:
        place = tuple(int(part) if part.isdecimal() else part for part in re.findall(r"\w+", error.key))
        if (example := example_of(name, document, place)) is not None:
            error.remedy = f"write for example {flow(example)}"
            return error
    if name == "learning.algorithm":  # its default fits few of the keys that are written beside another
        error.remedy = "write for example fedavg"
        return error
    if key is None or not (in_list or any(one.is_required() for one in key.definitions)):
        absent = key is not None and all(one.default is None for one in key.definitions)
        if absent and (usual := example_of(name)) is not None:  # who writes a key wants a value of it
            error.remedy = f"write for example {flow(usual)}, or leave the key out"
        error.remedy = "write a value" if in_list else error.remedy
        return error
    default = next((one.default for one in key.definitions if isinstance(one.default, int | float | str)), None)
    if error.key.endswith("]") and not error.key.startswith("sweep"):
        example = _item_of(name)
        error.remedy = "write a value" if example is None else f"write for example {flow(example)}"
        return error
    usual = USUAL_KINDS.get(tuple(name.split(".")), example_of(name)) if default in (None, "") else default
    example = "none" if name in left_out_keys() else usual
    error.remedy = "write a value" if example is None else f"write for example {flow(example)}"
    return error


def beyond(kind: str, name: str, item: dict[str, Any], field: FieldInfo | None) -> tuple[str, tuple[Remedy, ...], Any]:
    """Problem and remedies for a number beyond a limit, and the number that was likely meant."""
    leaf, default, example = name.rpartition(".")[2], getattr(field, "default", None), example_of(name)
    entry, bound, direction, holds = LIMITS[kind]
    limit, value = item["ctx"][entry], item["input"]
    limit = int(limit) if float(limit).is_integer() else limit
    problem, number = f"must be {bound} {limit}{unit_of(leaf)}", default if isinstance(default, float | int) else None
    if (near := likely_unit(leaf, value, holds=lambda one: holds(one, limit), usual=number)) is not None:
        return problem, (Say(f"write {near}"),), float(near.partition(" ")[0])
    words = [word for word in choices(name) if word in ("auto", "none", "measured")] if name in FORMS else []
    absent = field is not None and allows(field, None) and _has_none(name)
    words += ["none"] if absent and "none" not in words else []
    alone = (Say(listing(words)),) if words else ()
    if "none" in words and default is None and value == 0:  # 0 for none
        return problem, (Write({"": "none"}),), None
    example = number if example is None else example
    far = isinstance(value, float | int) and abs(value) > 100.0 * max(abs(limit), 1.0)  # a quotient is text
    if "none" in words and example is None and far:
        return problem, (Write({"": "none"}), Say(f"{limit} or {direction}")), None
    if isinstance(example, float | int) and holds(example, limit) and far:
        return problem, (an_example(example), *alone), None
    if isinstance(example, float | int) and holds(example, limit) and not (type(number) is int and holds(limit, limit)):
        return problem, (an_example(example), *alone), None
    if holds(limit, limit):
        return problem, (Write({"": limit}, note=f"or {direction}"), *alone), None
    return problem, (an_example(limit + 1 if holds(limit + 1, limit) else limit - 1), *alone), None


def in_a_mapping(path: KeyPath, value: Any, document: dict[str, Any]) -> dict[str, Any] | None:
    """The mapping that was meant by the value of one of its keys: `{code: ldpc5g}` by `ldpc5g`; None if unclear.

    A word means the key that has it as a choice, a list or a number the first required key that takes it.
    """
    name = names_of(path)
    if value is True and any(one.startswith(f"{name}.") for one in schema_keys()):
        return _completed(path, {}, document)
    if value is None or isinstance(value, dict | bool):
        return None
    inside = {one.rpartition(".")[2]: key for one, key in schema_keys().items() if one.rpartition(".")[0] == name}
    able: Iterator[tuple[str, Any]]
    if isinstance(value, str):
        near = ((key, nearest(value, choices(f"{name}.{key}"), least=0.7)) for key in inside)
        able = ((key, word) for key, word in near if word is not None)
    else:
        anyone = name not in FORMS and (isinstance(value, list) or len(path) > 1)
        takers = [(key, one) for key, one in inside.items() if any(allows(field, value) for field in one.definitions)]
        required = {key for key, one in takers if any(field.is_required() for field in one.definitions)}
        whole = {key for key, one in takers if any(type(field.default) is type(value) for field in one.definitions)}
        takers.sort(key=lambda taker: (taker[0] not in required, taker[0] not in whole))
        able = ((key, value) for key, _ in takers if anyone or key in required)
    if (found := next(able, None)) is None:
        return None
    tags = [tag for tag in TAGS if tag in inside and tag != found[0]]
    kind = dict(zip(tags[:1], inside[found[0]].variants, strict=False))
    return _completed(path, kind | dict([found]), document)


def _completed(path: KeyPath, section: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """A section with an example of each further key that it needs."""
    try:
        validate_quickly(with_value(document, path, section))
    except ValidationError as error:
        lacking = (str(one["loc"][-1]) for one in error.errors() if one["type"] == "missing")
        examples = ((key, example_of(f"{names_of(path)}.{key}")) for key in lacking)
        return section | {key: example for key, example in examples if example is not None}
    return section


def with_value(document: dict[str, Any], path: KeyPath, value: Any) -> dict[str, Any]:
    """A copy of a document with another value at a path."""
    tried = deepcopy(document)
    value_at(tried, path[:-1])[path[-1]] = value
    return tried
