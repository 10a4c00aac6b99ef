"""Tables of the report page: a row per point, numbers with their intervals as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fl.config.measured import PRIVACY
from privacy.mechanisms.flip_plans import CLAMP_WORDS
from scenarios.report.bursts import BURST_HEADS, PointBursts, burst_cells
from scenarios.report.settings import point_table
from scenarios.report.silence import EMPTY_ROUNDS
from scenarios.report.tables.quantities import CODED, RATES, word_of
from scenarios.report.tables.tables import done_series, done_tasks
from scenarios.schema.labels.labels import plain_label

if TYPE_CHECKING:
    from scenarios.plan.points import Plan, Point
    from scenarios.report.tables.intervals import Mean
    from scenarios.report.tables.table import Table
    from scenarios.report.tables.tables import PointSummary, TaskIds
    from scenarios.store.store import Store


@dataclass(frozen=True, kw_only=True)
class PointPrivacy:
    """A point with a mechanism: the epsilon asked for and whose it is, mean p_A, and the share of each clamp."""

    point: Point
    asked: str
    flip_probability: float | None
    clamps: str | None


def read_privacy(store: Store, plan: Plan, *, task_ids: TaskIds) -> Iterator[PointPrivacy]:
    """The points of federated averaging that have a mechanism and a whole trial, in the order of the plan."""
    for point, ids in zip(plan.points, task_ids, strict=True):
        privacy = point.scenario.privacy
        asked = None if privacy == "none" else privacy.asked
        if asked is None:
            continue
        if done_tasks(store, ids):
            flips, clamps = _flips(store, ids)
            yield PointPrivacy(point=point, asked=asked, flip_probability=flips, clamps=clamps)


def _flips(store: Store, task_ids: Sequence[str]) -> tuple[float | None, str | None]:
    """Mean p_A over devices, rounds and trials, and how often which clamp acted."""
    total, observed, codes = 0.0, 0, np.zeros(len(CLAMP_WORDS), np.int64)
    for arrays in done_series(store, task_ids, "devices"):
        if {"flip_probability", "clamp"} <= arrays.keys():
            took_part = ~np.isnan(arrays["flip_probability"])
            total += float(arrays["flip_probability"][took_part].sum())
            observed += int(took_part.sum())
            codes += np.bincount(arrays["clamp"][took_part], minlength=len(codes))
    if not observed:
        return None, None
    shares = (f"{CLAMP_WORDS[code]} {count / observed:.1%}" for code, count in enumerate(codes) if count)
    return total / observed, ", ".join(shares)


def metrics_rows(plan: Plan, summaries: Sequence[PointSummary]) -> Table:
    """A row per point: swept settings, trials done and failed, mean [low, high] of each metric.

    Rounds in which nothing arrived have a column where there were any.
    """
    names = tuple(dict.fromkeys(name for s in summaries for name in s.metrics if not _of_privacy(name, s.point)))
    if not any(s.metrics[EMPTY_ROUNDS].mean for s in summaries if EMPTY_ROUNDS in s.metrics):
        names = tuple(name for name in names if name != EMPTY_ROUNDS)
    rows = ((s.point, (str(s.done), str(s.failed), *(_cell(s, name) for name in names))) for s in summaries)
    return point_table(plan, ("trials", "failed", *map(plain_label, names)), rows)


def _of_privacy(name: str, point: Point) -> bool:
    """Whether a metric stands in the table of privacy."""
    return name in PRIVACY and point.scenario.learning.algorithm == "fedavg"


def privacy_table(plan: Plan, summaries: Sequence[PointSummary], found: Sequence[PointPrivacy]) -> Table:
    """A row per point with a mechanism: epsilon and whose it is, what follows from it, and how often flips clamped."""
    of_point = {summary.point.index: summary for summary in summaries}
    names = [name for name in PRIVACY if any(name in of_point[one.point.index].metrics for one in found)]
    asked, flips, clamps = "ε asked for", "mean flip probability p_A", "clamps, share of devices and rounds"

    def rows() -> Iterator[tuple[Point, Sequence[str | None]]]:
        for one in found:
            share = None if one.flip_probability is None else f"{one.flip_probability:.4g}"
            cells = (_cell(of_point[one.point.index], name) for name in names)
            yield one.point, (one.asked, *cells, share, one.clamps)

    return point_table(plan, (asked, *map(plain_label, names), flips, clamps), rows(), left=(asked, clamps))


def _cell(summary: PointSummary, name: str) -> str | None:
    """A mean with its interval; of a code its word, or `mixed` where trials differ."""
    mean: Mean | None = summary.metrics.get(name)
    if mean is None:
        return None
    return word_of(name, mean.mean) or "mixed" if name in CODED else str(mean.within(name))


def rates_rows(plan: Plan, summaries: Sequence[PointSummary]) -> Table:
    """A row per point whose devices were detected: counts, rate and interval of bits, packets and probes.

    Bits before decoding are shown where they differ from those after it.
    """
    names = tuple(dict.fromkeys(name for s in summaries for name in s.rates))
    if all(s.rates.get("raw_bit_error_rate") in (None, s.rates.get("bit_error_rate")) for s in summaries):
        names = tuple(name for name in names if name != "raw_bit_error_rate")
    heads: list[str] = []
    for name in names:
        heads += [f"{RATES[name].said}s", f"{RATES[name].said} errors", plain_label(name)]
    rows = ((s.point, [cell for name in names for cell in _rate_cells(s, name)]) for s in summaries if s.rates)
    return point_table(plan, heads, rows)


def _rate_cells(summary: PointSummary, name: str) -> tuple[str | None, ...]:
    rate = summary.rates.get(name)
    return (None, None, None) if rate is None else (f"{rate.total:,}", f"{rate.errors:,}", str(rate))


def bursts_rows(plan: Plan, bursts: Sequence[PointBursts]) -> Table:
    """A row per point whose payloads were compared: how its errors lie together."""
    return point_table(plan, BURST_HEADS, ((one.point, burst_cells(one.found)) for one in bursts))
