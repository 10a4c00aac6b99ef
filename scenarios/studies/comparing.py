"""Runs and link studies in the form in which `scenarios.report.comparison` compares them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import isfinite, nan
from pathlib import Path
from typing import Any, cast, get_args

from fl.base.measured import ALONG, LINK_RATES
from fl.base.words import plural
from phy.config.conflict import listing
from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, Point, is_number, value_of
from scenarios.report.comparison import Cell, Compared, RunComparison, compared, settings_of
from scenarios.report.figures.curves import arrange
from scenarios.report.figures.drawing import Drawing
from scenarios.report.figures.learning import default_figures, figures_of, over_rounds
from scenarios.report.settings import axes_of, said
from scenarios.report.stopping import num_spared
from scenarios.report.tables.summaries import PointSummary, rate_text, summarise
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.schema import Axis
from scenarios.store.store import Store
from scenarios.studies.flower.study import FlowerStudy
from scenarios.studies.folders import refuse_foreign, study_in
from scenarios.studies.learning import LearningStudy
from scenarios.studies.link import report as link_report
from scenarios.studies.link.results import Results, read_results
from scenarios.studies.link.study import LinkStudy


def compare_folders(folders: Sequence[Path], *, by: str | None = None) -> RunComparison:
    """Compare the runs in folders over a setting that all sweep, `by`; see `scenarios.report.comparison.compared`.

    Without `by` the axis is the first that all sweep and that has numbers, else the first that all sweep, else the
    rounds; of link studies it is that of the first. ScenarioError for fewer than two folders, for studies of several
    kinds, and for an axis that the runs do not share.
    """
    if len(folders) < 2:
        raise ScenarioError(problem="one run has no other to be compared with", remedy="name two run folders or more")
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    if len(set(names)) < len(names):
        raise ScenarioError(problem="one run folder is named twice", remedy="name different run folders")
    studies = [study_in(folder) for folder in folders]
    kinds = [study.store.study for study in studies]
    for folder, kind in zip(folders, kinds, strict=True):
        if kind != kinds[0] or kind not in READERS:
            problem = f"holds results of phyloop {kind}"
            problem += f", and {folders[0]} results of phyloop {kinds[0]}" if kind != kinds[0] else ""
            raise ScenarioError(file=folder, problem=problem, remedy="compare runs with runs, or links with links")
    with ExitStack() as stores:
        runs = []
        for name, folder, study in zip(names, folders, studies, strict=True):
            store = stores.enter_context(study.store.open_existing(folder))
            refuse_foreign(study, store)
            runs.append(READERS[kinds[0]](name, study, store))
        return compared(runs, by=_axis(runs, by))


def _axis(runs: Sequence[Compared], by: str | None) -> str:
    shared = set(runs[0].axes).intersection(*(run.axes for run in runs[1:]))
    axes = [path for path in runs[0].axes if path in shared]
    if by is None:
        return axes[0]
    if by not in axes:
        raise ScenarioError(
            key="--by", value=by, problem="is no axis that all of these runs have", remedy=f"use {listing(axes)}"
        )
    return by


def _learning(name: str, study: LearningStudy, store: Store) -> Compared:
    plan, summaries = study.plan, summarise(store, study.plan)
    measured = {metric for summary in summaries for metric in summary.metrics}
    configs = (*figures_of(plan, measured), *default_figures(plan, measured))
    main = [name for name in plan.points[0].scenario.learning.measured().per_trial[:1] if name in measured]
    axes = axes_of(plan)
    planned, done = len(study.ids) - num_spared(store, plan), sum(summary.done for summary in summaries)
    return Compared(
        name=name,
        seed=plan.seed,
        missing=f"{planned - done} of {plural(planned, 'trial')} missing or failed" if done < planned else "",
        settings=settings_of(store.read_scenario().root),
        swept=plan.swept_paths,
        axes=(*sorted(axes, key=lambda path: not all(map(is_number, axes[path]))), *ALONG),
        metrics=tuple(dict.fromkeys([*(config.y for config in configs), *main])),
        draw=lambda config: arrange(config, plan, summaries, along=partial(over_rounds, store, plan)),
        cells=partial(_learning_cells, plan, summaries),
    )


def _words(point: Point, swept: Sequence[str], shared: Sequence[str]) -> tuple[str, str]:
    """Return the shared settings of a sweep point, and those of its own, in words."""
    ours = [path for path in swept if path in point.settings]
    parts = ([path for path in ours if (path in shared) == both] for both in (True, False))
    setting, own = (", ".join(filter(None, (said(point, path) for path in part))) for part in parts)
    return setting, own


def _learning_cells(
    plan: Plan, summaries: Sequence[PointSummary], metric: str, shared: Sequence[str], by: str
) -> Iterator[Cell]:
    del by  # the axis of a run is one of its settings, or its rounds
    for summary in summaries:
        point, mean, rate = summary.point, summary.metrics.get(metric), summary.rates.get(metric)
        key = canonical_json([value_of(point, path) for path in shared])
        setting, own = _words(point, plan.swept_paths, shared)
        if rate is not None:
            value, text = rate.errors / rate.total, str(rate)
            yield Cell(
                key=key,
                setting=setting,
                own=own,
                value=value,
                low=rate.low,
                high=rate.high,
                count=rate.total,
                text=text,
            )
        elif mean is not None and isfinite(mean.mean):
            low, high = (nan if one is None else one for one in (mean.low, mean.high))
            yield Cell(
                key=key,
                setting=setting,
                own=own,
                value=mean.mean,
                low=low,
                high=high,
                count=mean.trials,
                text=str(mean.within(metric)),
                trials=summary.trials.get(metric, {}),
            )


def _link(name: str, study: LinkStudy, store: Store) -> Compared:
    plan, results = study.plan, read_results(store, study.plan)
    over, others = plan.measure.over, (axis for axis in get_args(Axis) if axis != plan.measure.over)
    done = sum(one.stop is not None for points in results for one in points)
    configured = [c.y for c in plan.curves[0].point.scenario.report.figures if c.x in get_args(Axis)]
    return Compared(
        name=name,
        seed=plan.seed,
        missing=f"{plan.num_points - done} of {plural(plan.num_points, 'point')} not finished, or not needed"
        if done < plan.num_points
        else "",
        settings=settings_of(store.read_scenario().root),
        swept=plan.swept_paths,
        axes=(over, *others),
        metrics=tuple(dict.fromkeys((*configured, *LINK_RATES[:2]))),
        draw=lambda config: link_report.arrange(config, plan, results),
        cells=partial(_link_cells, results),
    )


def _link_cells(results: Results, metric: str, shared: Sequence[str], by: str) -> Iterator[Cell]:
    if metric not in LINK_RATES[:2]:
        return
    for one in (point for points in results for point in points):
        estimate = one.rates()[LINK_RATES.index(metric)]
        if estimate is None:
            continue
        x = one.curve.budget.value_db(one.point.esno_db, cast(Axis, by))
        settings = [value_of(one.curve.point, path) for path in shared]
        setting, own = _words(one.curve.point, tuple(one.curve.point.settings), shared)
        yield Cell(
            key=canonical_json([*settings, f"{x:.6f}"]),
            setting=", ".join(filter(None, (setting, f"{axis_label(by).removesuffix(' [dB]')} = {x:.4g} dB"))),
            own=own,
            value=estimate.rate or 0.0,
            low=estimate.low,
            high=estimate.high,
            count=estimate.observations,
            text=rate_text(estimate.rate, low=estimate.low, high=estimate.high),
        )


def _flower(name: str, study: FlowerStudy, store: Store) -> Compared:
    drawings = {one.config.y: one for one in study.drawings(store)}
    return Compared(
        name=name,
        seed=study.scenario.seed,
        missing="",
        settings=settings_of(store.read_scenario().root),
        swept=(),
        axes=("round",),
        metrics=tuple(dict.fromkeys((*study.logged, *drawings))),
        draw=lambda config: drawings[config.y],
        cells=partial(_flower_cells, drawings),
    )


def _flower_cells(drawings: Mapping[str, Drawing], metric: str, shared: Sequence[str], by: str) -> Iterator[Cell]:
    """Yield the value of the last round, without an interval: an app is one run."""
    del shared, by
    spots = [spot for _, curves in drawings[metric].panels for curve in curves for spot in curve.spots]
    if not spots or spots[-1].y is None:
        return
    last, value = int(spots[-1].x), spots[-1].y
    words = f"round {last}"
    yield Cell(
        key=words,
        setting=words,
        own="",
        value=value,
        low=nan,
        high=nan,
        count=1,
        text=f"{value:.4g}",
        trials={0: value},
    )


READERS: dict[str, Callable[[str, Any, Store], Compared]] = {"run": _learning, "link": _link, "flower": _flower}
"""How each kind of study that has curves is read."""
