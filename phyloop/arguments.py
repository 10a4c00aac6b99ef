"""Arguments of public functions: their types, and errors that name the argument in place of the command's option."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from inspect import signature
from numbers import Integral, Real
from types import SimpleNamespace, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from phy.config.conflict import listing
from scenarios.schema.errors import ScenarioError, shorten

P = ParamSpec("P")
R = TypeVar("R")

_OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)(?: ([0-9.]+[A-Za-z]*))?")
_COMMAND = re.compile(r"phyloop (run|link|tune|audit|check|privacy)\b")
_WORDS = {"allow-code": "allow_code=True", "accountant": "accountants"}
_FUNCTIONS = {"link": "link_study", "privacy": "epsilon"}
_NUMBERS: dict[Any, Any] = {int: Integral, float: Real, bool: (bool, np.bool_)}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: TypeError for an argument of another type than annotated.

    A ScenarioError names arguments of the function, not options of the command.
    """

    @cache
    def hints() -> dict[str, Any]:
        names = {name: text for name, text in function.__annotations__.items() if name != "return"}
        return get_type_hints(SimpleNamespace(__annotations__=names), function.__globals__)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            arguments = signature(function).bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{function.__qualname__}() {error}") from None
        for name, value in arguments.items():
            if name in hints() and not _fits(value, hints()[name]):
                raise TypeError(
                    f"{name} = {shorten(value)}: must be {_words(hints()[name])}, not {type(value).__name__}; "
                    f"see help(phyloop.{function.__qualname__.removesuffix('.__init__')})"
                )
        try:
            return function(*args, **kwargs)
        except ScenarioError as error:
            name_arguments((error, *error.others))
            raise

    return call


def name_arguments(errors: Iterable[ScenarioError]) -> None:
    """Replace commands and options of the command line in errors by functions and arguments; changes the errors."""
    for error in errors:
        error.problem, error.remedy = _named(error.problem), _named(error.remedy)
        error.key = None if error.key is None else _named(error.key)
        if isinstance(error.file, str):
            error.file = _OPTION.sub(r"argument \1", error.file)


def _named(text: str) -> str:
    def argument(found: re.Match[str]) -> str:
        name, value = _WORDS.get(found[1], found[1].replace("-", "_")), found[2]
        return name if value is None else f"{name}={value if value.isdecimal() else repr(value)}"

    text = _COMMAND.sub(lambda found: f"phyloop.{_FUNCTIONS.get(found[1], found[1])}", text)
    return _OPTION.sub(argument, text)


def _fits(value: Any, hint: Any) -> bool:
    """Return True if a value is of an annotated type; True, too, where the type of a value cannot be tested."""
    kind, inner = get_origin(hint), get_args(hint)
    if getattr(kind or hint, "_is_protocol", False):
        return True
    if kind in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if kind is Literal:
        return isinstance(value, str)  # the function names the words
    if isinstance(kind, type):
        items = value.values() if isinstance(value, Mapping) else value
        whole = isinstance(value, kind) and not isinstance(value, str)
        return whole and all(_fits(one, inner[kind is Mapping]) for one in items)
    if hint in _NUMBERS:
        return isinstance(value, _NUMBERS[hint]) and (hint is bool or not isinstance(value, bool))
    return isinstance(value, hint) if isinstance(hint, type) and hint is not Any else True


def _words(hint: Any) -> str:
    """An annotated type in words: `str, Path or Mapping`."""

    def names(one: Any) -> list[str]:
        if get_origin(one) in (Union, UnionType):
            return [name for part in get_args(one) for name in names(part)]
        kind, inner = get_origin(one) or one, get_args(one)
        if kind is Literal:
            return ["str"]
        item = inner[kind is Mapping] if inner else Any
        of = "" if item is Any else f" of {' or '.join(names(item))}"
        return ["None" if one is type(None) else getattr(kind, "__name__", str(one)) + of]

    return listing(dict.fromkeys(names(hint)))
