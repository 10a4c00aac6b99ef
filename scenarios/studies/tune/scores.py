"""The metric of every candidate of a search from what is stored, best first, and how clearly the best is the best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan

import numpy as np

from fl.base.measured import LINK_RATES
from fl.base.words import plural
from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, Point
from scenarios.report.answers.differences import Difference
from scenarios.report.comparison import Cell, difference
from scenarios.report.tables.summaries import Mean, PointSummary, done_series, mean_interval, rate_text, summarise
from scenarios.store.store import Store
from scenarios.studies.link.plan import LinkCurve, LinkPlan
from scenarios.studies.link.results import PointResult, read_point
from scenarios.studies.tune.plan import Block, Metric, Settings


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A candidate with its metric, and its difference from the best of its block, None for the best itself."""

    candidate: Settings
    cell: Cell
    behind: Difference | None = None


def rank(
    blocks: Sequence[Block], plan: Plan | LinkPlan, store: Store, *, metric: Metric
) -> tuple[tuple[Scored, ...], ...]:
    """Return the candidates of each block, best first; those without a finite metric last.

    `blocks` are the last of the sweep that `plan` expands, in order.
    """
    start = -sum(block.num_points for block in blocks)
    if isinstance(plan, LinkPlan):
        found = [(curve.point, _of_curve(curve, store, metric)) for curve in plan.curves[start:]]
    else:
        found = list(_of_run(replace(plan, points=plan.points[start:]), store, metric))
    ranked, first = [], 0
    for block in blocks:
        cells: dict[str, list[Cell]] = {}
        for point, cell in found[first : first + block.num_points]:
            settings = canonical_json({path: point.settings[path] for path in block.candidates[0]})
            cells.setdefault(settings, []).append(cell)
        first += block.num_points
        scored = [
            Scored(candidate=one, cell=_mean(cells[canonical_json(dict(one))], metric)) for one in block.candidates
        ]
        ranked.append(_in_order(scored, metric))
    return tuple(ranked)


def _in_order(scored: Sequence[Scored], metric: Metric) -> tuple[Scored, ...]:
    def key(one: Scored) -> tuple[bool, float]:
        return not isfinite(one.cell.value), -metric.better * one.cell.value if isfinite(one.cell.value) else 0.0

    best, *others = sorted(scored, key=key)
    return best, *(replace(one, behind=difference(best.cell, one.cell, paired=True)) for one in others)


def _cell(trials: Mapping[int, float], *, metric: Metric, missing: int = 0) -> Cell:
    """The mean over trials; NaN where trials are `missing`."""
    found = mean_interval(np.array([*trials.values()])) if trials else Mean(mean=nan, low=None, high=None, trials=0)
    found = found.within(metric.name)
    text = f"{missing} of {plural(missing + len(trials), 'trial')} without a result" if missing else str(found)
    low, high = (nan if one is None or missing else one for one in (found.low, found.high))
    value = nan if missing else found.mean
    return Cell(
        key="", setting="", own="", value=value, low=low, high=high, count=found.trials, text=text, trials=dict(trials)
    )


def _rate(value: float, low: float, high: float, count: int) -> Cell:
    text = rate_text(value or None, low=low, high=high)
    return Cell(key="", setting="", own="", value=value, low=low, high=high, count=count, text=text)


def _mean(cells: Sequence[Cell], metric: Metric) -> Cell:
    """Mean over sweep points: trial by trial, or of rates with the means of their limits, for they share draws."""
    if len(cells) == 1:
        return cells[0]
    if failed := [one for one in cells if not isfinite(one.value)]:
        return failed[0]
    by_trial = [one.trials for one in cells if one.trials is not None]
    if len(by_trial) == len(cells):
        return _cell({trial: float(np.mean([one[trial] for one in by_trial])) for trial in by_trial[0]}, metric=metric)
    value, low, high = (float(np.mean([getattr(one, name) for one in cells])) for name in ("value", "low", "high"))
    return _rate(value, low, high, sum(one.count for one in cells))


def _of_run(plan: Plan, store: Store, metric: Metric) -> Iterator[tuple[Point, Cell]]:
    """Yield each sweep point with its metric."""
    summaries = {one.point.index: one for one in summarise(store, plan)}
    for point, ids in zip(plan.points, plan.task_ids, strict=True):
        summary = summaries.get(point.index)
        rate = None if summary is None else summary.rates.get(metric.name)
        if metric.of == "rate" and rate is not None and summary is not None and not summary.failed:
            yield point, _rate(rate.value, rate.low, rate.high, rate.total)
            continue
        trials = {} if metric.of == "rate" else _trials(store, ids, summary, metric)
        yield point, _cell(trials, metric=metric, missing=plan.trials - len(trials))


def _trials(store: Store, ids: Sequence[str], summary: PointSummary | None, metric: Metric) -> Mapping[int, float]:
    """The metric of each whole trial that has it."""
    if metric.of == "trial":
        return {} if summary is None else summary.trials.get(metric.name, {})
    statuses = store.statuses(ids)
    done = [trial for trial, one in enumerate(ids) if statuses.get(one) == "done"]
    found: dict[int, float] = {}
    for trial, rounds in zip(done, done_series(store, ids, "rounds"), strict=True):
        series = rounds.get(metric.name, np.empty(0)).astype(float)
        measured = series[~np.isnan(series)]
        if len(measured):
            found[trial] = float(max(metric.better * measured)) * metric.better if metric.of == "best" else measured[-1]
    return found


def _of_curve(curve: LinkCurve, store: Store, metric: Metric) -> Cell:
    """The mean over the values of a curve; a value that was skipped counts as the silent one below it."""
    cells: list[Cell] = []
    for point in curve.points:
        result = read_point(store, curve, point)
        if result.measured.tally.batches:
            cells.append(_of_point(result, metric))
        elif cells:
            cells.append(cells[-1])
    return _mean(cells, metric) if cells else _cell({}, metric=metric, missing=1)


def _of_point(result: PointResult, metric: Metric) -> Cell:
    found = result.rates()[LINK_RATES.index(metric.name)]
    if found is None:
        return _cell({}, metric=metric, missing=1)
    return _rate(found.rate or 0.0, found.low, found.high, found.observations)
