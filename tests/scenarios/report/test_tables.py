"""Tables are tidy, intervals are textbook, and what was not measured is absent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fake_runs import make_plan, make_trial, store_trials
from learning_run import table_of
from scipy import stats

from scenarios.plan.points import Plan
from scenarios.report.figures.learning import over_rounds
from scenarios.report.rows import metrics_rows, rates_rows, results_table
from scenarios.report.tables.summaries import mean_interval, rate_interval, summarise
from scenarios.report.tables.table import Table, in_groups
from scenarios.schema.schema import FigureConfig
from scenarios.store.store import Store

SNR = "link.power.snr_max_db"
MSE = "MSE to the posterior mean"


@pytest.fixture
def plan() -> Plan:
    """Five points: three with trials, one whose trials failed, one not run."""
    private = {"epsilon": 5.0, "delta": 0.01}
    return make_plan(
        [
            {SNR: 0.0, "privacy": private},
            {SNR: 10.0, "privacy": "none"},
            {SNR: 20.0, "privacy": "none"},
            {SNR: 30.0, "privacy": "none"},
            {SNR: 40.0, "privacy": "none"},
        ],
        trials=3,
    )


@pytest.fixture
def store(plan: Plan, tmp_path: Path):
    store_trials(
        tmp_path,
        plan,
        {
            0: [make_trial(t, metrics={"mse": float(t), "active_cap": 2.0}, private=True) for t in range(3)],
            1: [
                make_trial(0, metrics={"mse": 4.0}),
                make_trial(2, metrics={"mse": 1e9}, failure="NaN", num_rounds=1),
            ],
            3: [make_trial(0, metrics={}, failure="NaN", num_rounds=1)],
            4: [make_trial(0, metrics={"mse": float("nan"), "bias": 1.0}, errors=None)],
        },
    )
    with Store.open_existing(tmp_path) as store:
        yield store


@pytest.mark.parametrize(("n", "t"), [(2, 12.7062), (5, 2.7764), (30, 2.0452), (200, 1.9720)])
def test_the_interval_of_a_mean_is_the_t_interval(n: int, t: float) -> None:
    values = np.random.default_rng(n).normal(size=n)
    interval = mean_interval(values)
    half = t * np.std(values, ddof=1) / np.sqrt(n)
    assert interval.mean == pytest.approx(np.mean(values))
    assert interval.high == pytest.approx(np.mean(values) + half, abs=1e-4 * half)
    low, high = stats.t.interval(0.95, n - 1, loc=np.mean(values), scale=stats.sem(values))
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-10)


def test_one_trial_has_a_mean_but_no_interval() -> None:
    interval = mean_interval(np.array([3.0]))
    assert (interval.mean, interval.low, interval.high, interval.trials) == (3.0, None, None, 1)


def test_a_mean_with_infinite_values_has_no_interval() -> None:
    assert mean_interval(np.array([1.0, np.inf])).low is None


@pytest.mark.parametrize(("errors", "total"), [(0, 50), (1, 50), (17, 50), (50, 50), (3, 10**9)])
def test_the_interval_of_a_rate_is_that_of_clopper_and_pearson(errors: int, total: int) -> None:
    rate = rate_interval(errors=errors, total=total)
    expected = stats.binomtest(errors, total).proportion_ci(0.95, method="exact")
    assert (rate.low, rate.high) == pytest.approx((expected.low, expected.high), rel=1e-8)
    assert rate.value == errors / total


def test_the_t_interval_covers_the_mean_in_95_of_100_cases() -> None:
    draws = np.random.default_rng(1).normal(loc=3.0, size=(4000, 6))
    covered = [interval.low <= 3.0 <= interval.high for interval in map(mean_interval, draws)]
    # 4 standard errors of a share of 4000: 4 sqrt(0.95 * 0.05 / 4000) = 0.014
    assert np.mean(covered) == pytest.approx(0.95, abs=0.014)


def test_a_rate_without_observations_is_an_error() -> None:
    with pytest.raises(ValueError, match="have no rate"):
        rate_interval(errors=0, total=0)


def test_points_without_a_finished_trial_are_absent(store: Store, plan: Plan) -> None:
    summaries = summarise(store, plan)
    assert [s.point.index for s in summaries] == [0, 1, 3, 4]


def test_failed_trials_are_counted_but_not_averaged(store: Store, plan: Plan) -> None:
    whole, partly, failed, _ = summarise(store, plan)
    assert (whole.done, whole.failed, partly.done, partly.failed) == (3, 0, 1, 1)
    assert whole.metrics["mse"].mean == 1.0
    assert partly.metrics["mse"].mean == 4.0
    assert (failed.done, failed.failed, failed.metrics, failed.rates) == (0, 1, {}, {})


def test_the_results_of_a_run_are_cells_of_the_reports_tables(store: Store, plan: Plan) -> None:
    summaries = summarise(store, plan)
    table, metrics, rates = (make(plan, summaries) for make in (results_table, metrics_rows, rates_rows))
    assert [" ".join(head.split()) for head in table.columns] == ["setting", "trials", MSE, "bit error rate"]
    of_metrics, of_rates = metrics.columns.index(MSE), rates.columns.index("bit error rate")
    assert [row[2] for row in table.rows] == [row[of_metrics] or "" for row in metrics.rows]
    assert table.rows[0][1] == "3"
    assert table.rows[0][3] == rates.rows[0][of_rates] != ""


def test_the_results_have_what_the_figures_draw(store: Store) -> None:
    figures = [{"x": SNR, "y": name} for name in ("bias", "mse")]
    plan = make_plan([{SNR: snr} for snr in (0.0, 10.0)], trials=3, report={"figures": figures})
    table = results_table(plan, summarise(store, plan))
    assert [" ".join(head.split()) for head in table.columns[2:]] == [MSE, "bit error rate"]
    assert [row[0] for row in table.rows] == ["P₀/N₀ = 0 dB", "P₀/N₀ = 10 dB"]


def test_error_rates_add_counts_over_trials_rounds_and_devices(store: Store, plan: Plan) -> None:
    rate = summarise(store, plan)[0].rates
    assert (rate["bit_error_rate"].errors, rate["bit_error_rate"].total) == (18, 18_000)
    assert (rate["packet_error_rate"].errors, rate["packet_error_rate"].total) == (18, 180)


def test_bits_that_met_no_radio_have_no_error_rate(tmp_path: Path) -> None:
    plan = make_plan([{"link.error_model": "error_free"}, {"link.error_model": "measured"}], trials=1)
    store_trials(tmp_path, plan, {0: [make_trial(0, metrics={}, errors=0)], 1: [make_trial(0, metrics={}, errors=0)]})
    config = FigureConfig(x="round", y="bit_error_rate")
    with Store.open_existing(tmp_path) as store:
        free, measured = summarise(store, plan)
        drawn = {point.index for point, _, _ in over_rounds(store, plan, config)}
    assert free.rates == {}
    assert measured.rates["bit_error_rate"].errors == 0
    assert drawn == {1}


def test_what_was_not_measured_is_absent(store: Store, plan: Plan) -> None:
    reference = summarise(store, plan)[3]
    assert reference.rates == {}
    assert list(reference.metrics) == ["bias"]


def test_the_metrics_table_has_a_row_per_whole_trial(store: Store, plan: Plan) -> None:
    table = table_of(store.folder, "metrics", plan=plan)
    assert list(table.columns) == [SNR, "privacy", "trial", "mse", "active_cap", "bias"]
    assert len(table) == 3 + 1 + 1
    assert table["active_cap"].dropna().tolist() == ["lmc"] * 3
    assert table["privacy"].tolist() == ["ε = 5"] * 3 + ["none"] * 2


def test_the_rounds_table_counts_rounds_from_one_and_names_the_caps(store: Store, plan: Plan) -> None:
    table = table_of(store.folder, "rounds", plan=plan)
    first = table[(table[SNR] == 0.0) & (table["trial"] == 1)]
    assert first["round"].tolist() == [1, 2, 3]
    assert first["active_cap"].tolist() == ["none", "power", "lmc"]
    assert (table[SNR] == 30.0).sum() == 1  # the failed trial keeps its one round


def test_the_link_table_has_a_row_per_device_with_its_counts_side_by_side(store: Store, plan: Plan) -> None:
    table = table_of(store.folder, "link", plan=plan)
    errors = ["bits", "bit_errors", "packets", "packet_errors", "dropped", "retransmissions"]
    radio = ["raw_bits", "raw_bit_errors", "airtime_s", "energy_j", "snr_db"]
    assert list(table.columns) == [SNR, "privacy", "trial", "round", "device", *errors, *radio]
    first = table[(table[SNR] == 0.0) & (table["trial"] == 0)]
    assert first["device"].tolist() == [0, 1] * 3
    assert first["round"].tolist() == [1, 1, 2, 2, 3, 3]
    assert set(first["bits"]) == {1000}
    np.testing.assert_allclose(first["snr_db"], np.linspace(10.0, 11.0, 6))


def test_the_privacy_table_holds_the_ledger_of_private_points_only(store: Store, plan: Plan) -> None:
    table = table_of(store.folder, "privacy", plan=plan)
    assert table["epsilon"].tolist() == [5.0] * 9


def test_tables_of_an_empty_run_have_columns_and_no_rows(plan: Plan, tmp_path: Path) -> None:
    store_trials(tmp_path / "empty", plan, {})
    table = table_of(tmp_path / "empty", "rounds", plan=plan)
    assert list(table.columns) == [SNR, "privacy", "trial", "round"]
    assert table.empty


@pytest.mark.parametrize("columns", [60, 79, 80, 81, 100])
def test_a_wide_table_keeps_its_digits_and_legible_settings(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.report.tables.table.PIPED_COLUMNS", columns)
    setting, rate = " and ".join(["a long setting"] * 5), "0.00644 [9.15e-05, 0.0397]"
    heads = ("setting", "trials", "bit error rate", "packet error rate", "mse")
    Table(columns=heads, rows=((setting, "3", rate, rate, "0.1"),), left=("setting",)).print()
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert max(map(len, lines)) <= columns
    assert text.count(rate) == 2
    assert sum(line.startswith("setting    ") for line in lines) >= 2
    assert min(len(line) for line in lines if line.startswith("a long")) > 14


def test_a_table_whose_columns_may_break_fits_100_columns_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    setting, epsilon = " and ".join(["a long setting"] * 9), "0.123456789"
    Table(columns=("setting", "ε"), rows=((setting, epsilon),), left=("setting",), wrapped=("setting",)).print()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert epsilon in lines[1]


def test_a_setting_without_a_last_part_ends_without_a_comma() -> None:
    rows = [(("digital", "0 dB"), ("1",)), (("digital", "10 dB"), ("2",)), (("noiseless", ""), ("3",))]
    assert [*in_groups(rows)] == [("digital", ""), ("  0 dB", "1"), ("  10 dB", "2"), ("noiseless", "3")]
