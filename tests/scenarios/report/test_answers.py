"""The page opens with what was compared, what is best where, and if the difference is clear."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_runs import make_plan, make_trial, store_trials

from privacy.events.claims import Claim
from scenarios.plan.points import Plan
from scenarios.report.answers import Difference, answer
from scenarios.report.claims import MOST_POINTS, PointClaims, claimed_and_proved
from scenarios.report.tables.summaries import PointSummary, mean_interval, summarise, with_interval
from scenarios.store.store import Store

SNR, SCHEME, MODEL = "link.power.snr_max_db", "learning.scheme", "link.error_model"
NOISE = np.random.default_rng(1).normal(size=6)
FEDAVG = {"algorithm": "fedavg", "upload": "update"}


def answered(
    folder: Path, plan: Plan, values: Mapping[int, Sequence[float]], *, metric: str = "mse"
) -> tuple[dict[str, str], list[tuple[str | None, ...]]]:
    """Sentences by their heads, and rows of the table."""
    trials = {
        index: [make_trial(trial, metrics={metric: value}) for trial, value in enumerate(some)]
        for index, some in values.items()
    }
    store_trials(folder, plan, trials)
    with Store.open_existing(folder) as store:
        parts = answer(plan, summarise(store, plan))
    if not parts:
        return {}, []
    return dict(parts[0].items), list(parts[1].table.rows if parts[1].table else ())


def interval(differences: np.ndarray) -> str:
    """Mean of six differences and its interval: Student's t of 5 degrees of freedom is 2.5706 at 97.5 %."""
    mean, half = differences.mean(), 2.570582 * differences.std(ddof=1) / math.sqrt(6)
    return with_interval(mean, low=mean - half, high=mean + half)


def plan_of(settings: Sequence[dict[str, Any]], *, y: str = "mse", series: str = SCHEME, **scenario: Any) -> Plan:
    return make_plan(settings, trials=6, report={"figures": [{"x": SNR, "y": y, "series": series}]}, **scenario)


def test_pairs_of_trials_tell_a_difference_that_intervals_of_means_do_not(tmp_path: Path) -> None:
    plan = plan_of([{SNR: snr, SCHEME: scheme} for snr in (0.0, 10.0) for scheme in ("analog", "digital")])
    values = {
        0: 10 + NOISE,
        1: 10.1 + NOISE + 1e-3 * NOISE**2,  # the same noise, and a tenth more
        2: 10 + NOISE,
        3: 10 + NOISE[::-1],
    }
    said, rows = answered(tmp_path, plan, values)
    assert said["Compared"].startswith("analog; digital, by MSE to the posterior mean, the smaller the better, at 2 se")
    assert rows[0][:2] == ("P₀/N₀ = 0 dB", "analog")
    assert rows[0][3:] == ("digital", interval(-0.1 - 1e-3 * NOISE**2), "yes")
    assert rows[1][-1] == "no"


def test_sweep_points_with_the_same_values_are_best_together(tmp_path: Path) -> None:
    settings = [{SNR: 0.0, SCHEME: "analog", "privacy": p} for p in ("none", {"epsilon": 5.0})]
    plan = plan_of([*settings, {SNR: 0.0, SCHEME: "digital", "privacy": "none"}])
    said, rows = answered(tmp_path, plan, {0: 1 + NOISE**2, 1: 1 + NOISE**2, 2: 5 + NOISE**2})
    assert said["Best"].startswith("analog, no privacy; analog, ε = 5, ")
    assert "next digital, no privacy, difference " in said["Best"]
    assert "a clear difference." in said["Best"]
    assert rows == []


def test_a_scheme_without_a_radio_stands_beside_the_others(tmp_path: Path) -> None:
    plan = plan_of([{SNR: 0.0, SCHEME: "analog"}, {SNR: 0.0, SCHEME: "digital"}, {SCHEME: "exact"}])
    said, rows = answered(tmp_path, plan, {0: 2 + NOISE**2, 1: 3 + NOISE**2, 2: np.full(6, 0.5)})
    assert said["Beside them"] == "exact posterior 0.5."
    assert said["Best"].startswith("analog, ")
    assert rows == []


def test_larger_accuracies_are_better(tmp_path: Path) -> None:
    settings = [{SNR: 0.0, "label": label} for label in ("one", "other")]
    plan = plan_of(settings, y="test_accuracy", series="label", learning=FEDAVG)
    said, _ = answered(tmp_path, plan, {0: 0.5 + NOISE / 100, 1: 0.75 + NOISE / 100}, metric="test_accuracy")
    assert said["Best"].startswith("other, ")


def test_at_a_budget_the_numbers_within_it_are_compared() -> None:
    figure = {"x": "elapsed_s", "y": "mse", "budgets": [0.5, 2.0], "series": SCHEME}
    settings = [{SCHEME: scheme} for scheme in ("analog", "digital")]
    plan = make_plan(settings, trials=6, report={"figures": [figure]})
    name = "mse within 2 elapsed_s"
    trials = {index: dict(enumerate(index + NOISE**2)) for index in range(2)}
    summaries = [
        PointSummary(
            point=plan.points[index],
            done=6,
            failed=0,
            # The whole runs are the other way round.
            metrics={"mse": mean_interval(np.array([1.0 - index])), name: mean_interval(np.array([*one.values()]))},
            trials={name: one},
        )
        for index, one in trials.items()
    ]
    said = dict(answer(plan, summaries)[0].items)
    assert said["Best"].startswith("analog, ")
    assert "a clear difference" in said["Best"]
    assert said["Compared"].endswith("up to 2, the smaller the better.")


def test_measured_errors_are_compared_with_independent_ones_in_pairs(tmp_path: Path) -> None:
    settings = [{MODEL: model, SNR: snr} for model in ("measured", "iid") for snr in (0.0, 10.0)]
    plan = plan_of(settings, series=MODEL)
    values = {0: 5 + NOISE, 1: 5 + NOISE, 2: 4 + NOISE + 1e-3 * NOISE**2, 3: 5 + NOISE[::-1]}
    said, _ = answered(tmp_path, plan, values)
    largest = interval(-1 + 1e-3 * NOISE**2)
    assert said["independent errors against measured errors"] == (
        f"a clear difference at 1 of 2 settings; the largest is {largest} (P₀/N₀ = 0 dB)."
    )


def test_two_trials_make_no_verdict(tmp_path: Path) -> None:
    plan = plan_of([{SNR: snr, SCHEME: scheme} for snr in (0.0, 10.0) for scheme in ("analog", "digital")])
    said, rows = answered(tmp_path, plan, {index: [1.0 + index, 2.0 + index] for index in range(4)})
    assert said["Best: analog"] == "at 2 of 2 settings; intervals need 3 trials."
    assert {row[-1] for row in rows} == {""}


@pytest.mark.parametrize("metric", ["membership_auc", "amplitude"])
def test_a_quantity_that_is_neither_good_nor_bad_has_no_best(metric: str, tmp_path: Path) -> None:
    plan = plan_of([{SNR: 0.0, SCHEME: scheme} for scheme in ("analog", "digital")], y=metric)
    said, rows = answered(tmp_path, plan, {0: [1.0] * 3, 1: [2.0] * 3}, metric=metric)
    assert list(said) == ["Compared"]
    assert rows == []


def test_only_trials_that_both_have_are_paired() -> None:
    found = Difference.of({0: 1.0, 1: 2.0, 2: 3.0, 9: 100.0}, {0: 0.0, 1: 0.5, 2: 2.5, 7: -50.0})
    assert found.mean is not None
    assert (found.mean.mean, found.mean.trials) == (1.0, 3)
    assert Difference.of({0: 1.0}, {1: 1.0}).mean is None


def claim(epsilon: float, **fields: Any) -> Claim:
    given = {"scope": "run", "accountant": "exact", "standing": "proved", "delta": 1e-5, **fields}
    return Claim(
        epsilon=epsilon,
        unit="device",
        relation="replace-one",
        source="",
        assumptions=(),
        channel_credited=False,
        sampling_credited=False,
        **given,
    )


def test_the_epsilon_that_is_proved_stands_beside_the_one_that_is_claimed() -> None:
    plan = plan_of([{SNR: snr} for snr in (0.0, 10.0, 20.0)])
    paper = claim(5.0, scope="round", accountant="paper", standing="as published")
    proofs = ([claim(40.0), claim(30.0)], [claim(20.0)], [claim(math.inf)])
    found = [
        PointClaims(point=point, trials=1, claims=(paper, *some))
        for point, some in zip(plan.points, proofs, strict=True)
    ]
    assert list(claimed_and_proved(found, plan)) == [
        ("Claimed privacy", "ε = 5 per round, as published (3 sweep points)."),
        ("Proved privacy", "ε from 20 to 30 for the whole run (2 sweep points)."),
        ("Not proved", "no finite ε holds for the whole run at 1 sweep point."),
    ]


def test_of_many_sweep_points_the_accountant_is_named() -> None:
    plan = plan_of([{SNR: float(snr)} for snr in range(MOST_POINTS + 1)])
    found = [PointClaims(point=plan.points[0], trials=1, claims=(claim(40.0, accountant="renyi"),))]
    ((_, sentence),) = claimed_and_proved(found, plan)
    fast = "by the Rényi accountant; another may prove a smaller ε."
    assert sentence == f"ε = 40 for the whole run (1 sweep point), {fast}"


@pytest.mark.parametrize(("share", "verdict"), [(1e-7, "equal"), (1e-5, "yes")])
def test_a_difference_of_rounding_is_none(share: float, verdict: str) -> None:
    one = {trial: 1.0 + noise**2 for trial, noise in enumerate(NOISE)}
    other = {trial: value * (1.0 + share) for trial, value in one.items()}
    assert Difference.of(one, other).verdict == verdict
