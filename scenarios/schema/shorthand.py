"""Sections of several kinds, the key that selects the kind, and a bare word in place of such a section."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fl.algorithms.codec_studies.config import FlipMomentsConfig
from fl.algorithms.flmc.tasks.config import GaussianLinearConfig
from fl.algorithms.learning import UNNAMED
from scenarios.schema.errors import mapping

Path = tuple[str | int, ...]

SECTIONS: dict[Path, str] = {
    ("learning",): "algorithm",
    ("learning", "task"): "name",
    ("learning", "data"): "name",
    ("learning", "partition"): "kind",
    ("learning", "model"): "name",
    ("learning", "codec"): "name",
    ("learning", "downlink_codec"): "name",
    ("learning", "aggregation"): "name",
    ("privacy",): "mechanism",
}
"""Path of a section that has several kinds, and the key that selects the kind."""

_WORDLESS = (("learning",), ("privacy",))
"""Sections without a bare word; `privacy: none` means no mechanism."""

_LASTING = (("learning", "data"),)
"""Sections whose other keys mean the same for every kind."""


def normalise(document: dict[str, Any], *, left_out: Collection[str]) -> None:
    """Write out the shorthands of the schema: a task, model or codec by its bare name, null for a `none`.

    `left_out`: paths of keys for which `none` may be written. Changes `document` itself, not the mappings in it.
    """
    for section in ("link", "learning", "privacy", "tune"):
        if inside := mapping(document.get(section)):
            document[section] = _without_none(inside, section, left_out)
    for section in ("measure", "tune"):
        if document.get(section) == "none":
            document[section] = None
    if learning := mapping(document.get("learning")):
        algorithm = learning.get("algorithm")
        named = {
            path[1]: named_section(path, learning[path[1]], algorithm=algorithm)
            for path in SECTIONS
            if len(path) == 2 and path[1] in learning
        }
        document["learning"] = {**learning, **named}
    label = document.get("label")
    if isinstance(label, int | float) and not isinstance(label, bool):
        document["label"] = str(label)


def _without_none(section: dict[str, Any], path: str, left_out: Collection[str]) -> dict[str, Any]:
    """Return a section with null for every `none` of a key that may be left out."""
    found = {}
    for key, value in section.items():
        one = f"{path}.{key}"
        nothing = value == "none" and one in left_out
        found[key] = _without_none(inner, one, left_out) if (inner := mapping(value)) else None if nothing else value
    return found


def named_section(path: Path, value: Any, *, algorithm: Any = None) -> Any:
    """The section at `path` as a mapping that names its kind, by default the usual kind; other values unchanged."""
    key = SECTIONS.get(path)
    if key is None or path in _WORDLESS:
        return value
    match value:
        case str():
            return {key: value}
        case dict() if key not in value and (usual := _usual(path, algorithm)):
            return {key: usual, **value}
    return value


def is_another(path: Path, *, old: Any, new: Any) -> bool:
    """Return True if two mappings for the section at `path` have different kinds and thus different keys."""
    key = SECTIONS.get(path)
    if key is None or path in _LASTING or old is not mapping(old):
        return False
    return bool(key in mapping(new) and new[key] != old.get(key, USUAL_KINDS.get(path)))


USUAL_KINDS: dict[Path, str] = {
    ("learning",): UNNAMED,
    ("learning", "task"): GaussianLinearConfig().name,
    ("learning", "partition"): "iid",
    ("learning", "model"): "linear",
    ("learning", "aggregation"): "mean",
}
"""Kind of a section that names none."""


def _usual(path: Path, algorithm: Any) -> str:
    """The kind of a section that names none, with that of codecs; empty where there is none."""
    if path[-1] in ("codec", "downlink_codec"):
        return FlipMomentsConfig().codec.name if algorithm in ("flip-moments", "bit-distance") else "uniform"
    return USUAL_KINDS.get(path, "")
