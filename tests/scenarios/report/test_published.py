"""Published numbers stand beside the point they belong to, with the interval of ours and what it says of them."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_runs import FakePlan, make_plan, make_trial, store_trials
from scipy import stats

from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.report.page import write_report
from scenarios.report.paths import ReportPaths
from scenarios.report.published import (
    Published,
    compare,
    in_unit,
    numbers,
    points_at,
    read_published,
    verdict,
    without_others,
)
from scenarios.report.tables.summaries import Mean, PointSummary, mean_interval, summarise
from scenarios.schema.loader import LoadedScenario, as_yaml, library_names, load_scenario, resolved_root
from scenarios.schema.schema import TableConfig
from scenarios.store.store import Store

DEVICES, LABEL, RATE = "learning.num_devices", "label", "learning.local.learning_rate"
FEDAVG = {"learning": {"algorithm": "fedavg"}}


def table(**changed: Any) -> TableConfig:
    """CPA and a rival over 10 and 100 devices, in percent."""
    document = {
        "metric": "test_accuracy",
        "source": "A paper, Table I",
        "unit": "percent",
        "rounded_to": 1,
        "at": {DEVICES: [100, 10]},
        "published": [{"at": {LABEL: "rival"}, "values": [81, 49]}, {"at": {LABEL: "CPA"}, "values": [85, 60]}],
    }
    return TableConfig.model_validate({**document, **changed})


def plan_of(*configs: TableConfig, trials: int = 3) -> Plan:
    """Four points, in another order than the tables name them."""
    settings = [
        {"learning.algorithm": "fedavg", DEVICES: devices, LABEL: label}
        for devices in (10, 100)
        for label in ("CPA", "rival")
    ]
    report = {"tables": [config.model_dump() for config in configs]}
    made = make_plan(settings, trials=trials, report=report)
    return FakePlan(points=made.points, swept_paths=(DEVICES, LABEL), trials=trials, seed=2022)


ACCURACY = {0: (0.59, 0.61, 0.6), 1: (0.3, 0.31, 0.32), 2: (0.8521, 0.853, 0.8539), 3: (0.70, 0.71, 0.75)}
"""Three trials of every point of `plan_of`."""


def fill(folder: Path, plan: Plan, points: tuple[int, ...] = (0, 1, 2, 3)) -> tuple[PointSummary, ...]:
    store_trials(
        folder,
        plan,
        {
            index: [make_trial(t, metrics={"test_accuracy": a}) for t, a in enumerate(ACCURACY[index])]
            for index in points
        },
    )
    with Store.open_existing(folder) as store:
        return summarise(store, plan)


def report(folder: Path, plan: Plan) -> ReportPaths:
    with Store.open(folder, scenario_name="fake") as store:
        store.save_scenario(yaml="", root={})
        return write_report(folder, plan, store=store)


def told(rows: tuple[Published, ...]) -> list[tuple[Any, ...]]:
    return [(r.at[DEVICES], r.at[LABEL], r.value, None if r.ours is None else r.ours.mean) for r in rows]


# --- which point ----------------------------------------------------------------------------------


def test_a_number_finds_its_point_by_its_settings_and_not_by_its_place(tmp_path: Path) -> None:
    plan = plan_of(table())
    rows = compare(table(), plan, fill(tmp_path, plan))
    expected = [(100, "rival", 81, 72.0), (10, "rival", 49, 31.0), (100, "CPA", 85, 85.3), (10, "CPA", 60, 60.0)]
    assert told(rows) == [(*known, pytest.approx(ours)) for *known, ours in expected]


def test_the_order_of_points_changes_nothing(tmp_path: Path) -> None:
    plan = plan_of(table())
    summaries = fill(tmp_path, plan)
    assert told(compare(table(), plan, summaries[::-1])) == told(compare(table(), plan, summaries))


def test_whole_numbers_and_decimals_of_one_size_are_one_setting(tmp_path: Path) -> None:
    settings = [{"learning.algorithm": "fedavg", "learning.local": {"learning_rate": rate}} for rate in (1.0, 0.5)]
    plan = make_plan(settings, trials=3)
    summaries = fill(tmp_path, plan, (0, 1))
    config = table(at={RATE: [0.5, 1]}, published=[{"values": [31, 60]}])
    assert [row.ours.mean for row in compare(config, plan, summaries) if row.ours] == pytest.approx([31.0, 60.0])


def test_a_point_never_simulated_is_absent_and_not_zero(tmp_path: Path) -> None:
    plan = plan_of(table(at={DEVICES: [100, 50]}))
    (config,) = plan.points[0].scenario.report.tables
    summaries = fill(tmp_path, plan, (3,))
    rows = compare(config, plan, summaries)
    assert [(r.at[DEVICES], r.at[LABEL], r.absent) for r in rows] == [
        (100, "rival", None),
        (50, "rival", "not simulated"),
        (100, "CPA", "not simulated"),
        (50, "CPA", "not simulated"),
    ]
    assert [row.difference for row in rows] == [pytest.approx(-9.0), None, None, None]
    cells = read_published(plan, summaries)[0].table.rows
    assert cells[1] == ("rival", "50", None, "not simulated", "49", None, None)


def test_failed_trials_and_metrics_without_a_value_are_told_apart_from_numbers(tmp_path: Path) -> None:
    plan = plan_of(table())
    store_trials(
        tmp_path,
        plan,
        {
            0: [make_trial(t, metrics={}, failure="NaN", num_rounds=1) for t in range(3)],
            1: [make_trial(t, metrics={"test_loss": 1.0}) for t in range(3)],
        },
    )
    with Store.open_existing(tmp_path) as store:
        rows = compare(table(), plan, summarise(store, plan))
    assert [row.absent for row in rows] == ["not simulated", "not measured", "not simulated", "every trial failed"]


def test_rivals_that_a_sweep_leaves_out_have_no_row() -> None:
    made = make_plan([{LABEL: "CPA", **FEDAVG}], trials=3)
    assert [row.at[LABEL] for row in compare(table(), made, ())] == ["CPA", "CPA"]
    scenario = made.points[0].scenario.model_copy(
        update={"report": made.points[0].scenario.report.model_copy(update={"tables": (table(),)})}
    )
    (kept,) = without_others(scenario, made).report.tables
    assert [(one.at, one.value) for one in numbers(kept)] == [
        ({DEVICES: 100, LABEL: "CPA"}, 85.0),
        ({DEVICES: 10, LABEL: "CPA"}, 60.0),
    ]
    nobody = make_plan([{LABEL: "PRoBit", **FEDAVG}], trials=3)
    assert without_others(scenario, nobody).report.tables == ()


def test_a_table_whose_numbers_all_belong_to_the_plan_is_kept_as_it_was_written() -> None:
    plan = plan_of(table())
    assert without_others(plan.points[0].scenario, plan) == plan.points[0].scenario


# --- which interval -------------------------------------------------------------------------------


def test_our_interval_is_students_over_the_trials_in_percent(tmp_path: Path) -> None:
    plan = plan_of(table())
    rows = compare(table(), plan, fill(tmp_path, plan))
    trials = 100 * np.array(ACCURACY[3])
    expected = stats.t.interval(0.95, 2, loc=trials.mean(), scale=stats.sem(trials))
    assert rows[0].ours is not None
    assert (rows[0].ours.low, rows[0].ours.high) == pytest.approx(expected, rel=1e-9)
    assert rows[0].ours.trials == 3


def test_a_share_is_never_beyond_a_hundred_percent() -> None:
    wide = mean_interval(np.array([0.9, 1.0]))
    assert wide.high is not None
    assert wide.high > 1
    assert in_unit(wide, table()).high == 100.0
    assert in_unit(wide, table()).low == pytest.approx(100 * (wide.low or 0))
    assert in_unit(wide, table(metric="aggregation_snr_db", unit="as-measured")) == wide


@pytest.mark.parametrize(
    ("low", "high", "value", "rounded_to", "word"),
    [
        (84.0, 86.0, 85, 1, "in our interval"),
        (85.0, 85.0, 85, None, "in our interval"),
        (85.1, 85.3, 85, 1, "within its rounding"),
        (85.1, 85.3, 85, None, "outside"),
        (85.6, 86.0, 85, 1, "outside"),
        (83.0, 84.4, 85, 1, "outside"),
        (83.0, 84.6, 85, 1, "within its rounding"),
        (None, None, 85, 1, None),
    ],
)
def test_the_verdict_is_that_of_the_interval_and_of_what_the_number_stands_for(
    low: float | None, high: float | None, value: float, rounded_to: float | None, word: str | None
) -> None:
    ours = Mean(mean=85.2, low=low, high=high, trials=3)
    row = Published(at={}, value=value, row=0, ours=ours)
    assert verdict(row, rounded_to=rounded_to) == word


def test_percent_do_not_fall_out_of_an_interval_by_the_last_bit() -> None:
    ours = in_unit(Mean(mean=0.57, low=0.57, high=0.57, trials=3), table())
    row = Published(at={}, value=57.0, row=0, ours=ours)
    assert verdict(row, rounded_to=None) == "in our interval"


# --- what is shown --------------------------------------------------------------------------------


def test_the_table_tells_trials_ours_published_difference_and_verdict(tmp_path: Path) -> None:
    plan = plan_of(table())
    one = read_published(plan, fill(tmp_path, plan))[0]
    assert one.title == "Test accuracy, A paper, Table I"
    assert one.table.columns == (
        *("setting", "number of devices", "trials", "ours [%]", "published"),
        *("ours − published", "published value"),
    )
    assert one.table.rows == (
        ("rival", "100", "3", "72.0 [65.4, 78.6]", "81", "-9.0", "outside"),
        ("rival", "10", "3", "31.0 [28.5, 33.5]", "49", "-18.0", "outside"),
        ("CPA", "100", "3", "85.30 [85.08, 85.52]", "85", "+0.3", "within its rounding"),
        ("CPA", "10", "3", "60.0 [57.5, 62.5]", "60", "+0.0", "in our interval"),
    )


def test_numbers_of_another_thing_get_no_difference_and_no_verdict(tmp_path: Path) -> None:
    plan = plan_of(table(comparable=False, note="Theirs is another model."))
    (one,) = read_published(plan, fill(tmp_path, plan))
    assert one.table.columns[-1] == "published"
    assert one.table.rows[0] == ("rival", "100", "3", "72.0 [65.4, 78.6]", "81")
    assert "no difference is given" in one.caption
    assert "Theirs is another model." in one.markdown()
    (first, *_) = csv.DictReader(io.StringIO(one.csv()))
    assert (first["difference"], first["verdict"]) == ("", "")


def test_settings_that_all_numbers_share_stand_in_the_caption(tmp_path: Path) -> None:
    config = table(at={DEVICES: 100, "learning.model.name": "linear"}, published=[{"at": {LABEL: "CPA"}, "values": 85}])
    plan = plan_of(config)
    one = read_published(plan, fill(tmp_path, plan))[0]
    assert one.table.rows[0][:3] == ("CPA", "100", "linear")  # of a single number all its settings
    two = table(
        at={DEVICES: 100, "learning.model.name": "linear"},
        published=[{"at": {LABEL: "CPA"}, "values": 85}, {"at": {LABEL: "rival"}, "values": 81}],
    )
    plan = plan_of(two)
    one = read_published(plan, fill(tmp_path / "two", plan))[0]
    assert [row[0] for row in one.table.rows] == ["CPA", "rival"]
    assert "A paper, Table I (devices = 100, linear)" in one.caption


def test_the_page_escapes_what_a_table_says_and_markdown_keeps_its_columns(tmp_path: Path) -> None:
    evil = "a|b <script>alert(1)</script> *x*"
    config = table(title=evil, source=evil, note=evil)
    plan = plan_of(config)
    fill(tmp_path, plan)
    paths = report(tmp_path, plan)
    page = paths.html.read_text()
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 3
    text = next(path for path in paths.tables if path.suffix == ".md").read_text()
    assert "a\\|b \\<script\\>" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 4
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


def test_the_files_beside_the_page_hold_every_digit(tmp_path: Path) -> None:
    plan = plan_of(table(), table(metric="test_loss", unit="as-measured"))
    fill(tmp_path, plan)
    paths = report(tmp_path, plan)
    assert [path.relative_to(tmp_path).as_posix() for path in paths.tables] == [
        *("tables/01-test_accuracy.md", "tables/01-test_accuracy.csv"),
        *("tables/02-test_loss.md", "tables/02-test_loss.csv"),
    ]
    rows = list(csv.DictReader(paths.tables[1].open()))
    assert [(row[LABEL], row[DEVICES], row["published"]) for row in rows][:2] == [
        ("rival", "100", "81.0"),
        ("rival", "10", "49.0"),
    ]
    assert float(rows[0]["mean"]) == 100 * float(np.mean(ACCURACY[3]))
    assert rows[0]["trials"] == "3"
    assert {row["verdict"] for row in csv.DictReader(paths.tables[3].open())} == {"not measured"}
    assert "Published numbers beside ours" in paths.html.read_text()


def test_a_scenario_without_tables_writes_none(tmp_path: Path) -> None:
    plan = plan_of()
    fill(tmp_path, plan)
    paths = report(tmp_path, plan)
    assert paths.tables == ()
    assert not (tmp_path / "tables").exists()
    assert "published numbers" not in paths.html.read_text()


# --- presentation only ----------------------------------------------------------------------------


def test_published_numbers_change_no_task() -> None:
    with_tables = load_scenario("cpa-table5")
    without = load_scenario("cpa-table5", overrides=["report.tables=[]"])
    assert with_tables.scenario.report.tables
    assert without.scenario.report.tables == ()
    assert expand(with_tables).task_ids == expand(without).task_ids


def learns(name: str) -> bool:
    return load_scenario(name).scenario.measure is None


@pytest.mark.parametrize("name", [name for name, _ in library_names() if learns(name)])
def test_the_file_that_a_run_keeps_plans_the_same_tasks_again(name: str, tmp_path: Path) -> None:
    loaded = load_scenario(name)
    plan = expand(loaded)
    (tmp_path / "scenario.yaml").write_text(as_yaml(resolved_root(loaded, swept_paths=plan.swept_paths)))
    again = load_scenario(tmp_path / "scenario.yaml")
    assert expand(again).task_ids == plan.task_ids
    assert again.scenario.report == loaded.scenario.report


CPA = [name for name, _ in library_names() if name.startswith("cpa-table")]


@pytest.mark.parametrize("name", CPA)
def test_every_published_number_of_the_tables_has_its_point(name: str) -> None:
    loaded = load_scenario(name)
    assert loaded.scenario.report.tables
    assert unmatched(loaded) == []


def unmatched(loaded: LoadedScenario) -> list[tuple[float, dict[str, Any]]]:
    plan = expand(loaded)
    return [
        (one.value, dict(one.at))
        for config in loaded.scenario.report.tables
        for one in numbers(config)
        if len(points_at(plan, one.at)) != 1
    ]
