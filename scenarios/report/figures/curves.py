"""Which points of a run make which curve of a figure, the look of each, and what its caption says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from fl.base.measured import ALONG
from fl.base.words import plural
from phy.numerics.cache import LastResult
from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, Point, is_number, is_shown, value_of
from scenarios.report.figures.drawing import Curve, Drawing, Spot
from scenarios.report.settings import said, sections_of
from scenarios.report.tables.quantities import EPSILON, RATES, ROUND_AXES
from scenarios.report.tables.summaries import FEWEST_TRIALS, INTERVALS, UPPER_LIMIT, Mean
from scenarios.schema.labels.labels import AGGREGATION, guarantee, setting_label, unequal_guarantees
from scenarios.schema.schema import Axis, FigureConfig

if TYPE_CHECKING:
    from scenarios.report.tables.summaries import PointSummary

_COSTS = (*ALONG[1:], "wall_s")
"""Axes along a run that a round moves on by what it costs."""

EVERYWHERE = "everywhere"

NONE_OF_THESE = "none of these"
"""Name of a curve that no series says anything of, among others that have a name."""


NO_SETTINGS = (*ROUND_AXES, *get_args(Axis))
"""What x may be beside the path of a setting."""

Shown = tuple[Point, str, Spot]
"""A point, words that tell its curve from others of the point (a device), and a spot."""


def arrange(
    config: FigureConfig,
    plan: Plan,
    summaries: Sequence[PointSummary],
    *,
    along: Callable[[FigureConfig], Iterable[Shown]] = lambda _: (),
) -> Drawing:
    """Sort the points of a run that `where` keeps into panels and curves; points without the quantity are left out.

    Where x goes along the run, `along` reads what is drawn.
    """

    def read(one: FigureConfig) -> list[Shown]:
        if one.x in ROUND_AXES:
            found = along(one)
        else:
            found = ((s.point, "", spot) for s in summaries if (spot := _spot(one, plan, s)) is not None)
        return [shown for shown in found if is_shown(one, shown[0])]

    shown = read(config)
    theory = [] if config.beside is None else read(config.model_copy(update={"y": config.beside}))
    failed = [s.point for s in summaries if s.failed and not s.done and is_shown(config, s.point)]
    looks = _looks_of_plan(plan)
    if config not in _figures(plan):
        looks = looks_of((config,), plan.swept_paths, plan.points, known=looks)
    panels = sort_into_panels(config, plan.swept_paths, shown, theory=theory, failed=failed, looks=looks)
    caption = _caption(config, plan, [s for _, _, s in shown])
    if not shown and config.x in _COSTS and read(config.model_copy(update={"x": "round"})):
        why = "learning has no timing" if config.x == "wall_s" else "no symbol went over a simulated radio"
        caption = f"No finished trial measured {config.x}: {why}. Write x: round."
    caption += _beyond_logarithm(config, [s for _, _, s in shown])
    if failed:
        caption += f" Not drawn, because every trial failed: {len(failed)} of the sweep points."
    return Drawing(config=config, panels=panels, caption=caption, seed=plan.seed)


def looks_of(
    configs: Iterable[FigureConfig],
    swept_paths: Sequence[str],
    points: Sequence[Point],
    *,
    known: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, int]:
    """Number the labels of all curves that the figures of a scenario may have, in the order of the sweep.

    The number is the look of a curve: the same in all figures and in every run of the scenario, whichever trials are
    stored. Labels that are `known` keep theirs.
    """
    looks = dict(known)
    alike = {canonical_json([one.x, one.series_paths, one.panels, one.where]): one for one in reversed([*configs])}
    for config in reversed(alike.values()):  # figures that differ in y alone have the same curves
        for label, _ in labels_of(config, swept_paths, [point for point in points if is_shown(config, point)]):
            looks.setdefault(label, len(looks))
    return looks


def labels_of(config: FigureConfig, swept_paths: Sequence[str], points: Sequence[Point]) -> list[tuple[str, bool]]:
    """Return the label of the curve of each point, and True where it is a horizontal line."""
    name = _namer(config, _paths(config, swept_paths, points), points)
    along = config.x in NO_SETTINGS
    lines = [not along and _x_of(config, swept_paths, point) is None for point in points]
    return [(name(point, "", line), line) for point, line in zip(points, lines, strict=True)]


def _figures(plan: Plan) -> tuple[FigureConfig, ...]:
    return plan.points[0].scenario.report.figures


def _numbered(plan: Plan) -> dict[str, int]:
    return looks_of(_figures(plan), plan.swept_paths, plan.points)


# Every figure of a report asks for them.
_looks_of_plan = LastResult(_numbered)


def sort_into_panels(
    config: FigureConfig,
    swept_paths: Sequence[str],
    shown: Sequence[Shown],
    *,
    theory: Sequence[Shown] = (),
    failed: Sequence[Point] = (),
    looks: Mapping[str, int] = MappingProxyType({}),
) -> tuple[tuple[str, tuple[Curve, ...]], ...]:
    """Panels in order, each with a title and its curves; `theory` belongs to the curves of the same points.

    Labels without a number in `looks`, such as those of devices, get the next ones in the order of their points, in
    which `failed` points keep their place.
    """
    points = {point.index: point for point in (*(one for one, _, _ in (*shown, *theory)), *failed)}
    panels: dict[str, dict[str, tuple[list[Spot], list[Spot]]]] = {}
    titles: dict[str, str] = {}
    name = _namer(config, _paths(config, swept_paths, list(points.values())), list(points.values()))
    places = [(point, part, spot.x is None) for point, part, spot in shown]
    places += [(point, "", False) for point in failed]
    labels = dict.fromkeys(name(*place) for place in sorted(places, key=lambda one: one[0].index))
    looks = dict(looks)
    for label in labels:
        looks.setdefault(label, len(looks))
    for kind, several in enumerate((shown, theory)):
        for point, part, spot in several:
            key, titles[key] = _panel(config, point)
            label = name(point, part, spot.x is None)
            labels[label] = None
            looks.setdefault(label, len(looks))
            panels.setdefault(key, {}).setdefault(label, ([], []))[kind].append(spot)
    if len(panels) > 1:
        for label, spots in panels.pop(EVERYWHERE, {}).items():
            for curves in panels.values():
                for kind, known in enumerate(curves.setdefault(label, ([], []))):
                    known.extend(spots[kind])
    others = NONE_OF_THESE if len(labels) > 1 else "measured" if theory else ""
    return tuple(
        (
            titles[key],
            tuple(
                Curve(label=label or others, series=looks[label], spots=_by_x(spots), theory=_by_x(beside))
                for label, (spots, beside) in sorted(curves.items(), key=lambda item: looks[item[0]])
            ),
        )
        for key, curves in panels.items()
    )


def _paths(config: FigureConfig, swept_paths: Sequence[str], points: Sequence[Point]) -> tuple[str, ...]:
    """The paths that make series of these points: those named, and those without which curves fall together."""
    return (*config.series_paths, *_unnamed_paths(config, swept_paths, points))


def _namer(config: FigureConfig, paths: Sequence[str], points: Sequence[Point]) -> Callable[[Point, str, bool], str]:
    """Return the label of the curve of a point, a part of it (a device), and True for a line without an x."""
    named = _names_guarantees(config, paths, points)
    beside = sections_of(points, paths)

    def name(point: Point, part: str, alone: bool) -> str:
        label = _label(config, paths, point, part, beside=beside, alone=alone)
        if named and (words := guarantee(point.scenario)) not in label:
            label = f"{label}, {words}"
        return label

    return name


def _names_guarantees(config: FigureConfig, paths: Sequence[str], points: Iterable[Point]) -> bool:
    """Return whether curves of schemes differ in their epsilon, which neither an axis nor a panel shows."""
    shown = (config.x, config.panels or "")
    return (
        any(path.startswith(AGGREGATION) for path in paths)
        and not any(path.endswith("epsilon") for path in shown)
        and bool(unequal_guarantees(point.scenario for point in points))
    )


def _label(
    config: FigureConfig,
    paths: Sequence[str],
    point: Point,
    part: str,
    *,
    beside: Mapping[str, Sequence[Any]],
    alone: bool,
) -> str:
    parts = [_said(path, point, beside=beside[path]) for path in paths if applies(path, point)]
    if alone and applies(config.x, point):  # a line beside a curve of the same series
        parts.append(_said(config.x, point))
    label = ", ".join(dict.fromkeys(filter(None, (*parts, part))))
    if label or applies(config.x, point):
        return label
    # Without this no series tells what such a line is.
    key = next(name for name in ("scheme", "algorithm") if name in type(point.scenario.learning).model_fields)
    return setting_label(f"learning.{key}", getattr(point.scenario.learning, key))


def _said(path: str, point: Point, *, beside: Sequence[Any] = ()) -> str:
    """A setting of the point in words; empty where another mechanism than the point's has such a key."""
    value = value_of(point, path)
    if value is None and path.startswith("privacy.") and point.scenario.privacy != "none":
        return ""
    return said(point, path, beside=beside)


def _panel(config: FigureConfig, point: Point) -> tuple[str, str]:
    """Key and title of the panel of a point; `EVERYWHERE` if it has no part in what tells panels apart."""
    if config.panels is None:
        return "", ""
    value = value_of(point, config.panels)
    # Without a privacy bound there is no ε, and yet "no privacy" is a panel of its own.
    missing = value is None and not config.panels.startswith("privacy")
    if missing or not applies(config.panels, point):
        return EVERYWHERE, ""
    return canonical_json(value), said(point, config.panels)


def applies(path: str, point: Point) -> bool:
    """Tell if a setting says anything about a point; what the point itself sweeps always does.

    A reference without a radio has no other, an error-free link has no power or channel, one that is not NOMA has no
    detector of its, and amplitudes have no quantizer.
    """
    if any(related(path, other) for other in point.settings):
        return True
    learning, link = point.scenario.learning, point.scenario.link
    if learning.uses_radio and path.startswith("link."):
        if link.access != "noma" and path.startswith("link.noma"):
            return False
        return link.error_model != "error_free" or path == "link.error_model"
    return learning.depends_on(path)


def _spot(config: FigureConfig, plan: Plan, summary: PointSummary) -> Spot | None:
    """What this point shows of `y`, None if nothing was measured."""
    x = _x_of(config, plan.swept_paths, summary.point)
    if type(x) in (dict, list):
        x = setting_label(config.x, x)
    if (rate := summary.rates.get(config.y)) is not None:
        y = rate.value if rate.errors else None
        return Spot(x=x, y=y, low=rate.low, high=rate.high, n=summary.done, errors=rate.errors, total=rate.total)
    found = summary.metrics.get(config.y)
    if found is None or not np.isfinite(found.mean):
        return None
    low, high = band(config.y, found)
    return Spot(x=x, y=found.mean, low=low, high=high, n=found.trials)


def _x_of(config: FigureConfig, swept_paths: Sequence[str], point: Point) -> Any:
    """The value of a point on the x axis; None without a radio, and without a part in the sweep of x."""
    if any(related(config.x, other) for other in swept_paths) and not applies(config.x, point):
        return None
    return value_of(point, config.x)


def band(quantity: str, mean: Mean, *, values: NDArray[np.float64] | None = None) -> tuple[float | None, float | None]:
    """The part of the interval of a mean that its quantity can take; none from fewer than `FEWEST_TRIALS` trials.

    Of a quantity under a cap (`power_db`) no more than the range of `values`, the trials themselves.
    """
    mean = mean.within(quantity)
    low, high = mean.low, mean.high
    if low is None or high is None or mean.trials < FEWEST_TRIALS:
        return None, None
    if quantity == "power_db" and values is not None:
        low, high = max(low, float(values.min())), min(high, float(values.max()))
    return low, high


def related(path: str, other: str) -> bool:
    """Tell if one path is the other or a part of it."""
    return f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")


def _unnamed_paths(config: FigureConfig, swept_paths: Sequence[str], points: Sequence[Point]) -> tuple[str, ...]:
    """Swept paths the figure does not name and that tell apart points which would fall on one spot.

    They join the series: two settings must never be joined into one zigzag curve. One that tells nothing apart which
    those before it do not, would only make the legend longer.
    """
    named = [path for path in (config.x, config.panels, *config.series_paths) if path]
    unnamed: list[str] = []
    for path in swept_paths:
        if any(related(path, other) for other in named):
            continue
        spots: dict[str, set[str]] = {}
        for point in points:
            # Two values that are said in the same words tell nothing apart.
            spot = [*(value_of(point, other) for other in named), *(_said(other, point) for other in unnamed)]
            spots.setdefault(canonical_json(spot), set()).add(canonical_json(value_of(point, path)))
        if any(len(values) > 1 for values in spots.values()):
            unnamed.append(path)
    return tuple(unnamed)


def _by_x(spots: Sequence[Spot]) -> tuple[Spot, ...]:
    """Numbers in order, words in the order of the plan, references last."""
    numbers = all(is_number(s.x) for s in spots if s.x is not None)
    return tuple(sorted(spots, key=lambda s: (s.x is None, s.x if numbers and s.x is not None else 0)))


def _beyond_logarithm(config: FigureConfig, spots: Sequence[Spot]) -> str:
    """A sentence on values that a logarithmic axis cannot have; empty without any."""
    text = ""
    low = sum(s.y is not None and s.y <= 0.0 for s in spots)
    if config.y_scale == "log" and low:
        if low == sum(s.y is not None for s in spots):
            text += " The y axis is linear, because no value is above 0."
        else:
            text += f" Not drawn on the logarithmic y axis: {plural(low, 'value')} of 0 or below."
    if config.x_scale == "log" and any(is_number(s.x) and s.x <= 0 for s in spots):
        text += " The x axis is linear, because a value of x is 0 or below."
    return text


def _caption(config: FigureConfig, plan: Plan, spots: Sequence[Spot]) -> str:
    """What is drawn, over how many trials, which band, which seed."""
    if not spots:
        return f"No finished trial measured {config.y}."
    few, many = min(s.n for s in spots), max(s.n for s in spots)
    trials = plural(many, "trial") if few == many else f"{few} to {many} trials"
    xs = {str(s.x) for s in spots if s.x is not None}
    along, mark = (
        config.x in ROUND_AXES,
        "bars" if len(xs) == 1 or any(isinstance(s.x, str) for s in spots) else "shaded",
    )
    took = ", over what these rounds took on average" if config.x in _COSTS else ""
    if config.y == EPSILON:
        text = f"ε proved for all rounds so far, at the δ of the scenario, for the worst device of {trials}."
    elif config.y in RATES:
        observed = f"{trials} in each round{took}" if along else f"all devices and rounds of {trials} per point"
        text = f"Errors over observations of {observed}; {mark}: {INTERVALS}."
        if any(s.y is None for s in spots):
            text += f" Arrows: {UPPER_LIMIT} where no error was seen."
    else:
        each = "per point" if not along else "at each value sent" if config.x == "value" else "after each round"
        shade = f"{mark}: 95 % t interval of the mean"
        if many < FEWEST_TRIALS:
            shade = f"no band, a t interval is drawn from {FEWEST_TRIALS} trials on"
        elif few < FEWEST_TRIALS:
            shade += f" (none from fewer than {FEWEST_TRIALS} trials)"
        text = f"Mean over {trials} {each}{took}; {shade}."
    if not along and any(s.x is None for s in spots):
        text += " Horizontal lines: settings to which the x axis does not apply."
    return f"{text} Seed {plan.seed}."
