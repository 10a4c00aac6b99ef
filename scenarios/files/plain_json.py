"""Shapes of plain JSON: what others may have written is compared with a shape before it is used."""

from __future__ import annotations

import re
from typing import Any

_HALF = re.compile("[\ud800-\udfff]")


def fits(value: Any, shape: Any) -> bool:
    """Tell whether a value of JSON has a shape.

    A shape is a type (`float` takes whole numbers, too), None, a tuple of shapes (one must fit), `[type]` for a list,
    `{str: shape}` for a mapping with any keys, or `{key: shape, ...}` for a mapping that has at least these keys. Text
    with half characters, which cannot be shown, fits none.
    """
    match shape:
        case tuple():
            return any(fits(value, one) for one in shape)
        case [each]:
            # Types first, all at once: lists of tasks are long.
            return (
                type(value) is list and {*map(type, value)} <= {each} and (each is not str or fits("".join(value), str))
            )
        case dict() if str in shape:
            return type(value) is dict and all(fits(one, shape[str]) for one in value.values())
        case dict():
            return type(value) is dict and all(key in value and fits(value[key], one) for key, one in shape.items())
    if shape is str:
        return type(value) is str and (value.isascii() or not _HALF.search(value))
    return value is None if shape is None else type(value) is shape or (shape is float and type(value) is int)
