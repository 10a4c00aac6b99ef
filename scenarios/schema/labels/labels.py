"""Words for people: what a path, a metric or a setting is called on an axis, in a legend, in a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from scenarios.schema.labels.axis_names import AXES
from scenarios.schema.labels.setting_words import SPOKEN, SYMBOLS, WORDS
from scenarios.schema.schema_keys import SECTIONS, TAGS, schema_keys

KINDS = ("name", "kind", "code", "policy", "algorithm", "optimizer", "estimator", "scenario")
"""Keys that say which one of several things a mapping is: said even where it is the default."""


UNITS = {"_m_s": "m/s", "_db": "dB", "_hz": "Hz", "_deg": "°", "_bytes": "bytes", "_bits": "bits", "_s": "s", "_m": "m"}
"""Endings that are units."""

DOWNLINK = "learning.downlink."


def axis_label(name: str) -> str:
    """Name and unit of a path or metric, for an axis.

    A path without a name of its own is said by its words, `link.ofdm.subcarrier_spacing_hz` as `ofdm subcarrier spacing
    [Hz]`, an unknown metric by its own name.
    """
    if name in AXES:
        return AXES[name]
    if name.startswith(DOWNLINK):
        return f"downlink: {axis_label('link.' + name.removeprefix(DOWNLINK))}"
    words = name.partition(".")[2]
    if not words:
        return _without_mathematics(name)
    unit = next((ending for ending in UNITS if words.endswith(ending)), "")
    said = words.removesuffix(unit).replace(".", " ").replace("_", " ").replace("num ", "number of ")
    return _without_mathematics(said + (f" [{UNITS[unit]}]" if unit else ""))


def plain_label(name: str) -> str:
    """The same as text without matplotlib mathematics, for the report page."""
    return _plain(axis_label(name))


_SIGNS = {r"\ell": "ℓ", r"\Delta ": "Δ", r"\Delta": "Δ", "_0": "₀", "_1": "₁", r"\|": "‖", "^*": "*", "^2": "²"}
_SIGNS["$"] = ""


def _plain(text: str) -> str:
    """Text without matplotlib mathematics."""
    parts = text.split(r"\$")  # a dollar that was written is one
    for sign, plain in _SIGNS.items():
        parts = [part.replace(sign, plain) for part in parts]
    return "$".join(parts)


def setting_label(path: str, value: Any) -> str:
    """A setting as one says it: `digital`, `ε = 5`, `no privacy`; empty if it is not there."""
    if path == "privacy" or path.startswith("privacy."):
        if value is None or value == "none":
            return "no privacy"
    elif value is None:
        return "LMC cap by default" if path == "learning.lmc_cap" else ""
    if isinstance(value, Mapping):
        return _mapping_label(path, value)
    if spoken := SPOKEN.get(path, {}).get(str(value)):
        return spoken
    if path in WORDS and isinstance(value, str):
        return WORDS[path].format(_without_mathematics(value))
    name = _without_mathematics(path.rpartition(".")[2].replace("_", " "))
    if isinstance(value, bool):
        return name if value else f"no {name}"
    symbol, unit = SYMBOLS.get(path, (name, ""))
    return f"{symbol} = {format_value(value)}{unit}"


def plain_setting(path: str, value: Any) -> str:
    """`setting_label` as text without matplotlib mathematics."""
    return _plain(setting_label(path, value))


def setting_cell(path: str, value: Any) -> str:
    """A setting as plain text in a column of its path: words and mappings as legends say them, numbers without name."""
    if isinstance(value, Mapping):
        return _plain(setting_label(path, value))
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(setting_cell(path, entry) for entry in value) + "]"
    if isinstance(value, str):
        return SPOKEN.get(path, {}).get(value, value)
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _mapping_label(path: str, value: Mapping[str, Any]) -> str:
    """What kind of thing it is and what is not the default; of a privacy bound its ε is the kind."""
    known = schema_keys()
    kinds = ("epsilon", "mechanism") if path == "privacy" else KINDS
    words = [str(value[key]) for key in TAGS if key in value] or [SECTIONS.get(path, ("", ""))[1]]

    def told(key: str, entry: Any) -> bool:
        if key in kinds or (schema_key := known.get(f"{path}.{key}")) is None:
            return True
        return bool(entry != _default(schema_key.meant(*words)))

    # What is left out has no value: it says nothing, and of privacy it would say that there is none.
    chosen = {key: entry for key, entry in value.items() if entry is not None and told(key, entry)}
    if not chosen:
        return f"default {_without_mathematics(path.rpartition('.')[2].replace('_', ' '))}"
    if path == "learning.aggregation":
        chosen = _with_its_variant(value, chosen)
    if path == "learning.attack" and (share := chosen.pop("share", None)) is not None:
        if share == 0:
            return "no attack"
        chosen["kind"] = f"{100 * share:.4g} % {setting_label(f'{path}.kind', value['kind'])}"
    parts = (
        _name_label(path, str(entry)) if key == "name" else setting_label(f"{path}.{key}", entry)
        for key, entry in chosen.items()
    )
    return ", ".join(filter(None, parts))


def _name_label(path: str, name: str) -> str:
    return SPOKEN.get(f"{path}.name", {}).get(name) or _without_mathematics(name)


def _with_its_variant(value: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The settings to tell of an aggregation, its name that of a variant with a name of its own."""
    told, name = dict(chosen), value.get("name")
    if name == "cpa" and value.get("stages") == 2:
        told["name"] = "nested CPA"
        told.pop("stages", None)
    if name == "sign" and value.get("epsilon") not in (None, "none"):
        told["name"] = "signSGD + RR"
    if name in ("cpa", "sign") and told.get("epsilon") == "none":
        told["name"] = f"{_name_label('learning.aggregation', str(told['name']))} without RR"
        del told["epsilon"]
    return told


def _default(field: FieldInfo) -> Any:
    """The default of a key as plain data."""
    default = field.get_default(call_default_factory=True)
    return default.model_dump(mode="json") if isinstance(default, BaseModel) else default


def format_value(value: Any) -> str:
    """A number in at most four digits, a count in full, anything else as it is."""
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:,}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(format_value(entry) for entry in value) + "]"
    return _without_mathematics(str(value))


def _without_mathematics(text: str) -> str:
    """User text as matplotlib is to show it: a dollar is a dollar."""
    return text.replace("$", r"\$")
