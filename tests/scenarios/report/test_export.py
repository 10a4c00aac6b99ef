"""Exported files hold what the tables hold, whole or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fake_runs import FIGURE, make_plan, make_trial, store_trials
from learning_run import export, table_of
from scipy.io import netcdf_file

from scenarios.files.replacement import replacement
from scenarios.plan.points import Plan
from scenarios.report.tables.quantities import CODED
from scenarios.report.tables.summaries import KEYS, summarise
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.labels import axis_label
from scenarios.store.store import Store


def one_by_one(store: Store, plan: Plan, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table, built the slow and obvious way."""
    for point, ids in zip(plan.points, plan.task_ids, strict=True):
        settings = {"privacy.epsilon": point.settings.get("privacy.epsilon"), "label": point.settings["label"]}
        metrics = {one: {name: np.array(value) for name, value in found.items()} for one, found in (
            store.read_metrics([one for one, status in store.statuses(ids).items() if status == "done"]).items()
        )}  # fmt: skip
        for task_id, arrays in (metrics if table == "metrics" else store.read_series(ids, table)).items():
            flat = {}
            for name, array in arrays.items():
                several = table == "bursts" and array.ndim == 2
                first = 1 if name == "in_a_row" else 0
                flat |= (
                    {f"{name}_{k + first}": array[:, k] for k in range(array.shape[1])} if several else {name: array}
                )
            for place in np.ndindex(next(iter(flat.values())).shape if flat else (0,)):
                keys = dict(zip(KEYS[table], (store.tasks[task_id].trial, *place), strict=True))
                keys |= {"round": keys["round"] + 1} if "round" in keys else {}
                values = {name: array[place] for name, array in flat.items()}
                words = {name: CODED[name][int(value)] for name, value in values.items() if name in CODED}
                yield settings | keys | values | words


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


@pytest.mark.parametrize("table", list(KEYS))
def test_the_files_read_back_as_the_tables(plan: Plan, folder: Path, tmp_path: Path, table: str) -> None:
    export(folder, tmp_path / "out", plan=plan, tables=("all",))
    read = pd.read_csv(tmp_path / "out" / f"{table}.csv", keep_default_na=False, na_values={"label": []})
    read = read.apply(lambda column: column if column.name in ("label", "active_cap") else pd.to_numeric(column))
    with Store.open_existing(folder) as store:
        expected = pd.DataFrame(list(one_by_one(store, plan, table)), columns=read.columns)
    assert len(read) > 0 or table == "devices"
    for name in read.columns:
        if name in ("label", "active_cap"):
            assert read[name].tolist() == expected[name].fillna("").tolist()
        else:
            np.testing.assert_array_equal(read[name].to_numpy(float), expected[name].to_numpy(float), name)


def test_rates_have_the_counts_of_all_trials_of_a_point_and_the_interval_of_the_page(folder: Path, plan: Plan) -> None:
    rates = table_of(folder, "rates", plan=plan)
    links = table_of(folder, "link", plan=plan)
    links = links[links["label"] != "none"]
    with Store.open_existing(folder) as store:
        page = summarise(store, plan)[0].rates["bit_error_rate"]
    row = rates[rates["rate"] == "bit_error_rate"].iloc[0]
    assert (row["errors"], row["total"]) == (links["bit_errors"].sum(), links["bits"].sum())
    assert (row["mean"], row["low"], row["high"]) == (page.errors / page.total, page.low, page.high)
    assert 0.0 < row["low"] < row["mean"] < row["high"]


def test_labels_say_whose_energy_a_row_has(folder: Path, plan: Plan) -> None:
    labels = [table_of(folder, table, plan=plan).attrs["labels"] for table in ("link", "rounds")]
    found = [{name: one[name] for name in ("energy_j", "airtime_s") if name in one} for one in labels]
    assert found[0] == {"energy_j": "transmit energy [J]", "airtime_s": "airtime [s]"}
    assert "of a round" in axis_label("energy_j")
    assert all("of a round" in label for label in found[1].values())


def test_counts_are_written_as_integers_and_floats_with_all_digits(plan: Plan, folder: Path, tmp_path: Path) -> None:
    export(folder, tmp_path, plan=plan, tables=("all",))
    link = (tmp_path / "link.csv").read_text()
    assert '\n0.1,"a ""quoted"", 100 %d label",0,1,0,1000,1,10,1,0,1,2000,2,0.5,0.25,10.0\n' in link
    assert ",1,0.3333333333333333,power,\n" in (tmp_path / "metrics.csv").read_text()


def test_an_empty_run_yields_headers(plan: Plan, tmp_path: Path) -> None:
    store_trials(tmp_path / "run", plan, {})
    for path in export(tmp_path / "run", tmp_path / "out", plan=plan, tables=("all",)):
        interval = ("mean", "low", "high")
        others = {
            "curves": ("figure", "over", "x", "series", "panel", "quantity", *interval, "n"),
            "rates": ("rate", "errors", "total", *interval),
        }
        keys = {**KEYS, **others}[path.stem]
        settings = () if path.stem == "curves" else plan.swept_paths
        assert path.read_text() == ",".join([*settings, *keys]) + "\n"


def test_a_run_without_a_sweep_has_no_empty_first_column(tmp_path: Path) -> None:
    plan = make_plan([{}], trials=1)
    store_trials(tmp_path, plan, {0: [make_trial(0, metrics={"mse": 1.0})]})
    export(tmp_path, tmp_path, plan=plan)
    assert (tmp_path / "metrics.csv").read_text() == "trial,mse\n0,1.0\n"


def test_metrics_and_curves_are_written_unless_others_are_named(plan: Plan, folder: Path, tmp_path: Path) -> None:
    def names(*tables: str) -> list[str]:
        return [path.name for path in export(folder, tmp_path, plan=plan, tables=tables)]

    assert names() == ["metrics.csv", "curves.csv"]
    assert names("rounds", "link") == ["rounds.csv", "link.csv"]
    with pytest.raises(ScenarioError, match="results of phyloop run have no table round; use metrics, rounds"):
        names("round")


def test_curves_are_the_data_of_the_figures(tmp_path: Path) -> None:
    settings = [{"learning.scheme": scheme, FIGURE.x: snr} for scheme in ("analog", "digital") for snr in (0, 10)]
    plan = make_plan(settings, trials=6, report={"figures": [FIGURE.model_dump()]})
    trials = {point: [make_trial(t, metrics={"mse": point + t}) for t in range(6)] for point in range(4)}
    store_trials(tmp_path, plan, trials)
    for file_format in ("csv", "netcdf"):
        export(tmp_path, tmp_path, plan=plan, tables=("curves",), file_format=file_format)
    curves = pd.read_csv(tmp_path / "curves.csv", keep_default_na=False)
    assert set(curves["figure"]) == {"01-mse"}
    assert set(curves["over"]) == {FIGURE.x}
    assert curves[["series", "x", "mean", "n"]].to_numpy().tolist() == [
        ["analog", 0, 2.5, 6], ["analog", 10, 3.5, 6], ["digital", 0, 4.5, 6], ["digital", 10, 5.5, 6]
    ]  # fmt: skip
    with netcdf_file(tmp_path / "curves.nc", mmap=False) as read:
        assert read.variables["mean"].dimensions == ("row",)
        assert read.variables["mean"][:].tolist() == curves["mean"].tolist()
        assert b"".join(read.variables["series"][3]) == b"digital"
    assert (curves["high"] - curves["mean"]).to_numpy() == pytest.approx(2.5706 * np.sqrt(3.5 / 6), rel=1e-4)


def test_a_netcdf_file_is_a_grid_of_points_trials_rounds_and_devices(plan: Plan, folder: Path, tmp_path: Path) -> None:
    export(folder, tmp_path, plan=plan, tables=("link", "rounds"), file_format="netcdf")
    table = table_of(folder, "link", plan=plan)
    with netcdf_file(tmp_path / "link.nc", mmap=False) as read:
        assert read.variables["bits"].dimensions == ("point", "trial", "round", "device")
        assert read.variables["snr_db"].long_name.decode() == table.attrs["labels"]["snr_db"]
        assert read.variables["privacy.epsilon"][:].tolist() == [0.1]
        assert b"".join(read.variables["label"][0]).decode() == table["label"][0]
        found = read.variables["snr_db"][0]
        assert found.shape == (25, 3, 2)
        for row in table.to_dict("records"):
            assert found[row["trial"], row["round"] - 1, row["device"]] == row["snr_db"]
    with netcdf_file(tmp_path / "rounds.nc", mmap=False) as read:
        caps, amplitude = read.variables["active_cap"][:], read.variables["amplitude"][:]
        assert b"".join(caps[0, 0, 1]).strip(b"\0") == b"power"
        assert np.isnan(amplitude[1, :3]).all()
        assert np.isfinite(amplitude[1, 3]).all()


def test_tables_without_rows_are_netcdf_files_too(plan: Plan, tmp_path: Path) -> None:
    store_trials(tmp_path, plan, {})
    for path in export(tmp_path, tmp_path, plan=plan, file_format="netcdf"):
        with netcdf_file(path, mmap=False) as read:
            assert {*read.variables} >= {"trial" if path.stem == "metrics" else "figure"}


def test_parquet_keeps_all_values_and_says_what_it_needs(
    plan: Plan, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_pyarrow(*_: object, **__: object) -> None:
        raise ImportError("Unable to find a usable engine")

    with monkeypatch.context() as missing:
        missing.setattr(pd.DataFrame, "to_parquet", without_pyarrow)
        with pytest.raises(ScenarioError, match=r"needs pyarrow, which is not installed; run pip install"):
            export(folder, tmp_path, plan=plan, file_format="parquet")
    assert not list(tmp_path.glob("*.parquet"))
    pytest.importorskip("pyarrow")
    export(folder, tmp_path, plan=plan, tables=("link",), file_format="parquet")
    table = table_of(folder, "link", plan=plan)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "link.parquet"), table, check_dtype=False)


def test_another_format_is_refused(plan: Plan, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="--format = xlsx: is unknown; use csv, parquet or netcdf"):
        export(folder, tmp_path, plan=plan, file_format="xlsx")


def test_a_table_has_no_column_name_twice(tmp_path: Path) -> None:
    plan = make_plan([{"label": "a", "privacy": {"epsilon": 5.0, "delta": 0.01}}], trials=1)
    store_trials(tmp_path, plan, {0: [make_trial(0, metrics={"mse": 1.0, "label": 2.0, "trial": 3.0}, private=True)]})
    for path in export(tmp_path, tmp_path / "out", plan=plan, tables=("all",)):
        names = path.read_text().splitlines()[0].split(",")
        assert len(names) == len(set(names)), path.name
    metrics = pd.read_csv(tmp_path / "out" / "metrics.csv")
    assert metrics[["label", "trial", "metric label", "metric trial"]].to_numpy().tolist() == [["a", 0, 2.0, 3.0]]


def test_an_output_folder_that_is_a_file_is_refused(plan: Plan, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ScenarioError, match="cannot be written here"):
        export(folder, tmp_path / "file", plan=plan)


def test_an_unwritable_output_folder_is_refused(plan: Plan, folder: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be written here"):
        export(folder, Path("/proc/phyloop/out"), plan=plan)


def test_exporting_without_a_run_makes_no_folder(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="holds no results"):
        export(tmp_path / "none", tmp_path / "out", plan=plan)
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
    export(tmp_path, tmp_path, plan=plan, tables=("link",))
    seconds = time.perf_counter() - start
    rows = (tmp_path / "link.csv").read_bytes().count(b"\n") - 1
    assert rows == 200 * 300 * 2
    assert seconds < 10  # 0.5 s alone on two cores; others share them
