"""Number of trials of a sweep point: all, or as many as make the interval of a metric narrow enough (`stop`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from scenarios.plan.points import Plan
from scenarios.report.tables.summaries import mean_interval

if TYPE_CHECKING:
    from scenarios.schema.schema import Scenario
    from scenarios.store.store import Store

_GROWTH = 1.5
"""Trials at a look over those at the one before: a sweep point has at most half as many trials too many."""


class Wanted(NamedTuple):
    """The first `trials` trials of a sweep point are needed; `final`: they are finished, and no more are."""

    trials: int
    final: bool


@dataclass(frozen=True, kw_only=True)
class TrialRule:
    """Stop a sweep point at the first of `looks` where the 95 % interval of `metric` is within `half_width`.

    The trials of a point are always its first ones, and a look waits for all of them: which trials there are depends
    on no order in which workers finish. The width alone ends a point, never the mean. So the mean stays unbiased where
    spread and mean of the metric are independent (Anscombe 1952; Chow and Robbins 1965).
    """

    metric: str
    half_width: float
    looks: tuple[int, ...]

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        """Return the rule of a scenario, None where all of its trials are needed."""
        stop = scenario.stop
        if stop is None:
            return None
        looks, most = [min(stop.min_trials, scenario.trials)], scenario.trials
        while looks[-1] < most:
            looks.append(min(ceil(_GROWTH * looks[-1]), most))
        return cls(metric=stop.metric, half_width=stop.half_width, looks=tuple(looks))

    def wanted(self, finished: Collection[int], values: Mapping[int, float]) -> Wanted:
        """Return the trials that a point needs; `finished` ones may have failed, `values`: the metric by trial."""
        for look in self.looks:
            if not all(trial in finished for trial in range(look)):
                return Wanted(look, final=False)
            if self._narrow([values[trial] for trial in range(look) if trial in values]):
                break
        return Wanted(look, final=True)

    def _narrow(self, values: Sequence[float]) -> bool:
        if len(values) < self.looks[0]:  # trials that failed, or did not measure the metric
            return False
        found = mean_interval(np.array(values))
        return found.low is not None and found.high is not None and found.high - found.low <= 2.0 * self.half_width


def wanted_trials(
    store: Store, plan: Plan, index: int, *, finished: Collection[str] | None = None, rule: TrialRule
) -> Wanted:
    """Return the trials that a sweep point of a plan needs by what is stored; `finished`: identities, else all."""
    ids = plan.task_ids[index]
    statuses = store.statuses(ids)
    known = {one for one, status in statuses.items() if status != "part"} if finished is None else finished
    done = [one for one in ids if one in known and statuses.get(one) == "done"]
    metrics = store.read_metrics(done)
    values = {
        trial: value
        for trial, one in enumerate(ids)
        if not np.isnan(value := metrics.get(one, {}).get(rule.metric, np.nan))
    }
    return rule.wanted({trial for trial, one in enumerate(ids) if one in known}, values)


def num_spared(store: Store, plan: Plan) -> int:
    """Return the number of trials of a plan that are not stored and turned out not to be needed."""
    rule = TrialRule.of(plan.points[0].scenario)
    if rule is None:
        return 0
    spared = 0
    for index, ids in enumerate(plan.task_ids):
        if (wanted := wanted_trials(store, plan, index, rule=rule)).final:
            statuses = store.statuses(ids[wanted.trials :])
            spared += plan.trials - wanted.trials - len(statuses)
    return spared
