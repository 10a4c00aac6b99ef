"""Meanings of the words that a scenario may write, a line each, and whole scenarios that write them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import yaml

from phy.config.by_word import by_words_in, registry_in
from phy.config.conflict import flow
from phy.config.registry import Registry, registries
from scenarios.schema.overrides import set_path
from scenarios.schema.schema_keys import OWNERS, choices, description_of, in_dots, schema_keys

KEYS_BY_KIND = {
    "access": "link.access",
    "modulation": "link.modulation",
    "channel model": "link.channel.model",
    "coherence": "link.channel.coherence",
    "code": "link.coding.code",
    "packet policy": "link.packets.policy",
    "combiner": "link.receiver.combining",
    "error model": "link.error_model",
    "optimizer": "learning.local.optimizer",
    "accountant": "privacy.budget.accountant",
}
"""Keys whose words are kinds of things of their own, without a registry."""

WHOLE_SECTIONS = ("learning", "privacy")
"""Keys of things that no bare word stands for."""

_CHOOSING = (*OWNERS, "model", "code", "policy", "kind")
"""Keys that choose what the keys beside them describe."""

_WIDE = 78


class Meaning(NamedTuple):
    """A word as the value of a key, with the kind of thing that it names; empty for the words of other keys."""

    path: str
    word: str
    kind: str

    @property
    def registry(self) -> Registry[Any] | None:
        """The registry of the thing."""
        return registries().get(self.kind)

    @property
    def about(self) -> str:
        """The meaning in one line."""
        if line := _of(_words()["meanings"], self):
            return str(line)
        if self.registry is not None:
            return first_paragraph(self.registry[self.word])
        return description_of(self.path, self.word)

    def keys_beside(self) -> list[str]:
        """The keys beside the key that describe the word."""
        section, _, leaf = self.path.rpartition(".")
        keys, others = schema_keys(), {*choices(self.path)} - {self.word}
        if "." not in self.path or keys[self.path].indexed or leaf not in _CHOOSING:
            return []
        beside = [one for one in keys if one.rpartition(".")[0] == section and one != self.path]
        if leaf in OWNERS:
            return [one for one in beside if self.word in keys[one].variants]
        gone = [one for one in beside if is_of_another(description_of(one), self.word, others)]
        by_word = [part for one in gone for part in by_words_in(keys[one].meant().metadata)]
        gone += [f"{section}.{name}" for part in by_word for name in part.beside]
        return [one for one in beside if one not in gone]

    def scenario(self) -> dict[str, Any]:
        """A scenario that writes the word, valid as it stands; empty for the words of a figure and other keys."""
        section = self.path.partition(".")[0]
        if not self.kind or section not in ("link", "learning", "privacy"):
            return {}
        value: Any = self.word
        beside = _of(_words()["beside"], self)
        if self.registry is not None:
            needed = {} if beside and self.path in WHOLE_SECTIONS else examples_of(self.registry, self.word)
            whole = self.path in WHOLE_SECTIONS
            value = {self.registry.tag: self.word, **needed} if needed or whole else self.word
        document: dict[str, Any] = {}
        fedavg = {"algorithm": "fedavg", "data": "digits", "model": "linear"}
        if self.kind != "algorithm":
            document["learning"] = {"algorithm": "flmc"} if self.kind == "flmc scheme" else fedavg
        for path, one in {self.path: value, **in_dots(beside)}.items():
            set_path(document, path, one)
        return {
            "name": "my-study",
            **{one: document[one] for one in ("link", "learning", "privacy") if one in document},
        }


def examples_of(registry: Registry[Any], word: str) -> dict[str, Any]:
    """The example of each parameter of a thing that has one, but for those of other words of its class."""
    fields, others = registry[word].model_fields, {*registry.words()} - {word}
    return {
        name: field.examples[0]
        for name, field in fields.items()
        if field.examples and not is_of_another(str(field.description), word, others)
    }


def scenario_text(scenario: Mapping[str, Any]) -> str:
    """A scenario as YAML, a section in one line where it fits."""
    lines = []
    for key, value in scenario.items():
        line = f"{key}: {flow(value)}"
        long = isinstance(value, dict) and len(line) > _WIDE
        lines += [f"{key}:", *(f"  {name}: {flow(one)}" for name, one in value.items())] if long else [line]
    return "\n".join(lines)


def kinds() -> dict[str, Sequence[str]]:
    """Return the words of each kind of thing."""
    named = {kind: registry.words() for kind, registry in registries().items()}
    return {**named, **{kind: choices(key) for kind, key in KEYS_BY_KIND.items()}}


def meanings(word: str) -> list[Meaning]:
    """Return all meanings of a word: things of registries, then values of other keys."""
    keys = schema_keys()
    things = [
        Meaning(path_of(registry), word, kind) for kind, registry in registries().items() if word in registry.words()
    ]
    kind_of = {path: kind for kind, path in KEYS_BY_KIND.items()}
    uses = [path for path in keys if word in choices(path) and registry_at(path) is None and "downlink" not in path]
    uses = [path for path in uses if (one := registry_at(path.rpartition(".")[0])) is None or word not in one.words()]
    return [*things, *(Meaning(path, word, kind_of.get(path, "")) for path in uses)]


def elsewhere(word: str) -> list[str]:
    """Return what to write for a word of the field that phyloop has under another name; empty for other words."""
    return next((lines for words, lines in _words()["elsewhere"].items() if word.lower() in words.split()), [])


def path_of(registry: Registry[Any]) -> str:
    """Return the key that names the things of a registry."""
    return next(path for path in schema_keys() if registry_at(path) is registry)


def registry_at(path: str) -> Registry[Any] | None:
    """Return the registry of what a key describes; None for other keys."""
    key = schema_keys().get(path)
    found = (one for field in (() if key is None else key.definitions) for one in (*field.metadata, field.annotation))
    return registry_in(
        part for one in found for part in (one, *get_args(one), *(p for a in get_args(one) for p in get_args(a)))
    )


def first_paragraph(cls: type) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(cls) or "").split("\n\n", maxsplit=1)[0].split())


def is_of_another(description: str, word: str, others: set[str]) -> bool:
    """Return True if a description, up to the reason of its default, names other words and not this one."""
    named = set(re.findall(r"[\w-]+", description.partition(";")[0]))
    return word not in named and bool(named & others)


@cache
def _words() -> Any:
    return yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))


def _of(table: Mapping[str, Mapping[str, Any]], meaning: Meaning) -> Any:
    """The first entry whose name, which may end in a star, is that of a word; None without."""
    return next((one for name, one in table.get(meaning.path, {}).items() if fnmatchcase(meaning.word, name)), None)
