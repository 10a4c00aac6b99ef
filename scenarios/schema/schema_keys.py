"""Dotted paths of all keys that a scenario may have, and the remedy for an unknown key."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from fl.algorithms.learning import UNNAMED as UNNAMED_ALGORITHM
from phy.config.by_word import ByWord, by_words_in
from phy.config.conflict import flow, listing
from phy.config.registry import Registry, registry_of
from privacy.config import AmplitudeBudget, PrivacyConfig
from scenarios.schema.errors import KeyPath, has_parts, items_of, mapping, names_of, value_at
from scenarios.schema.labels.units import in_unit_of, unit_of, without_unit
from scenarios.schema.messages.nearest import is_other_word, nearness, shares
from scenarios.schema.schema import Scenario

OWNERS = ("algorithm", "mechanism")
"""Keys that select the algorithm or mechanism of a whole section."""

TAGS = (*OWNERS, "name")
KINDS = (*TAGS, "kind")
"""Keys of many sections."""

UNNAMED: dict[type[BaseModel], str] = {PrivacyConfig: "amplitude", AmplitudeBudget: "amplitude"}
"""Members of a union for a section that names none."""
SECTIONS = {"learning": ("algorithm", UNNAMED_ALGORITHM), "privacy": ("mechanism", UNNAMED[PrivacyConfig])}

SETTINGS = ("link.", "learning.", "privacy.")
"""Beginnings of the keys that may be swept and tuned."""

_COUNTS = {"num", "n", "count", "number", "points", "values", "samples", "size"}
"""Parts of keys that give a range by the number of its values."""


@dataclass(frozen=True, kw_only=True)
class SchemaKey:
    """One key of a scenario. `indexed` keys lie inside a list: no dotted path sets them.

    `variants`: definitions of the key by the members of the nearest union, by their words. `fields`: definitions by
    algorithm or mechanism, with an empty word for the rest of a scenario.
    """

    indexed: bool
    variants: Mapping[str, FieldInfo]
    fields: Mapping[str, FieldInfo]

    @property
    def definitions(self) -> tuple[FieldInfo, ...]:
        """All definitions."""
        return (*self.fields.values(), *self.variants.values())

    def takes(self, value: Any) -> bool:
        """Return True if some definition allows a value; also for None, mappings and lists, which are not looked at."""
        return value is None or has_parts(value) or any(allows(one, value) for one in self.definitions)

    def meant(self, *words: str) -> FieldInfo:
        """The definition by the first of `words` that is a variant or an algorithm with this key, else any."""
        for word in words:
            for fields in (self.variants, self.fields):
                if word in fields:
                    return fields[word]
        return next(iter(self.fields.values()))


def allows(field: FieldInfo, value: Any) -> bool:
    """Return True if a field may have a value."""
    kind: Any = Annotated[field.annotation, *field.metadata, None]
    try:
        TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError:
        return False
    return True


@cache
def schema_keys() -> dict[str, SchemaKey]:
    """Every dotted path of a scenario, over all variants of each union."""
    keys: dict[str, SchemaKey] = {}

    def walk(model: type[BaseModel], prefix: str, indexed: bool, words: tuple[str, ...], owner: str) -> None:
        for name, field in model.model_fields.items():
            path = prefix + name
            known = keys.get(path)
            variants, fields = (dict(known.variants), dict(known.fields)) if known else ({}, {})
            fields.setdefault(owner, field)
            for word in words:
                variants.setdefault(word, field)
            keys[path] = SchemaKey(indexed=indexed, variants=variants, fields=fields)
            by_word = by_words_in(field.metadata)
            own = [(child, False) for one in by_word for child in one.classes()]
            inside = own if by_word else list(_models_in(field.annotation))
            for child, in_list in inside:
                words_of_child = _words_of(child, alone=len(inside) == 1)
                named = any(tag in child.model_fields for tag in OWNERS) or child in UNNAMED
                walk(child, path + ".", indexed or in_list, words_of_child, words_of_child[0] if named else owner)

    walk(Scenario, "", False, (), "")
    return keys


def _words_of(model: type[BaseModel], *, alone: bool) -> tuple[str, ...]:
    """The words that select a member of a union; empty for other models.

    Several words of a model that is `alone`, in no union, are a choice within it.
    """
    if model in UNNAMED:
        return (UNNAMED[model],)
    for tag in TAGS:
        words = get_args(model.model_fields[tag].annotation) if tag in model.model_fields else ()
        if words and all(isinstance(word, str) for word in words) and not (alone and len(words) > 1):
            return tuple(words)
    return ()


def _models_in(annotation: Any, in_list: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        registry = registry_of(annotation)
        for model in (annotation,) if registry is None else registry.classes():
            yield model, in_list
    for argument in get_args(annotation):
        yield from _models_in(argument, in_list or get_origin(annotation) in (tuple, list))


def words_of(annotation: Any, metadata: Iterable[Any] = ()) -> Iterator[str]:
    """Yield the words that a field may have, those of a registry among them; mechanisms have no bare word."""
    for one in metadata:
        if isinstance(one, Registry | ByWord) and getattr(one, "tag", "") != "mechanism":
            yield from one.words()
    if get_origin(annotation) is Literal:
        yield from (word for word in get_args(annotation) if isinstance(word, str))
    elif get_origin(annotation) is Annotated:
        yield from words_of(get_args(annotation)[0], get_args(annotation)[1:])
    elif get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from words_of(member)


def choices(path: str) -> tuple[str, ...]:
    """Return the words that the key at `path` may have, over all of its definitions; empty for other keys."""
    key = schema_keys().get(path)
    definitions = () if key is None else key.definitions
    return tuple(dict.fromkeys(word for one in definitions for word in words_of(one.annotation, one.metadata)))


@cache
def left_out_keys() -> frozenset[str]:
    """Return the paths of keys that have no value unless one is written."""
    paths = (path for path, key in schema_keys().items() if any(one.default is None for one in key.definitions))
    return frozenset(path for path in paths if "none" not in choices(path))


def in_dots(value: Any, path: str = "") -> dict[str, Any]:
    """Return the values of nested sections by dotted paths; a mapping that is no section, such as a range, is one."""
    inside = mapping(value)
    if path and not any(f"{path}.{key}" in schema_keys() for key in inside):
        return {path: value}
    parts = (in_dots(item, f"{path}.{key}" if path else key) for key, item in inside.items())
    return {key: item for part in parts for key, item in part.items()}


def belongs(name: str, kind: str) -> bool:
    """Return True if a section of this kind has a key of its own."""
    return name in schema_keys() and kind in schema_keys()[name].variants


def owner_of(document: Mapping[str, Any], *, section: str) -> str:
    """Return the algorithm or mechanism of a section of a document; empty for the other sections."""
    if section not in SECTIONS:
        return ""
    tag, usual = SECTIONS[section]
    return str(mapping(document.get(section)).get(tag, usual))


def keys_within(document: Mapping[str, Any], *, section: str = "") -> list[str]:
    """Return the paths of all keys without those of other algorithms or mechanisms, by default in every section.

    Nor those of a section that is left out and has no default, such as that of link studies.
    """
    owners = {one: owner_of(document, section=one) for one in SECTIONS if section in ("", one)}
    absent = {one for one, field in Scenario.model_fields.items() if field.default is None and one not in document}
    return [
        path
        for path, key in schema_keys().items()
        if path == (top := _top(path)) or (owners.get(top, "") in ("", *key.fields) and top not in absent)
    ]


class Meant(NamedTuple):
    """The known key that was likely meant, the value in its unit as YAML, and the remedy."""

    key: str | None
    value: str | None
    remedy: str


def meant_key(
    path: str, *, among: Collection[str] | None = None, value: Any = None, written: Collection[str] = (), kind: str = ""
) -> Meant:
    """Return what was meant by a path that does not exist.

    `value`: what is written there. Paths that are `written` as well were not meant. `kind`: kind of the section.
    """
    keys = schema_keys()
    known = [*(keys if among is None else among)]
    section, _, leaf = path.rpartition(".")
    best, converted = _nearest_key(path, among=known, value=value, written=written, kind=kind)
    own = [one for one in known if _is_of(one, section, kind)]
    told = best is None and (best := _told_by(path, own, kind)) is not None
    around, _, word = (best or "").rpartition(".")
    moved = section in SECTIONS and leaf == word
    takes = best is not None and (value is None or any(allows(one, value) for one in keys[best].definitions))
    if path in keys and not (best and (moved or (takes and around == section and shares(leaf, word)))):
        owner = f"{section}.{SECTIONS[section][0]}" if section in SECTIONS else section
        if (variants := keys[path].variants) and kind not in variants:
            remedy = f"it belongs to {owner} {listing(variants)} only: leave it out, or change {owner}"
        else:
            remedy = f"it belongs to another form of {section}: leave it out, or leave the keys beside it out"
        return Meant(None, None, remedy)
    if best is None:
        return Meant(None, None, _without_key(section, own))
    if converted is not None:
        return Meant(best, converted, f"write {best}: {converted}")
    if section and not around:
        return Meant(best, None, f"write {best} at the top of the file, outside {section.partition('.')[0]}")
    narrower = {*leaf.split("_")} < {*word.split("_")}  # snr_db and snr_max_db
    means_more = told or is_other_word(leaf, word) or (unit_of(word) and (narrower or not unit_of(leaf)))
    more = description_of(best, kind)
    return Meant(best, None, f"did you mean {best}{f' ({more})' if means_more else ''}")


def description_of(path: str, kind: str = "") -> str:
    """Return the description of a key without the reason of its default."""
    return str(schema_keys()[path].meant(kind).description).partition(";")[0]


def _told_by(path: str, known: Iterable[str], kind: str) -> str | None:
    """The only key in the section of `path` whose description has all parts of the name but its unit."""
    section, _, leaf = path.rpartition(".")

    def words(text: str) -> set[str]:  # k is not K
        return {word.lower() if len(word) > 1 else word for word in re.findall(r"[^\W_]+", text)}

    beside = (one for one in known if one.rpartition(".")[0] == section != "")
    told = [one for one in beside if words(without_unit(leaf)) <= words(description_of(one, kind))]
    return told[0] if len(told) == 1 else None


def _without_key(section: str, known: Collection[str]) -> str:
    """The remedy where no key is near: the keys of the section, or of the nearest one around it."""
    while section and not any(other.startswith(section + ".") for other in known):
        section = section.rpartition(".")[0]
    inside = [other for other in known if other.rpartition(".")[0] == section]
    names = listing((one.rpartition(".")[2] for one in inside), last="and")
    return f"leave it out: the keys {f'of {section}' if section else 'at the top'} are {names}"


def _is_of(path: str, section: str, kind: str) -> bool:
    """Return True for a key outside a section, or one that a section of this kind has."""
    variants = schema_keys()[path].variants
    return not kind or path.rpartition(".")[0] != section or not variants or kind in variants


def _nearest_key(
    path: str, *, among: Iterable[str], value: Any, written: Collection[str], kind: str
) -> tuple[str | None, str | None]:
    """The known path nearest to one that does not exist, and `value` in its unit as YAML, each None without."""
    section, _, leaf = path.rpartition(".")

    def near(other: str) -> float:
        # A misspelt key of the section is the likeliest mistake, then a key of a section inside it, then the same
        # word elsewhere. A section that is swept may lack its beginning.
        around, _, word = other.rpartition(".")
        inside = f"{around}.".startswith(f"{section}.") or f".{around}".endswith(f".{section}") or not section
        alike = nearness(leaf, word)
        spelt = inside and nearness(leaf, other[len(section) :].replace(".", "_")) == 1.0  # eps_total: budget.epsilon
        whole = "_" in leaf and alike == 1.0  # num_rx: receiver.num_antennas
        same = leaf == word not in KINDS or (_top(path) == _top(other) and (whole or shares(leaf, word)))
        if (not spelt and alike < (0.7 if around == section else 0.8)) or not (inside or same):
            return 0.0
        key = schema_keys()[other]
        if key.indexed and around != section:  # a list of sections, as of figures
            return 0.0
        here = around == section or spelt
        fits = (here and alike == 1.0) or key.takes(_converted(word, leaf, value)[1])
        if not fits and (not inside or alike < 0.8):
            return 0.0
        alike = max(alike, spelt) + 0.15 * here + 0.05 * inside + 0.01 * SequenceMatcher(None, path, other).ratio()
        return alike if fits else alike / 2  # its wrong value has an error of its own

    around = {one for one in among if f"{path}.".startswith(f"{one}.")}
    # phyloop run writes `code`, nobody else.
    able = [one for one in among if one != "code" and one not in around and one not in written]
    able = [one for one in able if _is_of(one, section, kind)]
    best = max((one for one in able if "downlink" in path or "downlink" not in one.rpartition(".")[0]), key=near)
    if near(best) == 0.0:
        return None, None
    return best, _converted(best.rpartition(".")[2], leaf, value)[0]


def _top(path: str) -> str:
    return path.partition(".")[0]


def _converted(word: str, leaf: str, value: Any) -> tuple[str | None, Any]:
    """Return a value in the unit of the key `word`, as YAML and as data; None, and the value, if it has no unit."""
    items = [in_unit_of(word, one, own=leaf) for one in items_of(value)]
    if not all(items):
        return None, value
    text = f"[{', '.join(map(str, items))}]" if isinstance(value, list) else str(items[0])
    return text, json.loads(text)


def kind_as_key(path: KeyPath, document: dict[str, Any]) -> dict[str, Any] | None:
    """Return the section around a key that is the word of a kind, as `{cpa: {gamma: 0.1}}`, with that kind written."""
    around, value = names_of(path[:-1]), value_at(document, path)
    tag = next((tag for tag in KINDS if path[-1] in choices(f"{around}.{tag}")), None)
    if tag is None or not isinstance(value, dict):
        return None
    section = mapping(value_at(document, path[:-1]))
    others = {key: one for key, one in section.items() if key not in (tag, path[-1])}
    return {tag: path[-1], **others, **value}


def list_of(path: KeyPath, document: dict[str, Any]) -> tuple[KeyPath, dict[str, Any]] | None:
    """Return the list of sections, as of figures, whose key stands beside it, and the section that its keys give."""
    around, leaf, keys = names_of(path[:-1]), path[-1], schema_keys()
    for at in (one for one in keys if one.rpartition(".")[0] == around):
        inside = keys.get(f"{at}.{leaf}")
        if inside is not None and inside.indexed and not keys[at].indexed:
            section = mapping(value_at(document, path[:-1]))
            return tuple(at.split(".")), {key: value for key, value in section.items() if f"{at}.{key}" in keys}
    return None


def candidates_meant(leaf: str, section: dict[str, Any]) -> tuple[str, dict[str, Any], list[str]] | None:
    """Remedy for an unknown key of a search, the keys that are meant, and what they replace; None if it is no such key.

    Candidates may stand under another word than keys, or beside it.
    """
    flat = {one: in_dots({one: value}) for one, value in section.items()}
    beside = {one: keys for one, keys in flat.items() if all(key.startswith(SETTINGS) for key in keys)}
    if leaf in beside:
        keys = mapping(section.get("keys")) | {path: value for one in beside.values() for path, value in one.items()}
        return f"write keys: {flow(keys)} and leave {listing(beside, last='and')} out", keys, [*beside]
    if "keys" not in section and isinstance(section[leaf], dict):
        return f"write keys in place of {leaf}", section[leaf], [leaf]
    return None


def step_of(leaf: str | int, section: dict[str, Any]) -> int | float | None:
    """The step of a range that gives a number of values in place of it, as `num: 11`; None for anything else."""
    start, stop, number = (section.get(key) for key in ("start", "stop", str(leaf)))
    if not isinstance(start, int | float) or not isinstance(stop, int | float) or "step" in section:
        return None
    if type(number) is not int or number < 2 or stop <= start or not _COUNTS & {*str(leaf).split("_")}:
        return None
    step = float(f"{(stop - start) / (number - 1):.6g}")
    return int(step) if step.is_integer() else step
