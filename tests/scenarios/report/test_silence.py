"""Rounds in which nothing arrives, from the link to the report, the log and the tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_runs import make_plan, make_trial, store_trials
from learning_run import reload, run_scenario

from scenarios.report.findings import silent_points
from scenarios.report.rows import results_table
from scenarios.report.tables.summaries import summarise
from scenarios.store.store import Store

NOTHING = "nothing arrived in 3 of 3 rounds, which left the model as it was, in 2 of 2 trials"

# 30 dB below the noise every packet is wrong, and is dropped.
TEXT = """\
name: silence
trials: 2
link:
  packets: {policy: drop}
  packet_size_bytes: 64
  power: {policy: fixed, snr_max_db: 30}
learning:
  algorithm: fedavg
  num_devices: 4
  rounds: 3
  upload: update
  partition: {kind: iid, samples_per_device: 20}
sweep:
  learning.aggregation: [mean, {name: cpa, channel: agnostic}]
  link.power.snr_max_db: [30, -30]
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("silence")
    (folder / "s.yaml").write_text(TEXT)
    code = run_scenario(str(folder / "s.yaml"), out=folder / "out", overrides=(), trials=None, seed=None)
    return folder / "out", code


def test_where_every_packet_is_dropped_the_model_stays_and_the_count_is_kept(outcome: tuple[Path, int]) -> None:
    folder, code = outcome
    assert code == 0
    _, plan = reload(folder)
    ids = plan.task_ids
    with Store.open_existing(folder) as store:
        for point, tasks in zip(plan.points, ids, strict=True):
            silent = point.scenario.link.power.snr_max_db == -30
            series, metrics = store.read_series(tasks, "rounds"), store.read_metrics(tasks)
            for task in tasks:
                losses = {float(loss) for loss in series[task]["test_loss"]}
                assert (len(losses) == 1) == silent
                assert (series[task]["num_active"] == 0).all() == silent
                assert metrics[task]["empty_rounds"] == (3.0 if silent else 0.0)


def test_every_such_sweep_point_is_named_once(outcome: tuple[Path, int]) -> None:
    folder, _ = outcome
    _, plan = reload(folder)
    with Store.open_existing(folder) as store:
        sentences = silent_points(store, plan)
    assert sentences == tuple(
        f"{scheme}, P₀/N₀ = -30 dB: {NOTHING}" for scheme in ("mean, no ε", "CPA, channel-agnostic, ε = 0.5")
    )
    page = (folder / "report.html").read_text()
    assert "Rounds without an update" in page
    assert all(page.count(sentence) == 1 for sentence in sentences)
    assert "rounds in which nothing arrived</th>" in page


def test_where_packets_are_dropped_the_terminal_has_the_rate_of_lost_packets(outcome: tuple[Path, int]) -> None:
    folder, _ = outcome
    _, plan = reload(folder)
    with Store.open_existing(folder) as store:
        table = results_table(plan, summarise(store, plan))
    heads = [" ".join(head.split()) for head in table.columns]
    assert "packet error rate" in heads
    assert "bit error rate" not in heads


def test_trials_of_a_point_are_told_in_one_sentence(tmp_path: Path) -> None:
    plan = make_plan([{"label": "a"}, {"label": "b"}], trials=4)
    metrics = {0: (0, 2, 5, 0), 1: (0, 0, 0, 1)}
    trials = {
        point: [make_trial(t, metrics={"mse": 1.0, "empty_rounds": float(n)}) for t, n in enumerate(counts)]
        for point, counts in metrics.items()
    }
    store_trials(tmp_path, plan, trials)
    rounds = plan.points[0].scenario.learning.rounds
    with Store.open_existing(tmp_path) as store:
        first, second = silent_points(store, plan)
    assert first == f"a: nothing arrived in 2 to 5 of {rounds} rounds, which left the model as it was, in 2 of 4 trials"
    assert second == f"b: nothing arrived in 1 of {rounds} rounds, which left the model as it was, in 1 of 4 trials"


def test_the_log_says_so_and_says_nothing_where_all_is_heard(
    outcome: tuple[Path, int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, _ = outcome
    # Nothing is left to compute: what was found done is told of all the same.
    assert run_scenario(str(folder / "scenario.yaml"), out=folder, overrides=(), trials=None, seed=None) == 0
    assert capsys.readouterr().err.count(NOTHING) == 2
    (tmp_path / "s.yaml").write_text(TEXT)
    heard = ("sweep={learning.rounds: [1]}",)
    assert run_scenario(str(tmp_path / "s.yaml"), out=tmp_path / "out", overrides=heard, trials=1, seed=None) == 0
    assert "nothing arrived" not in capsys.readouterr().err
    page = (tmp_path / "out" / "report.html").read_text()
    assert "nothing arrived" not in page
    assert "best_accuracy" in page or "test accuracy" in page


def test_what_a_bit_of_cpa_leaves_possible_is_kept_and_told(outcome: tuple[Path, int]) -> None:
    folder, _ = outcome
    _, plan = reload(folder)
    with Store.open_existing(folder) as store:
        found = [store.read_metrics(tasks)[tasks[0]] for tasks in plan.task_ids]
    # Three points, one entry -1 and two +1: at least 1 of them left, (1 + 4) / 3 on average, 2^R / 2 + 1/2 as printed.
    cpa = [one for one in found if "k_anonymity" in one]
    assert len(cpa) == 2
    for one in cpa:
        assert (one["k_anonymity"], one["anonymity_printed"]) == (1.0, 1.5)
        assert one["anonymity"] == pytest.approx(5 / 3)
    assert "k-anonymity of a block, least" in (folder / "report.html").read_text()
