"""`phyloop privacy`: which epsilon holds after all rounds, told with every label, from the ledgers alone."""

from __future__ import annotations

import csv
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command import phyloop, run_here, write_scenario
from fake_runs import make_plan
from learning_run import reload, run_scenario
from tampered import change_heads

from fl.base.results import PrivacyAccount
from privacy.accounting import account, spendings
from privacy.events.events import Ledger
from privacy.events.noise_events import GaussianNoise
from scenarios.cli.claims import account_run
from scenarios.report.claims import claims_of, gather_claims
from scenarios.schema.consistency.warnings import find_warnings
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.store.store import Store
from scenarios.studies.accounts import CSV_COLUMNS
from scenarios.studies.folders import study_in
from scenarios.studies.tables import export

PRIVATE = """\
name: private
seed: 7
trials: 3
link:
  channel: {model: flat, gain: 0.04, noise_power: 1.0}
  power: {snr_max_db: 20}
learning:
  task: {name: gaussian-linear, num_samples: 60, dimension: 3}
  num_devices: 4
  rounds: 12
  burn_in: 4
  step_size: 1e-3
privacy: {epsilon: 2, delta: 0.01, digital_cap: printed, analog_cap: corrected}
sweep:
  learning.scheme: [analog, digital, noiseless]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("privacy")
    run_here(write_scenario(folder, PRIVATE), folder / "out")
    return folder / "out"


def ask(run: Path, **options: Any) -> None:
    """What the command does once its arguments are read: without another process."""
    nothing = {"delta": None, "accountants": (), "relation": None, "everything": False, "csv_file": None}
    account_run(run, **{**nothing, **options})


def claims(run: Path, **options: Any) -> list[dict[str, str]]:
    file = run.parent / "claims.csv"
    ask(run, csv_file=file, **options)
    with file.open(encoding="utf-8", newline="") as rows:
        return list(csv.DictReader(rows))


def ledgers(run: Path) -> dict[str, Ledger]:
    """By scheme, that of the first trial."""
    _, plan = reload(run)
    with Store.open_existing(run) as store:
        found = {}
        for point, ids in zip(plan.points, plan.task_ids, strict=True):
            accounts = store.read_accounts(ids[:1])
            if accounts:
                found[str(point.settings["learning.scheme"])] = accounts[ids[0]].ledger
    return found


def test_every_row_has_every_label_and_a_scheme_without_a_radio_has_none(run: Path) -> None:
    rows = claims(run)
    assert {row["learning.scheme"] for row in rows} == {"analog", "digital"}
    for row in rows:
        for name in ("scope", "epsilon", "accountant", "unit", "relation", "channel_credited", "standing", "source"):
            assert row[name], (name, row)
        assert set(CSV_COLUMNS) <= set(row)
        # Where noise of the receiver counts, what that takes for granted is said.
        if row["channel_credited"] == "True" and row["accountant"] != "paper":
            assert "a listener receives" in row["assumptions"]


def test_the_exact_epsilon_of_an_analog_run_is_that_of_one_gaussian_release_as_strong_as_all(run: Path) -> None:
    multipliers = ledgers(run)["analog"].parameter[:, 0]
    together = GaussianNoise(noise_multiplier=float(1.0 / math.sqrt((1.0 / multipliers**2).sum())))
    (row,) = [
        row
        for row in claims(run, accountants=("exact",))
        if (row["learning.scheme"], row["scope"], row["accountant"]) == ("analog", "run", "exact")
        and row["channel_credited"] == "True"
    ]
    # The channel is constant, so that all trials are alike; at this epsilon the closed profile is delta.
    assert together.delta(np.array([float(row["epsilon"])]))[0] == pytest.approx(0.01, rel=1e-6)
    without = [row for row in claims(run) if row["learning.scheme"] == "analog" and row["channel_credited"] == "False"]
    assert {row["epsilon"] for row in without} == {"inf"}


def test_another_delta_is_accounted_for_without_running_again(run: Path) -> None:
    before = (run / "results.phyloop").stat().st_mtime_ns
    spent = spendings(ledgers(run)["digital"], credited=True)
    for delta in (1e-2, 1e-6):
        (row,) = [
            row
            for row in claims(run, accountants=("pld",), delta=delta)
            if (row["learning.scheme"], row["scope"], row["channel_credited"]) == ("digital", "run", "True")
            and row["accountant"] == "pld"
        ]
        assert float(row["epsilon"]) == pytest.approx(account(spent, delta=delta, accountant="pld"), rel=1e-6)
    assert (run / "results.phyloop").stat().st_mtime_ns == before


def test_the_papers_delta_of_a_round_stands_beside_and_is_called_published(run: Path) -> None:
    published = [row for row in claims(run) if row["accountant"] == "paper"]
    assert {row["standing"] for row in published} == {"as published"}
    assert {row["scope"] for row in published} == {"round"}
    assert all(float(row["delta"]) <= 0.01 * (1 + 1e-6) for row in published)


def test_the_report_shows_the_claims(run: Path) -> None:
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Privacy: published and proved claims" in page
    assert "as published" in page
    assert "a listener receives" in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"accountants": ("moments",)},
            ("--accountant = moments: is not known", "basic, advanced, renyi, pld or exact"),
        ),
        ({"relation": "both"}, ("--relation = both: is not known", "replace-one or add-or-remove-one")),
        ({"delta": 1.5}, ("--delta = 1.5", "1e-5")),
        ({"delta": 0.0}, ("delta is 0", "1e-5")),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(run: Path, options: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(ScenarioError) as error:
        ask(run, **options)
    for word in words:
        assert word in str(error.value)


def test_the_summary_has_a_row_per_sweep_point_in_100_columns(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(run)
    lines = capsys.readouterr().out.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("setting"))
    assert lines[head - 1] == "All 2 sweep points: neighbours differ in one: device; δ: 0.01"
    assert [line.split()[0] for line in lines[head + 1 : head + 3]] == ["analog", "digital"]
    assert max(map(len, lines[: head + 3])) <= 100
    (row,) = [
        one
        for one in claims(run, accountants=("exact",))
        if (one["learning.scheme"], one["scope"], one["channel_credited"]) == ("analog", "run", "True")
    ]
    assert f" {float(row['epsilon']):.4g} " in lines[head + 1]
    assert "exact, channel counted" in lines[head + 1]
    capsys.readouterr()
    ask(run, everything=True)
    every = capsys.readouterr().out
    assert len(every.splitlines()) > 2 * len(lines)
    # A source stands once, below the table.
    assert every.count("Dwork and Roth 2014, Theorem 3.16") == 1


def test_the_summary_tells_what_a_round_truly_spends_beside_what_is_published(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(run)
    lines = capsys.readouterr().out.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("setting"))
    column = lines[head].index("ε of a round")
    for line, scheme in zip(lines[head + 1 :], ("analog", "digital"), strict=False):
        spent = float(line[column : column + len("ε of a round")])
        proved = [
            float(one["epsilon"])
            for one in claims(run)
            if (one["learning.scheme"], one["scope"], one["standing"]) == (scheme, "round", "proved")
        ]
        assert spent == pytest.approx(min(proved), rel=1e-3)
        # epsilon 2 was asked for by (16) and (21).
        assert 0.0 < spent < 2.0


def test_a_run_in_which_trials_failed_is_told_to_have_released_less(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(run)
    assert "failed before" not in capsys.readouterr().out
    shutil.copytree(run, tmp_path / "failed")
    reason = "round 3: diverged"
    change_heads(
        tmp_path / "failed",
        lambda head: head.update(failures={str(row): reason for row, n in enumerate(head["numbers"]) if n == 1}),
    )
    ask(tmp_path / "failed")
    # Both schemes that send: the one without a radio has nothing to account for.
    assert "2 of 6 trials failed before their last round" in " ".join(capsys.readouterr().out.split())


def test_the_command_itself_tells_a_folder_without_results_in_one_sentence(tmp_path: Path) -> None:
    done = phyloop("privacy", tmp_path, "--delta", "1e-6", "--accountant", "pld")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "holds no results" in " ".join(done.stderr.split())


def test_an_accountant_without_a_claim_of_the_run_says_why_where_it_was_asked() -> None:
    # Rounds whose bits are flipped unlike have no closed sum.
    rates = np.array([[0.40], [0.45]])
    ledger = Ledger(kind="flipped-bits", parameter=rates, coordinates=650, per_number=10, unit="sample")
    plan = make_plan([{}], trials=1)
    found = claims_of(plan.points[0], [PrivacyAccount(ledger=ledger)], delta=1e-5, accountants=("exact",))
    assert {claim.scope for claim in found.claims} == {"coordinate", "round"}
    assert [one.partition(":")[0] for one in found.left_out] == ["no run claim by exact"]
    assert "no closed form" in found.left_out[0]
    both = claims_of(plan.points[0], [PrivacyAccount(ledger=ledger)], delta=1e-5, accountants=("pld",))
    assert not both.left_out


def test_equal_ledgers_are_accounted_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, plan = reload(run)
    twice = replace(plan, points=plan.points * 2)
    asked: list[Any] = []
    monkeypatch.setattr("scenarios.report.claims.claims_of", lambda *a, **b: asked.append(a) or claims_of(*a, **b))
    with Store.open_existing(run) as store:
        found = list(gather_claims(store, twice, accountants=("exact",)))
    assert len(asked) == 2
    assert [one.point for one in found] == [
        one for one in twice.points if one.settings["learning.scheme"] != "noiseless"
    ]
    assert [one.claims for one in found[:2]] == [one.claims for one in found[2:]]


def test_a_run_that_breaks_its_budget_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Where counts of all rounds are taken for counts of one rate, they contradict what the budget relies on.
    text = (
        "name: s\ntrials: 1\nlink: {modulation: qpsk, channel: {fading: rayleigh}, power: {snr_max_db: 10}}\n"
        "learning: {algorithm: fedavg, num_devices: 10, rounds: 10, aggregation: {name: cpa, confidence: 0.9999999}}\n"
        "privacy: {mechanism: scheme, budget: {epsilon: 10, delta: 1.0e-5}}\n"
    )
    (tmp_path / "s.yaml").write_text(text)
    for counts, words in ((True, 0), (False, 1)):
        with pytest.MonkeyPatch.context() as patch:
            if not counts:
                patch.setattr("fl.algorithms.fedavg.account.rate_moves_by_round", lambda _: False)
            options: dict[str, Any] = {"overrides": (), "trials": None, "seed": None}
            assert run_scenario(str(tmp_path / "s.yaml"), out=tmp_path / str(counts), **options) == 0
        told = capsys.readouterr().err
        assert told.count("more than the budget of 10; phyloop privacy names what does not count") == words, told


def test_nothing_is_proved_where_the_run_breaks_an_assumption(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """\
name: steps
trials: 1
link: {error_model: error_free}
learning: {algorithm: fedavg, rounds: 2, num_devices: 4, local: {clip: 1.0}}
privacy: {mechanism: gaussian, epsilon: 20, delta: 1e-5}
sweep: {learning.local.steps: [1, 2]}
"""
    run_here(write_scenario(tmp_path, text), tmp_path / "out")
    capsys.readouterr()
    ask(tmp_path / "out")
    one, two = (line for line in capsys.readouterr().out.splitlines() if line.startswith("E = "))
    assert "exact" in one
    assert "∞" not in one
    assert "∞" in two
    assert "fails; if it held" in " ".join(two.split())


DRAWN = """\
name: drawn
seed: 1
trials: 1
learning:
  {algorithm: fedavg, data: digits, model: linear, num_devices: 20, rounds: 6, participation: {devices_per_round: 2},
   local: {clip: 1.0, steps: 1}}
privacy: {mechanism: gaussian, budget: {epsilon: 8, delta: 1e-5}}
"""


def test_a_run_of_drawn_devices_says_which_epsilon_it_proves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of twenty are drawn, and the noise is that of all rounds: less than 8, in table, notice and file."""
    source = write_scenario(tmp_path, DRAWN)
    (warning,) = find_warnings(load_scenario(str(source)).scenario)
    assert "that of devices that send in all 6 rounds, and only 2 of 20 are drawn" in warning
    run_scenario(str(source), out=tmp_path / "run", overrides=(), trials=None, seed=None)
    shown = capsys.readouterr()
    (written,) = export(study_in(tmp_path / "run"), tmp_path / "run", tmp_path / "out", tables=["privacy"])
    found = pd.read_csv(written)
    of_run = found[(found["scope"] == "run") & (found["accountant"] != "paper")]["epsilon"].min()
    assert of_run < 8.0
    assert "proved ε of the run" in shown.out
    assert f"{of_run:.4g}, δ = 1e-05" in shown.out
    assert f"the ledger proves epsilon {of_run:.4g} for the run, less than the budget of 8" in " ".join(
        (shown.out + shown.err).split()
    )
