"""Keys of one section that belong to another kind of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from phy.config.conflict import listing
from scenarios.schema.errors import Change, KeyPath, names_of
from scenarios.schema.messages.forms import Diagnosis
from scenarios.schema.schema import num_errors
from scenarios.schema.schema_keys import SECTIONS, belongs, owner_of, schema_keys


def of_other_kinds(unknown: Iterable[KeyPath], document: dict[str, Any]) -> tuple[list[Diagnosis], set[KeyPath]]:
    """Answer for keys of one section that belong to another kind of it; returns the paths that this explains, too."""
    sections: dict[str, list[KeyPath]] = {}
    for path in unknown:
        if len(path) == 2 and path[0] in SECTIONS and _is_foreign(path, document):
            sections.setdefault(str(path[0]), []).append(path)
    answers: list[Diagnosis] = []
    explained: set[KeyPath] = set()
    for section, paths in sections.items():
        inside, (tag, usual) = document[section], SECTIONS[section]
        able = set.intersection(*(set(schema_keys()[names_of(path)].variants) for path in paths))
        if not able or (tag in inside and len(paths) == 1):
            continue
        word = min(sorted(able), key=lambda one: num_errors({**document, section: {**inside, tag: one}}))
        keys = listing((path[-1] for path in paths), last="and")
        problem = f"{keys} belong{'s' if len(paths) == 1 else ''} to {tag} {listing(sorted(able))}"
        kept = [f"{section}.{key}" for key in inside if key != tag]
        own = [one for one in kept if belongs(one, inside.get(tag, usual)) and not belongs(one, word)]
        kind = (section, tag)
        change = Change(new=((kind, word),))
        if tag not in inside:
            answers.append(
                Diagnosis(paths[0], f"{problem}, and no {tag} is written", f"add {tag}: {word} under {section}", change)
            )
        elif len(paths) > len(own):
            answers.append(
                Diagnosis(kind, problem, f"write {tag}: {word}, or leave these keys out", change, inside[tag])
            )
        else:
            change, remedy = Change(gone=tuple(paths)), f"leave these keys out, or write {tag}: {word}"
            answers.append(Diagnosis(kind, problem, remedy, change, inside[tag]))
        explained |= set(paths)
    return answers, explained


def _is_foreign(path: KeyPath, document: dict[str, Any]) -> bool:
    """Return True if another kind of the section has the key, and this kind has none of its name inside."""
    key, kind = schema_keys().get(names_of(path)), owner_of(document, section=str(path[0]))
    if key is None or not key.variants or kind in key.variants:
        return False
    within, named = f"{path[0]}.", f".{path[-1]}"
    others = (one for name, one in schema_keys().items() if name.startswith(within) and name.endswith(named))
    return not any(kind in one.fields for one in others if one is not key)
