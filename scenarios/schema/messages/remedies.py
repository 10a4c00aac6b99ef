"""What is wrong with one value of a scenario, what to write there, and the document with that written."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from math import isfinite
from typing import Any

from pydantic.fields import FieldInfo

from phy.config.conflict import Remedy, Say, Write, flow, listing, sentence_of
from phy.config.files import DIGESTS
from scenarios.schema.errors import (
    Change,
    KeyPath,
    Mark,
    conflict_of,
    dotted,
    has_parts,
    mapping,
    mark_of,
    names_of,
    shorten,
    value_at,
)
from scenarios.schema.labels.units import in_unit_of, number_in, numbers_in, range_in
from scenarios.schema.messages.following import change_of
from scenarios.schema.messages.forms import (
    FORMS,
    LENGTHS,
    LIMITS,
    NAME,
    TYPES,
    Diagnosis,
    share_of_devices,
)
from scenarios.schema.messages.nearest import nearest, nearest_words
from scenarios.schema.messages.values import (
    MOST_ROUNDED,
    an_example,
    beyond,
    broken_limit,
    by_example,
    example_of,
    in_a_mapping,
    is_reference,
    number_before,
    stand_in,
    with_value,
    words_of_kinds,
)
from scenarios.schema.schema import num_errors
from scenarios.schema.schema_keys import (
    KINDS,
    SECTIONS,
    SETTINGS,
    TAGS,
    allows,
    belongs,
    candidates_meant,
    choices,
    keys_within,
    kind_as_key,
    list_of,
    meant_key,
    owner_of,
    schema_keys,
    step_of,
)
from scenarios.schema.shorthand import USUAL_KINDS


def answer(
    path: KeyPath,
    item: dict[str, Any],
    *,
    document: dict[str, Any],
    written: Mapping[KeyPath, Mark],
    prefer: Collection[KeyPath] = (),
) -> Diagnosis:
    """Return the answer to one error of pydantic.

    `written`: places of what the user wrote. An error about several keys names one of `prefer` before the others.
    """
    kind, value = item["type"], value_at(document, path)
    if kind == "value_error":
        conflict = conflict_of(item["ctx"]["error"])
        # Of several keys, name the first that the user wrote, swept keys before others.
        keys = [key for one in conflict.keys if (key := (*path, *one.split("."))) in written]
        named = min(keys, key=lambda one: one not in prefer, default=path)
        change = change_of(conflict.remedies, named, known=schema_keys()) or Change(gone=(named,), sure=False)
        return Diagnosis(named, conflict.problem, conflict.remedy, change, _scalar(value_at(document, named)))
    if kind == "no_word":
        return _without_kind(path, item["ctx"], value)
    if kind == "union_tag_invalid":
        return _wrong_kind(path, item["ctx"], written, document)
    if kind == "extra_forbidden":
        return _unknown(path, document, written, prefer)
    if kind == "no_known_key":
        example, unknown = example_of(names_of(path), document, path), (*path, next(iter(value)))
        remedy = f"write {dotted(path)}: {flow(example)} in place of {dotted(unknown)}"
        change = Change(gone=(unknown,), new=((path, example),))
        return Diagnosis(unknown, "unknown key", remedy, change, _scalar(value_at(document, unknown)))
    if kind == "missing":
        example = example_of(names_of(path))
        change = Change(sure=False) if example is None or type(path[-1]) is int else Change(new=((path, example),))
        if type(path[-1]) is int:
            remedy = f"write {path[-1] + 1} entries in {dotted(path[:-1])}, or more"
            return Diagnosis(path, f"entry {path[-1] + 1} is missing", remedy, change)
        return Diagnosis(path, "the key is missing", _addition(path), change)
    problem, remedies, new = _wrong_value(kind, path, item, document)
    change = Change(new=((path, new),)) if new is not None else stand_in(remedies, path)
    return Diagnosis(path, problem, sentence_of(remedies), change, value)


def _scalar(value: object) -> object:
    """None for a section: the error is about the key, not about its contents."""
    return None if has_parts(value) else value


def _without_kind(path: KeyPath, context: dict[str, str], section: Any) -> Diagnosis:
    """A section that does not name its kind, or under another key."""
    tag, words = context["tag"], context["words"].split(", ")
    named = ((nearest(word, words, least=0.8), key) for key, word in section.items() if isinstance(word, str))
    near, key = next(((near, key) for near, key in named if near is not None), (None, ""))
    problem = f"the key {tag} is missing"
    if near is None:
        return Diagnosis(path, problem, f"add {tag}: {listing(words)}", Change(gone=(path,), sure=False), {**section})
    change = Change(gone=((*path, key),), new=(((*path, tag), near),))
    return Diagnosis(path, problem, f"write {tag}: {near} in place of {key}: {section[key]}", change, {**section})


def _wrong_kind(
    path: KeyPath, context: dict[str, str], written: Collection[KeyPath], document: dict[str, Any]
) -> Diagnosis:
    """A section of an unknown kind."""
    given, named = context["tag"], context["discriminator"].strip("'")
    at = next((one for name in (*TAGS, named) if (one := (*path, name)) in written), path)
    tag = named if named.isidentifier() else SECTIONS[str(path[0])][0]
    place = path if isinstance(value_at(document, path), str) else (*path, tag)
    problem, remedies, near = _choice(context["expected_tags"], given, place, document)
    change = Change(new=((place, near),)) if near else stand_in(remedies, place)
    remedy = sentence_of(remedies)
    if near is None and (found := _selector(f"{names_of(path)}.{tag}", given)) is not None:
        key, _ = found
        around = next(iter(schema_keys()[f"{names_of(path)}.{key}"].variants), "")
        remedy = f"write {tag}: {around} and {key}: {given}"
        change = Change(new=(((*path, tag), around), ((*path, key), given)))
    elif near is None and (home := _home(path, given, document)) is not None:
        remedy = f"write {dotted(home[0])}: {flow(home[1])} in place of {dotted(path)}"
        change = Change(gone=(path,), new=(home,))
    elif near is None and path[:1] == ("learning",) and path[1:2] != ("task",):
        remedy += ", or a plug-in of your own (docs/plugins.md)"
    return Diagnosis(at, problem, remedy, change, given)


def _home(path: KeyPath, kind: str, document: dict[str, Any]) -> tuple[KeyPath, dict[str, Any]] | None:
    """Path and value of the only section elsewhere of this kind, with the keys written here that it has, too."""
    words = (one.rpartition(".") for one in schema_keys() if kind in choices(one))
    tags = {home: tag for home, _, tag in words if tag in TAGS and not home.startswith(str(path[0]))}
    if len(tags) != 1:
        return None
    ((home, tag),) = tags.items()
    section = mapping(value_at(document, path))
    return tuple(home.split(".")), {
        tag: kind,
        **{key: value for key, value in section.items() if belongs(f"{home}.{key}", kind)},
    }


def _unknown(
    path: KeyPath, document: dict[str, Any], written: Mapping[KeyPath, Mark], swept: Collection[KeyPath]
) -> Diagnosis:
    """A key that the section does not have; a key beside it that is `swept` may be the one that was meant."""
    name, leaf, value = names_of(path), path[-1], value_at(document, path)
    problem, shown = "unknown key", _scalar(value)
    if path[0] == "tune" and len(path) == 2 and (found := candidates_meant(str(leaf), document["tune"])) is not None:
        remedy, keys, replaced = found
        change = Change(gone=tuple(("tune", one) for one in replaced), new=((("tune", "keys"), keys),))
        return Diagnosis(path, problem, remedy, change, shown)
    if (step := step_of(leaf, mapping(value_at(document, path[:-1])))) is not None:
        change = Change(gone=(path,), new=(((*path[:-1], "step"), step),))
        return Diagnosis(path, problem, f"write step: {flow(step)} in place of {leaf}", change, shown)
    if isinstance(leaf, str) and "." in leaf:
        *outer, inner = leaf.split(".")
        nested = f"{': {'.join(outer)}: {{{inner}: {shorten(value)}{'}' * len(outer)}"
        change = Change(gone=(path,), new=(((*path[:-1], *outer, inner), value),))
        return Diagnosis(path, problem, f"nest it instead of dots: {nested}", change, shown)
    if (kind := kind_as_key(path, document)) is not None:
        new = tuple(((*path[:-1], key), one) for key, one in kind.items())
        return Diagnosis(
            path, problem, f"write {dotted(path[:-1])}: {flow(kind)}", Change(gone=(path,), new=new), shown
        )
    if (listed := list_of(path, document)) is not None:
        at, one = listed
        gone = tuple((*path[:-1], key) for key in one)
        first = next(iter(one))
        remedy = f"write {at[-1]}: {flow([one])} in place of {listing(one, last='and')}"
        remedy = remedy if leaf == first else f"the list {at[-1]} of {first} has it"
        return Diagnosis(path, problem, remedy, Change(gone=gone, new=((at, [one]),)), shown)
    known = [one for one in keys_within(document, section=str(path[0])) if _is_open(one, path, document)]
    elsewhere = leaf not in KINDS and any(one.endswith(f".{leaf}") and value in choices(one) for one in known)
    beside = mapping(value_at(document, path[:-1]))
    if not elsewhere and (meant := _selector(name, value, beside=beside)) is not None:
        tag, word = meant[0], meant[1] if isinstance(value, str) else value
        change = Change(gone=(path,), new=(((*path[:-1], tag), word),))
        return Diagnosis(path, problem, f"write {tag}: {flow(word)} in place of {leaf}: {flow(value)}", change, shown)
    # A base has its keys written, of which one may be meant by a file on top of it.
    file, around = mark_of(path, written)[0], [(*path[:-1], key) for key in value_at(document, path[:-1]) or ()]
    written_beside = {names_of(one) for one in around if one not in swept and mark_of(one, written)[0] == file}
    near, text, remedy = meant_key(
        name, among=known, value=value, written=written_beside, kind=_variant(path, document)
    )
    if near is None:
        return Diagnosis(path, problem, remedy, Change(gone=(path,)), shown)
    converted = value if text is None else json.loads(text)
    parts: list[str | int] = [*path[:-1], near.rpartition(".")[2]] if _beside(near, name) else [*near.split(".")]
    return Diagnosis(path, problem, remedy, Change(gone=(path,), new=((tuple(parts), converted),)), shown)


def _is_open(one: str, path: KeyPath, document: dict[str, Any]) -> bool:
    """Return True for a key of the section around `path`, or one that the kind of its own section has."""
    around, variants = tuple(one.split(".")[:-1]), schema_keys()[one].variants
    section = value_at(document, around)
    kind = section if isinstance(section, str) else _variant((*around, ""), document) or USUAL_KINDS.get(around, "")
    return not variants or not kind or around == path[:-1] or kind in variants


def _variant(path: KeyPath, document: dict[str, Any]) -> str:
    """The word that selects the kind of the mapping around `path`."""
    section = mapping(value_at(document, path[:-1]))
    return next((str(section[tag]) for tag in TAGS if tag in section), "")


def _beside(one: str, other: str) -> bool:
    return one.rpartition(".")[0] == other.rpartition(".")[0]


def _selector(path: str, value: object, *, beside: Collection[str] | None = None) -> tuple[str, str] | None:
    """The key beside an unknown one that takes its `value` as a word, as `kind` beside `name: labels`, and the word.

    Of several such keys, the nearest; None without. The word may be nearly `value`, as ldpc5g for ldpc, of a key that
    is not among those written `beside`.
    """
    ending, keys = "", schema_keys()
    if of_kind := mapping(value):
        ending, value = next(((f".{tag}", of_kind[tag]) for tag in TAGS if tag in of_kind), ("", None))
    if not isinstance(value, str) or value in ("auto", "none") or "." not in path:  # words of many keys, or sections
        return None
    able = (one for one in keys if _beside(one, path) and one != path and f"{one}{ending}" in keys)
    meant = {one.rpartition(".")[2]: nearest(value, choices(one), least=0.8) for one in able}
    free = () if beside is None else set(meant).difference(beside)
    words = {one: word for one, word in meant.items() if word is not None and (word == value or one in free)}
    key = nearest(path.rpartition(".")[2], words, least=0.0)
    return None if key is None else (key, words[key])


def _addition(path: KeyPath) -> str:
    """Remedy for a missing key: an example, and its only word, which lets phyloop choose the value."""
    name, leaf = names_of(path), path[-1]
    where = f"under {dotted(path[:-1])}" if path[:-1] else "at the top"
    words, example = choices(name), example_of(name)
    if example is not None:
        alone = f", or {leaf}: {words[0]}" if len(words) == 1 else ""
        return f"add {leaf} {where}: write for example {leaf}: {flow(example)}{alone}"
    return f"add {leaf}: {listing(words)}{' ' * bool(words)}{where}"


def _wrong_value(
    kind: str, path: KeyPath, item: dict[str, Any], document: dict[str, Any]
) -> tuple[str, tuple[Remedy, ...], Any]:
    """Problem, remedies, and the value that the first remedy writes; None where it is up to the user."""
    name, value, leaf = names_of(path), item["input"], str(path[-1]) if path else ""
    kind = kind.replace("_parsing", "_type")  # a section that is read in pydantic's lax mode
    if name.endswith(".devices_per_round"):
        num_devices = value_at(document, ("learning", "num_devices"))
        remedy = share_of_devices(value, num_devices) or share_of_devices(0.3, num_devices, example=True)
        return f"must be {FORMS[name][0]}", () if remedy is None else (remedy,), None
    fields = schema_keys()[name].definitions if name in schema_keys() else ()
    fits = isinstance(value, dict) or any(allows(one, [value]) for one in fields)
    if kind in ("tuple_type", "list_type") and (fits or name not in FORMS) and not isinstance(value, list):
        return TYPES[kind][0], (Say(f"write [{flow(value)}]"),), [value]
    if isinstance(value, list) and value and dotted(path) == name and name.startswith(SETTINGS):
        words = [word for tag in ("", *(f".{one}" for one in TAGS)) for word in choices(f"{name}{tag}")]
        fitting = [item for item in value if item in words or any(allows(one, item) for one in fields)]
        if fitting:
            remedy = Say(f"move the list into the sweep: {name}: {shorten(value)}")
            return "must be one value", (remedy,), fitting[0]
    allowed = f"must be {FORMS[name][0]}" if name in FORMS else TYPES["model_type"][0]
    levels = range_in(value) or numbers_in(value)
    if levels is not None and kind not in ("float_type", "int_type") and any(allows(one, levels) for one in fields):
        return allowed, (Write({"": levels}),), levels
    if "none" in choices(name) and (value is False or str(value).lower() in ("no", "off")):
        return allowed, (Write({"": "none"}),), "none"
    if (form := in_a_mapping(path, value, document)) is not None:
        return allowed, (Write({"": form}),), form
    converted = in_unit_of(leaf, value) if isinstance(value, str) else None
    if name in FORMS and converted is not None and any(allows(one, number_in(converted)) for one in fields):
        return allowed, (Say(f"write {converted}"),), number_in(converted)
    if name in FORMS and (broken := broken_limit(fields, value)) is not None:
        return beyond(broken["type"], name, broken, _field(path, document))
    if name in FORMS and (path[-1] == leaf or isinstance(value, list)):
        example = example_of(name, document, path)
        alone = (Say(known[0]),) if len(known := choices(name)) == 1 and example != known[0] else ()
        return allowed, (an_example(example), *alone), example if path[-1] == leaf else None
    if kind == "literal_error":
        problem, remedies, near = _choice(item["ctx"]["expected"], value, path, document)
        if (beside := _selector(name, value)) is not None:
            return problem, (Say(f"write {beside[0]}: {value} in place of {leaf}: {value}"),), None
        return problem, remedies, near
    if kind == "string_pattern_mismatch":
        return NAME, (an_example("my-study_2"),), None
    if kind in LENGTHS:
        problem, advice = (one.format(**item["ctx"]) for one in LENGTHS[kind])
        return problem, (Say(advice),), None
    field = _field(path, document)
    default = getattr(field, "default", None)
    usual = isinstance(default, int | float | str) and default != ""
    if kind in LIMITS:
        return beyond(kind, name, item, field)
    if kind not in TYPES:
        return item["msg"][:1].lower() + item["msg"][1:], (Say("see the documentation of this key"),), None
    problem, advice = TYPES[kind]
    number = number_before(value) if kind in ("float_type", "int_type") else None
    if number is not None and any(allows(one, number) for one in fields):
        return problem, (Write({"": number}),), number
    if kind in ("float_type", "int_type") and (converted := in_unit_of(leaf, value)) is not None:
        return f"{problem} without a unit", (Say(f"write {converted}"),), number_in(converted)
    if kind == "bool_type" and str(value).lower() in ("yes", "on", "no", "off"):
        meant = str(value).lower() in ("yes", "on")
        return problem, (Write({"": meant}),), meant
    if isinstance(value, str) and kind in ("float_type", "int_type"):
        if (numbers := numbers_in(value)) and "," in value:
            return problem, (Write({"": numbers}),), None
        if numbers:
            return problem, (Say(f"put commas between the values: {', '.join(map(flow, numbers))}"),), None
        if (number := number_in(value)) is not None:
            if "/" in value:
                number = float(f"{number:.6g}")
                return problem, (Write({"": number}),), number if kind == "float_type" else None
            return f"{problem}, not text", (Say(f"write {value.strip()} without quotes"),), number
    if kind in ("int_type", "int_from_float") and isinstance(value, float) and isfinite(value):
        if (broken := broken_limit(fields if field is None else (field,), round(value))) is not None:
            return beyond(broken["type"], name, {**broken, "input": value}, field)
        if abs(value) < MOST_ROUNDED:
            return problem, (Write({"": round(value)}),), round(value)
    quotable = not fields or any(allows(one, flow(value)) for one in fields)
    if kind == "string_type" and not has_parts(value) and quotable and not is_reference(name):
        named = None if leaf in DIGESTS else flow(value)  # a file of that name is hardly there
        return problem, (Say(f'put it in quotes: "{flow(value)}"'),), named
    if usual:
        return problem, (an_example(default),), None
    open_to_any = advice == "write one" or words_of_kinds(name)
    return problem, by_example(path, Say(advice), document) if open_to_any else (Say(advice),), None


def _choice(
    expected: str, given: object, path: KeyPath, document: dict[str, Any]
) -> tuple[str, tuple[Remedy, ...], str | None]:
    """Problem and remedies for a wrong word, and the word that was likely meant: of several, one with fewest errors."""
    # A privacy section without `mechanism` has the tag `amplitude`, which nobody writes.
    words = [word for word in re.findall(r"'([^']*)'", expected) if word != "amplitude" and " " not in word]
    if not words:  # numbers, which pydantic does not quote
        first = re.split(r",| or ", expected)[0]
        return f"must be {expected}", (an_example(number_in(first)),), None
    near = nearest_words(given, words)
    if len(near) > 1:
        errors = {word: num_errors(with_value(document, path, word)) for word in near}
        near = [word for word in near if errors[word] == min(errors.values())]
    usual = getattr(_field(path, document), "default", None)
    usual = usual if usual in words else words[0]
    if not near:  # the word to which the keys beside it belong
        errors = {word: num_errors(with_value(document, path, word)) for word in dict.fromkeys([usual, *words])}
        usual = min(errors, key=errors.__getitem__)
    remedy = Say(f"did you mean {listing(near)}") if near else an_example(usual)
    return f"must be {listing(words)}", (remedy,), next(iter(near), None)


def _field(path: KeyPath, document: dict[str, Any]) -> FieldInfo | None:
    key = schema_keys().get(names_of(path))
    return None if key is None else key.meant(_variant(path, document), owner_of(document, section=str(*path[:1])))
