"""What is known of every device in every round: kept, found again, exported, summed up and drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_runs import make_plan, make_trial, store_trials
from learning_run import export, table_of

from fl.base.results import TrialResult
from phy.measure.counts import rate_interval
from scenarios.plan.points import Plan
from scenarios.report.figures.curves import arrange
from scenarios.report.figures.learning import over_rounds
from scenarios.report.rows import privacy_table, rates_rows
from scenarios.report.tables.summaries import summarise
from scenarios.schema.schema import FigureConfig
from scenarios.store.store import Store

NAN = float("nan")
FEDAVG: dict[str, Any] = {"learning": {"algorithm": "fedavg", "rounds": 3, "local": {"clip": 1.0}}}
FLIPS = {"mechanism": "bit-flipping", "epsilon": 10.0, "kappa": 0.02}


def a_trial(number: int, *, errors: int = 2, failure: str | None = None) -> TrialResult:
    """Three rounds of two devices; the second device takes no part in the last round, the test set is seen twice."""
    here = np.array([[1, 1], [1, 1], [1, 0]])
    made = make_trial(number, metrics={"test_accuracy": 0.5 + 0.1 * number, "kappa": 0.02}, failure=failure)
    return replace(
        made,
        rounds={"test_accuracy": np.array([0.2, NAN, 0.4 + 0.1 * number])},
        devices={
            "probed_bits": 100 * here,
            "probed_errors": 3 * here,
            "end_bits": 50 * here,
            "end_errors": errors * here,
            "clamp": np.array([[0, 1], [2, 1], [0, 0]]),
            "flip_probability": np.where(here, [[0.1, 0.0], [0.3, 0.0], [0.2, NAN]], NAN),
        },
    )


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, Plan]:
    plan = make_plan([{"privacy": FLIPS}], trials=3, **FEDAVG)
    store_trials(tmp_path, plan, {0: [a_trial(0), a_trial(1), a_trial(2, errors=50, failure="round 2: NaN")]})
    return tmp_path, plan


def test_arrays_of_devices_are_read_back_bit_by_bit(run: tuple[Path, Plan]) -> None:
    folder, plan = run
    task = plan.task_ids[0][1]
    with Store.open_existing(folder) as store:
        found = store.read_series([task], "devices")[task]
    for name, values in a_trial(1).devices.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)


def test_the_table_has_a_row_per_device_and_round_and_codes_have_words(run: tuple[Path, Plan]) -> None:
    folder, plan = run
    table = table_of(folder, "devices", plan=plan)
    assert list(table.columns)[:4] == ["privacy", "trial", "round", "device"]
    assert len(table) == 3 * 3 * 2
    with Store.open_existing(folder) as store:
        for trial, task_id in enumerate(plan.task_ids[0]):
            rows = table[table["trial"] == trial]
            for name, values in store.read_series([task_id], "devices")[task_id].items():
                if name != "clamp":
                    np.testing.assert_array_equal(rows[name], values[rows["round"] - 1, rows["device"]])
    words = ["none", "channel alone suffices", "clamped to 1/2", "channel alone suffices", "none", "none"]
    assert table[table["trial"] == 0]["clamp"].tolist() == words


def test_rates_are_errors_over_observations_of_whole_trials(run: tuple[Path, Plan]) -> None:
    folder, plan = run
    with Store.open_existing(folder) as store:
        (summary,) = summarise(store, plan)
    end = summary.rates["end_error_rate"]
    assert (end.errors, end.total) == (2 * 5 * 2, 2 * 5 * 50)  # the failed trial counts in no rate
    assert [end.low, end.high] == pytest.approx([float(limit) for limit in rate_interval(20, 500, confidence=0.95)])
    assert summary.rates["probed_error_rate"].value == 0.03
    table = rates_rows(plan, [summary])
    assert "end-to-end bit errors" in table.columns
    assert "20" in table.rows[0]


def drawn(run: tuple[Path, Plan], **figure: Any) -> dict[str, list[tuple[Any, Any, Any]]]:
    folder, plan = run
    config = FigureConfig(x="round", **figure)
    with Store.open_existing(folder) as store:
        spots = list(over_rounds(store, plan, config))
    drawing = arrange(config, plan, [], along=lambda _: spots)
    return {c.label: [(s.x, s.y, s.high) for s in c.spots] for _, curves in drawing.panels for c in curves}


def test_a_rate_of_devices_is_drawn_over_rounds(run: tuple[Path, Plan]) -> None:
    (curve,) = drawn(run, y="end_error_rate").values()
    assert [(x, y) for x, y, _ in curve] == [(1.0, 0.04), (2.0, 0.04), (3.0, 0.04)]
    # 8 of 200 in the first rounds, 4 of 100 in the last: the upper limit of fewer is further off.
    assert curve[2][2] == pytest.approx(float(rate_interval(4, 100, confidence=0.95)[1]))
    devices = drawn(run, y="probed_error_rate", series="device")
    assert {label: len(spots) for label, spots in devices.items()} == {"device 0": 3, "device 1": 2}


def test_a_number_of_devices_is_a_mean_over_those_that_took_part(run: tuple[Path, Plan]) -> None:
    (curve,) = drawn(run, y="flip_probability").values()
    assert [y for _, y, _ in curve] == pytest.approx([0.05, 0.15, 0.2])


def test_rounds_without_a_look_at_the_test_set_are_left_out(run: tuple[Path, Plan]) -> None:
    (curve,) = drawn(run, y="test_accuracy").values()
    assert [(x, y) for x, y, _ in curve] == [(1.0, 0.2), (3.0, pytest.approx(0.45))]


def test_of_many_rounds_those_with_a_look_are_drawn(tmp_path: Path) -> None:
    plan = make_plan([{}], trials=1, learning={"algorithm": "fedavg"})
    seen = np.full(10_000, NAN)
    seen[332::333] = 0.5  # seldom among the 400 rounds that a curve has room for
    store_trials(tmp_path, plan, {0: [replace(a_trial(0), rounds={"test_accuracy": seen})]})
    config = FigureConfig(x="round", y="test_accuracy")
    with Store.open_existing(tmp_path) as store:
        spots = list(over_rounds(store, plan, config))
    assert [spot.x for _, _, spot in spots] == [333.0 * k for k in range(1, 31)]


def test_the_band_of_an_accuracy_ends_at_zero_and_one(tmp_path: Path) -> None:
    plan = make_plan([{"learning.rounds": 2}], trials=6, learning={"algorithm": "fedavg"})
    values = [0.0, 1.0, 0.0, 1.0, 1.0, 1.0]
    trials = [
        replace(a_trial(n), metrics={"test_accuracy": v}, rounds={"test_accuracy": np.array([v, v])})
        for n, v in enumerate(values)
    ]
    store_trials(tmp_path, plan, {0: trials})
    config = FigureConfig(x="learning.rounds", y="test_accuracy")
    with Store.open_existing(tmp_path) as store:
        summaries = summarise(store, plan)
        (_, _, spot), *_ = over_rounds(store, plan, config=config.model_copy(update={"x": "round"}))
    over_points = arrange(config, plan, summaries).panels[0][1][0].spots[0]
    mean, half = np.mean(values), 2.5706 * np.std(values, ddof=1) / 6**0.5
    assert mean + half > 1.0
    for one in (spot, over_points):
        assert (one.low, one.high) == (pytest.approx(mean - half, abs=1e-4), 1.0)


def test_what_numbers_became_is_drawn_over_what_they_were(tmp_path: Path) -> None:
    plan = make_plan([{}], trials=2, learning={"algorithm": "flip-moments"})
    sent = np.array([-1.0, 0.0, 1.0])
    trials = [replace(a_trial(n), rounds={"value": sent, "recovered_mean": 0.8 * sent}) for n in range(2)]
    store_trials(tmp_path, plan, {0: trials})
    config = FigureConfig(x="value", y="recovered_mean")
    with Store.open_existing(tmp_path) as store:
        spots = list(over_rounds(store, plan, config))
    assert [(s.x, s.y) for _, _, s in spots] == [(-1.0, -0.8), (0.0, 0.0), (1.0, 0.8)]
    assert arrange(config, plan, [], along=lambda _: spots).caption.startswith(
        "Mean over 2 trials at each value sent; "
    )


def test_clamps_and_flips_are_summed_up_over_those_that_took_part(run: tuple[Path, Plan]) -> None:
    folder, plan = run
    with Store.open_existing(folder) as store:
        summaries = summarise(store, plan)
        (row,) = privacy_table(store, plan, summaries).rows
    assert row[-2:] == ("0.12", "none 40.0%, channel alone suffices 40.0%, clamped to 1/2 20.0%")
    assert "10, Rényi of order 2 (Theorem 1)" in row


def test_trials_without_such_a_table_are_read_and_others_beside_them(tmp_path: Path) -> None:
    plan = make_plan([{}], trials=2)
    old, new = plan.task_ids[0]
    store_trials(tmp_path, plan, {0: [make_trial(0, metrics={"mse": 1.0})]})
    with Store.open_existing(tmp_path) as store:
        assert store.read_series([old], "devices") == {old: {}}
        assert len(summarise(store, plan)) == 1
    export(tmp_path, tmp_path / "csv", plan=plan, tables=["all"])
    assert (tmp_path / "csv" / "devices.csv").read_text() == "trial,round,device\n"
    with Store.open(tmp_path, scenario_name="fake") as store:
        store.write({new: a_trial(1)}, physics={}, seconds=1.0)
        assert store.read_series([old, new], "devices")[old] == {}
        assert store.read_series([old, new], "devices")[new]["end_errors"].sum() == 10
