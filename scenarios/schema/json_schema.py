"""JSON Schema of scenario files, with which an editor completes and explains keys."""

from __future__ import annotations

from typing import Any

from scenarios.schema.schema import Scenario
from scenarios.schema.schema_keys import schema_keys

_ALSO: dict[str, dict[str, Any]] = {
    "label": {"type": "number"},
    "learning.task": {"enum": ["gaussian-linear", "logistic"]},
}
"""Forms that are written out before a scenario is validated."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files.

    A file may leave any key to its `base`, so that none is required here: `phyloop check` finds missing keys.
    """
    schema: dict[str, Any] = _relaxed(Scenario.model_json_schema())
    schema["properties"]["base"] = {
        "type": "string",
        "description": "another file beside this one, or a scenario of the library, whose keys hold where this file "
        "has none",
    }
    for path, form in _ALSO.items():
        section, _, key = path.rpartition(".")
        around = schema["properties"][section]["anyOf"] if section else [schema]
        for one in around:
            if key in (properties := _resolved(one, schema).get("properties", {})):
                about = properties[key]
                known = {name: about.pop(name) for name in ("description", "default") if name in about}
                properties[key] = {"anyOf": [about, form], **known}
    paths = [path for path, key in schema_keys().items() if not key.indexed and not path.startswith("report")]
    block = {
        "type": "object",
        "properties": {path: {"type": "array"} for path in paths} | {"zip": {"type": ["object", "array"]}},
        "additionalProperties": False,
    }
    schema["properties"]["sweep"]["anyOf"] = [block, {"type": "array", "items": block}]
    return schema


def _resolved(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref")
    return node if reference is None else schema["$defs"][reference.rpartition("/")[2]]


def _relaxed(node: Any) -> Any:
    """Drop required keys, and what tells the members of a union apart by them; null may be written as `none`."""
    match node:
        case {"type": "null"}:
            return {"enum": [None, "none"]}
        case dict():
            return {
                {"oneOf": "anyOf"}.get(key, key): _relaxed(value)
                for key, value in node.items()
                if key != "discriminator" and not (key == "required" and isinstance(value, list))
            }
        case list():
            return [_relaxed(item) for item in node]
    return node
