"""Published numbers beside ours: each finds its point by the settings it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, Point, value_of
from scenarios.report.tables.quantities import NEVER_NEGATIVE, SHARES
from scenarios.schema.schema import PublishedConfig, Scenario, TableConfig

if TYPE_CHECKING:
    from scenarios.report.tables.intervals import Mean
    from scenarios.report.tables.tables import PointSummary
    from scenarios.schema.errors import KeyPath

Verdict = Literal["in our interval", "within its rounding", "outside"]

Absent = Literal["not simulated", "every trial failed", "not measured"]

_EXACT = 1e-9
"""Relative: 0.57 in percent is 56.99999999999999."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """One number of a paper, the settings it belongs to, and where in the list `published` it stands."""

    at: Mapping[str, Any]
    value: float
    place: KeyPath


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A published number beside ours, both in the unit of the table; `ours` None: `absent` says why."""

    published: Published
    ours: Mean | None
    absent: Absent | None = None

    @property
    def difference(self) -> float | None:
        """Ours less the published number."""
        return None if self.ours is None else self.ours.mean - self.published.value


def numbers(config: TableConfig) -> Iterator[Published]:
    """Every published number of a table with its own settings; ValueError for lists that do not walk together."""
    for entry, row in enumerate(config.published):
        at = {**row.at, **{path: value for path, value in config.at.items() if path not in row.at}}
        walking = {path: value for path, value in at.items() if isinstance(value, list)}
        if not isinstance(row.values, tuple):
            if walking:
                raise ValueError(f"{next(iter(walking))} is a list, and the number is one")
            yield Published(at=at, value=row.values, place=(entry,))
            continue
        for place, (value, *steps) in enumerate(zip(row.values, *walking.values(), strict=True)):
            yield Published(at={**at, **dict(zip(walking, steps, strict=True))}, value=value, place=(entry, place))


def of_plan(config: TableConfig, plan: Plan) -> Iterator[Published]:
    """The numbers whose words are all known to the plan: those of a rival that it leaves out are another sweep's."""
    for published in numbers(config):
        if all(not isinstance(value, str) or value in words_at(plan, path) for path, value in published.at.items()):
            yield published


def words_at(plan: Plan, path: str) -> tuple[str, ...]:
    """The words that the points of a plan have at a path, each once."""
    return tuple(dict.fromkeys(word for p in plan.points if isinstance(word := value_of(p, path), str)))


def without_others(scenario: Scenario, plan: Plan) -> Scenario:
    """The scenario with the numbers of its own plan only, to be read again without the file of the others."""
    tables = []
    for config in scenario.report.tables:
        kept = tuple(of_plan(config, plan))
        if len(kept) == sum(1 for _ in numbers(config)):
            tables.append(config)
        elif kept:
            rows = tuple(PublishedConfig(at=dict(one.at), values=one.value) for one in kept)
            tables.append(config.model_copy(update={"published": rows, "at": {}}))
    return scenario.model_copy(update={"report": scenario.report.model_copy(update={"tables": tuple(tables)})})


def points_at(plan: Plan, at: Mapping[str, Any]) -> tuple[Point, ...]:
    """The points of a plan that have all of these settings."""
    return tuple(p for p in plan.points if all(is_set(value_of(p, path), value) for path, value in at.items()))


def is_set(value: Any, wanted: Any) -> bool:
    """Whether a setting has the value written: numbers by size, so that 1 is 1.0, all else by its text."""
    if _is_number(value) and _is_number(wanted):
        return bool(value == wanted)
    return canonical_json(value) == canonical_json(wanted)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def compare(config: TableConfig, plan: Plan, summaries: Sequence[PointSummary]) -> tuple[Comparison, ...]:
    """A row per published number of this plan, in order; one without a whole trial says so."""
    found = {summary.point.index: summary for summary in summaries}
    rows = []
    for published in of_plan(config, plan):
        known = [found[point.index] for point in points_at(plan, published.at) if point.index in found]
        done = [summary for summary in known if summary.done]
        for summary in done:
            ours = summary.metrics.get(config.metric)
            if ours is None:
                rows.append(Comparison(published=published, ours=None, absent="not measured"))
            else:
                rows.append(Comparison(published=published, ours=in_unit(ours, config)))
        if not done:
            absent: Absent = "every trial failed" if known else "not simulated"
            rows.append(Comparison(published=published, ours=None, absent=absent))
    return tuple(rows)


def in_unit(mean: Mean, config: TableConfig) -> Mean:
    """A mean in the unit of the table, its interval no wider than what the quantity can be."""
    low, high = mean.low, mean.high
    if low is not None and config.metric in (*NEVER_NEGATIVE, *SHARES):
        low = max(low, 0.0)
    if high is not None and config.metric in SHARES:
        high = min(high, 1.0)
    factor = 100.0 if config.unit == "percent" else 1.0
    return replace(
        mean,
        mean=factor * mean.mean,
        low=None if low is None else factor * low,
        high=None if high is None else factor * high,
    )


def verdict(row: Comparison, *, rounded_to: float | None) -> Verdict | None:
    """Where the published number lies; None without an interval of ours.

    A number printed to multiples of `rounded_to` stands for all that round to it: `within its rounding` are those
    outside our interval of which some lie in it.
    """
    if row.ours is None or row.ours.low is None or row.ours.high is None:
        return None
    value = row.published.value
    exact, half = _EXACT * abs(value), (rounded_to or 0.0) / 2
    if row.ours.low - exact <= value <= row.ours.high + exact:
        return "in our interval"
    return "within its rounding" if row.ours.low - half <= value <= row.ours.high + half else "outside"


def told_apart_by(rows: Sequence[Comparison]) -> tuple[str, ...]:
    """Settings in which the numbers of a table differ, in the order they are first named; of a single one, all."""
    paths = tuple(dict.fromkeys(path for row in rows for path in row.published.at))
    if len(rows) == 1:
        return paths
    return tuple(path for path in paths if len({canonical_json(row.published.at.get(path)) for row in rows}) > 1)
