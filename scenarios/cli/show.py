"""`phyloop show`: what a scenario may name, with parameters, limits and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from phy.config.registry import Registry, registries
from scenarios.schema.errors import ScenarioError, flow, listing
from scenarios.schema.schema_keys import schema_keys


def show(what: str | None) -> None:
    """Print all kinds of things for None, the things of a kind, or one thing by its word."""
    from scenarios.schema import schema  # fills the registries

    del schema
    console = Console(highlight=False)
    kinds = registries()
    if what is None:
        _print_kinds(console, kinds)
        return
    kind = what.strip().lower()
    if registry := kinds.get(kind) or kinds.get(kind.removesuffix("s")):
        _print_words(console, registry)
        return
    found = [(one, one[what]) for one in kinds.values() if what in one.words()]
    if not found and (keys := [key for key in schema_keys() if key.rpartition(".")[0] == what]):
        _print_section(console, keys)
        return
    if not found:
        known = [*kinds, *(word for one in kinds.values() for word in one.words())]
        near = get_close_matches(what, known, n=3)
        raise ScenarioError(
            problem=f"{what} names no kind of thing and no thing",
            remedy=f"did you mean {listing(near)}" if near else f"the kinds are {listing(kinds, last='and')}",
        )
    for number, (registry, cls) in enumerate(found):
        if number:
            console.print()
        _print_thing(console, registry, cls, what)


def _print_kinds(console: Console, kinds: dict[str, Registry[Any]]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for kind, registry in kinds.items():
        table.add_row(f"[bold]{kind}[/bold]", ", ".join(registry.words()))
    console.print(table)
    console.print("\nphyloop show KIND lists them with a line each, phyloop show NAME their parameters, and")
    console.print("phyloop show SECTION, as in link.channel or learning.participation, the keys of a section.")


def _print_section(console: Console, keys: Sequence[str]) -> None:
    table = Table(box=None, pad_edge=False)
    for head in ("key", "default", "description"):
        table.add_column(head, header_style="bold")
    for key in keys:
        field = schema_keys()[key].meant("")
        table.add_row(*map(escape, (key.rpartition(".")[2], default_of(field), field.description or "")))
    console.print(table)


def _print_words(console: Console, registry: Registry[Any]) -> None:
    base = registry.base
    console.print(f"[bold]{registry.kind}[/bold]: {_first_paragraph(base)}")
    console.print(f"Base class {base.__module__}.{base.__qualname__}; write one of your own: docs/plugins.md\n")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    for word in registry.words():
        table.add_row(f"[bold]{word}[/bold]", _first_paragraph(registry[word]))
    console.print(table)


def _print_thing(console: Console, registry: Registry[Any], cls: type[BaseModel], word: str) -> None:
    article = "an" if registry.kind[0] in "aeiou" else "a"
    console.print(f"[bold]{word}[/bold], {article} {registry.kind}")
    console.print(inspect.getdoc(cls) or "", markup=False)
    rows = list(parameters(cls, leave_out=registry.tag))
    if rows:
        table = Table(box=None, pad_edge=False)
        for head in ("parameter", "default", "allowed", "description"):
            table.add_column(head, header_style="bold")
        for row in rows:
            table.add_row(*map(escape, row))
        console.print()
        console.print(table)


def parameters(cls: type[BaseModel], *, leave_out: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, default, allowed values and description of each parameter of a thing."""
    described = cls.model_json_schema().get("properties", {})
    for name, field in cls.model_fields.items():
        if name == leave_out:
            continue
        about = described.get(name, {})
        yield name, default_of(field), allowed(about), str(field.description or "")


def default_of(field: FieldInfo) -> str:
    """The default of a key as a scenario writes it; `required` without one, and `{...}` for a section."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "none" if value is None else "{...}" if isinstance(value, BaseModel) else flow(value)


def allowed(about: dict[str, Any]) -> str:
    """Words for the values that a JSON schema allows."""
    if "anyOf" in about:
        return " or ".join(filter(None, (allowed(one) for one in about["anyOf"] if one.get("type") != "null")))
    if "enum" in about:
        return listing(about["enum"])
    if "const" in about:
        return str(about["const"])
    low = [f"above {about[key]:g}" for key in ("exclusiveMinimum",) if key in about]
    low += [f"from {about[key]:g}" for key in ("minimum",) if key in about]
    high = [f"below {about[key]:g}" for key in ("exclusiveMaximum",) if key in about]
    high += [f"to {about[key]:g}" for key in ("maximum",) if key in about]
    names = {
        "number": "number",
        "integer": "whole number",
        "boolean": "true or false",
        "string": "word",
        "array": "list",
    }
    return " ".join([names.get(str(about.get("type")), "mapping"), *low, *high])


def _first_paragraph(cls: type) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(cls) or "").split("\n\n", maxsplit=1)[0].split())
