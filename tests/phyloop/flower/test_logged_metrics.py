"""Metrics that a Flower app logs are drawn, exported and compared as those of runs are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

pytest.importorskip("flwr")
from flower_app import FADING, FIXED, MemoryGrid, adds, arrays, instructions

import phyloop
from fl.base.errors import LearningError
from phyloop.flower import AirGrid
from scenarios.schema.errors import ScenarioError
from scenarios.studies.comparing import compare_folders
from scenarios.studies.flower.store import FlowerStore
from scenarios.studies.folders import study_in, write_report_of
from scenarios.studies.tables import export

START = np.zeros(100, np.float32)


def app_that_logs(folder: Path, *accuracies: float, **settings: Any) -> AirGrid:
    """Return the grid of an app that logs an accuracy before the first round, as Flower evaluates, and after each."""
    updates = {node: np.full(100, 0.1, np.float32) for node in (1, 2)}
    air = AirGrid(MemoryGrid(adds(updates), nodes=(1, 2)), link=FADING, codec=FIXED, seed=1, out=folder, **settings)
    air.log(0, accuracy=0.125)
    for number, accuracy in enumerate(accuracies, start=1):
        list(air.send_and_receive(instructions(arrays(w=START), (1, 2))))
        air.log(number, accuracy=accuracy)
    air.close()
    return air


def test_metrics_that_an_app_logs_are_drawn_exported_and_compared(tmp_path: Path) -> None:
    air = app_that_logs(tmp_path / "first", 0.25, 0.5)
    app_that_logs(tmp_path / "second", 0.25, 0.75)
    assert air.logged == {"accuracy": {0: 0.125, 1: 0.25, 2: 0.5}}
    study = study_in(tmp_path / "first")
    assert len(write_report_of(study, tmp_path / "first").figures) == 5
    _, curves = export(study, tmp_path / "first", tmp_path)
    table = pandas.read_csv(curves)
    assert table[table["quantity"] == "accuracy"]["mean"].tolist() == [0.125, 0.25, 0.5]
    assert phyloop.load(tmp_path / "first").planned == 2, "a call of log is no round"
    runs = {name: phyloop.load(tmp_path / name) for name in ("first", "second")}
    both = phyloop.compare(runs, y="accuracy", x="round").table
    assert both.groupby("run")["mean"].apply(list).to_dict() == {
        "first": [0.125, 0.25, 0.5],
        "second": [0.125, 0.25, 0.75],
    }
    for wrong in (
        {"y": "f1", "x": "round"},
        {"y": "accuracy", "x": "energy"},
        {"y": "accuracy", "x": "round", "series": "a"},
    ):
        with pytest.raises(ScenarioError, match=r"no figure of y .*; write x: round and y: .* or accuracy"):
            phyloop.compare(runs, **wrong)
    found = compare_folders([tmp_path / "first", tmp_path / "second"])
    assert found.results["accuracy"].rows[0][:3] == ("round 2", "0.5", "0.75")
    assert "accuracy" in {one.config.y for one in found.figures}


def test_what_becomes_of_lost_updates_is_a_setting_in_which_apps_differ(tmp_path: Path) -> None:
    app_that_logs(tmp_path / "first", 0.25)
    app_that_logs(tmp_path / "second", 0.25, lost="previous")
    found = compare_folders([tmp_path / "first", tmp_path / "second"])
    assert [row[1:] for row in found.settings.rows] == [("drop", "previous")]
    assert write_report_of(study_in(tmp_path / "second"), tmp_path / "second").html is not None


def test_a_later_value_of_a_round_replaces_an_earlier_one(tmp_path: Path) -> None:
    air = AirGrid(MemoryGrid(adds({}), nodes=(1,)), link=FADING, codec=FIXED, out=tmp_path)
    for number, loss in ((3, 2.0), (3, 1.0), (1, 4.0)):
        air.log(number, loss=loss)
    air.close()
    with FlowerStore.open_existing(tmp_path) as store:
        assert store.logged() == {"loss": {1: 4.0, 3: 1.0}}
        assert list(store.rounds()) == []


@pytest.mark.parametrize(
    ("number", "metrics", "words"),
    [
        (-1, {"accuracy": 0.5}, "round is -1; write a whole number from 0, which is before the first round"),
        (1, {"accuracy": float("nan")}, "accuracy is nan in round 1; log finite numbers only"),
        (1, {"accuracy": "high"}, "accuracy is 'high' in round 1; log finite numbers only"),
        (1, {"bit_error_rate": 0.1}, "bit_error_rate is measured by phyloop; log yours under another name"),
    ],
)
def test_what_cannot_be_logged_is_refused(number: int, metrics: dict[str, Any], words: str) -> None:
    air = AirGrid(MemoryGrid(adds({}), nodes=(1,)), link=FADING, codec=FIXED)
    with pytest.raises(LearningError, match=words):
        air.log(number, **metrics)
    assert air.logged == {}
