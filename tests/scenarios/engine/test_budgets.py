"""Budgets for a whole run as they are written, refused, told of before a run and after it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from learning_run import reload, run_scenario
from sentences import sentence_about

from privacy.config import AmplitudeBudget, BitFlippingBudget, GaussianBudget, GaussianConfig, SchemeBudget
from scenarios.cli.check import check_scenario
from scenarios.cli.claims import account_run
from scenarios.plan.plan import expand
from scenarios.schema.loader import as_yaml, load_scenario, resolved_data
from scenarios.store.store import Store

DIGITS = """\
name: budget
trials: 1
link: {power: {policy: fixed, snr_max_db: 30}, error_model: error_free}
learning:
  algorithm: fedavg
  num_devices: 4
  rounds: 6
  upload: update
  partition: {kind: iid, samples_per_device: 20}
  local: {learning_rate: 0.1, steps: 1, clip: 1.0}
"""
FLMC = "name: budget\nlearning: {scheme: digital, step_size: 1e-3}\n"


@pytest.mark.parametrize(
    ("text", "privacy", "kind"),
    [
        (FLMC, "{budget: {epsilon: 2}}", AmplitudeBudget),
        (DIGITS, "{mechanism: gaussian, budget: {epsilon: 2, schedule: increasing}}", GaussianBudget),
        (DIGITS, "{mechanism: gaussian, epsilon: 9, budget: {epsilon: 9, calibrate: false}}", GaussianConfig),
        (
            DIGITS + "  codec: fixed-point\n",
            "{mechanism: bit-flipping, debias: true, budget: {epsilon: 2}}",
            BitFlippingBudget,
        ),
        (
            DIGITS + "  aggregation: {name: cpa, channel: agnostic}\n",
            "{mechanism: scheme, budget: {epsilon: 2}}",
            SchemeBudget,
        ),
    ],
)
def test_a_budget_is_read_and_loads_again_as_the_same(text: str, privacy: str, kind: type, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"{text}privacy: {privacy}\n")
    scenario = expand(load_scenario(file)).points[0].scenario
    assert isinstance(scenario.privacy, kind)
    file.write_text(as_yaml(resolved_data(scenario)))
    assert expand(load_scenario(file)).points[0].scenario == scenario


@pytest.mark.parametrize(
    ("text", "privacy", "sentence"),
    [
        (DIGITS, "{mechanism: gaussian, budget: {epsilon: .inf}}", "privacy.budget.epsilon = inf: must be a finite"),
        (
            DIGITS,
            "{mechanism: gaussian, budget: {epsilon: 8, delta: 0}}",
            "privacy.budget.delta = 0.0: delta is 0, but Gaussian noise gives approximate privacy only",
        ),
        (
            FLMC,
            "{budget: {epsilon: 2, delta: 0}}",
            "privacy.budget.delta = 0.0: delta is 0, but noise of the receiver gives",
        ),
        (
            DIGITS,
            "{mechanism: scheme, budget: {epsilon: 8}}",
            "privacy.budget.epsilon = 8.0: aggregation mean sends numbers as they are",
        ),
        (
            DIGITS + "  aggregation: {name: cpa, epsilon: none}\n",
            "{mechanism: scheme, budget: {epsilon: 8}}",
            "learning.aggregation.epsilon: aggregation cpa without an epsilon protects nothing",
        ),
        (
            DIGITS,
            "{mechanism: gaussian, epsilon: 2000, budget: {epsilon: 1, calibrate: false}}",
            "privacy.budget.epsilon = 1.0: one round alone spends more than epsilon 1 at delta 1e-05 (accountant pld)",
        ),
        (
            DIGITS,
            "{mechanism: gaussian, epsilon: 8, budget: {epsilon: 8}}",
            "privacy.epsilon = 8: epsilon of a round is written, but the budget for the run sets it",
        ),
        (
            DIGITS + "  aggregation: {name: mvu}\n",
            "{mechanism: scheme, budget: {epsilon: 8, schedule: increasing}}",
            "aggregation mvu has one epsilon for all rounds, and the schedule is increasing; leave privacy.budget",
        ),
        (
            DIGITS,
            "{mechanism: gaussian, epsilon: 9, budget: {epsilon: 8, calibrate: false, schedule: increasing}}",
            "schedule increasing needs calibrate: true, and calibrate is false",
        ),
        (FLMC + "link: {csi: {error_variance: 0.1}}\n", "{budget: {epsilon: 2}}", "with an estimated channel"),
        (
            DIGITS.replace("error_free", "measured") + "  codec: fixed-point\n",
            "{mechanism: bit-flipping, channel: native, confidence: 0.99, budget: {epsilon: 8}}",
            "evidence of the channel's noise costs 1.0e-02 in each of 6 rounds",
        ),
    ],
)
def test_what_no_run_can_keep_is_refused_with_place_value_and_remedy(
    text: str, privacy: str, sentence: str, tmp_path: Path
) -> None:
    text += f"privacy: {privacy}\n"
    told = sentence_about(text, tmp_path)
    assert sentence in told
    line = int(told.partition(":")[2].partition(":")[0])
    assert line in (len(text.splitlines()), len(text.splitlines()) - 1)
    assert "; " in told


def test_check_tells_what_a_budget_leaves_and_how_long_it_lasts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(DIGITS + "privacy: {mechanism: gaussian, budget: {epsilon: 8, schedule: increasing}}\n")
    check_scenario(str(file), overrides=(), trials=None, seed=None)
    told = capsys.readouterr().out
    assert "Budget for the whole run:" in told
    assert "noise multiplier 2.2" in told
    assert "6 of 6" in told
    watching = "privacy={mechanism: gaussian, epsilon: 20, delta: 1.0e-5, budget: {epsilon: 8, calibrate: false}}"
    check_scenario(str(file), overrides=(watching,), trials=None, seed=None)
    told = capsys.readouterr().out
    assert "5 of 6, then stop" in told
    assert "warning: privacy.budget: epsilon 8 is spent after 5 of 6 rounds" in told
    scheme = (
        "learning.aggregation={name: cpa, channel: agnostic}",
        "privacy={mechanism: scheme, budget: {epsilon: 8}}",
    )
    check_scenario(str(file), overrides=scheme, trials=None, seed=None)
    told = capsys.readouterr().out
    assert "epsilon 0.0266" in told
    assert "epsilon 0.5 for every" not in told


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("budget")
    found = "{mechanism: gaussian, budget: {epsilon: 8}}"
    watching = "{mechanism: gaussian, epsilon: 20, delta: 1.0e-5, budget: {epsilon: 8, calibrate: false, action: %s}}"
    stopped, silent = watching % "stop", watching % "silent"
    text = f"{DIGITS}sweep:\n  privacy:\n" + "".join(f"    - {one}\n" for one in (found, stopped, silent))
    (folder / "s.yaml").write_text(text)
    assert run_scenario(str(folder / "s.yaml"), out=folder / "out", overrides=(), trials=None, seed=None) == 0
    return folder / "out"


def test_a_run_that_a_budget_ends_is_done_and_says_so_in_log_and_report(
    outcome: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_scenario(str(outcome / "scenario.yaml"), out=outcome, overrides=(), trials=None, seed=None) == 0
    log = capsys.readouterr().err
    assert "the budget of epsilon 8 held 5 of 6 rounds, where it stopped, in 1 of 1 trial." in log
    assert "the budget of epsilon 8 held 5 of 6 rounds, after which nobody sent, in 1 of 1 trial." in log
    assert log.count("the budget of epsilon 8 held") == 2
    page = (outcome / "report.html").read_text()
    assert page.count("the budget of epsilon 8 held 5 of 6 rounds") == 2
    _, plan = reload(outcome)
    with Store.open_existing(outcome) as store:
        for point, (task,) in zip(plan.points, plan.task_ids, strict=True):
            assert store.read_tasks([task])[task].status == "done"
            sent = store.read_metrics([task])[task]["rounds_sent"]
            assert sent == (6.0 if point.scenario.privacy.budget.calibrate else 5.0)


def test_no_proved_epsilon_of_the_finished_run_is_above_the_budget(outcome: Path, tmp_path: Path) -> None:
    file = tmp_path / "claims.csv"
    account_run(outcome, delta=None, accountants=("pld", "exact"), relation=None, everything=True, csv_file=file)
    with file.open() as rows:
        proved = [row for row in csv.DictReader(rows) if row["scope"] == "run" and row["standing"] == "proved"]
    assert len(proved) == 6
    for row in proved:
        assert float(row["delta"]) == 1e-5
        assert 6.0 < float(row["epsilon"]) <= 8.0
