"""What the sweep set at a point, in words and as cells of tables; and which engine computes its links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from phy.config import LinkConfig
from phy.numerics.cache import LastResult
from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, Point, is_number, value_of
from scenarios.report.tables.table import Table
from scenarios.schema.consistency.resolve import links_of
from scenarios.schema.errors import has_parts
from scenarios.schema.labels.labels import (
    AGGREGATION,
    axis_label,
    guarantee,
    setting_cell,
    setting_label,
    unequal_guarantees,
)
from scenarios.schema.schema import Scenario


def setting_in_words(plan: Plan, point: Point) -> str:
    """What tells this point from the others, or all that the sweep set at a single point; empty without a sweep."""
    return ", ".join(filter(None, short_setting(plan, point))) or ", ".join(_in_words(point, plan.swept_paths))


def _in_words(
    point: Point,
    paths: Iterable[str],
    *,
    beside: Mapping[str, Sequence[Any]] = MappingProxyType({}),
    guarantees: bool = False,
) -> tuple[str, ...]:
    """Settings in words; with `guarantees` the epsilon of the scheme behind its name, as in legends.

    `beside` are the sections of all sweep points by path, see `setting_label`.
    """

    def words(path: str) -> str:
        label = setting_label(path, value_of(point, path), beside=beside.get(path, ()))
        named = guarantees and path in (AGGREGATION, f"{AGGREGATION}.name")
        more = guarantee(point.scenario) if named else ""
        return f"{label}, {more}" if more not in label else label

    return tuple(filter(None, map(words, paths)))


def short_setting(plan: Plan, point: Point) -> tuple[str, ...]:
    """The label of a sweep point where every point has one of its own, else what tells the points apart, in words."""
    labels = [one.scenario.label for one in plan.points]
    if len({*labels, ""}) > len(labels):
        return (point.scenario.label,)
    axes = _axes(plan)
    epsilon = any(path.endswith("epsilon") for path in axes)
    return _in_words(point, axes, beside=_sections(plan), guarantees=not epsilon and _unequal(plan)) or ("",)


def axes_of(plan: Plan) -> dict[str, list[object]]:
    """The swept paths that tell sweep points apart, each with its values.

    Of paths that change together, as in `zip`, it is the label, else the first whose values are no numbers.
    """

    def numbers(path: str) -> bool:
        return all(is_number(point.settings.get(path, 0)) for point in plan.points)

    paths = sorted(plan.swept_paths, key=lambda path: (path != "label", numbers(path)))
    texts = {path: [canonical_json(point.settings.get(path)) for point in plan.points] for path in paths}

    def determines(one: str, other: str) -> bool:
        everywhere = all(one in point.settings for point in plan.points)
        return everywhere and len(set(zip(texts[one], texts[other], strict=True))) == len(set(texts[one]))

    def is_axis(path: str) -> bool:
        others = [other for other in paths if other != path and determines(other, path)]
        return all(determines(path, other) and paths.index(path) < paths.index(other) for other in others)

    values: dict[str, list[object]] = {}
    for path in filter(is_axis, plan.swept_paths):
        found = [value_of(point, path) for point in plan.points if path in point.settings]
        values[path] = list({canonical_json(value): value for value in found}.values())
    return {path: found for path, found in values.items() if len(found) > 1}


def sections_of(points: Iterable[Point], paths: Iterable[str]) -> dict[str, list[Any]]:
    """The different sections that the sweep points have at each path; values that are no sections are left out."""
    found: dict[str, list[Any]] = {}
    for path in paths:
        swept = {canonical_json(point.settings.get(path)): point for point in points}
        sections = (value_of(point, path) for point in swept.values())
        found[path] = [one for one in sections if isinstance(one, Mapping)]
    return found


def _sections_of_plan(plan: Plan) -> dict[str, list[Any]]:
    return sections_of(plan.points, plan.swept_paths)


def _differ_in_guarantees(plan: Plan) -> bool:
    return bool(unequal_guarantees(point.scenario for point in plan.points))


# A table asks for each of its rows.
_axes = LastResult(axes_of)
_unequal = LastResult(_differ_in_guarantees)
_sections = LastResult(_sections_of_plan)


def words_of(plan: Plan, path: str) -> tuple[str, ...]:
    """The values of a setting over all sweep points, once each, in the words of tables."""
    return tuple(dict.fromkeys(setting_cell(path, value_of(point, path)) for point in plan.points))


def settings_by_words(plan: Plan, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, path: value or list of values, with values in place of the words that tables have for them."""

    def value(path: str, given: Any) -> Any:
        values = (value_of(point, path) for point in plan.points)
        return next((one for one in values if setting_cell(path, one) == given), given)

    return {
        path: [value(path, one) for one in given] if isinstance(given, list | tuple) else value(path, given)
        for path, given in settings.items()
    }


def cells_of(point: Point, paths: Iterable[str]) -> tuple[str, ...]:
    """Settings of a sweep point in the words of tables, a cell per path."""
    return tuple(setting_cell(path, value_of(point, path)) for path in paths)


def point_table(
    plan: Plan,
    heads: Sequence[str],
    rows: Iterable[tuple[Point, Sequence[str | None]]],
    *,
    left: Sequence[str] = (),
    named: bool = True,
) -> Table:
    """Rows of points; columns in `left` are words.

    A row begins with its setting in words and ends with a column per swept path but the label, if there are several. If
    not `named`, the swept paths come first.
    """
    swept = [path for path in plan.swept_paths if path != "label" or not named]
    paths = tuple(map(axis_label, swept))
    first = ("setting",) if named and plan.swept_paths else () if named else paths
    last = paths if named and len(_axes(plan)) > 1 else ()
    found = []
    for point, cells in rows:
        settings = cells_of(point, swept)
        before = (", ".join(short_setting(plan, point)),) if named else settings
        found.append((*before[: len(first)], *cells, *settings[: len(last)]))
    return Table(columns=(*first, *heads, *last), rows=tuple(found), left=(*first, *paths, *left))


def columns_of_settings(points: Sequence[Point], swept_paths: Sequence[str]) -> dict[str, list[Any]]:
    """Values of each swept path at the sweep points, in `column_cell`s; all as JSON if two have the same words."""
    found = {}
    for path in swept_paths:
        values = [value_of(point, path) for point in points]
        texts = [canonical_json(value) for value in values]
        words = [column_cell(path, value) for value in values]
        alike = len({canonical_json(word) for word in words}) < len(set(texts))
        found[path] = texts if alike else words
    return found


def column_cell(path: str, value: Any) -> Any:
    """A number or a word as it is; a mapping or a list in words."""
    return setting_cell(path, value) if has_parts(value) else value


def said(point: Point, path: str, *, beside: Sequence[Any] = ()) -> str:
    """A setting of a point in words; of a mapping of the link what the sweep wrote, without the defaults beside it.

    Of other sections, what those `beside` share is left out, see `setting_label`.
    """
    written = point.settings.get(path)
    as_written = path.startswith("link.") and isinstance(written, Mapping)
    if as_written:
        return setting_label(path, written)
    return setting_label(path, value_of(point, path), beside=beside)


_ENGINES = {"fused": "fused kernels", "sionna": "Sionna under XLA", "cuda": "kernels on a GPU"}


def links_on_air(scenarios: Iterable[Scenario]) -> list[LinkConfig]:
    """The resolved links over which symbols travel, uplinks and downlinks; none where nothing has a radio."""
    links = (link for one in scenarios if one.learning.uses_radio for _, link in links_of(one))
    return [link for link in links if link.error_model != "error_free"]


def computed_by(links: Iterable[LinkConfig]) -> str | None:
    """`fused kernels`, `Sionna under XLA`, or how many links each of them computes; None without a link."""
    engines: list[str] = [link.engine for link in links]
    found = [(words, engines.count(engine)) for engine, words in _ENGINES.items() if engine in engines]
    if len(found) == 1:
        return found[0][0]
    return ", ".join(f"{count} of {len(engines)} links by {words}" for words, count in found) or None
