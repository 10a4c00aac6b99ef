"""Results of a learning run point by point, as text: tables of the report page, bursts of errors, silent trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from textwrap import fill
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fl.base.measured import PRIVACY
from phy.measure.burstiness import Burstiness
from phy.measure.independence import Independence, assess, verdict
from privacy.mechanisms.flip_plans import CLAMP_WORDS
from scenarios.plan.points import Plan, Point, is_number, is_shown, value_of
from scenarios.report.figures.curves import NO_SETTINGS, applies, labels_of
from scenarios.report.figures.draw import draw
from scenarios.report.figures.drawing import Curve, Drawing, Spot
from scenarios.report.figures.learning import figures_of
from scenarios.report.figures.style import render
from scenarios.report.settings import point_table, said, setting_in_words, short_setting
from scenarios.report.tables.quantities import CODED, RATES, word_of
from scenarios.report.tables.summaries import PointSummary, done_series, told_by
from scenarios.report.tables.table import Table, in_groups
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.schema import FigureConfig
from scenarios.store.store import Store

HEAD_WIDTH = 24
"""Of a column on the terminal."""
MOST_CURVES = 6
CLAMPS = "clamps, share of devices and rounds"
LONGEST = 7
"""Runs of so many wrong bits or more are counted together."""


# --- metrics and rates ----------------------------------------------------------------------------


def metrics_rows(plan: Plan, summaries: Sequence[PointSummary]) -> Table:
    """A row per point: setting, mean [low, high] of each metric, those of figures first, trials done and failed.

    Rounds in which nothing arrived have a column where there were any; metrics of privacy have a table of their own.
    """

    def elsewhere(name: str, summary: PointSummary) -> bool:
        return name in PRIVACY and summary.point.scenario.learning.algorithm == "fedavg"

    measured = dict.fromkeys(name for s in summaries for name in s.metrics if not elsewhere(name, s))
    drawn = (name for config in figures_of(plan, measured) for name in told_by(config))
    names = dict.fromkeys(name for name in (*drawn, *measured) if name in measured)
    if not any(s.metrics["empty_rounds"].mean for s in summaries if "empty_rounds" in s.metrics):
        names.pop("empty_rounds", None)
    rows = ((s.point, (*(_cell(s, name) for name in names), str(s.done), str(s.failed))) for s in summaries)
    return point_table(plan, (*map(axis_label, names), "trials", "failed"), rows)


def _cell(summary: PointSummary, name: str) -> str | None:
    """A mean with its interval; of a code its word, or `mixed` where trials differ."""
    if (mean := summary.metrics.get(name)) is None:
        return None
    return word_of(name, mean.mean) or "mixed" if name in CODED else str(mean.within(name))


def results_table(
    plan: Plan, summaries: Sequence[PointSummary], *, proved: Mapping[int, str] = MappingProxyType({})
) -> Table:
    """A row per point: its setting, trials, and numbers of the figures, or else the main metric and the bit error rate.

    Of a figure with budgets these are the numbers within each, ascending. `proved`: the epsilon of the run by index of
    the point, in a column of its own where there is one.
    """
    measured = {name: None for s in summaries for name in (*s.metrics, *s.rates)}
    main = [name for point in plan.points[:1] for name in point.scenario.learning.measured().per_trial[:1]]
    figures = figures_of(plan, measured)
    budgets = next(([*reversed(told_by(one)[:-1])] for one in figures if one.budgets), [])
    drawn = [name for config in figures for name in told_by(config)]
    names = [name for name in budgets if name in measured]
    if not names:
        # Where packets with errors are left out or sent again, bits that arrive tell nothing of the link.
        accepted = all(point.scenario.link.packets.policy == "accept" for point in plan.points)
        rate = "bit_error_rate" if accepted else "packet_error_rate"
        names = [name for name in dict.fromkeys([*drawn, *main, rate]) if name in measured][:2]

    def row(s: PointSummary) -> tuple[tuple[str, ...], tuple[str, ...]]:
        cells = (_cell(s, name) or str(s.rates.get(name, "")) for name in names)
        epsilon = (proved.get(s.point.index, ""),) if proved else ()
        setting = words.get(s.point.index) or short_setting(plan, s.point)
        return setting if any(setting) else (s.point.scenario.name,), (str(s.done), *epsilon, *cells)

    words = _words_of_curves(plan, figures, summaries)
    proof = ("proved ε of the run",) if proved else ()
    heads = ("setting", "trials", *proof, *(fill(axis_label(name), HEAD_WIDTH) for name in names))
    return Table(columns=heads, rows=tuple(in_groups(map(row, summaries))), left=heads[:1], wrapped=heads[:1])


def _words_of_curves(
    plan: Plan, figures: Sequence[FigureConfig], summaries: Sequence[PointSummary]
) -> dict[int, tuple[str, ...]]:
    """Curve and x of every point in the words of the first figure over a setting, by index; none if not unique."""
    config = next((one for one in figures if one.x not in NO_SETTINGS), None)
    if config is None:
        return {}
    words: dict[int, tuple[str, ...]] = {}
    for s, (label, line) in zip(
        summaries, labels_of(config, plan.swept_paths, [s.point for s in summaries]), strict=True
    ):
        panel = "" if config.panels is None or not applies(config.panels, s.point) else said(s.point, config.panels)
        x = "" if line else said(s.point, config.x)
        words[s.point.index] = (", ".join(filter(None, (label, panel))), x) if label or panel else (x or label,)
    return words if len({*words.values()}) == len(words) else {}


def few_of_each(plan: Plan, summaries: Sequence[PointSummary], *, most: int) -> tuple[PointSummary, ...]:
    """Return at most `most` sweep points, of each curve of the first figure as many, from one end of x to the other."""
    figures = figures_of(plan, {name for s in summaries for name in s.metrics})
    if len(summaries) <= most or not figures:
        return tuple(summaries[:most])
    config = figures[0]
    summaries = [s for s in summaries if is_shown(config, s.point)]
    labels = labels_of(config, plan.swept_paths, [s.point for s in summaries])
    curves: dict[tuple[str, str], list[PointSummary]] = {}
    for s, (label, line) in zip(summaries, labels, strict=True):
        panel = "" if config.panels is None or line else said(s.point, config.panels)
        curves.setdefault((panel, label), []).append(s)
    each = max(most // len(curves), 1)
    chosen = set()
    for some in curves.values():
        values = [value_of(s.point, config.x) for s in some]
        if all(map(is_number, values)):
            some = [s for _, s in sorted(zip(values, some, strict=True), key=lambda pair: pair[0])]
        ends = np.linspace(0, len(some) - 1, min(each, len(some))) if each > 1 else [len(some) - 1]
        chosen |= {some[round(end)].point.index for end in ends}
    return tuple(s for s in summaries if s.point.index in chosen)[:most]


def rates_rows(plan: Plan, summaries: Sequence[PointSummary]) -> Table:
    """A row per point whose devices were detected: counts, rate and interval of bits, packets and probes.

    Bits before decoding are shown where they differ from those after it.
    """
    names = dict.fromkeys(name for s in summaries for name in s.rates)
    if all(s.rates.get("raw_bit_error_rate") in (None, s.rates.get("bit_error_rate")) for s in summaries):
        names.pop("raw_bit_error_rate", None)
    heads: list[str] = []
    for name in names:
        heads += [f"{RATES[name].said}s", f"{RATES[name].said} errors", axis_label(name)]

    def cells(summary: PointSummary) -> Iterator[str | None]:
        for name in names:
            rate = summary.rates.get(name)
            yield from (None, None, None) if rate is None else (f"{rate.total:,}", f"{rate.errors:,}", str(rate))

    return point_table(plan, heads, ((s.point, tuple(cells(s))) for s in summaries if s.rates))


# --- privacy --------------------------------------------------------------------------------------


def privacy_table(store: Store, plan: Plan, summaries: Sequence[PointSummary]) -> Table:
    """A row per point of federated averaging with a mechanism: epsilon and whose it is, what follows from it, and how
    often flips clamped."""
    ids = {point.index: some for point, some in zip(plan.points, plan.task_ids, strict=True)}
    asked = {s.point.index: one.asked for s in summaries if s.done and (one := s.point.scenario.mechanism) is not None}
    found = [s for s in summaries if asked.get(s.point.index) is not None]
    names = [name for name in PRIVACY if any(name in s.metrics for s in found)]
    flips = [_flips(store, ids[s.point.index]) for s in found]
    of_flips = ("mean flip probability p_A", CLAMPS) if any(any(one) for one in flips) else ()
    rows = (
        (s.point, (asked[s.point.index], *(_cell(s, name) for name in names), *one[: len(of_flips)]))
        for s, one in zip(found, flips, strict=True)
    )
    heads = ("requested ε", *map(axis_label, names), *of_flips)
    return point_table(plan, heads, rows, left=(heads[0], CLAMPS))


def _flips(store: Store, task_ids: Sequence[str]) -> tuple[str | None, str | None]:
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
    return f"{total / observed:.4g}", ", ".join(shares)


# --- bursts ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PointBursts:
    """A point whose devices were detected: counts `[num_devices]` over its whole trials, and what they say."""

    point: Point
    counts: Burstiness
    found: Independence
    sentence: str


def read_bursts(store: Store, plan: Plan) -> tuple[PointBursts, ...]:
    """The points that compared payloads of devices, in the order of the plan; failed trials do not count."""
    shown = []
    for point, ids in zip(plan.points, plan.task_ids, strict=True):
        trials = [Burstiness(**arrays) for arrays in done_series(store, ids, "bursts") if arrays]
        if trials:
            counts = reduce(add, trials)
            shown.append(PointBursts(point=point, counts=counts, found=assess(counts), sentence=verdict(counts)))
    return tuple(shown)


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


def burst_cells(found: Independence) -> tuple[str | None, ...]:
    """Cells of a row: packets, variance ratio, lag-1 correlation, run length against geometric, label rates."""
    if not found.errors:
        return (f"{found.packets:,}", None, None, None, None)
    ratio = None
    if found.variance_ratio is not None and found.low is not None and found.high is not None:
        ratio = f"{found.variance_ratio:.3g} [{found.low:.3g}, {found.high:.3g}]"
    runs = f"{found.run_length:.4g} / {found.independent_run_length:.4g}"
    labels = " ".join(f"{rate:.2g}" for rate in found.label_rates)
    return (f"{found.packets:,}", ratio, f"{found.lag1_correlation:.2g}", runs, labels)


def draw_runs(plan: Plan, bursts: Sequence[PointBursts]) -> bytes | None:
    """SVG: share of runs by length, measured (marks) and independent (lines), of the points whose runs are longest.

    None if no point has two errors in a row to show.
    """
    shown = [b for b in bursts if np.isfinite(b.found.run_length) and b.counts.in_a_row[..., 1].any()]
    shown = sorted(shown, key=lambda b: b.found.run_length / b.found.independent_run_length, reverse=True)
    curves = []
    for number, one in enumerate(sorted(shown[:MOST_CURVES], key=lambda b: b.point.index)):
        runs = one.counts.over_trials().run_counts.sum(axis=0)
        measured = enumerate(runs / runs.sum(), start=1)
        independent = enumerate(geometric_shares(one.counts), start=1)
        curves.append(
            Curve(
                label=setting_in_words(plan, one.point) or "measured",
                series=number,
                spots=tuple(Spot(x=k, y=share) for k, share in measured if share > 0),
                theory=tuple(Spot(x=k, y=share) for k, share in independent),
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
