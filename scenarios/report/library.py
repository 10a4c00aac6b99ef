"""The library scenario of a run's name, and the settings in which the run differs from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from math import prod
from typing import Any

from scenarios.plan.points import swept_keys
from scenarios.schema.errors import mapping
from scenarios.schema.labels.labels import setting_cell
from scenarios.schema.loader import LIBRARY, LoadedScenario, load_scenario, resolved_data
from scenarios.schema.schema import Scenario, validate_quickly
from scenarios.schema.sweep import blocks_of, groups_of

MOST = 6
"""Settings that the sentence names."""

_NO_NUMBER = ("name", "description", "label", "card", "code", "plugins", "sweep", "report", "tune")
"""Keys that change no number, and the sweep, of which the sentence counts the points."""


@cache
def library_scenario(name: str) -> LoadedScenario | None:
    """Return the scenario of the library with this name, None without one."""
    return load_scenario(name) if (LIBRARY / f"{name}.yaml").is_file() else None


def difference(root: Mapping[str, Any]) -> str:
    """Return `differs from cpa-table4: rounds 5 (30), trials 1 (3)` for a scenario as resolved data.

    Empty without a difference, or where the library has no scenario of this name.
    """
    library = library_scenario(root.get("name", ""))
    if library is None:
        return ""
    ours, theirs = resolved_data(validate_quickly(dict(root))), resolved_data(library.scenario)
    swept, sweeps = _swept(ours), _swept(theirs)
    found = []
    for path, value, other in _pairs(ours, theirs, whole=swept | sweeps):
        if not _within(path, swept) and (_within(path, sweeps) or value != other):
            was = "swept" if _within(path, sweeps) else setting_cell(path, other) or "none"
            found.append(f"{path.partition('.')[2] or path} {setting_cell(path, value) or 'none'} ({was})")
    if ours["sweep"] != theirs["sweep"]:
        count, usual = _num_points(ours["sweep"]), _num_points(theirs["sweep"])
        found.append(f"sweep points {count} ({usual})" if count != usual else "other values in the sweep")
    more = f" and {len(found) - MOST} more" if len(found) > MOST else ""
    return f"differs from {root['name']}: {', '.join(found[:MOST])}{more}" if found else ""


def own_notes(scenario: Scenario) -> str:
    """Return the notes of a scenario that differs from the library scenario, without those of the library."""
    library, notes = library_scenario(scenario.name), scenario.report.notes
    return "" if library is not None and notes == library.scenario.report.notes else notes


def _pairs(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "", *, whole: Collection[str]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted path and both values of each setting that changes numbers; None where one has none.

    A section that is swept as a `whole` is one setting.
    """
    for key in {**ours, **theirs}:
        value, other, here = ours.get(key), theirs.get(key), f"{path}.{key}".lstrip(".")
        if not path and key in _NO_NUMBER:
            continue
        if here not in whole and value is mapping(value) and other is mapping(other):
            yield from _pairs(value, other, here, whole=whole)
        else:
            yield here, value, other


def _swept(data: Mapping[str, Any]) -> set[str]:
    return {str(at[-1]) for at in swept_keys(data["sweep"])}


def _within(path: str, swept: set[str]) -> bool:
    """Tell whether a path, a section around it or a setting below it is swept."""
    return any(f"{path}.".startswith(f"{one}.") or f"{one}.".startswith(f"{path}.") for one in swept)


def _num_points(sweep: Any) -> int:
    """The number of sweep points of a valid sweep."""
    blocks = [[group for _, group in groups_of(block, at)] for at, block in blocks_of(sweep).items()]
    return sum(prod(len(next(iter(group.values()))) for group in groups) for groups in blocks) or 1
