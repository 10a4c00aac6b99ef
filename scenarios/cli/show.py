"""`phyloop show`: what a scenario may name, with parameters, limits and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fl.config.learning import algorithms
from phy.config.by_word import ByWord, registry_in
from phy.config.registry import Registry, registries
from scenarios.schema.errors import ScenarioError, flow, listing
from scenarios.schema.schema_keys import OWNERS, UNNAMED, choices, schema_keys


def show(what: str | None) -> None:
    """Print all kinds of things for None, the things of a kind, or one thing by its word."""
    from scenarios.schema import schema  # fills the registries

    del schema
    console = Console(highlight=False)
    kinds = registries()
    if what is None:
        _print_kinds(console, kinds)
        return
    kind, _, of = what.strip().lower().partition(" ")
    if kind in ("metric", "metrics"):
        _print_metrics(console, of)
        return
    kind = what.strip().lower()
    if registry := kinds.get(kind) or kinds.get(kind.removesuffix("s")):
        _print_words(console, registry)
        return
    found = [(one, one[what]) for one in kinds.values() if what in one.words()]
    if not found and (keys := [key for key in schema_keys() if key.rpartition(".")[0] == what]):
        _print_section(console, what, keys)
        return
    if not found and what in schema_keys():
        _print_keys(console, [what])
        return
    if not found:
        known = [*kinds, *(word for one in kinds.values() for word in one.words()), *schema_keys()]
        near = get_close_matches(what, known, n=3)
        remedy = f"the kinds are {listing(kinds, last='and')}; docs/plugins.md shows how to write one of your own"
        raise ScenarioError(problem=f"{what} is not known", remedy=f"did you mean {listing(near)}" if near else remedy)
    for number, (registry, cls) in enumerate(found):
        if number:
            console.print()
        _print_thing(console, registry, cls, what)


def _print_kinds(console: Console, kinds: dict[str, Registry[Any]]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for kind, registry in kinds.items():
        table.add_row(f"[bold]{kind}[/bold]", ", ".join(registry.words()))
    console.print(table)
    console.print(
        "\nphyloop show KIND lists them with a line each, phyloop show NAME their parameters, phyloop show KEY, as in "
        "link.channel or learning.participation, a section or a single key, and phyloop show metrics what a figure may "
        "draw."
    )


def _print_metrics(console: Console, algorithm: str) -> None:
    """Print what a figure may have as y, of one algorithm or of all."""
    from scenarios.report.tables.summaries import LINK_STUDY
    from scenarios.schema.labels.labels import plain_label

    studies = {
        word: cls.measured()
        for cls in algorithms.classes()
        for word in get_args(cls.model_fields["algorithm"].annotation)
    }
    studies["link"] = LINK_STUDY
    if algorithm and algorithm not in studies:
        raise ScenarioError(problem=f"{algorithm} records no metrics", remedy=f"write one of {listing(studies)}")
    found: dict[str, dict[str, dict[str, None]]] = {}
    for word, measured in studies.items():
        for per in ("trial", "round", "device", "rate") if algorithm in ("", word) else ():
            names = measured.rates if per == "rate" else getattr(measured, f"per_{per}")
            for name in names:
                scopes = found.setdefault(name, {"per": {}, "of": {}})
                scopes["per"][per] = scopes["of"][word] = None
    table = Table(box=None, pad_edge=False)
    for head in ("metric", "per", "meaning [unit]", *([] if algorithm else ["recorded by"])):
        table.add_column(escape(head), header_style="bold", no_wrap=head == "metric")
    for name, scopes in found.items():
        row = [name, ", ".join(scopes["per"]), escape(plain_label(name))]
        table.add_row(*row, *([] if algorithm else [", ".join(scopes["of"])]))
    console.print(table)
    console.print(
        "\nA figure has one of them as y. With a swept path as x: those per trial, and rates. With x: round, "
        "channel_uses, elapsed_s or spent_j: those per round, means over the devices of those per device, and rates; "
        "series: device draws a curve for each device. phyloop link draws rates over ebno_db, esno_db or snr_db."
    )


def _print_section(console: Console, section: str, keys: Sequence[str]) -> None:
    """Print the keys of a section: those of all kinds, then those of each kind, or where to find these."""
    if (registry := registry_at(section)) is not None:
        read = {name for cls in registry.classes() for name in getattr(cls, "reads", ())}
        shared = set.intersection(*(set(cls.model_fields) for cls in registry.classes())) - read
        _print_keys(console, [key for key in keys if key.rpartition(".")[2] in shared])
        console.print(f"\nphyloop show NAME has the keys of each: {listing(registry.words(), last='and')}")
        return
    kinds = {key: set(schema_keys()[key].variants) for key in keys}
    every = set().union(*kinds.values())
    _print_keys(console, [key for key in keys if kinds[key] in (set(), every)])
    tag = next((tag for tag in OWNERS if f"{section}.{tag}" in keys), "kind")
    for word in sorted(every) if len(every) > 1 else ():
        console.print(f"\n{f'without {tag}' if word in UNNAMED.values() else f'{tag}: {word}'}")
        _print_keys(console, [key for key in keys if word in kinds[key] != every], word=word)


def _print_keys(console: Console, keys: Sequence[str], *, word: str = "") -> None:
    """Print keys as those of the kind `word` define them."""
    table = Table(box=None, pad_edge=False)
    for head in ("key", "default", "words", "description"):
        table.add_column(head, header_style="bold")
    for key in keys:
        section, _, name = key.rpartition(".")
        field, registry = schema_keys()[key].meant(word), registry_at(section)
        words = registry.words() if registry is not None and name == registry.tag else choices(key)
        defaults = {default_of(one) for one in schema_keys()[key].definitions}
        default = default_of(field) if word or len(defaults) == 1 else "depends"
        table.add_row(*map(escape, (name, default, listing(words), field.description or "")))
    console.print(table)


def registry_at(path: str) -> Registry[Any] | None:
    """Return the registry of what a key describes; None for other keys."""
    key = schema_keys().get(path)
    found = (one for field in (() if key is None else key.definitions) for one in (*field.metadata, field.annotation))
    return registry_in(
        part for one in found for part in (one, *get_args(one), *(p for a in get_args(one) for p in get_args(a)))
    )


def _print_words(console: Console, registry: Registry[Any]) -> None:
    base = registry.base
    console.print(f"[bold]{registry.kind}[/bold]: {_first_paragraph(base)}")
    console.print(f"Base class {base.__module__}.{base.__qualname__}; write one of your own: docs/plugins.md\n")
    table = Table(box=None, pad_edge=False, show_header=False)
    for cls in registry.classes():
        words = [word for word in registry.words() if registry[word] is cls]
        table.add_row(f"[bold]{', '.join(words)}[/bold]", _first_paragraph(cls))
    console.print(table)


def _print_thing(console: Console, registry: Registry[Any], cls: type[BaseModel], word: str) -> None:
    article = "an" if registry.kind[0] in "aeiou" else "a"
    console.print(f"[bold]{word}[/bold], {article} {registry.kind}")
    console.print(inspect.getdoc(cls) or "", markup=False)
    for form in written(registry, cls, word):
        console.print(f"written as {form}", markup=False)
    others = {name for one in registry.classes() for name in getattr(one, "reads", ())} - {*getattr(cls, "reads", ())}
    rows = [row for row in parameters(cls, leave_out=registry.tag) if row[0] not in others]
    if rows:
        table = Table(box=None, pad_edge=False)
        for head in ("parameter", "default", "allowed", "description"):
            table.add_column(head, header_style="bold")
        for row in rows:
            table.add_row(*map(escape, row))
        console.print()
        console.print(table)


def written(registry: Registry[Any], cls: type[BaseModel], word: str) -> Iterator[str]:
    """Yield how a scenario writes a thing, for each key that may have it."""
    examples = {name: field.examples[0] for name, field in cls.model_fields.items() if field.examples}
    own = {name: field.default for name, field in cls.model_fields.items() if isinstance(field.default, int | float)}
    some = dict([*examples.items(), *own.items()][:1])
    for path, key in schema_keys().items():
        section, _, name = path.rpartition(".")
        if registry_at(path) is not registry or path.startswith("learning.downlink"):
            continue
        by_word = any(isinstance(one, ByWord) and cls not in one.classes() for one in key.meant("").metadata)
        if by_word or not some:
            yield f"{section}: {flow({name: word, **some})}" if by_word else f"{path}: {word}"
        else:
            bare = "" if examples or path == "learning" else f"{word}, or with parameters "
            yield f"{path}: {bare}{flow({registry.tag: word, **some})}"


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
    match value:
        case None:
            return "none"
        case BaseModel():
            return "{...}"
    return flow(value)


def allowed(about: dict[str, Any]) -> str:
    """Words for the values that a JSON schema allows."""
    if "anyOf" in about:
        forms = dict.fromkeys(allowed(one) for one in about["anyOf"] if one.get("type") != "null")
        return " or ".join(filter(None, forms))
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
