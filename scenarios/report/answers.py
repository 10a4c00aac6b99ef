"""The answer of a run, first on its page: what was compared, what is best where, and if the difference is clear.

Trials of the same number share data, fading and noise across sweep points. Differences are therefore paired: mean and
t interval of the differences trial by trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, is_shown, value_of
from scenarios.report.figures.curves import NO_SETTINGS, applies, labels_of
from scenarios.report.figures.learning import figures_of
from scenarios.report.html import Part
from scenarios.report.lost_packets import packets_lost
from scenarios.report.settings import axes_of, said
from scenarios.report.tables.quantities import sense
from scenarios.report.tables.summaries import FEWEST_TRIALS, Mean, PointSummary, mean_interval, told_by
from scenarios.report.tables.table import Table
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.schema import FigureConfig

MOST_NAMES = 6
"""Names that a sentence lists."""
MOST_ROWS = 8
"""Of a table that is not folded."""
ROUNDING = 1e-6
"""Relative difference of two numbers that were computed in single precision in another order."""
ERROR_MODEL = "link.error_model"
LEAD = (
    "Differences are means over the trials that both have [95 % t interval], paired: trials of one number share data, "
    "fading and noise. A difference is clear if its interval does not contain zero."
)

Values = Mapping[int, float]
"""The quantity of one sweep point by trial."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Paired difference of two sweep points; `mean` None without a common trial."""

    mean: Mean | None

    @classmethod
    def of(cls, one: Values, other: Values) -> Difference:
        """Return `one` less `other`, over the trials that both have; 0 where they differ by rounding alone."""
        pairs = np.array([(one[trial], other[trial]) for trial in one.keys() & other.keys()]).reshape(-1, 2)
        apart = np.where(np.isclose(pairs[:, 0], pairs[:, 1], rtol=ROUNDING, atol=0.0), 0.0, pairs[:, 0] - pairs[:, 1])
        return cls(mean=mean_interval(apart) if len(pairs) else None)

    @property
    def verdict(self) -> str:
        """`yes` where the interval does not contain zero, `no` where it does, `equal`; empty of few trials."""
        if self.mean is None or self.mean.low is None or self.mean.high is None or self.mean.trials < FEWEST_TRIALS:
            return ""
        if self.mean.low == self.mean.high == 0.0:
            return "equal"
        return "yes" if self.mean.low > 0.0 or self.mean.high < 0.0 else "no"


def answer(plan: Plan, summaries: Sequence[PointSummary]) -> list[Part]:
    """The comparison of the first figure whose quantity is one number per trial; nothing without one.

    Of a figure with budgets it is the quantity within the largest one.
    """
    measured = {name for summary in summaries for name in summary.metrics}
    shown = ((config, name) for config in figures_of(plan, measured) for name in told_by(config))
    config, metric = next(((config, name) for config, name in shown if name in measured), (None, ""))
    if config is None:
        return []
    found = [s for s in summaries if is_shown(config, s.point) and np.isfinite(_mean(s, metric))]
    values = {s.point.index: s.trials.get(metric, {}) for s in found}
    settings, references = _contests(config, plan, found)
    rows = list(_rows(settings, values, metric=metric))
    items = [*_compared(config, settings, metric), *_best(rows), *_references(references, metric)]
    items += _error_models(plan, found, values)
    heads = ("setting", "best", axis_label(metric), "next", "difference", "clear")
    several = tuple(rows) if len(rows) > 1 else ()  # the sentence of one setting has all of its row
    table = Table(columns=heads, rows=several, left=(heads[0], "best", "next", "clear"), wrapped=("best", "next"))
    fold = f"Best and next at each of {len(rows)} settings" if len(rows) > MOST_ROWS else ""
    return [Part(items=items), Part(table=table, fold=fold), Part(soft=LEAD if rows else "")]


def _mean(summary: PointSummary, metric: str) -> float:
    return summary.metrics[metric].mean if metric in summary.metrics else np.nan


def _contests(
    config: FigureConfig, plan: Plan, found: Sequence[PointSummary]
) -> tuple[dict[str, dict[str, PointSummary]], dict[str, PointSummary]]:
    """Sweep points by the words of their setting and by their label; and those that stand beside all settings.

    A setting is a place on the x axis of a panel, and the curves compete there. Of one curve, its values of x compete.
    Where nothing competes there is no setting.
    """
    points = [summary.point for summary in found]
    labels = labels_of(config, plan.swept_paths, points)
    x = None if config.x in NO_SETTINGS else config.x
    several = len({label for label, line in labels if not line}) > 1
    settings: dict[str, dict[str, PointSummary]] = {}
    references: dict[str, PointSummary] = {}
    for summary, (label, line) in zip(found, labels, strict=True):
        if line or (config.panels is not None and not applies(config.panels, summary.point)):
            references[label] = summary
            continue
        paths = [path for path in (config.panels, x if several else None) if path is not None]
        place = ", ".join(filter(None, (said(summary.point, path) for path in paths)))
        name = label if several or x is None else said(summary.point, x)
        settings.setdefault(place, {})[name] = summary
    for contest in settings.values():
        if len(contest) == 1 and len(settings) > 1:
            references.update(contest)
    return {place: contest for place, contest in settings.items() if len(contest) > 1}, references


def _rows(
    settings: Mapping[str, Mapping[str, PointSummary]], values: Mapping[int, Values], *, metric: str
) -> Iterator[tuple[str, ...]]:
    """Setting, best, its mean, the next, their difference and if it is clear.

    Those with the same values in all trials are best together.
    """
    better = sense(metric)
    for place, contest in settings.items() if better else ():
        order = sorted(contest.items(), key=lambda item: -better * _mean(item[1], metric))
        first = order[0][1]
        against = {name: Difference.of(values[first.point.index], values[s.point.index]) for name, s in order}
        alike = [name for name, one in against.items() if one.verdict == "equal"] or [order[0][0]]
        following = next((name for name, _ in order[1:] if name not in alike), "")
        difference = against.get(following, Difference(mean=None))
        mean = str(first.metrics[metric].within(metric))
        verdict = difference.verdict if following else "equal"
        yield place, "; ".join(alike), mean, following, str(difference.mean or ""), verdict


def _compared(
    config: FigureConfig, settings: Mapping[str, Mapping[str, PointSummary]], metric: str
) -> Iterator[tuple[str, str]]:
    names = list(dict.fromkeys(name for contest in settings.values() for name in contest))
    if len(names) > 1:
        direction = {1: ", the larger the better", -1: ", the smaller the better"}.get(sense(metric), "")
        paths = [path for path in (config.panels, config.x) if path is not None and path not in NO_SETTINGS]
        what = f" of {_listed(axis_label(path) for path in paths if path != 'label')}" if paths != ["label"] else ""
        where = f", at {len(settings)} settings{what}" if len(settings) > 1 else ""
        yield "Compared", f"{_listed(names, between='; ')}, by {axis_label(metric)}{direction}{where}."


def _best(rows: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """How often each is best, and how often clearly."""
    if len(rows) == 1 and rows[0][-1] != "equal":
        _, best, mean, following, difference, verdict = rows[0]
        clear = {"yes": ", a clear difference", "no": ", no clear difference"}.get(verdict, "")
        yield "Best", f"{best}, {mean}; next {following}, difference {difference}{clear}."
        return
    wins: dict[str, list[str]] = {}
    for _, best, *_, verdict in rows:
        wins.setdefault("all equal" if verdict == "equal" else best, []).append(verdict)
    for name, verdicts in sorted(wins.items(), key=lambda item: -len(item[1])):
        clear = f", clearly at {verdicts.count('yes')} of these"
        if not any(verdicts):
            clear = f"; intervals need {FEWEST_TRIALS} trials"
        yield f"Best: {name}", f"at {len(verdicts)} of {len(rows)} settings{clear * (name != 'all equal')}."


def _references(references: Mapping[str, PointSummary], metric: str) -> Iterator[tuple[str, str]]:
    words = [f"{name} {one.metrics[metric].within(metric)}" for name, one in references.items()]
    if words:
        yield "Beside them", f"{_listed(words, between='; ')}."


def _error_models(plan: Plan, found: Sequence[PointSummary], values: Mapping[int, Values]) -> Iterator[tuple[str, str]]:
    """How much given errors, independent or of a formula, differ from those measured on the radio."""
    models: dict[str, dict[str, PointSummary]] = {}
    for summary in found:
        point = summary.point
        others = [(path, value_of(point, path)) for path in plan.swept_paths if path != ERROR_MODEL]
        models.setdefault(str(value_of(point, ERROR_MODEL)), {})[canonical_json(others)] = summary
    measured = models.pop("measured", {})
    for summaries in models.values() if ERROR_MODEL in plan.swept_paths else ():
        both = {key: (one, measured[key]) for key, one in summaries.items() if key in measured}
        pairs = {key: (one.point, other.point) for key, (one, other) in both.items()}
        differences = {key: Difference.of(values[a.index], values[b.index]) for key, (a, b) in pairs.items()}
        known = {key: one.mean for key, one in differences.items() if one.mean is not None}
        if known:
            clear = sum(one.verdict == "yes" for one in differences.values())
            key = max(known, key=lambda one: abs(known[one].mean))
            paths = [path for path in axes_of(plan) if path != ERROR_MODEL]
            place = ", ".join(filter(None, (said(pairs[key][0], path) for path in paths)))
            at = f" ({place})" if place else ""
            # The packets first: a learner may bear the loss of many.
            yield from packets_lost([*both.values()], model=said(pairs[key][0], ERROR_MODEL), paths=paths)
            yield (
                f"{said(pairs[key][0], ERROR_MODEL)} against measured errors",
                f"a clear difference at {clear} of {len(known)} settings; the largest is {known[key]}{at}.",
            )


def _listed(words: Iterable[str], *, between: str = " and ") -> str:
    known = list(words)
    more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    return between.join(known[:MOST_NAMES]) + more
