"""What went wrong in a run: sweep points that learnt nothing, diverged or received nothing, and the key to change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from fl.algorithms.learning import PointFacts
from fl.base.words import plural
from phy.config.conflict import listing
from phy.links.budget import more_power
from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, value_of
from scenarios.report.settings import short_setting
from scenarios.report.tables.summaries import PointSummary, done_series
from scenarios.store.store import Store


def read_findings(store: Store, plan: Plan, summaries: Sequence[PointSummary]) -> tuple[str, ...]:
    """Return the findings of all sweep points with a finished trial; those that differ in numbers alone once."""
    found: dict[str, list[str]] = {}
    first: dict[str, str] = {}
    for summary in summaries:
        ids = plan.task_ids[plan.points.index(summary.point)]
        scenario, metrics = summary.point.scenario, {name: mean.mean for name, mean in summary.metrics.items()}
        facts = PointFacts(
            link=scenario.link,
            mechanism=scenario.mechanism,
            metrics=metrics,
            rates={name: rate.value for name, rate in summary.rates.items()},
            growth=_growth(store, ids) if "mse" in metrics else 1.0,
        )
        wrong = [*scenario.learning.findings(facts), *_worse_by_decoding(summary)] if summary.done else []
        if summary.failed:
            tasks = store.read_tasks(ids).values()
            failures = [one.failure or "" for one in tasks if one.status == "failed"]
            wrong.insert(0, failed_trials(failures, of=len(tasks)))
        for sentence in wrong:
            kind = first.setdefault(_without_numbers(sentence), sentence)
            found.setdefault(kind, []).append(", ".join(short_setting(plan, summary.point)))
    more = {sentence: f" and {len(others)} more" if others else "" for sentence, (_, *others) in found.items()}
    said = tuple(f"{one}{more[s]}: {s}" if one else s for s, (one, *_) in found.items())
    return (*said, *_without_effect(plan, [one for one in summaries if one.done]))


def _without_effect(plan: Plan, summaries: Sequence[PointSummary]) -> Iterator[str]:
    """A sentence for every swept path at whose values what is drawn is the same, whatever else is swept."""
    drawn = {figure.y for point in plan.points for figure in point.scenario.report.figures}
    drawn |= {name for point in plan.points for name in point.scenario.learning.measured().per_trial[:1]}

    def results(one: PointSummary) -> dict[str, object]:
        rates = {name: rate.value for name, rate in one.rates.items()}
        return {name: value for name, value in {**rates, **one.trials}.items() if name in drawn}

    cells = {path: [canonical_json(value_of(one.point, path)) for one in summaries] for path in plan.swept_paths}
    for path, own in cells.items():
        grid = [
            other for other in cells.values() if len({*zip(own, other, strict=True)}) > max(len({*own}), len({*other}))
        ]
        groups: dict[tuple[str, ...], list[PointSummary]] = {}
        for place, summary in enumerate(summaries):
            groups.setdefault(tuple(other[place] for other in grid), []).append(summary)
        some = [group for group in groups.values() if len(group) > 1]
        same = results(some[0][0]) if some and path != "label" else {}
        if same and all(results(one) == results(group[0]) for group in some for one in group):
            yield (
                f"{path} is swept, and every trial has the same {listing(sorted(same), last='and')} at all its "
                "values; if that is not meant, phyloop check --all shows which limits bind"
            )


def failed_trials(failures: Sequence[str], *, of: int) -> str:
    """Return how many trials failed, and the commonest reason; reasons that differ in their numbers are one."""
    reasons = [re.sub(r"^(before )?round \d+: ", "", one) for one in failures]
    kinds = [_without_numbers(one) for one in reasons]
    commonest, times = Counter(kinds).most_common(1)[0]
    return f"{times} of {plural(of, 'trial')} failed: {reasons[kinds.index(commonest)]}"


def _without_numbers(sentence: str) -> str:
    return re.sub(r"[\d.,]*\d(e[+-]\d+)?", "#", sentence)


def _worse_by_decoding(summary: PointSummary) -> Iterator[str]:
    """A code below its threshold: more of the bits are wrong after decoding than before, beyond both intervals."""
    decoded, raw = (summary.rates.get(name) for name in ("bit_error_rate", "raw_bit_error_rate"))
    link = summary.point.scenario.link
    if link.coding != "none" and decoded is not None and raw is not None and decoded.low > raw.high:
        yield (
            f"{decoded.value:.2%} of the bits are wrong after decoding and {raw.value:.2%} before: {link.coding.code} "
            f"makes errors worse at this SNR; {more_power(link)}, lower "
            "link.coding.rate, or write link.coding: none"
        )


def _growth(store: Store, task_ids: Sequence[str]) -> float:
    """Last over first squared error, means over the trials."""
    series = (arrays.get("squared_error") for arrays in done_series(store, task_ids, "rounds"))
    errors = [one[[0, -1]] for one in series if one is not None]
    first, last = np.mean(errors, axis=0) if errors else (1.0, 1.0)
    return float(last / first) if first > 0.0 else 1.0


def silent_points(store: Store, plan: Plan) -> tuple[str, ...]:
    """A sentence, without its full stop, for every sweep point with empty rounds, or with a budget that was spent."""
    found = []
    for point, ids in zip(plan.points, plan.task_ids, strict=True):
        whole, budget = list(store.read_metrics(ids).values()), point.scenario.budget
        setting, rounds = ", ".join(short_setting(plan, point)), point.scenario.learning.rounds
        sent = [one.get("rounds_sent", float(rounds)) for one in whole]
        ended = [number for number in sent if budget is not None and not budget.calibrate and number < rounds]
        empty = [one.get("empty_rounds", 0.0) for one in whole]
        silent = [number for number, other in zip(empty, sent, strict=True) if number and other not in ended]
        said = []
        if ended and budget is not None:
            what = "where it stopped" if budget.action == "stop" else "after which nobody sent"
            held = f"the budget of epsilon {budget.epsilon:g} held {_span(ended)} of {plural(rounds, 'round')}"
            said.append((f"{held}, {what}", len(ended)))
        if silent:
            what = f"nothing arrived in {_span(silent)} of {plural(rounds, 'round')}, which left the model as it was"
            said.append((what, len(silent)))
        found += [
            f"{setting}{': ' * bool(setting)}{text}, in {count} of {plural(len(whole), 'trial')}"
            for text, count in said
        ]
    return tuple(found)


def _span(numbers: Sequence[float]) -> str:
    """`3`, or `1 to 3`."""
    return " to ".join(dict.fromkeys(f"{number:.0f}" for number in (min(numbers), max(numbers))))
