"""How errors lie together, per point: a table, a sentence, and run lengths against independent flips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phy.measure.burstiness import Burstiness
from phy.measure.independence import Independence, assess, verdict
from scenarios.report.figures.curves import Curve, Drawing, Spot
from scenarios.report.figures.draw import draw
from scenarios.report.figures.style import render
from scenarios.report.settings import setting_in_words
from scenarios.report.tables.tables import done_series
from scenarios.schema.schema import FigureConfig

if TYPE_CHECKING:
    from scenarios.plan.points import Plan, Point
    from scenarios.report.tables.tables import TaskIds
    from scenarios.store.store import Store

MOST_CURVES = 6
LONGEST = 7
"""Runs of so many wrong bits or more are counted together."""


@dataclass(frozen=True, kw_only=True)
class PointBursts:
    """A point whose devices were detected: counts `[num_devices]` over its whole trials, and what they say."""

    point: Point
    counts: Burstiness
    found: Independence
    sentence: str


def read_bursts(store: Store, plan: Plan, *, task_ids: TaskIds) -> tuple[PointBursts, ...]:
    """The points that compared payloads of devices, in the order of the plan; failed trials do not count."""
    shown = []
    for point, ids in zip(plan.points, task_ids, strict=True):
        counts = _point_counts(store, ids)
        if counts is not None:
            shown.append(PointBursts(point=point, counts=counts, found=assess(counts), sentence=verdict(counts)))
    return tuple(shown)


def _point_counts(store: Store, task_ids: Sequence[str]) -> Burstiness | None:
    total: Burstiness | None = None
    for arrays in filter(None, done_series(store, task_ids, "bursts")):
        one = Burstiness(**{f.name: arrays[f.name] for f in fields(Burstiness)})
        total = one if total is None else total + one
    return total


def burst_cells(found: Independence) -> tuple[str | None, ...]:
    """Cells of a row: packets, variance ratio, lag-1 correlation, run length against geometric, label rates."""
    if not found.errors:
        return (f"{found.packets:,}", None, None, None, None)
    ratio = None
    if found.variance_ratio is not None and found.low is not None and found.high is not None:
        ratio = f"{found.variance_ratio:.3g} [{found.low:.3g}, {found.high:.3g}]"
    return (
        f"{found.packets:,}",
        ratio,
        f"{found.lag1_correlation:.2g}",
        f"{found.run_length:.4g} / {found.independent_run_length:.4g}",
        " ".join(f"{rate:.2g}" for rate in found.label_rates),
    )


INDEPENDENT = (
    "Their errors per packet are binomial (ratio 1), neighbours do not correlate (0), runs are geometric, and all bits "
    "of a symbol err alike."
)

BURST_HEADS = (
    "full packets",
    "variance of errors per packet / binomial [95 %]",
    "lag-1 correlation",
    "mean run / independent",
    "error rate per bit of a symbol",
)


def draw_runs(plan: Plan, bursts: Sequence[PointBursts]) -> bytes | None:
    """SVG: share of runs by length, measured (marks) and independent (lines), of the points whose runs are longest.

    None if no point has two errors in a row to show.
    """
    shown = [b for b in bursts if np.isfinite(b.found.run_length) and b.counts.in_a_row[..., 1].any()]
    shown = sorted(shown, key=lambda b: b.found.run_length / b.found.independent_run_length, reverse=True)
    curves = []
    for number, one in enumerate(sorted(shown[:MOST_CURVES], key=lambda b: b.point.index)):
        runs = one.counts.over_trials().run_counts.sum(axis=0)
        lengths = range(1, LONGEST + 1)
        curves.append(
            Curve(
                label=setting_in_words(plan, one.point) or "measured",
                series=number,
                spots=tuple(Spot(x=k, y=s) for k, s in zip(lengths, runs / runs.sum(), strict=True) if s > 0),
                theory=tuple(Spot(x=k, y=s) for k, s in zip(lengths, geometric_shares(one.counts), strict=True)),
            )
        )
    config = FigureConfig(x="run_length", y="share_of_runs", y_scale="log")
    return render(draw(Drawing(config=config, panels=(("", tuple(curves)),), caption="")), "svg") if curves else None


def geometric_shares(counts: Burstiness) -> NDArray[np.float64]:
    """Expected share of runs of 1..6 and of 7 or more under independent flips at each device's rate, `[7]`.

    A device of rate p makes runs in proportion to p (1 - p) per bit, of k wrong bits with chance (1 - p) p^(k - 1).
    """
    one = counts.over_trials()
    p = np.nan_to_num(one.bit_error_rate)[:, None]
    k = np.arange(1, LONGEST)
    exactly = np.concatenate([(1.0 - p) * p ** (k - 1), p ** len(k)], axis=1)
    weight = one.bits[:, None] * p * (1.0 - p)
    return np.asarray((exactly * weight).sum(axis=0) / weight.sum())
