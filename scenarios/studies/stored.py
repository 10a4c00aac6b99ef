"""The scenario that a run folder keeps, checked as a file would be: the folder may come from others."""

from __future__ import annotations

import json
from typing import Any

from scenarios.schema.errors import KeyPath, Mark, ScenarioError
from scenarios.schema.loader import LoadedScenario, validate
from scenarios.schema.plugins import pin_plugins
from scenarios.schema.yaml_marks import MAX_BYTES, parse_yaml
from scenarios.store.store import Store

MOST_CHARACTERS = 4 * MAX_BYTES
"""Largest scenario as JSON: a file with every default written out."""


def stored_scenario(store: Store) -> LoadedScenario:
    """Return the scenario that a store keeps; ScenarioError where it has none, or one that no file could hold."""
    folder = store.folder
    try:
        root = store.read_scenario().root
        problem = _problem(root)
    except (ValueError, TypeError, RecursionError) as error:
        root, problem = {}, f"not JSON, {type(error).__name__}"
    if problem:
        raise ScenarioError(
            file=folder,
            problem=f"the scenario kept here cannot be read ({problem}): phyloop did not write it",
            remedy="ask for the folder again, or run the scenario into a new one",
        )
    marks: dict[KeyPath, Mark] = {(): Mark(folder, None)}
    pin_plugins(root, marks, folder=folder)
    return LoadedScenario(scenario=validate(root, marks=marks), document=root, marks={}, source=folder)


def _problem(root: Any) -> str:
    """Return why no file could hold a value of JSON, empty if one could: JSON is YAML, whose reader has the bounds."""
    text = json.dumps(root, ensure_ascii=False)
    if not text.startswith("{") or len(text) > MOST_CHARACTERS:
        return "not a mapping, or too long"
    try:
        parse_yaml(text, file="")
    except ScenarioError as error:
        return error.problem
    return ""
