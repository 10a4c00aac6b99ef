"""Tables of the report page: a row per point, numbers with their intervals as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from scenarios.report.bursts import BURST_HEADS, PointBursts, burst_cells
from scenarios.report.classification import PRIVACY_METRICS, PointPrivacy
from scenarios.report.settings import settings_cells
from scenarios.report.silence import EMPTY_ROUNDS
from scenarios.report.tables.quantities import CODED, NEVER_NEGATIVE, RATES, SHARES, word_of
from scenarios.report.tables.text import Table, format_mean, format_rate
from scenarios.schema.labels.labels import plain_label

if TYPE_CHECKING:
    from scenarios.plan.points import Plan, Point
    from scenarios.report.tables.intervals import Mean, Rate
    from scenarios.report.tables.tables import PointSummary


def metrics_rows(plan: Plan, summaries: Sequence[PointSummary]) -> Table:
    """A row per point: swept settings, trials done and failed, mean [low, high] of each metric.

    Rounds in which nothing arrived have a column where there were any.
    """
    names = tuple(dict.fromkeys(name for s in summaries for name in s.metrics if not _of_privacy(name, s.point)))
    if not any(s.metrics[EMPTY_ROUNDS].mean for s in summaries if EMPTY_ROUNDS in s.metrics):
        names = tuple(name for name in names if name != EMPTY_ROUNDS)
    return Table(
        columns=(*map(plain_label, plan.swept_paths), "trials", "failed", *map(plain_label, names)),
        numeric=(*(False for _ in plan.swept_paths), *(True for _ in range(2 + len(names)))),
        rows=tuple(
            (
                *settings_cells(plan, s.point),
                str(s.done),
                str(s.failed),
                *(_metric_cell(name, s.metrics.get(name)) for name in names),
            )
            for s in summaries
        ),
    )


def _of_privacy(name: str, point: Point) -> bool:
    """Whether a metric stands in the table of privacy."""
    return name in PRIVACY_METRICS and point.scenario.learning.algorithm == "fedavg"


def privacy_table(plan: Plan, summaries: Sequence[PointSummary], found: Sequence[PointPrivacy]) -> Table:
    """A row per point with a mechanism: epsilon and whose it is, what follows from it, and how often flips clamped."""
    metrics = {summary.point.index: summary.metrics for summary in summaries}
    names = [name for name in PRIVACY_METRICS if any(name in metrics[one.point.index] for one in found)]
    heads = (
        "ε asked for",
        *map(plain_label, names),
        "mean flip probability p_A",
        "clamps, share of devices and rounds",
    )
    return Table(
        columns=(*map(plain_label, plan.swept_paths), *heads),
        numeric=(*(False for _ in plan.swept_paths), False, *(True for _ in names), True, False),
        rows=tuple(
            (
                *settings_cells(plan, one.point),
                one.asked,
                *(_metric_cell(name, metrics[one.point.index].get(name)) for name in names),
                None if one.flip_probability is None else f"{one.flip_probability:.4g}",
                one.clamps,
            )
            for one in found
        ),
    )


def _metric_cell(name: str, mean: Mean | None) -> str | None:
    """A mean with its interval; of a code its word, or `mixed` where trials differ."""
    if mean is None:
        return None
    if name in CODED:
        return word_of(name, mean.mean) or "mixed"
    if name in (*NEVER_NEGATIVE, *SHARES) and mean.low is not None:
        mean = replace(mean, low=max(mean.low, 0.0))
    if name in SHARES and mean.high is not None:
        mean = replace(mean, high=min(mean.high, 1.0))
    return format_mean(mean)


def rates_rows(plan: Plan, summaries: Sequence[PointSummary]) -> Table:
    """A row per point whose devices were detected: counts, rate and interval of bits, packets and probes.

    Bits before decoding are shown where they differ from those after it.
    """
    names = tuple(dict.fromkeys(name for s in summaries for name in s.rates))
    if all(s.rates.get("raw_bit_error_rate") in (None, s.rates.get("bit_error_rate")) for s in summaries):
        names = tuple(name for name in names if name != "raw_bit_error_rate")
    heads = tuple(
        head
        for name in names
        for unit in [RATES[name].said]
        for head in (f"{unit}s", f"{unit} errors", plain_label(name))
    )
    return Table(
        columns=(*map(plain_label, plan.swept_paths), *heads),
        numeric=(*(False for _ in plan.swept_paths), *(True for _ in heads)),
        rows=tuple(
            (*settings_cells(plan, s.point), *(cell for name in names for cell in _rate_cells(s.rates.get(name))))
            for s in summaries
            if s.rates
        ),
    )


def bursts_rows(plan: Plan, bursts: Sequence[PointBursts]) -> Table:
    """A row per point whose payloads were compared: how its errors lie together."""
    return Table(
        columns=(*map(plain_label, plan.swept_paths), *BURST_HEADS),
        numeric=(*(False for _ in plan.swept_paths), *(True for _ in BURST_HEADS)),
        rows=tuple((*settings_cells(plan, one.point), *burst_cells(one)) for one in bursts),
    )


def _rate_cells(rate: Rate | None) -> tuple[str | None, ...]:
    if rate is None:
        return (None, None, None)
    return (f"{rate.total:,}", f"{rate.errors:,}", format_rate(rate))
