"""Names of paths, metrics and settings on an axis, in a legend and in a table; guarantees of privacy in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel

from fl.schemes.scheme import schemes
from phy.config.by_word import registry_in
from scenarios.schema.schema_keys import SECTIONS, TAGS, schema_keys

if TYPE_CHECKING:
    from scenarios.schema.schema import Scenario

KINDS = ("name", "kind", "code", "policy", "algorithm", "optimizer", "estimator", "scenario")
"""Keys that select one of several things: a label names their value even where it is the default."""

UNITS = {"_m_s": "m/s", "_db": "dB", "_hz": "Hz", "_deg": "°", "_bytes": "bytes", "_bits": "bits", "_s": "s", "_m": "m"}
"""Endings of keys that are units."""

DOWNLINK = "learning.downlink."

AUTO_LEVEL = 0.9999
"""Confidence above which a level is what `auto` stands for, which labels leave out as every default."""


@cache
def _names() -> Any:
    """`settings` and `metrics` of names.yaml."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(Path(__file__).with_name("names.yaml").read_text(encoding="utf-8"), loader)


def _name(path: str) -> dict[str, Any]:
    return _names()["settings"].get(path) or {}


def value_names(path: str) -> dict[str, str]:
    """Names of those values of a setting that the YAML writes with another word."""
    key = schema_keys().get(path.removesuffix(".name"))
    registry = registry_in(key.meant().metadata if key else ())
    labels = {word: getattr(registry[word], "label", "") for word in registry.words()} if registry else {}
    return {word: label for word, label in labels.items() if label} | dict(_name(path).get("words", {}))


def axis_label(name: str) -> str:
    """Name and unit of a path or metric, for an axis.

    A path without a name of its own takes its words: `link.ofdm.subcarrier_spacing_hz` becomes `ofdm subcarrier spacing
    [Hz]`. An unknown metric keeps its own name.
    """
    if known := _names()["metrics"].get(name) or _name(name).get("axis"):
        return str(known)
    if name.startswith(DOWNLINK):
        return f"downlink: {axis_label('link.' + name.removeprefix(DOWNLINK))}"
    quantity, _, budget = name.partition(" within ")
    if budget:
        amount, x = budget.split()
        return f"{axis_label(quantity)}, {axis_label(x)} up to {amount}"
    words = name.partition(".")[2]
    if not words:
        return name
    unit = next((ending for ending in UNITS if words.endswith(ending)), "")
    label = words.removesuffix(unit).replace(".", " ").replace("_", " ").replace("num ", "number of ")
    return label + (f" [{UNITS[unit]}]" if unit else "")


def setting_label(path: str, value: Any, *, beside: Sequence[Any] = ()) -> str:
    """A setting in a legend: `digital`, `ε = 5`, `no privacy`; empty if the setting is absent.

    `beside` are the values of the setting in all series. Keys that several of these mappings have with one value tell
    no series apart and are left out.
    """
    if path in ("privacy", "privacy.mechanism", "privacy.epsilon"):
        if value is None or value == "none":
            return "no privacy"
    elif value is None:
        return {"learning.lmc_cap": "LMC cap by default", "learning.attack": "no attack"}.get(path, "")
    known = _name(path)
    key = path.rpartition(".")[2].replace("_", " ")
    if key in ("file", "test file") and isinstance(value, str):
        return Path(value).name
    match value:
        case Mapping():
            return _mapping_label(path, _without_shared(value, beside))
        case _ if word := value_names(path).get(str(value)):
            return str(word)
        case str() if "phrase" in known:
            return str(known["phrase"].format(value))
        case bool():
            return key if value else f"no {key}"
        case int() if "phrase" in known and "symbol" not in known:
            return str(known["phrase"].format(value))
    unit = known.get("unit", "") if "symbol" in known else ""
    if value == 1 and unit in (" bytes", " samples"):
        unit = unit.removesuffix("s")
    return f"{known.get('symbol', key)} = {format_value(value)}{unit}"


def setting_cell(path: str, value: Any) -> str:
    """A setting as plain text in a column of its path: words and mappings as in a legend, numbers without name."""
    match value:
        case None:
            return ""
        case Mapping():
            return setting_label(path, value)
        case list() | tuple():
            return "[" + ", ".join(setting_cell(path, entry) for entry in value) + "]"
        case str():
            return value_names(path).get(value, value)
        case float():
            return f"{value:.6g}"
    return str(value)


def _without_shared(value: Mapping[str, Any], beside: Sequence[Any]) -> dict[str, Any]:
    """Leave out keys that at least two different mappings have, all with one value; what a mapping is stays."""
    others = [one for one in beside if isinstance(one, Mapping) and one != value]

    def shared(key: str) -> bool:
        having = [one[key] for one in others if one.get(key) is not None]
        return key not in KINDS and bool(having) and all(one == value[key] for one in having)

    return {key: entry for key, entry in value.items() if not shared(key)}


def _mapping_label(path: str, value: Mapping[str, Any]) -> str:
    """The kind of thing that a mapping describes and its settings off the default; the kind of privacy is its ε."""
    known = schema_keys()
    kinds = ("epsilon", "mechanism") if path == "privacy" else KINDS
    words = [str(value[key]) for key in TAGS if key in value] or [SECTIONS.get(path, ("", ""))[1]]

    def matters(key: str, entry: Any) -> bool:
        if key in kinds or (schema_key := known.get(f"{path}.{key}")) is None:
            return True
        default = schema_key.meant(*words).get_default(call_default_factory=True)
        if key == "confidence" and default == "auto" and isinstance(entry, float) and entry > AUTO_LEVEL:
            return False
        return bool(entry != (default.model_dump(mode="json") if isinstance(default, BaseModel) else default))

    # A key without a value was left out: it adds no words.
    given = {key: entry for key, entry in value.items() if entry is not None and not key.endswith("sha256")}
    chosen = {key: entry for key, entry in given.items() if matters(key, entry)}
    if not chosen:
        return f"default {path.rpartition('.')[2].replace('_', ' ')}"
    if path == "learning.aggregation" and (scheme := value.get("name")) in schemes.words():
        chosen["name"], absorbed = schemes[scheme].variant(value)
        chosen = {key: entry for key, entry in chosen.items() if key not in absorbed}
    if path == "learning.attack" and (share := chosen.pop("share", None)) is not None:
        if share == 0:
            return "no attack"
        chosen["kind"] = f"{100 * share:.4g} % {setting_label(f'{path}.kind', value['kind'])}"
    parts = (
        value_names(f"{path}.name").get(str(entry), str(entry))
        if key == "name"
        else setting_label(f"{path}.{key}", entry)
        for key, entry in chosen.items()
    )
    return ", ".join(filter(None, parts))


def format_value(value: Any) -> str:
    """A number in at most four digits, a count in full, anything else unchanged."""
    match value:
        case list() | tuple():
            return "[" + ", ".join(format_value(entry) for entry in value) + "]"
        case bool() | str():
            return str(value)
        case int() if abs(value) >= 10_000:
            return f"{value:,}"
        case float() if 0.99995 <= value < 1.0:
            return f"1 - {1.0 - value:.2g}".replace("e-0", "e-")
        case int() | float():
            return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return str(value)


AGGREGATION = "learning.aggregation"


def guarantee(scenario: Scenario) -> str:
    """Return the epsilon of the aggregation scheme: `ε = 0.5`, or `no ε`; empty without a scheme."""
    scheme = scenario.learning.upload_scheme
    if scheme is None:
        return ""
    if scheme.own_epsilon is None:
        return "no ε"
    return setting_label(f"{AGGREGATION}.epsilon", scheme.own_epsilon)


def unequal_guarantees(scenarios: Iterable[Scenario]) -> dict[str, str]:
    """Return scheme: guarantees in words, where schemes that are compared have none in common; else nothing.

    Mechanisms and budgets under `privacy:` have guarantees of their own; sweep points with one do not count.
    """
    found: dict[str, dict[str, None]] = {}
    for scenario in scenarios:
        scheme = scenario.learning.upload_scheme
        if scheme is not None and scenario.mechanism is None:
            word = setting_label(f"{AGGREGATION}.name", scheme.name)
            per = "" if scheme.own_epsilon is None else f" per {scheme.epsilon_per}"
            found.setdefault(word, {})[guarantee(scenario) + per] = None
    if len(found) < 2 or set.intersection(*map(set, found.values())):
        return {}
    return {word: " and ".join(words) for word, words in found.items()}
