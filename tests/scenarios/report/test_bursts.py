"""The report says how errors lie together, and the run keeps what it says it from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fake_runs import PROVENANCE, bursts_of_two_devices, make_plan, make_trial, store_trials
from learning_run import table_of

from phy.measure.burstiness import Burstiness
from scenarios.plan.points import Plan
from scenarios.report.page import write_report
from scenarios.report.rows import draw_runs, geometric_shares, read_bursts
from scenarios.report.settings import setting_in_words
from scenarios.store.store import Store

SNR = "link.power.snr_max_db"


@pytest.fixture
def plan() -> Plan:
    """Points with runs of 5, with no error, without devices that were detected, and not run."""
    return make_plan([{SNR: 0.0}, {SNR: 10.0}, {SNR: 20.0}, {SNR: 30.0}], trials=30)


@pytest.fixture
def folder(plan: Plan, tmp_path: Path) -> Path:
    trials = {
        0: [make_trial(t, metrics={"mse": 1.0}, errors=5) for t in range(25)]
        + [make_trial(25, metrics={}, errors=9, failure="NaN", num_rounds=1)],
        1: [make_trial(0, metrics={"mse": 1.0}, errors=0)],
        2: [make_trial(0, metrics={"mse": 1.0}, errors=None)],
    }
    store_trials(tmp_path, plan, trials)
    with Store.open(tmp_path, scenario_name="fake") as store:
        store.record_run(PROVENANCE)
        store.save_scenario(yaml="name: fake\n", root={"name": "fake"})
    return tmp_path


def test_bursts_are_summed_over_whole_trials_of_points_with_detected_devices(plan: Plan, folder: Path) -> None:
    with Store.open_existing(folder) as store:
        with_errors, without = read_bursts(store, plan)
    assert (with_errors.point.index, without.point.index) == (0, 1)
    assert with_errors.counts.packets.tolist() == [2500, 2500]  # 25 whole trials of 100, the failed one not
    # Runs of 5 in packets of always 5 errors: no variance at all, and neighbours that all but agree.
    assert with_errors.found.variance_ratio == 0.0
    assert with_errors.found.run_length == 5.0
    assert with_errors.found.outcome == "unfair"
    assert without.sentence.startswith("Too few errors to tell")


def test_the_page_says_the_verdict_of_every_point(plan: Plan, folder: Path) -> None:
    with Store.open_existing(folder) as store:
        page = write_report(folder, plan, store=store).html.read_text()
    assert "Bursts of errors" in page
    assert "<b>P₀/N₀ = 0 dB</b>: Independent flips do not describe this link" in page
    assert "<b>P₀/N₀ = 10 dB</b>: Too few errors to tell" in page
    assert "5 / 1.005" in page
    assert "share of runs by their length" in page


def test_a_run_without_detected_devices_has_no_such_section(plan: Plan, tmp_path: Path) -> None:
    store_trials(tmp_path, plan, {2: [make_trial(0, metrics={"mse": 1.0}, errors=None)]})
    with Store.open(tmp_path, scenario_name="fake") as store:
        store.save_scenario(yaml="name: fake\n", root={"name": "fake"})
        page = write_report(tmp_path, plan, store=store).html.read_text()
    assert "Bursts of errors" not in page


def test_the_bursts_table_has_a_row_per_device(plan: Plan, folder: Path) -> None:
    table = table_of(folder, "bursts", plan=plan)
    assert list(table.columns)[:3] == [SNR, "trial", "device"]
    (first,) = table[(table[SNR] == 0.0) & (table["trial"] == 3) & (table["device"] == 1)].to_dict("records")
    assert first["in_a_row_1"] == 500
    assert first["in_a_row_5"] == 100
    assert first["in_a_row_6"] == 0
    assert first["label_errors_0"] == 300
    assert "label_errors_2" not in first
    assert 25 in set(table["trial"])  # the failed trial keeps its counts in the table


def test_lines_of_independent_flips_are_a_distribution_and_marks_are_drawn_over_them(plan: Plan, folder: Path) -> None:
    counts = Burstiness(**bursts_of_two_devices(300))
    shares = geometric_shares(counts)  # rate 0.3 on both devices
    assert shares.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(shares[:3], 0.7 * 0.3 ** np.arange(3))
    with Store.open_existing(folder) as store:
        bursts = read_bursts(store, plan)
    picture = draw_runs(plan, bursts)
    assert picture is not None
    assert picture == draw_runs(plan, bursts)
    assert draw_runs(plan, bursts[1:]) is None


def test_settings_are_plain_text() -> None:
    plan = make_plan([{SNR: 0.0, "learning.scheme": "digital"}], trials=1)
    assert setting_in_words(plan, plan.points[0]) == "P₀/N₀ = 0 dB, digital"
