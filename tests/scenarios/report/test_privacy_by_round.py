"""The epsilon of all rounds so far: figures over the rounds, and `phyloop privacy --by round`."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from command import run_here, write_scenario

from privacy.accounting import account_claims
from privacy.events.events import Ledger
from privacy.events.merging import side_by_side
from scenarios.cli.claims import account_run
from scenarios.report.check import check_figures
from scenarios.report.claims import proved_epsilons, strongest_claims
from scenarios.report.figures.privacy import first_rounds, spent_by_round
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.store.store import Store
from scenarios.studies.folders import study_in
from scenarios.studies.learning import LearningStudy

RUN = """\
name: spent
trials: 3
link: {power: {snr_max_db: 20}}
learning: {scheme: analog, rounds: 12, burn_in: 6, task: {name: gaussian-linear, num_samples: 60, dimension: 3}}
privacy: {epsilon: 5, delta: 0.01}
report: {figures: [{x: round, y: epsilon_proved}]}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spent")
    run_here(write_scenario(folder, RUN), folder / "out")
    return folder / "out"


def test_the_last_round_has_the_epsilon_of_the_run_and_each_has_that_of_its_prefix(run: Path) -> None:
    study = study_in(run)
    assert isinstance(study, LearningStudy)
    with Store.open_existing(run) as store:
        (spent,) = spent_by_round(store, study.plan)
        (whole,) = proved_epsilons(strongest_claims(store, study.plan)[0]).values()
        ledgers = [one.ledger for one in store.read_accounts(study.ids).values()]
    assert spent.rounds == tuple(range(1, 13))
    epsilons = [one.epsilon for one in spent.proved]
    assert epsilons[-1] == whole.epsilon
    assert all(np.diff(epsilons) > 0.0)
    # One round alone, by another way to it: the closed form of the claim of a round.
    claims = account_claims(side_by_side(ledgers), delta=0.01, accountant="exact")
    of_round = min(one.epsilon for one in claims if one.scope == "round" and one.channel_credited)
    assert epsilons[0] == pytest.approx(of_round, rel=1e-9)


def test_a_ledger_of_first_rounds_has_no_later_release() -> None:
    ledger = Ledger(kind="gaussian", parameter=np.arange(1.0, 9.0).reshape(4, 2), coordinates=1, unit="device")
    assert first_rounds(ledger, 3).parameter.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_the_figure_has_the_epsilon_of_each_round(run: Path) -> None:
    rows = list(csv.DictReader((run / "figures" / "01-epsilon_proved.csv").open()))
    assert [float(row["round"]) for row in rows] == list(range(1, 13))
    assert float(rows[-1]["mean"]) > 3.0 * float(rows[0]["mean"])
    assert "ε proved for all rounds so far" in (run / "report.html").read_text()


def test_the_command_has_a_column_per_round_and_writes_them(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rounds.csv"
    options = {"delta": None, "relation": None, "accountants": (), "everything": False, "csv_file": file}
    account_run(run, by="round", **options)
    text = capsys.readouterr().out
    assert "round 1" in text
    assert "round 12" in text
    rows = list(csv.DictReader(file.open()))
    assert [int(row["round"]) for row in rows] == list(range(1, 13))
    assert "6 of 12 rounds are shown; --csv FILE writes up to 25 of them." in text
    assert f"{float(rows[-1]['epsilon']):.4g}" in text.split()
    assert all(math.isfinite(float(row["epsilon"])) for row in rows)
    with pytest.raises(ScenarioError, match="--by round"):
        account_run(run, by="device", **options)


def test_epsilon_over_another_axis_is_refused(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, RUN.replace("x: round", "x: elapsed_s"))
    with pytest.raises(ScenarioError, match="epsilon_proved"):
        check_figures(load_scenario(str(scenario)))
