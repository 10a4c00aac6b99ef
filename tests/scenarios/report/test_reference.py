"""Stored results belong to sweep points of their scenarios, and stand beside those of a run whose settings agree."""

from __future__ import annotations

import csv
import re
from datetime import date
from pathlib import Path

import pytest
from fake_runs import library_run

from benchmarks.reference_results import telling_paths, write
from scenarios.plan.plan import expand
from scenarios.report import published
from scenarios.report.published import COLUMNS, REFERENCE, library_plan, mean_of, read_reference
from scenarios.report.settings import cells_of
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.loader import load_scenario

STORED = sorted(path.stem for path in REFERENCE.iterdir())


@pytest.mark.parametrize("name", STORED)
def test_every_stored_result_is_that_of_a_sweep_point_and_names_its_origin(name: str) -> None:
    plan = library_plan(name)
    assert plan is not None
    rows = read_reference(name)
    swept = [path for path in rows[0] if path in plan.swept_paths]
    points = {cells_of(point, swept) for point in plan.points}
    paths = [path for path in rows[0] if path not in COLUMNS]
    keys = [(*(row[path] for path in paths), row["metric"]) for row in rows]
    assert len(set(keys)) == len(keys)
    for row in rows:
        assert tuple(row[path] for path in swept) in points, row
        assert axis_label(row["metric"]) != row["metric"]
        mean = mean_of(row)
        assert (mean.low is None) == (mean.high is None)
        assert mean.low is None or mean.trials > 1
        assert mean.low is None or mean.low <= mean.mean <= (mean.high or mean.mean)
        assert row["seed"] == str(plan.seed)
        assert row["version"]
        assert row["source"]
        assert date.fromisoformat(row["date"]) > date(2026, 1, 1)


def test_results_of_a_run_are_written_and_stand_on_the_page_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "REFERENCE", tmp_path)
    plan, page = library_run(tmp_path / "first", "cpa-table5", step=0.01)
    assert "Beside the stored results" not in page.read_text()
    file = write(tmp_path / "first", into=tmp_path)
    assert file == tmp_path / "cpa-table5.csv"
    rows = list(csv.DictReader(file.open()))
    assert len(rows) == len(plan.points)
    assert rows[0] == {
        "label": "CPA", "learning.num_devices": "10", "metric": "validated_accuracy", "mean": "0.81", "low": "0.78516",
        "high": "0.83484", "trials": "3", "seed": "2023", "version": "0.1.0 (0123456)", "date": "2026-11-20",
        "source": "phyloop run cpa-table5",
    }  # fmt: skip
    text = library_run(tmp_path / "second", "cpa-table5", trials=1)[1].read_text()
    assert "phyloop run cpa-table5, phyloop 0.1.0 (0123456), seed 2023, 2026-11-20" in text
    section = text[text.index(">Beside the stored results</h2>") : text.index(">Results per point</h2>")]
    (alike,) = re.findall(r"The same in all rows: (.*?)</p>", section)
    assert "stored <b>0.810 [0.785, 0.835]</b>" in alike
    assert "ours <b>0.8</b>" in alike
    assert section.count("<tr>") == 1 + len(plan.points)
    other = library_run(tmp_path / "third", "cpa-table5", "learning.rounds=5")[1].read_text()
    assert "Beside the stored results" not in other


def test_a_run_that_differs_cannot_be_stored(tmp_path: Path) -> None:
    library_run(tmp_path / "run", "cpa-table4", "learning.rounds=5")
    with pytest.raises(SystemExit, match=r"differs from cpa-table4: rounds 5 \(30\)"):
        write(tmp_path / "run", into=tmp_path)
    library_run(tmp_path / "longer", "cpa-table4", trials=4)
    with pytest.raises(SystemExit, match=r"differs from cpa-table4: trials 4 \(3\)"):
        write(tmp_path / "longer", into=tmp_path)
    assert not (tmp_path / "cpa-table4.csv").exists()


def test_a_run_of_fewer_trials_is_stored_with_their_number(tmp_path: Path) -> None:
    library_run(tmp_path / "run", "cpa-table4", trials=1)
    rows = list(csv.DictReader(write(tmp_path / "run", into=tmp_path).open()))
    assert {(row["trials"], row["low"]) for row in rows} == {("1", "")}


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("cpa-table4", ["label"]),
        ("cpa-table5", ["label", "learning.num_devices"]),
        ("flmc-snr", ["learning.scheme", "learning.lmc_cap", "link.power.snr_max_db", "privacy"]),
    ],
)
def test_sweep_points_are_named_by_labels_rather_than_mappings(name: str, paths: list[str]) -> None:
    assert sorted(telling_paths(expand(load_scenario(name)))) == sorted(paths)
