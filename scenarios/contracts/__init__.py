"""Contracts of plug-ins: what every scheme, codec, attack or fading law keeps, asked of one's own."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import SkipTest

from pydantic import BaseModel, ValidationError

from phy.config.registry import registries
from scenarios.schema.errors import ScenarioError
from scenarios.schema.permission import code_allowed
from scenarios.schema.plugins import load_plugins

_CHECKS = {
    "scheme": ("scheme", "OWN_BITS"),
    "scheme of numbers": ("scheme", "NUMBERS"),
    "codec": ("codec", "CHECKS"),
    "attack": ("attack", "CHECKS"),
    "model": ("data", "MODEL"),
    "data set": ("data", "DATA"),
    "fading law": ("radio", "FADING"),
    "power policy": ("radio", "POLICY"),
    "selection": ("selection", "CHECKS"),
    "mechanism": ("mechanism", "CHECKS"),
    "partition": ("partition", "CHECKS"),
    "channel": ("channel", "CHECKS"),
}
"""Module of this package, and its functions of one thing that raise AssertionError, by kind."""


@dataclass(frozen=True, kw_only=True)
class ContractCheck:
    """One sentence of a contract, asked of one thing; `problem` is None where the thing keeps it.

    `skipped`: what the thing does not declare, so that the sentence is not for it; empty where it was asked.
    """

    kind: str
    word: str
    sentence: str
    problem: str | None
    skipped: str = ""


def checks_of(path: Path) -> Iterator[ContractCheck]:
    """Yield the checks of everything that a plug-in registers, with its default parameters.

    ScenarioError for a file that cannot be imported, or that registers a thing with required parameters.
    """
    from scenarios.schema import schema  # fills the registries

    del schema
    with code_allowed():
        name = load_plugins([path.name], folder=path.parent, file=path)[path.name].imported_as
    registered = [
        (kind, word)
        for kind, registry in registries().items()
        for word in registry.words()
        if f"{registry[word].__module__}.".startswith(f"{name}.")
    ]
    for kind, word in registered:
        thing = _made(kind, word, path)
        of_kind = "scheme of numbers" if getattr(thing, "uses_codec", False) else kind
        if of_kind not in _CHECKS:
            yield ContractCheck(kind=kind, word=word, sentence="It can be made with its defaults.", problem=None)
            continue
        module, checks = _CHECKS[of_kind]
        for check in getattr(importlib.import_module(f"{__name__}.{module}"), checks):
            sentence = (check.__doc__ or check.__name__).strip().split("\n")[0]
            try:
                yield ContractCheck(kind=kind, word=word, sentence=sentence, problem=_problem(check, thing, path))
            except SkipTest as reason:
                yield ContractCheck(kind=kind, word=word, sentence=sentence, problem=None, skipped=str(reason))


def broken_checks(path: Path) -> list[str]:
    """Return a sentence for each check that a plug-in breaks; empty where it keeps all."""
    return [f"{one.kind} {one.word}: {one.problem}" for one in checks_of(path) if one.problem is not None]


def _made(kind: str, word: str, path: Path) -> BaseModel:
    registry = registries()[kind]
    given: dict[str, Any] = {registry.tag: word, **({"share": 0.25} if kind == "attack" else {})}
    try:
        made: BaseModel = registry.read(given)
    except ValidationError as error:
        keys = ", ".join(".".join(map(str, one["loc"])) for one in error.errors())
        problem, remedy = f"{kind} {word} cannot be made with its defaults ({keys})", "give every parameter a default"
        raise ScenarioError(file=path, problem=problem, remedy=remedy) from error
    return made


def _problem(check: Callable[[Any], None], thing: BaseModel, path: Path) -> str | None:
    try:
        check(thing)
    except SkipTest:
        raise
    except AssertionError as error:
        return str(error)
    except Exception as error:
        lines = [
            one.lineno for one in traceback.extract_tb(error.__traceback__) if Path(one.filename).name == path.name
        ]
        where = f" ({path.name}, line {lines[-1]})" if lines else ""
        return f"{type(error).__name__}: {error}{where}"
    return None
