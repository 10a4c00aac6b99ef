"""How errors lie together, per point: a table, a sentence, and run lengths against independent flips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phy.measure.burstiness import Burstiness
from phy.measure.independence import Independence, assess, verdict
from scenarios.report.figures.layout import legend_layout
from scenarios.report.figures.style import COLOURS, MARKERS, STYLE, render
from scenarios.report.settings import setting_in_words
from scenarios.report.tables.tables import TRIALS_AT_ONCE

if TYPE_CHECKING:
    from scenarios.plan.points import Plan, Point
    from scenarios.report.tables.tables import TaskIds
    from scenarios.store.store import Store

MOST_CURVES = 6
RUNS = ("1", "2", "3", "4", "5", "6", "7 or more")


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
    done = [task_id for task_id, record in store.read_tasks(task_ids).items() if record.status == "done"]
    for start in range(0, len(done), TRIALS_AT_ONCE):
        for arrays in store.read_series(done[start : start + TRIALS_AT_ONCE], "bursts").values():
            if arrays:
                one = Burstiness(**{f.name: arrays[f.name] for f in fields(Burstiness)})
                total = one if total is None else total + one
    return total


def burst_cells(bursts: PointBursts) -> tuple[str | None, ...]:
    """Cells of a row: packets, variance ratio, lag-1 correlation, run length against geometric, label rates."""
    found = bursts.found
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
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    shown = [b for b in bursts if np.isfinite(b.found.run_length) and b.counts.in_a_row[..., 1].any()]
    if not shown:
        return None
    shown = sorted(shown, key=lambda b: b.found.run_length / b.found.independent_run_length, reverse=True)
    shown = sorted(shown[:MOST_CURVES], key=lambda b: b.point.index)
    with rc_context(STYLE):
        labels = [setting_in_words(plan, one.point) or "measured" for one in shown]
        columns, labels, legend_height = legend_layout(labels, width=6.4)
        figure = Figure(figsize=(6.4, 3.4 + legend_height), layout="constrained")
        axes = figure.subplots()
        at = np.arange(1, len(RUNS) + 1)
        lowest = 1.0
        for number, (one, label) in enumerate(zip(shown, labels, strict=True)):
            colour = COLOURS[number % len(COLOURS)]
            runs = one.counts.over_trials().run_counts.sum(axis=0)
            share = runs / runs.sum()
            lowest = min(lowest, float(share[share > 0].min()))
            marker = MARKERS[number % len(MARKERS)]
            axes.plot(at, np.where(share > 0, share, np.nan), linestyle="", marker=marker, color=colour, label=label)
            axes.plot(at, geometric_shares(one.counts), color=colour, linewidth=1.2)
        axes.set_yscale("log")
        axes.set_ylim(lowest / 3, 1.6)
        axes.set_xticks(at, RUNS)
        axes.set_xlabel("wrong bits in a row")
        axes.set_ylabel("share of runs")
        axes.grid(visible=True, which="major", color="#d9d9d9", linewidth=0.7)
        figure.legend(loc="outside lower center", ncols=columns)
        return render(figure, "svg")


def geometric_shares(counts: Burstiness) -> NDArray[np.float64]:
    """Expected share of runs of 1..6 and of 7 or more under independent flips at each device's rate, `[7]`.

    A device of rate p makes runs in proportion to p (1 - p) per bit, of k wrong bits with chance (1 - p) p^(k - 1).
    """
    one = counts.over_trials()
    p = np.nan_to_num(one.bit_error_rate)[:, None]
    k = np.arange(1, len(RUNS))
    exactly = np.concatenate([(1.0 - p) * p ** (k - 1), p ** len(k)], axis=1)
    weight = one.bits[:, None] * p * (1.0 - p)
    return np.asarray((exactly * weight).sum(axis=0) / weight.sum())
