"""Sweep points: the settings of each point, and its scenario."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from scenarios.plan.identity import canonical_json, physics_json, task_ids
from scenarios.schema.errors import KeyPath, items_of, mapping
from scenarios.schema.sweep import blocks_of, groups_of

if TYPE_CHECKING:
    from scenarios.schema.schema import FigureConfig, Scenario


@dataclass(frozen=True, kw_only=True)
class Point:
    """One sweep point: the settings of its block of the sweep, and the resulting scenario.

    `scenario` has no sweep and no `auto`, and the trials and seed of the root.
    """

    index: int
    settings: dict[str, Any]
    scenario: Scenario


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All sweep points of a scenario; a task is one sweep point and one trial."""

    points: tuple[Point, ...]
    swept_paths: tuple[str, ...]
    trials: int
    seed: int

    @cached_property
    def task_ids(self) -> tuple[tuple[str, ...], ...]:
        """Identity of each task, `[point][trial]`."""
        return tuple(task_ids(physics_json(point.scenario), trials=range(self.trials)) for point in self.points)


_REPLACED = ("link.mcs",)
"""Keys that a resolved link has under other names: of an MCS index it has modulation and code rate."""


def value_of(point: Point, path: str) -> Any:
    """The resolved value at a dotted path as plain data, None if this sweep point has no such key.

    An MCS index is as the sweep set it, though the link has its modulation and rate instead.
    """
    if path in _REPLACED and path in point.settings:
        return point.settings[path]
    value: Any = point.scenario
    for part in path.split("."):
        if part not in getattr(type(value), "model_fields", ()):
            return None
        value = getattr(value, part)
    return to_jsonable_python(value)


def is_number(value: Any) -> bool:
    """Return True for a number; a boolean is none."""
    return type(value) in (int, float)


def swept_keys(sweep: Any) -> Iterator[KeyPath]:
    """Yield the key path of every swept path, with the swept path last."""
    for at, block in blocks_of(sweep).items():
        for place, group in groups_of(block, at):
            yield from ((*place, path) for path in mapping(group))


def is_set(value: Any, wanted: Any) -> bool:
    """Tell if a setting has the value written: by size, so that 1 is 1.0, or by its text."""
    return bool(value == wanted) or canonical_json(value) == canonical_json(wanted)


def is_shown(config: FigureConfig, point: Point) -> bool:
    """Tell if the figure's `where` keeps a point."""
    return all(
        any(is_set(value_of(point, path), one) for one in items_of(wanted)) for path, wanted in config.where.items()
    )
