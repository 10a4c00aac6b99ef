"""Sections that a bare word may stand for, and the key of each that says which of several things it is."""

from __future__ import annotations

from typing import Any

from fl.config import FlipMomentsConfig, FlmcConfig

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
"""Path of a section that is one of several things, and its key that says which."""

_WORDLESS = (("learning",), ("privacy",))
"""Sections for which no bare word stands; of `privacy`, `none` is no mechanism but none at all."""

_LASTING = (("learning", "data"),)
"""Sections whose other keys keep their meaning when the thing is another."""


def normalise(document: dict[str, Any]) -> None:
    """Write out the shorthands of the schema: a task, model or codec by its bare name, a number as a label.

    Changes `document` itself, not the mappings in it.
    """
    learning = document.get("learning")
    if isinstance(learning, dict):
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


def named_section(path: Path, value: Any, *, algorithm: Any = None) -> Any:
    """The section at `path` as a mapping that says what it is, the default where it does not; else as it is."""
    key = SECTIONS.get(path)
    if key is None or path in _WORDLESS:
        return value
    if isinstance(value, str):
        if path == ("learning", "model") and ":" in value:
            return {"name": "custom", "function": value}
        return {key: value}
    usual = _usual(path, algorithm)
    if isinstance(value, dict) and key not in value and usual:
        return {key: usual, **value}
    return value


def is_another(path: Path, *, old: Any, new: Any) -> bool:
    """Whether two mappings for the section at `path` are two things, so that keys of one say nothing of the other."""
    key = SECTIONS.get(path)
    if key is None or path in _LASTING or not isinstance(old, dict) or not isinstance(new, dict):
        return False
    return bool(key in new and new[key] != old.get(key, _UNNAMED.get(path)))


_UNNAMED: dict[Path, str] = {
    ("learning",): FlmcConfig().algorithm,
    ("learning", "partition"): "iid",
    ("learning", "model"): "linear",
    ("learning", "aggregation"): "mean",
}
"""What a section is that does not say."""


def _usual(path: Path, algorithm: Any) -> str:
    """What has to be written out where it is left out: members of a union are told apart by it."""
    if path == ("learning", "task"):
        return FlmcConfig().task.name
    if path == ("learning", "aggregation"):
        return "mean"
    if path[-1] in ("codec", "downlink_codec"):
        return FlipMomentsConfig().codec.name if algorithm in ("flip-moments", "bit-distance") else "binary32"
    return ""
