"""The page opens with what was compared, what is best where, and if the difference is clear."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from fake_runs import make_plan, make_trial, store_trials

from privacy.events.claims import Claim
from scenarios.plan.points import Plan
from scenarios.report.answers.answer import answer
from scenarios.report.answers.differences import Difference
from scenarios.report.answers.proofs import Proved
from scenarios.report.claims import MOST_POINTS, PointClaims, claimed_and_proved
from scenarios.report.tables.summaries import PointSummary, mean_interval, summarise, with_interval
from scenarios.store.store import Store

SNR, SCHEME, MODEL = "link.power.snr_max_db", "learning.scheme", "link.error_model"
NOISE = np.random.default_rng(1).normal(size=6)
FEDAVG = {"algorithm": "fedavg", "upload": "update"}


def answered(
    folder: Path,
    plan: Plan,
    values: Mapping[int, Sequence[float]],
    *,
    metric: str = "mse",
    proved: Mapping[int, float] = MappingProxyType({}),
) -> tuple[dict[str, str], list[tuple[str | None, ...]]]:
    """Sentences by their heads, and rows of the table; `proved` epsilons by sweep point."""
    trials = {
        index: [make_trial(trial, metrics={metric: value}) for trial, value in enumerate(some)]
        for index, some in values.items()
    }
    store_trials(folder, plan, trials)
    proofs = {index: Proved(epsilon=epsilon, delta=1e-5, unit="device") for index, epsilon in proved.items()}
    with Store.open_existing(folder) as store:
        found = answer(plan, summarise(store, plan), proved=proofs)
    return {**dict(found.verdicts), **dict(found.about)}, list(found.table.rows if found.table else ())


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
    first, second = said[""].split("; ")
    assert first.startswith(f"analog is better at P₀/N₀ = 0 dB, by {interval(0.1 + 1e-3 * NOISE**2)}, MSE to the ")
    assert second.startswith("no clear difference at P₀/N₀ = 10 dB: ")


def crossed(tmp_path: Path, *, panels: str | None = None, count: int = 1) -> dict[str, str]:
    """Digital is better at 0 and 5 dB, nobody at 10 dB, analog at 15 dB and beyond."""
    caps = ["printed", "none"][:count]
    settings = [
        {SNR: snr, SCHEME: scheme, "learning.lmc_cap": cap}
        for cap in caps
        for snr in (0.0, 5.0, 10.0, 15.0, 20.0)
        for scheme in ("analog", "digital")
    ]
    figure = {"x": SNR, "y": "mse", "series": SCHEME, **({"panels": panels} if panels else {})}
    plan = make_plan(settings, trials=6, report={"figures": [figure]})
    levels = [3.0, 2.5, 2.0, 1.5, 1.0]
    values = {}
    for place in range(5 * count):
        values[2 * place] = levels[place % 5] + 0.01 * NOISE
        values[2 * place + 1] = 2.0 + 0.01 * NOISE[::-1]
    return answered(tmp_path, plan, values)[0]


def test_the_answer_says_where_which_scheme_is_better_and_where_the_order_changes(tmp_path: Path) -> None:
    one = interval(1.0 + 0.01 * (NOISE - NOISE[::-1]))
    half = interval(0.5 + 0.01 * (NOISE - NOISE[::-1]))
    digital, none, analog, crossing = crossed(tmp_path)[""].split("; ")
    assert digital.startswith(
        f"digital is better at P₀/N₀ ≤ 5 dB, by {half} (P₀/N₀ = 5 dB) to {one} (P₀/N₀ = 0 dB), "
        "there MSE to the posterior mean 2 against 3"
    )
    assert none.startswith("no clear difference at P₀/N₀ = 10 dB: ")
    assert analog.startswith("analog is better at P₀/N₀ ≥ 15 dB, by ")
    assert crossing == "the order changes between P₀/N₀ = 5 dB and P₀/N₀ = 15 dB."


def test_panels_with_the_same_answer_are_one_sentence(tmp_path: Path) -> None:
    said = crossed(tmp_path, panels="learning.lmc_cap", count=2)
    (verdict,) = [text for head, text in said.items() if head == ""]
    assert verdict.startswith("digital is better at P₀/N₀ ≤ 5 dB, by ")
    assert "(LMC cap " in verdict  # the panel of the largest difference


def test_panels_with_other_answers_have_sentences_of_their_own(tmp_path: Path) -> None:
    settings = [
        {SNR: 0.0, SCHEME: scheme, "learning.lmc_cap": cap}
        for cap in ("printed", "none")
        for scheme in ("analog", "digital")
    ]
    figure = {"x": SNR, "y": "mse", "series": SCHEME, "panels": "learning.lmc_cap"}
    plan = make_plan(settings, trials=6, report={"figures": [figure]})
    said, _ = answered(tmp_path, plan, {0: 1 + NOISE, 1: 2 + NOISE, 2: 2 + NOISE, 3: 1 + NOISE})
    assert said["LMC cap printed"].startswith("analog is better at P₀/N₀ = 0 dB, by ")
    assert said["LMC cap none"].startswith("digital is better at P₀/N₀ = 0 dB, by ")


def test_the_best_of_three_is_clear_against_every_other(tmp_path: Path) -> None:
    settings = [{SNR: 0.0, "label": label} for label in ("steady", "noisy", "worse")]
    plan = plan_of(settings, series="label")
    noisy = 3 + 10 * NOISE - 10 * NOISE.mean()  # the last by its mean, yet not clearly worse than the best
    said, _ = answered(tmp_path, plan, {0: 1 + 0.01 * NOISE, 1: noisy, 2: 2 + 0.01 * NOISE})
    assert said[""].startswith("no clear best at P₀/N₀ = 0 dB: steady has 1")
    assert "not clearly worse is noisy" in said[""]
    assert said[""].endswith("clearly behind: worse.")


PRIVATE = [{SNR: 0.0, SCHEME: scheme, "privacy": {"epsilon": 5.0}} for scheme in ("analog", "digital")]
BETTER = {0: 1 + 0.01 * NOISE, 1: 2 + 0.01 * NOISE}


@pytest.mark.parametrize(
    ("epsilons", "verdict"),
    [((10.0, 10.0), "yes"), ((12.0, 10.0), "yes"), ((13.0, 10.0), "not at equal privacy"), ((5.0, 10.0), "yes")],
)
def test_a_smaller_error_at_a_larger_epsilon_is_no_win(
    epsilons: tuple[float, float], verdict: str, tmp_path: Path
) -> None:
    plan = plan_of(PRIVATE + [{**one, SNR: 10.0} for one in PRIVATE])
    said, rows = answered(tmp_path, plan, {**BETTER, 2: BETTER[0], 3: BETTER[1]}, proved=dict(enumerate(2 * epsilons)))
    assert [row[5] for row in rows] == 2 * [verdict]
    assert rows[0][6] == f"{epsilons[0]:.4g}, {epsilons[1]:.4g}"
    fair = said[""].startswith("analog is better at all 2 settings, by ")
    assert fair == (verdict == "yes")
    if not fair:
        assert "but not at equal privacy: the run has proved ε = 13 against 10 of digital" in said[""]
    hint = said.get("To compare at equal privacy", "")
    assert hint.startswith("write privacy.budget: {epsilon: 10, delta: 1e-05} in place of privacy.epsilon") != fair


def test_the_budget_of_all_leaves_out_schemes_that_send_nothing(tmp_path: Path) -> None:
    plan = plan_of([*PRIVATE, {SNR: 0.0, SCHEME: "noiseless", "privacy": {"epsilon": 5.0}}])
    said, _ = answered(tmp_path, plan, {**BETTER, 2: 3 + NOISE}, proved={0: 200.0, 1: 8.4, 2: math.inf})
    hint = said["To compare at equal privacy"]
    assert hint.startswith("write privacy.budget: {epsilon: 8.4, delta: 1e-05} in place of privacy.epsilon")
    assert hint.endswith(", and privacy: none for noiseless, which send nothing")


def test_no_attack_is_called_better_than_another(tmp_path: Path) -> None:
    settings = [{SNR: 0.0, "learning.attack": {"kind": kind, "share": 0.2}} for kind in ("ones", "random")]
    said, rows = answered(tmp_path, plan_of(settings, series="learning.attack"), BETTER)
    assert rows == []
    assert "" not in said, "a sentence on who is better"


def test_a_scheme_without_a_proof_does_not_win_over_one_with_it(tmp_path: Path) -> None:
    said, _ = answered(tmp_path, plan_of(PRIVATE), BETTER, proved={0: math.inf, 1: 10.0})
    assert "proved ε = ∞ against 10 of digital" in said[""]


def test_those_at_equal_privacy_are_ranked_among_themselves(tmp_path: Path) -> None:
    settings = [{SNR: 0.0, "label": label, "privacy": {"epsilon": 5.0}} for label in ("loose", "loose too", "tight")]
    plan = plan_of(settings, series="label")
    values = {0: 1 + 0.01 * NOISE, 1: 2 + 0.01 * NOISE, 2: 3 + 0.01 * NOISE}
    said, rows = answered(tmp_path, plan, values, proved={0: 5e5, 1: 6e5, 2: 4.5})
    assert "but not at equal privacy: the run has proved ε = 5e+05 against 4.5 of tight" in said[""]
    within = next(text for head, text in said.items() if head == "At proved ε 5e+05 to 6e+05")
    assert within.startswith("loose is better at P₀/N₀ = 0 dB, by 1")
    assert [row[5] for row in rows] == ["not at equal privacy", "yes"]


@pytest.mark.parametrize(
    ("epsilons", "words"),
    [
        ((math.inf, math.inf, math.inf), "no ε proved"),
        ((math.inf, math.inf, 10.0), "not at equal privacy: proved ε from 10 to ∞"),
        ((10.0, 10.0, 11.0), ""),
    ],
)
def test_leaders_that_are_not_told_apart_are_said_to_have_no_proof_or_other_privacy_than_the_rest(
    epsilons: tuple[float, float, float], words: str, tmp_path: Path
) -> None:
    settings = [{SNR: 0.0, "label": label, "privacy": {"epsilon": 5.0}} for label in ("first", "second", "behind")]
    plan = plan_of(settings, series="label")
    noisy = 1.01 + NOISE - NOISE.mean()
    values = {0: 1 + 0.01 * NOISE, 1: noisy, 2: 9 + 0.01 * NOISE}
    said, _ = answered(tmp_path, plan, values, proved=dict(enumerate(epsilons)))
    assert said[""].startswith("no clear best at P₀/N₀ = 0 dB: ")
    assert said[""].endswith(f"], {words}; clearly behind: behind." if words else "]; clearly behind: behind.")


def test_a_clear_win_of_schemes_without_any_proof_says_so(tmp_path: Path) -> None:
    said, _ = answered(tmp_path, plan_of(PRIVATE), BETTER, proved={0: math.inf, 1: math.inf})
    assert said[""].startswith("analog is better at P₀/N₀ = 0 dB, by 1")
    assert said[""].endswith(", no ε proved.")


def test_schemes_with_and_without_privacy_are_ranked_apart(tmp_path: Path) -> None:
    free = [{SNR: 0.0, SCHEME: scheme, "privacy": "none"} for scheme in ("analog", "digital")]
    plan = plan_of(PRIVATE + free)
    values = {**BETTER, 2: 0.5 + 0.01 * NOISE, 3: 0.2 + 0.01 * NOISE}
    said, rows = answered(tmp_path, plan, values, proved={0: 10.0, 1: 10.0})
    assert [row[0].split(",")[0] for row in rows] == ["with privacy", "without privacy"]
    assert said["ε = 5"].startswith("analog is better at P₀/N₀ = 0 dB, by 1")
    assert said["no privacy"].startswith("digital is better at P₀/N₀ = 0 dB, by 0.3")
    assert "proved" not in said["no privacy"]  # nobody asked for it there


def test_sweep_points_with_the_same_values_are_best_together(tmp_path: Path) -> None:
    settings = [{SNR: 0.0, SCHEME: scheme} for scheme in ("analog", "exact", "digital")]
    plan = plan_of([{**one, "label": one[SCHEME]} for one in settings], series="label")
    said, rows = answered(tmp_path, plan, {0: 1 + NOISE**2, 1: 1 + NOISE**2, 2: 5 + NOISE**2})
    assert said[""].startswith("analog and exact are best at P₀/N₀ = 0 dB, by 4 over digital")
    assert rows == []


def test_a_scheme_without_a_radio_stands_beside_the_others(tmp_path: Path) -> None:
    plan = plan_of([{SNR: 0.0, SCHEME: "analog"}, {SNR: 0.0, SCHEME: "digital"}, {SCHEME: "exact"}])
    said, rows = answered(tmp_path, plan, {0: 2 + NOISE**2, 1: 3 + NOISE**2, 2: np.full(6, 0.5)})
    assert said["Beside them"] == "exact posterior 0.5."
    assert said[""].startswith("analog is better at P₀/N₀ = 0 dB, by 1")
    assert rows == []


def test_larger_accuracies_are_better(tmp_path: Path) -> None:
    settings = [{SNR: 0.0, "label": label} for label in ("one", "other")]
    plan = plan_of(settings, y="test_accuracy", series="label", learning=FEDAVG)
    said, _ = answered(tmp_path, plan, {0: 0.5 + NOISE / 100, 1: 0.75 + NOISE / 100}, metric="test_accuracy")
    assert said[""].startswith("other is better at P₀/N₀ = 0 dB, by 0.25")


def test_values_of_the_axis_compete_where_there_is_one_curve(tmp_path: Path) -> None:
    plan = make_plan([{SNR: snr} for snr in (0.0, 10.0)], trials=6, report={"figures": [{"x": SNR, "y": "mse"}]})
    said, _ = answered(tmp_path, plan, {0: 2 + 0.01 * NOISE, 1: 1 + 0.01 * NOISE})
    assert said[""].startswith("P₀/N₀ = 10 dB is better, by 1")


def test_every_budget_is_compared_and_the_smallest_is_first() -> None:
    figure = {"x": "elapsed_s", "y": "mse", "budgets": [2.0, 0.5], "series": SCHEME}
    settings = [{SCHEME: scheme} for scheme in ("analog", "digital")]
    plan = make_plan(settings, trials=6, report={"figures": [figure]})
    little, much = "mse within 0.5 elapsed_s", "mse within 2 elapsed_s"
    summaries = []
    for index, point in enumerate(plan.points):
        trials = {
            little: dict(enumerate(index + 0.01 * NOISE**2)),  # analog is better
            much: dict(enumerate(1.0 - index + 0.01 * NOISE**2)),  # digital is better
        }
        metrics = {name: mean_interval(np.array([*one.values()])) for name, one in trials.items()}
        # The whole runs have another number.
        metrics["mse"] = mean_interval(np.array([7.0]))
        summaries.append(PointSummary(point=point, done=6, failed=0, metrics=metrics, trials=trials))
    found = answer(plan, summaries)
    assert found.table is not None
    assert [row[0] for row in found.table.rows] == [f"time on the air [s] up to {amount}" for amount in ("0.5", "2")]
    assert [row[1] for row in found.table.rows] == ["analog", "digital"]
    first, second, *_ = dict(found.verdicts)[""].split("; ")
    assert first.startswith("analog is better at time on the air [s] up to 0.5, by 1")
    assert second.startswith("digital is better at time on the air [s] up to 2, by 1")


def test_measured_errors_are_compared_with_independent_ones_in_pairs(tmp_path: Path) -> None:
    settings = [{MODEL: model, SNR: snr} for model in ("measured", "iid") for snr in (0.0, 10.0)]
    plan = plan_of(settings, series=MODEL)
    values = {0: 5 + NOISE, 1: 5 + NOISE, 2: 4.9 + NOISE + 1e-3 * NOISE**2, 3: 4 + 3 * NOISE[::-1]}
    said, _ = answered(tmp_path, plan, values)
    largest = interval(-0.1 + 1e-3 * NOISE**2)  # the other difference is larger, and not clear
    assert said["independent errors against measured errors"] == (
        f"a clear difference at 1 of 2 settings; the largest clear one is {largest} (P₀/N₀ = 0 dB)."
    )


def test_two_trials_make_no_verdict(tmp_path: Path) -> None:
    plan = plan_of([{SNR: snr, SCHEME: scheme} for snr in (0.0, 10.0) for scheme in ("analog", "digital")])
    said, rows = answered(tmp_path, plan, {index: [1.0 + index, 2.0 + index] for index in range(4)})
    few = "at all 2 settings; an interval needs 3 trials."
    assert said[""] == f"analog has the smaller MSE to the posterior mean {few}"
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
