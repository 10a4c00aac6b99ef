"""`phyloop show`: what a scenario may name, with parameters, limits and defaults."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fl.algorithms.learning import algorithms
from phy.config.by_word import by_words_in
from phy.config.conflict import flow, listing
from phy.config.registry import Registry, registries
from scenarios.cli.new import THINGS
from scenarios.cli.words.meanings import (
    KEYS_BY_KIND,
    WHOLE_SECTIONS,
    Meaning,
    elsewhere,
    examples_of,
    first_paragraph,
    is_of_another,
    kinds,
    meanings,
    path_of,
    registry_at,
    scenario_text,
)
from scenarios.cli.words.methods import methods_of
from scenarios.schema.errors import ScenarioError
from scenarios.schema.messages.forms import FORMS
from scenarios.schema.messages.nearest import nearest, nearness
from scenarios.schema.schema_keys import OWNERS, SECTIONS, TAGS, UNNAMED, choices, description_of, schema_keys

PAGES = {
    "link.coding": "docs/conformance.md says, clause by clause, where codes follow TS 38.212 and TS 36.212, and what a "
    "difference costs in dB.",
}
"""Pages of the documentation about a section as a whole."""


def show(what: str | None) -> None:
    """Print all kinds of things for None, the things of a kind, or one thing by its word."""
    from scenarios.schema import schema  # fills the registries

    del schema
    console = Console(highlight=False)
    if what is None or what in ("KIND", "NAME", "KEY", "WHAT"):  # as the help writes it
        _print_kinds(console)
    elif (card := _reference_check(what.strip())) is not None:
        print(f"# a reference check: phyloop verify --only {what.strip()}\n{card}", end="")
    elif not _print_one(console, what.strip()):
        words = [word for one in registries().values() for word in one.words()]
        metrics = dict.fromkeys(name for one in _measured().values() for name in one)
        known = [
            *kinds(),
            *words,
            *metrics,
            *(word for path in schema_keys() for word in choices(path)),
            *schema_keys(),
        ]
        near = nearest(what, known, least=0.7)
        if near is not None and nearness(what, near) == 1.0 and _print_one(console, near):
            return  # another word for the same, such as bler
        remedy = f"the kinds are {listing(kinds(), last='and')}; docs/plugins.md shows how to write one of your own"
        raise ScenarioError(problem=f"{what} is not known", remedy=remedy if near is None else f"did you mean {near}")


def _reference_check(name: str) -> str | None:
    """Return the scenario file of a reference check; None for another name."""
    from scenarios.studies.verify.cards import CARDS, card_names

    return (CARDS / f"{name}.yaml").read_text(encoding="utf-8") if name in card_names() else None


def _print_one(console: Console, what: str) -> bool:
    """Print what has this name; return False if nothing has."""
    what = "sweep" if what in ("zip", "sweep.zip") else what
    kind, _, of = what.lower().partition(" ")
    singular = re.sub(r"ies$", "y", what.lower()) if what.lower().endswith("ies") else what.lower().removesuffix("s")
    keys, (thing, _, leaf) = schema_keys(), what.partition(".")
    path, _, word = what.partition("=")
    for one in (what.lower(), singular):
        if one in kinds():
            _print_words(console, one)
            return True
    if lines := elsewhere(what):
        console.print("\n".join(lines), markup=False)
    elif kind in ("metric", "metrics"):
        _print_metrics(console, of)
    elif word and (found := [one for one in meanings(word) if one.path == path]):
        _print_meaning(console, found[0])
    elif inside := [key for key in keys if key.rpartition(".")[0] == what]:
        _print_section(console, what, inside)
        if what in PAGES:
            console.print(f"\n{PAGES[what]}", markup=False)
    elif what in keys:
        _print_keys(console, [what])
        _print_example(console, what)
    elif found := [
        Meaning(path_of(one), thing, one.kind)
        for one in registries().values()
        if thing in one.words() and leaf in one[thing].model_fields
    ]:
        for meaning in found:
            _print_meaning(console, meaning, only=leaf)
    else:
        return _print_meanings(console, what)
    return True


def _print_meanings(console: Console, what: str) -> bool:
    """Print a page of the only meaning of a word, or a line of each; return False for a word without."""
    found = meanings(what)
    named = [key for key in schema_keys() if key.endswith(f".{what}") and "downlink" not in key]
    metrics = dict.fromkeys(name for names in _measured().values() for name in names)
    metric = next((name for name in metrics if nearness(what, name) == 1.0), None)  # bler: packet_error_rate
    rows = {f"{one.path}={what}": one.about for one in found} | {key: description_of(key) for key in named}
    rows |= {} if metric is None else {f"metric {metric}": "a metric, see phyloop show metrics"}
    if max(len(found), len(named)) > 1 or len(rows) > 2:
        table = Table(box=None, pad_edge=False, show_header=False)
        for name, about in rows.items():
            table.add_row(f"[bold]{name}[/bold]", escape(about))
        console.print(f"{what} has {len(rows)} meanings:", markup=False)
        console.print(table)
        console.print(f"\nphyloop show {next(iter(rows))} explains the first of them in full.", markup=False)
        return True
    for one in found:
        _print_meaning(console, one)
    for key in named:
        console.print(f"[bold]{key}[/bold]")
        _print_keys(console, [key, *(one for one in schema_keys() if one.rpartition(".")[0] == key)])
        if not found:
            _print_example(console, key)
    if metric is not None:
        _print_metrics(console, "", only=metric)
    return bool(found or named or metric)


def _print_meaning(console: Console, one: Meaning, *, only: str | None = None) -> None:
    """Print the page of a word: what it means, its keys or parameters, and a scenario that writes it."""
    console.print(f"[bold]{one.path}: {one.word}[/bold]{f' ({one.kind})' if one.kind else ''}")
    if one.registry is None:
        console.print(one.about, markup=False)
        if keys := one.keys_beside():
            console.print()
            _print_keys(console, keys, word=one.word)
    else:
        _print_thing(console, one.registry, one, only=only)
    if scenario := one.scenario():
        console.print("\nin a scenario that is valid as it stands:\n", markup=False)
        console.print(scenario_text(scenario), markup=False)
    else:
        _print_example(console, one.path, one.word)
    console.print()


def _print_example(console: Console, path: str, word: Any = None) -> None:
    """Print a line of a scenario that writes a key: with a word, an example or the default."""
    definitions = schema_keys()[path].definitions
    examples = [FORMS[path][1]] if path in FORMS else [one for field in definitions for one in field.examples or ()]
    defaults = [field.get_default(call_default_factory=True) for field in definitions if not field.is_required()]
    value = next((one for one in (word, *examples, *defaults, *choices(path)) if one is not None), None)
    if "." not in path or value is None or isinstance(value, BaseModel) or schema_keys()[path].indexed:
        return
    section, _, first = path.rpartition(".")
    beside = {one: key for one, key in schema_keys().items() if one.rpartition(".")[0] == section}
    needed = {
        one.rpartition(".")[2]: field.examples[0]
        for one, key in beside.items()
        for field in key.definitions
        if field.examples and f"({first} {word})" in str(field.description)
    }
    words = [one for one in [*schema_keys()[path].variants][:1] if one not in UNNAMED.values()]
    kind = {tag: one for tag in TAGS if f"{section}.{tag}" in beside and first != tag for one in words}
    line: Any = {**kind, first: value, **needed}
    for part in reversed(section.split(".") if section else []):
        line = {part: line}
    console.print(f"written as {flow(line)[1:-1]}", markup=False)


def _print_kinds(console: Console) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for kind, words in kinds().items():
        table.add_row(f"[bold]{kind}[/bold]", ", ".join(words))
    console.print(table)
    console.print(
        "\nphyloop show cpa explains one of them, phyloop show scheme a line of each of its kind, phyloop show "
        "link.channel or show learning.participation a section or a single key, phyloop show "
        "learning.attack=gaussian one meaning of a word, phyloop show sweep how to sweep settings, and phyloop show "
        "metrics what a figure may draw."
    )


def _measured() -> dict[str, dict[str, dict[str, None]]]:
    """For each algorithm and for link studies: scopes of each metric."""
    from scenarios.report.tables.quantities import LINK_STUDY

    studies = {
        word: cls.measured()
        for cls in algorithms.classes()
        for word in get_args(cls.model_fields["algorithm"].annotation)
    }
    studies["link"] = LINK_STUDY
    found: dict[str, dict[str, dict[str, None]]] = {}
    for word, measured in studies.items():
        scopes = found.setdefault(word, {})
        for per in ("trial", "round", "device", "rate"):
            for name in measured.rates if per == "rate" else getattr(measured, f"per_{per}"):
                scopes.setdefault(name, {})[per] = None
    return found


def _print_metrics(console: Console, algorithm: str, *, only: str | None = None) -> None:
    """Print what a figure may have as y: of one algorithm or of all, `only` one of them or each."""
    from scenarios.schema.labels.labels import axis_label

    studies = _measured()
    if algorithm and algorithm not in studies:
        raise ScenarioError(problem=f"{algorithm} records no metrics", remedy=f"write one of {listing(studies)}")
    shown = {algorithm: studies[algorithm]} if algorithm else studies
    rows = []
    for name in dict.fromkeys(name for scopes in shown.values() for name in scopes if only in (None, name)):
        recorded = [word for word, scopes in shown.items() if name in scopes]
        per = dict.fromkeys(per for word in recorded for per in shown[word][name])
        about = axis_label(name) + ("" if algorithm else f"\n{', '.join(recorded)}")
        rows.append((name, ", ".join(per), about))
    _print_table(console, ("metric", "per", "meaning [unit]" + ("" if algorithm else ", recorded by")), rows)
    console.print(
        "\nA figure has one of them as y. With a swept path as x: those per trial, and rates. With x: round, "
        "channel_uses, elapsed_s, wall_s or spent_j: those per round, means over the devices of those per device, and "
        "rates; series: device draws a curve for each device. phyloop link draws rates over ebno_db, esno_db or snr_db."
    )


def _print_section(console: Console, section: str, keys: Sequence[str]) -> None:
    """Print the keys of a section: those of all kinds, then those of each kind, or where to find these."""
    if (registry := registry_at(section)) is not None and SECTIONS.get(section, ("", ""))[1] not in UNNAMED.values():
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
    rows = []
    for key in keys:
        section, _, name = key.rpartition(".")
        field, registry = schema_keys()[key].meant(word), registry_at(section)
        words = registry.words() if registry is not None and name == registry.tag else choices(key)
        defaults = {default_of(one) for one in schema_keys()[key].definitions}
        default = default_of(field) if word or len(defaults) == 1 else "depends"
        rows.append((name, default, "\n".join(filter(None, (listing(words), field.description)))))
    _print_table(console, ("key", "default", "words, description"), rows)


def _print_table(console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of which only the last column breaks into lines."""
    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(escape(head), header_style="bold", no_wrap=head != heads[-1])
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


def _print_words(console: Console, kind: str) -> None:
    """Print a line of each thing of a kind."""
    registry = registries().get(kind)
    path = KEYS_BY_KIND[kind] if registry is None else path_of(registry)
    if registry is None:
        console.print(f"[bold]{kind}[/bold], the key {path}\n")
    else:
        base = registry.extended
        console.print(f"[bold]{kind}[/bold], the key {path}: {first_paragraph(base)}")
        of = next((word for word, long in THINGS.items() if long == kind), None)
        own = "docs/plugins.md" if of is None else f"phyloop new mine --kind plugin --of {of}"
        console.print(f"Base class {base.__module__}.{base.__qualname__}; write one of your own: {own}\n")
    table = Table(box=None, pad_edge=False, show_header=False)
    for word in kinds()[kind]:
        table.add_row(f"[bold]{word}[/bold]", escape(Meaning(path, word, kind).about))
    console.print(table)
    if registry is not None:
        title = "methods of the base class, some of which a class of your own defines:"
        _print_methods(console, registry.extended, title, own=True)


def _print_methods(console: Console, cls: type, title: str, *, own: bool = False) -> None:
    """Print the methods of a class with their types; only its `own`, or also those of its bases that it writes anew."""
    found = [one for one in methods_of(cls) if not (own and one.about.startswith("See "))]
    if found:
        console.print(f"\n{title}\n", markup=False)
    for one in found:
        console.print(f"[bold]{escape(one.signature)}[/bold]{escape(f'  [{one.mark}]' if one.mark else '')}")
        for line in wrap(one.about, width=max(console.width - 4, 20)):
            console.print(f"    {line}", markup=False)


def _print_thing(console: Console, registry: Registry[Any], one: Meaning, *, only: str | None) -> None:
    cls, words = registry[one.word], {*registry.words()} - {one.word}
    about, doc = one.about, inspect.getdoc(cls) or ""
    several = len(get_args(cls.model_fields[registry.tag].annotation)) > 1  # words of this class
    if " ".join(doc.split()).startswith(about):
        console.print(doc, markup=False)
    else:
        console.print(about if several else f"{about}\n\n{doc}", markup=False)
    for form in written(registry, cls, one.word):
        console.print(f"written as {form}", markup=False)
    others = {name for other in registry.classes() for name in getattr(other, "reads", ())} - {
        *getattr(cls, "reads", ())
    }
    rows = [row for row in parameters(cls, leave_out=registry.tag) if row[0] not in others and only in (None, row[0])]
    rows = [row for row in rows if only or not several or not is_of_another(row[3], one.word, words)]
    if rows:
        console.print()
        _print_table(
            console, ("parameter", "default", "allowed, description"), [(*row[:2], "\n".join(row[2:])) for row in rows]
        )
    if only is None:
        _print_methods(console, cls, f"methods of {cls.__qualname__} ({cls.__module__}):")


def written(registry: Registry[Any], cls: type[BaseModel], word: str) -> Iterator[str]:
    """Yield how a scenario writes a thing, for each key that may have it."""
    examples = examples_of(registry, word)
    own = {
        name: field.default
        for name, field in cls.model_fields.items()
        if isinstance(field.default, int | float)
        and not is_of_another(str(field.description), word, {*registry.words()} - {word})
    }
    some = dict([*examples.items(), *own.items()][:1])
    for path, key in schema_keys().items():
        section, _, name = path.rpartition(".")
        if registry_at(path) is not registry or path.startswith("learning.downlink"):
            continue
        by_word = any(cls not in one.classes() for one in by_words_in(key.meant("").metadata))
        if by_word or not (some or path in WHOLE_SECTIONS):
            yield f"{section}: {flow({name: word, **some})}" if by_word else f"{path}: {word}"
        else:
            bare = "" if examples or path in WHOLE_SECTIONS else f"{word}, or with parameters "
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
    low = [f"above {about[key]:.10g}" for key in ("exclusiveMinimum",) if key in about]
    low += [f"from {about[key]:.10g}" for key in ("minimum",) if key in about]
    high = [f"below {about[key]:.10g}" for key in ("exclusiveMaximum",) if key in about]
    high += [f"to {about[key]:.10g}" for key in ("maximum",) if key in about]
    names = {
        "number": "number",
        "integer": "whole number",
        "boolean": "true or false",
        "string": "word",
        "array": "list",
    }
    return " ".join([names.get(str(about.get("type")), "mapping"), *low, *high])
