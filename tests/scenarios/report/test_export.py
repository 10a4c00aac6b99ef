"""The CSV files hold what the tables hold, whole or not at all."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fake_runs import ids_of, make_plan, make_trial, store_trials
from learning_run import export
from tidy_frames import bursts_table, link_table, metrics_table, privacy_table, rounds_table

from scenarios.files.replacement import replacement
from scenarios.plan.points import Plan
from scenarios.report.tables.tables import columns_of
from scenarios.schema.errors import ScenarioError
from scenarios.store.store import Store

READERS = {
    "metrics": metrics_table,
    "rounds": rounds_table,
    "link": link_table,
    "privacy": privacy_table,
    "bursts": bursts_table,
}


@pytest.fixture
def plan() -> Plan:
    awkward = 'a "quoted", 100 %d label'
    return make_plan(
        [
            {"privacy.epsilon": 0.1, "label": awkward},
            {"label": "none"},
            {"privacy.epsilon": 3.0, "label": "not run"},
        ],
        trials=25,
    )


@pytest.fixture
def folder(plan: Plan, tmp_path: Path) -> Path:
    store_trials(
        tmp_path / "run",
        plan,
        {
            0: [make_trial(t, metrics={"mse": t / 3, "active_cap": 1.0}, private=True) for t in range(25)],
            1: [make_trial(3, metrics={"mse": np.inf, "50 %s, odd": np.nan}, failure=None, errors=None)],
        },
    )
    return tmp_path / "run"


@pytest.mark.parametrize("table", list(READERS))
def test_the_files_read_back_as_the_tables(plan: Plan, folder: Path, tmp_path: Path, table: str) -> None:
    export(folder, tmp_path / "out", plan=plan, task_ids=ids_of(plan))
    read = pd.read_csv(
        tmp_path / "out" / f"{table}.csv",
        keep_default_na=False,
        na_values={"privacy.epsilon": [""], "value": ["nan"], "snr_db": ["nan"], "power_db": [""]},
    )
    with Store.open_existing(folder) as store:
        expected = READERS[table](store, plan, task_ids=ids_of(plan))
    assert len(read) > 0
    pd.testing.assert_frame_equal(read, expected, check_dtype=False, check_exact=True)


def test_counts_are_written_as_integers_and_floats_with_all_digits(plan: Plan, folder: Path, tmp_path: Path) -> None:
    export(folder, tmp_path, plan=plan, task_ids=ids_of(plan))
    link = (tmp_path / "link.csv").read_text()
    assert '\n0.1,"a ""quoted"", 100 %d label",0,0,0,1000,1,10,1,0,1,2000,2,0.5,0.25,10.0,\n' in link
    assert ",mse,0.3333333333333333,\n" in (tmp_path / "metrics.csv").read_text()
    assert ",active_cap,1.0,power\n" in (tmp_path / "metrics.csv").read_text()


def test_an_empty_run_yields_headers(plan: Plan, tmp_path: Path) -> None:
    store_trials(tmp_path / "run", plan, {})
    for path in export(tmp_path / "run", tmp_path / "out", plan=plan, task_ids=ids_of(plan)):
        assert path.read_text() == ",".join(columns_of(plan, path.stem)) + "\n"


def test_a_run_without_a_sweep_has_no_empty_first_column(tmp_path: Path) -> None:
    plan = make_plan([{}], trials=1)
    store_trials(tmp_path, plan, {0: [make_trial(0, metrics={"mse": 1.0})]})
    export(tmp_path, tmp_path, plan=plan, task_ids=ids_of(plan))
    assert (tmp_path / "metrics.csv").read_text() == "trial,metric,value,text\n0,mse,1.0,\n"


def test_an_output_folder_that_is_a_file_is_refused(plan: Plan, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ScenarioError, match="is a file, not a folder"):
        export(folder, tmp_path / "file", plan=plan, task_ids=ids_of(plan))


def test_an_unwritable_output_folder_is_refused(plan: Plan, folder: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be written here"):
        export(folder, Path("/proc/phyloop/out"), plan=plan, task_ids=ids_of(plan))


def test_exporting_without_a_run_makes_no_folder(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="holds no results"):
        export(tmp_path / "none", tmp_path / "out", plan=plan, task_ids=ids_of(plan))
    assert not (tmp_path / "out").exists()


def test_an_error_amid_writing_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("old")

    def write_half() -> None:
        with replacement(tmp_path / "table.csv") as file:
            file.write(b"half of the new")
            raise ScenarioError(problem="p", remedy="r")

    with pytest.raises(ScenarioError):
        write_half()
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"table.csv": "old"}


def test_a_hundred_thousand_rows_take_seconds(tmp_path: Path) -> None:
    plan = make_plan([{"link.power.snr_max_db": 1.0}], trials=200)
    results = [make_trial(t, metrics={"mse": 1.0}, num_rounds=300) for t in range(200)]
    store_trials(tmp_path, plan, {0: results})
    start = time.perf_counter()
    export(tmp_path, tmp_path, plan=plan, task_ids=ids_of(plan))
    seconds = time.perf_counter() - start
    rows = (tmp_path / "link.csv").read_bytes().count(b"\n") - 1
    assert rows == 200 * 300 * 2
    assert seconds < 10  # 0.5 s alone on two cores; others share them
