"""Expand the sweep of a loaded scenario into sweep points, each a checked scenario."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any, TypeVar

from pydantic import ValidationError

from fl.base.words import plural
from phy.config.conflict import Conflict, flow
from phy.config.files import files_beside
from scenarios.plan.identity import physics_json
from scenarios.plan.lists import list_remedy, product_remedy
from scenarios.plan.points import Plan, Point
from scenarios.plan.refused import Axis, Setting, errors_of_points
from scenarios.schema.consistency.conflicts import check_consistency, find_conflicts
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.errors import (
    KeyPath,
    Mark,
    ScenarioError,
    items_of,
    mapping,
    mark_of,
    shorten,
    together,
    value_at,
)
from scenarios.schema.loader import LoadedScenario
from scenarios.schema.messages.explain import explain, explain_within
from scenarios.schema.messages.remedies import answer
from scenarios.schema.overrides import set_path
from scenarios.schema.schema import Scenario, validate_quickly
from scenarios.schema.schema_keys import keys_within, left_out_keys, meant_key, schema_keys
from scenarios.schema.shorthand import normalise
from scenarios.schema.sweep import blocks_of, groups_of, swept_marks

MAX_POINTS = 100_000
MAX_TASKS = 10_000_000
_MAX_REFUSED = 100
"""Refused sweep points after which the others are not looked at."""

_NOT_SWEPT = {
    "measure": "leave it out: its values are the x axis, and only measure.num_devices can be swept",
    "name": "sweep label to tell points apart",
    "description": "sweep label to tell points apart",
    "code": "phyloop run writes it for every model of the sweep",
    "sweep": "write several blocks as a list instead",
    "report": "keep one report for all points",
    "tune": "write tune.keys, whose values phyloop tune compares",
    "trials": "leave it out: every point gets the same number of trials",
    "stop": "leave it out: one rule ends the trials of all points",
    "seed": "leave it out, and raise trials: every trial has its own random numbers",
}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Rules of one kind of study for its sweep points.

    `conflicts` refuse a point, `resolve` makes `auto` explicit, and two points with equal `physics` compute the same
    numbers.
    """

    conflicts: Callable[[Scenario], Iterator[Conflict]] = find_conflicts
    resolve: Callable[[Scenario], Scenario] = resolve_auto
    physics: Callable[[Scenario], str] = physics_json


LEARNING = Reading()


_One = TypeVar("_One")
_Other = TypeVar("_Other")


def expand(loaded: LoadedScenario, reading: Reading = LEARNING) -> Plan:
    """The plan of a scenario: the union of its sweep blocks, in order.

    Raises ScenarioError for a sweep that makes no sense, for points that are no valid or consistent
    scenarios, and for two points that would compute the same numbers.
    """
    axes = sweep_axes(loaded)
    total = sum(prod(len(axis) for axis in block) for block in axes)
    if total > MAX_POINTS:
        raise loaded.error(
            ("sweep",), f"{plural(total, 'point')}, more than {MAX_POINTS:,}", "shorten the lists, or zip them"
        )
    if (tasks := total * loaded.scenario.trials) > MAX_TASKS:
        problem = (
            f"{plural(total, 'point')} x {plural(loaded.scenario.trials, 'trial')} are {tasks:,} tasks, "
            f"more than {MAX_TASKS:,}"
        )
        raise loaded.error(("trials",), problem, "take fewer trials")
    root = {key: value for key, value in loaded.document.items() if key != "sweep"}
    points: list[Point] = []
    first: dict[str, Point] = {}
    refused: list[tuple[ScenarioError, list[Setting]]] = []
    for settings in ([setting for step in steps for setting in step] for block in axes for steps in product(*block)):
        try:
            with files_beside(loaded.folder):
                point = _point(loaded, root, settings, len(points), reading)
        except ScenarioError as error:
            refused.append((error, settings))
            if len(refused) == _MAX_REFUSED:
                break
            continue
        # Here, because a sweep of equal points may be long.
        _refuse_twin(loaded, first.setdefault(reading.physics(point.scenario), point), point)
        points.append(point)
    if refused:
        raise together(errors_of_points(refused, axes, root, everywhere=len(refused) == min(total, _MAX_REFUSED)))
    paths = (setting.path for block in axes for axis in block for setting in axis[0])
    trials, seed = loaded.scenario.trials, loaded.scenario.seed
    return Plan(points=tuple(points), swept_paths=tuple(dict.fromkeys(paths)), trials=trials, seed=seed)


def check_sweep(loaded: LoadedScenario) -> None:
    """Raise ScenarioError for all wrong paths, lists and values of a sweep, each beside the first values of others."""
    steps = [
        (step, [setting for other in axes if other is not axis for setting in other[0]])
        for axes in sweep_axes(loaded)
        for axis in axes
        for step in axis
    ]
    if errors := [error for step, beside in steps[:_MAX_REFUSED] for error in _of_values(loaded, step, beside)]:
        raise together(errors)


def _of_values(loaded: LoadedScenario, step: Iterable[Setting], beside: Iterable[Setting] = ()) -> list[ScenarioError]:
    """The errors of some swept values, `beside` others of their sweep points, such as the kind of their section."""
    root = {key: value for key, value in loaded.document.items() if key != "sweep"}
    settings = [*step]
    try:
        with files_beside(loaded.folder):
            validate_quickly(document := _document(root, [*beside, *settings]))
    except ValidationError as error:
        marks, _ = _point_marks(loaded, [*beside, *settings])
        paths = {tuple(setting.path.split(".")) for setting in settings}
        return explain_within(error, paths, answer=answer, document=document, marks=marks)
    return []


def sweep_axes(loaded: LoadedScenario) -> list[list[Axis]]:
    """The axes of every block of the sweep; raises ScenarioError for all wrong paths and lists."""
    blocks = blocks_of(loaded.document.get("sweep") or {})
    return _each(lambda block: _axes(loaded, block[1], block[0]), blocks.items()) or [[]]


def _axes(loaded: LoadedScenario, block: Any, at: KeyPath) -> list[Axis]:
    """The axes of one block."""
    seen: dict[str, KeyPath] = {}
    return _each(lambda group: _walk(loaded, group[1], group[0], seen), groups_of(block, at))


def _each(function: Callable[[_One], _Other], items: Iterable[_One]) -> list[_Other]:
    """Return the results for all items; raise all errors together."""
    results, errors = [], []
    for item in items:
        try:
            results.append(function(item))
        except ScenarioError as error:
            errors.append(error)
    if errors:
        raise together(errors)
    return results


def _walk(loaded: LoadedScenario, group: Any, at: KeyPath, seen: dict[str, KeyPath]) -> Axis:
    """The axis of one path, or of paths that step together."""
    if not mapping(group):
        problem = "must be a mapping of dotted paths to lists of one length, or a list of such mappings"
        remedy = "write for example zip: {learning.scheme: [analog, digital], label: [A, B]}"
        raise loaded.error(at, problem, remedy, value=group)

    def check(entry: tuple[str, Any]) -> None:
        path, values = entry
        _check_path(loaded, path, values, (*at, path), seen)
        if not isinstance(values, list) or not values:
            problem, remedy = "must be a list of at least one value", list_remedy(path, values)
            if len(group) > 1 and isinstance(values, str | int | float):
                remedy = f"move it out of zip: {path}: [{shorten(values)}]"
            raise loaded.error((*at, path), problem, remedy, key=path, value=values)

    _each(check, group.items())
    if len({len(values) for values in group.values()}) > 1:
        lengths = ", ".join(f"{path} has {len(values)}" for path, values in group.items())
        problem = f"lists that are zipped must have one length, but {lengths}"
        others = [values for path, values in group.items() if path != "label"]
        if "label" in group:  # rows without a label have that of their first value
            kinds = [shorten(mapping(one).get("name", one)) for one in others[0]]
            group = group | {"label": [*group["label"], *kinds[len(group["label"]) :]]}
        rows = {path: values[: min(map(len, others))] for path, values in group.items()}
        raise loaded.error(at, problem, f"write zip: {flow(rows)}, or the lists outside zip for all combinations")
    first: dict[str, int] = {}
    axis: Axis = []
    for number, values in enumerate(zip(*group.values(), strict=True)):
        row = tuple(Setting(path, value, (*at, path, number)) for path, value in zip(group, values, strict=True))
        same = first.setdefault(json.dumps(values, sort_keys=True), number)
        if same != number:
            problem, value = f"value {number + 1} of the list repeats value {same + 1}", list(values)
            value = value[0] if len(value) == 1 else value
            key = " and ".join(group)
            raise loaded.error(row[0].origin, problem, "write each value once", key=key, value=value)
        axis.append(row)
    return axis


def _check_path(loaded: LoadedScenario, path: str, values: Any, at: KeyPath, seen: dict[str, KeyPath]) -> None:
    def refuse(problem: str, remedy: str) -> ScenarioError:
        return loaded.error(at, problem, remedy, key=path)

    top = path.partition(".")[0]
    if top in _NOT_SWEPT and (path == top or path in schema_keys()) and path != "measure.num_devices":
        raise refuse(f"{top} cannot be swept", _NOT_SWEPT[top])
    key = schema_keys().get(path)
    if key is None:
        known = [one for one in keys_within(loaded.document) if one.partition(".")[0] not in _NOT_SWEPT]
        near, converted, remedy = meant_key(path, among=known, value=values)
        wrong = refuse("the sweep names a path that does not exist", remedy)
        # The values of a misspelt path are those of the nearest one, unless that has another unit.
        meant = items_of(values) if near and converted is None else []
        steps = [Setting(str(near), value, (*at, number)) for number, value in enumerate(meant)]
        raise together([wrong, *(error for step in steps[:_MAX_REFUSED] for error in _of_values(loaded, [step]))])
    for other, place in seen.items():
        if path == other or path.startswith(other + ".") or other.startswith(path + "."):
            if path == other:
                line = mark_of(place, loaded.marks)[1]
                keep = f"keep one of them (the other is on line {line})" if line else "keep one of them"
                raise refuse("the path is swept twice in one block", keep)
            product = product_remedy({path: values, other: value_at(loaded.document, place)})
            remedy = f"{product}, alone" if product else f"leave {path} out of the sweep, or {other}"
            raise refuse(f"swept beside {other}, one inside the other", remedy)
    seen[path] = at


def _document(root: dict[str, Any], settings: list[Setting]) -> dict[str, Any]:
    document = root
    if settings:
        document = dict(root)  # set_path and normalise copy the mappings that they change
        for path, value, _ in settings:
            set_path(document, path, value)
        normalise(document, left_out=left_out_keys())
    return document


def _point(
    loaded: LoadedScenario, root: dict[str, Any], settings: list[Setting], index: int, reading: Reading
) -> Point:
    document = _document(root, settings)
    try:
        scenario = validate_quickly(document)
    except ValidationError as error:
        marks, swept = _point_marks(loaded, settings)
        raise explain(error, answer=answer, document=document, marks=marks, prefer=swept) from None
    if next(reading.conflicts(scenario), None) is not None:
        marks, swept = _point_marks(loaded, settings)
        where = partial(_written, marks=marks, swept=swept)
        check_consistency(scenario, where=where, conflicts=reading.conflicts(scenario))
    return Point(
        index=index,
        settings={setting.path: setting.value for setting in settings},
        scenario=reading.resolve(scenario),
    )


def _point_marks(loaded: LoadedScenario, settings: list[Setting]) -> tuple[dict[KeyPath, Mark], set[KeyPath]]:
    """Marks of the document of one sweep point: the place of a swept value is in the sweep."""
    swept: dict[KeyPath, KeyPath] = {tuple(setting.path.split(".")): setting.origin for setting in settings}
    return swept_marks(loaded.marks, swept), set(swept)


def _written(key: str, marks: Mapping[KeyPath, Mark], swept: set[KeyPath]) -> Mark | None:
    path: KeyPath = tuple(key.split("."))
    if path in marks:
        return marks[path]
    # A swept section writes the keys in it, and `learning.task: logistic` writes learning.task.name.
    return next((marks[path[:n]] for n in range(len(path) - 1, 0, -1) if path[:n] in swept), None)


def _refuse_twin(loaded: LoadedScenario, twin: Point, point: Point) -> None:
    """ScenarioError unless two points of one physics are the same point."""

    def words(one: Point) -> str:
        settings = ", ".join(f"{path} = {shorten(value, 30)}" for path, value in one.settings.items())
        return f"point {one.index + 1} ({settings or 'nothing set'})"

    if twin is not point:
        problem = f"the same task twice, {words(twin)} and {words(point)} compute the same numbers"
        raise loaded.error(("sweep",), problem, "remove one, or change more than its label")
