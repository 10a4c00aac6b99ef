"""The list that a user most likely meant by another value in a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from phy.config.conflict import flow
from scenarios.schema.errors import mapping, shorten
from scenarios.schema.labels.units import range_in
from scenarios.schema.schema import ValueRange

_MOST_OF_PRODUCT = 24
"""Mappings that a remedy writes out."""


def list_remedy(path: str, values: Any) -> str:
    """Return the remedy for a swept path whose value is no list: a range, keys one inside the other, or one value."""
    if values in ([], {}):
        return "add values, or leave it out"
    values = range_in(values) or values
    if not mapping(values):
        return f"write {path}: [{shorten(values)}]"
    try:
        levels = ValueRange.model_validate(values).listed()
        return f"write {path}: {flow([int(one) if one.is_integer() else one for one in levels])}"
    except ValidationError:
        nested = [f"{key}: {flow(items)}" for key, items in _lists(path, values)]
        return (
            f"write {' and '.join(nested)} in place of {path} in the sweep"
            if nested
            else f"write {path}: [{shorten(values)}]"
        )


def _lists(path: str, values: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the lists within a mapping by their dotted paths."""
    for key, value in values.items():
        match value:
            case dict():
                yield from _lists(f"{path}.{key}", value)
            case list():
                yield f"{path}.{key}", value


def product_remedy(lists: Mapping[str, Any]) -> str | None:
    """Return the whole product of a section's list and the list of a key within it, as YAML; None for other lists.

    `lists`: the two swept paths and their values. Words such as `none` have no keys, and stand once.
    """
    section, path = sorted(lists, key=len)
    kinds, values, key = lists[section], lists[path], path.removeprefix(f"{section}.")
    if "." in key or not isinstance(kinds, list) or not isinstance(values, list):
        return None
    mappings = [one for one in kinds if mapping(one)]
    if not mappings or len(mappings) * len(values) > _MOST_OF_PRODUCT:
        return None
    words = [one for one in kinds if not mapping(one)]
    return f"write {section}: {flow([*words, *({**one, key: value} for value in values for one in mappings)])}"
