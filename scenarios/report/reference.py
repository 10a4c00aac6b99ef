"""Sweep points of a run that agree with those of the library scenario of its name."""

from __future__ import annotations

from functools import cache

from scenarios.plan.identity import canonical_json, physics
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan, Point
from scenarios.report.library import library_scenario


@cache
def library_plan(name: str) -> Plan | None:
    """Return the sweep points of the learning scenario of the library with this name, None without one."""
    loaded = library_scenario(name)
    return None if loaded is None or loaded.scenario.measure is not None else expand(loaded)


def agreeing(plan: Plan) -> dict[int, Point] | None:
    """Index of each sweep point -> the library's point with the same settings, whatever its seed, label and trials.

    None where the library has no learning scenario of this name.
    """
    library = library_plan(plan.points[0].scenario.name)
    if library is None:
        return None
    points = {_settings_of(point): point for point in library.points}
    return {one.index: points[key] for one in plan.points if (key := _settings_of(one)) in points}


def _settings_of(point: Point) -> str:
    return canonical_json({name: part for name, part in physics(point.scenario).items() if name != "seed"})
