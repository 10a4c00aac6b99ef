"""The scenario that a run folder keeps, checked as a file would be: the folder may come from others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scenarios.schema.errors import KeyPath, Mark, ScenarioError, dotted
from scenarios.schema.loader import LoadedScenario, validate
from scenarios.schema.yaml_marks import MAX_BYTES, MAX_DEPTH, MAX_DIGITS, MAX_KEY, MAX_KEYS, MAX_NODES, UNSHOWN
from scenarios.store.store import Store


def stored_scenario(store: Store) -> LoadedScenario:
    """The scenario that a store keeps; ScenarioError where it has none, or one that no file could hold."""
    folder = store.folder
    try:
        root = store.read_scenario().root
    except (ValueError, TypeError, RecursionError) as error:
        raise _foreign(folder, f"is not JSON ({type(error).__name__})") from error
    if not isinstance(root, dict):
        raise _foreign(folder, "is not a mapping")
    for number, (path, value) in enumerate(_walk(root, ())):
        if number > MAX_NODES or len(path) > MAX_DEPTH + 1:
            raise _foreign(folder, f"has more than {MAX_NODES} values, or more than {MAX_DEPTH} levels")
        if problem := _problem(value):
            raise _foreign(folder, f"has at {dotted(path[:3]) or 'the top'} {problem}")
    scenario = validate(root, marks={(): Mark(folder, None)})
    return LoadedScenario(scenario=scenario, document=root, marks={}, source=folder)


def _walk(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    """Every value, without recursion: a store may nest as deep as JSON is read."""
    waiting = [(path, value)]
    while waiting:
        here, found = waiting.pop()
        yield here, found
        if isinstance(found, dict):
            waiting += [((*here, key), item) for key, item in found.items()]
        elif isinstance(found, list):
            waiting += [((*here, number), item) for number, item in enumerate(found)]


def _problem(value: Any) -> str:
    if isinstance(value, Mapping):
        if len(value) > MAX_KEYS or any(len(key) > MAX_KEY or UNSHOWN.search(key) for key in value):
            return "keys that no scenario has"
    elif isinstance(value, str):
        if len(value) > MAX_BYTES or UNSHOWN.search(value):
            return "text that cannot be shown"
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**MAX_DIGITS:
        return f"a number of more than {MAX_DIGITS} digits"
    return "null" if value is None else ""


def _foreign(folder: Path, problem: str) -> ScenarioError:
    return ScenarioError(
        file=folder,
        problem=f"the scenario kept here {problem}: phyloop did not write it",
        remedy="ask for the folder again, or run the scenario into a new one",
    )
