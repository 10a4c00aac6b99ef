"""Trials of a sweep point end where the interval of a metric is narrow enough, whoever computes them in what order."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learning_run import run_plan
from scipy import stats

import phyloop
from fl.base.results import TrialResult
from scenarios.engine.batch import Finished, Job, finished
from scenarios.engine.study import Progress
from scenarios.plan.plan import expand
from scenarios.report.stopping import TrialRule
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.store.store import Store

SPREADS = {2: 0.0, 3: 0.6, 4: 1.2, 5: 30.0}
"""Standard deviation of the metric by the number of devices, the swept key."""
STOP = {"metric": "mse", "half_width": 0.5, "min_trials": 4}


def numbers(devices: int, trials: int) -> np.ndarray:
    """The metric of each trial; trial 1 of three devices fails."""
    values = SPREADS[devices] * np.random.default_rng(devices).standard_normal(trials)
    return np.where((np.arange(trials) == 1) & (devices == 3), np.nan, values)


def scenario(stop: dict[str, Any] | None = None, trials: int = 30) -> dict[str, Any]:
    root = {"name": "stops", "trials": trials, "learning": {"rounds": 2, "burn_in": 0}}
    return root | {"stop": stop or STOP, "sweep": {"learning.num_devices": [*SPREADS]}}


@dataclass
class Crowd:
    """An engine that takes up to `ahead` jobs before it ends one, the last of them first, as workers may."""

    ahead: int
    stop_after: int | None = None
    computed: list[tuple[int, int]] = field(default_factory=list)

    def run(self, jobs: Iterable[Job | None], *, progress: Progress) -> Generator[Finished, None, None]:
        waiting, taken = iter(jobs), list[Job]()
        while True:
            while len(taken) < self.ahead and (job := next(waiting, None)) is not None:
                taken.append(job)
            if not taken:
                return
            if self.stop_after is not None and len(self.computed) >= self.stop_after:
                raise KeyboardInterrupt
            job = taken.pop()
            progress.advance(len(job.trials) * job.point.scenario.learning.rounds)
            devices = job.point.scenario.learning.num_devices
            for trial in job.trials:
                self.computed.append((job.point.index, trial))
                value = float(numbers(devices, 30)[trial])
                failure = "no number" if np.isnan(value) else None
                result = TrialResult(trial=trial, metrics={} if failure else {"mse": value}, rounds={}, failure=failure)
                yield finished(Job(point=job.point, trials=(trial,)), [result], seconds=1.0)


def needed(devices: int) -> int:
    """Trials by hand: looks after 4, 6, 9, 14, 21, 30, at the t interval of those that did not fail."""
    for look in (4, 6, 9, 14, 21):
        values = numbers(devices, 30)[:look]
        values = values[~np.isnan(values)]
        half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values) if len(values) >= 4 else np.inf
        if half <= 0.5:
            return look
    return 30


def stored(folder: Path, loaded: LoadedScenario) -> dict[int, set[int]]:
    plan = expand(loaded)
    with Store.open_existing(folder) as store:
        statuses = store.statuses([one for ids in plan.task_ids for one in ids])
    return {
        point.scenario.learning.num_devices: {trial for trial, one in enumerate(ids) if one in statuses}
        for point, ids in zip(plan.points, plan.task_ids, strict=True)
    }


@pytest.mark.parametrize("ahead", [1, 3, 100])
def test_each_point_has_the_trials_that_its_interval_needs(ahead: int, tmp_path: Path) -> None:
    loaded = load_scenario(scenario())
    outcome = run_plan(loaded, expand(loaded), folder=tmp_path, engine=Crowd(ahead))
    trials = stored(tmp_path, loaded)
    assert trials == {devices: set(range(needed(devices))) for devices in SPREADS}
    assert {needed(2), needed(5)} == {4, 30}  # the ends
    assert 4 < needed(3) < 30
    assert outcome.computed == sum(map(len, trials.values()))
    page = (tmp_path / "report.html").read_text()
    assert f"{120 - outcome.computed}</strong> not needed" in page or f"{120 - outcome.computed}</b> not needed" in page
    assert "not complete" not in page
    again = run_plan(loaded, expand(loaded), folder=tmp_path, engine=Crowd(ahead))
    assert again.complete
    compared = phyloop.load(tmp_path)
    assert compared.done + compared.failed == outcome.computed


@pytest.mark.parametrize(("first", "later"), [(1, 100), (3, 1), (100, 3)])
def test_a_study_that_was_interrupted_ends_with_the_same_trials(first: int, later: int, tmp_path: Path) -> None:
    loaded = load_scenario(scenario())
    for number in (3, 10, 7):
        with pytest.raises(KeyboardInterrupt):
            run_plan(loaded, expand(loaded), folder=tmp_path, engine=Crowd(first, stop_after=number))
    crowd = Crowd(later)
    run_plan(loaded, expand(loaded), folder=tmp_path, engine=crowd)
    assert stored(tmp_path, loaded) == {devices: set(range(needed(devices))) for devices in SPREADS}
    assert len(crowd.computed) <= sum(map(needed, SPREADS)) - 20  # nothing twice


def test_intervals_of_normal_metrics_that_stopped_cover_the_mean_in_92_to_95_percent() -> None:
    """As the key says; 4 standard errors of 4,000 studies are 1.7 %."""
    rng, quantiles = np.random.default_rng(1), stats.t.ppf(0.975, np.arange(100))
    for half_width in (0.3, 0.5, 1.0):
        root = scenario({"metric": "mse", "half_width": half_width, "min_trials": 5}, trials=100)
        rule = TrialRule.of(load_scenario(root).scenario)
        assert rule is not None
        hits = 0
        for values in rng.standard_normal((4000, 100)):
            trials, final = rule.wanted(range(100), dict(enumerate(values)))
            assert final
            half = quantiles[trials - 1] * values[:trials].std(ddof=1) / np.sqrt(trials)
            assert trials == 100 or half <= half_width
            hits += abs(values[:trials].mean()) <= half
        assert 0.92 - 0.017 <= hits / 4000 <= 0.95 + 0.017


def test_wrong_metrics_and_rules_without_effect_are_told() -> None:
    (error,) = phyloop.check(scenario(STOP | {"metric": "mze"})).errors
    assert "stop.metric" in str(error)
    assert "did you mean mse" in str(error)
    checked = phyloop.check(scenario(STOP | {"min_trials": 30}))
    assert any("min_trials is 30; raise trials above 30" in one for one in checked.warnings)
    assert "at most 120 tasks" in checked.verdict
    swept = scenario() | {"sweep": {"stop.half_width": [0.1, 0.2]}}
    (error,) = phyloop.check(swept).errors
    assert "one rule ends the trials of all points" in str(error)
