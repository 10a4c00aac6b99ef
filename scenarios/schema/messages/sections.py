"""Sections that a user meant by one of their values."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from scenarios.schema.errors import KeyPath, names_of, value_at
from scenarios.schema.messages.forms import FORMS
from scenarios.schema.messages.nearest import nearest
from scenarios.schema.messages.values import example_of
from scenarios.schema.schema import validate_quickly
from scenarios.schema.schema_keys import TAGS, allows, choices, schema_keys


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
