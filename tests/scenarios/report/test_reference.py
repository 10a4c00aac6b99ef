"""Stored results belong to sweep points of their scenarios, and stand beside those of a run whose settings agree."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest
from command import write_scenario
from fake_runs import library_run

from benchmarks.reference_results import MOST_CANDIDATES, MOST_ROUNDS, telling_paths, thinned, write
from phy.measure.monte_carlo import Stop
from scenarios.engine.run import run_study
from scenarios.plan.plan import expand
from scenarios.report import published
from scenarios.report.figures.drawing import Spot
from scenarios.report.published import COLUMNS, REFERENCE, library_plan, number_of, read_reference
from scenarios.report.settings import cells_of
from scenarios.report.tables.quantities import RATES
from scenarios.report.tables.summaries import Mean
from scenarios.schema.labels.labels import axis_label, setting_cell
from scenarios.schema.loader import load_scenario
from scenarios.studies.link.plan import expand_link
from scenarios.studies.link.results import read_results, write_point
from scenarios.studies.link.study import LinkStudy
from scenarios.studies.tune.plan import plan_tuning, tuning_seed

STORED = sorted(path.stem for path in REFERENCE.glob("*.csv"))
SEARCHES = sorted(path.stem for path in (REFERENCE / "tune").glob("*.csv"))
CURVES = sorted(path.stem for path in (REFERENCE / "curves").iterdir())

SMALL_LINK = """\
name: small-link
seed: 5
link: {modulation: qpsk, power: {policy: fixed}, packet_size_bytes: 32}
measure: {over: ebno_db, values: [0, 30], bits_per_batch: 65536, stop: {bit_errors: 300, max_bits: 1e5}}
sweep: {link.modulation: [qpsk, 16qam]}
"""


@pytest.mark.parametrize("name", STORED)
def test_every_stored_result_is_that_of_a_sweep_point_and_names_its_origin(name: str) -> None:
    rows, loaded = read_reference(name), load_scenario(name)
    if (plan := library_plan(name)) is not None:
        every, paths, over = plan.points, plan.swept_paths, ""
    else:
        link = expand_link(loaded)
        every, paths, over = tuple(curve.point for curve in link.curves), link.swept_paths, link.measure.over
        assert {float(row[over]) for row in rows} <= set(link.measure.levels)
    swept = [path for path in rows[0] if path in paths]
    points = {cells_of(point, swept) for point in every}
    keys = [tuple(row[path] for path in (*rows[0],) if path not in COLUMNS or path == "metric") for row in rows]
    assert len(set(keys)) == len(keys)
    for row in rows:
        assert tuple(row[path] for path in swept) in points, row
        assert axis_label(row["metric"]) != row["metric"]
        assert row["seed"] == str(loaded.scenario.seed)
        assert row["version"]
        assert row["source"]
        assert date.fromisoformat(row["date"]) > date(2026, 1, 1)


@pytest.mark.parametrize("name", [*STORED, *(f"curves/{name}" for name in CURVES)])
def test_a_stored_number_lies_in_its_interval_and_a_rate_has_its_counts(name: str) -> None:
    for row in read_reference(name):
        number = number_of(row)
        if isinstance(number, Mean):
            assert row["metric"] not in RATES
            assert (number.low is None) == (number.high is None)
            assert number.low is None or number.trials > 1
            assert number.low is None or number.low <= number.mean <= (number.high or number.mean)
        else:
            assert 0 <= number.errors <= number.total
            assert (row["mean"] == "") == (number.errors == 0)
            # Links that stopped on errors have the unbiased estimate, which is not quite errors over total.
            for rate in (float(row["mean"] or 0), number.value):
                assert number.low * (1 - 1e-4) <= rate <= number.high * (1 + 1e-4)  # five digits are kept


@pytest.mark.parametrize("name", SEARCHES)
def test_a_stored_search_chose_the_values_that_its_scenario_reports(name: str) -> None:
    tuning = plan_tuning(load_scenario(name))
    rows = read_reference(f"tune/{name}")
    assert {row["seed"] for row in rows} == {str(tuning_seed(tuning.loaded.scenario.seed))}
    assert len(rows) == len(tuning.choices) * min(len(tuning.candidates), MOST_CANDIDATES)
    chosen = [row for row in rows if row["chosen"] == "True"]
    assert len(chosen) == len(tuning.choices)
    plan = library_plan(name)
    assert plan is not None
    paths = {path for one in tuning.choices for path in (*one.settings, *tuning.candidates[0])}
    points = [{path: _stored_cell(path, value) for path, value in one.settings.items()} for one in plan.points]
    # Another block of the sweep may have other paths: its rows have empty cells there.
    assert [{path: row[path] for path in paths if row[path]} for row in chosen] == [
        {path: cell for path, cell in one.items() if path in paths} for one in points
    ]


def _stored_cell(path: str, value: object) -> str:
    """A setting as a stored search has it, numbers with five digits."""
    return f"{value:.5g}" if isinstance(value, float) else setting_cell(path, value)


def test_results_of_a_run_are_written_and_stand_on_the_page_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "REFERENCE", tmp_path)
    plan, page = library_run(tmp_path / "first", "cpa-table5", step=0.01)
    assert "Stored results beside ours" not in page.read_text()
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
    section = text[text.index(">Stored results beside ours</h2>") : text.index(">Results per point</h2>")]
    (alike,) = re.findall(r"The same in all rows: (.*?)</p>", section)
    assert "stored <b>0.810 [0.785, 0.835]</b>" in alike
    assert "ours <b>0.8</b>" in alike
    assert section.count("<tr>") == 1 + len(plan.points)
    other = library_run(tmp_path / "third", "cpa-table5", "learning.rounds=5")[1].read_text()
    assert "Stored results beside ours" not in other


def test_rates_of_a_link_study_are_stored_with_their_counts_unless_time_ended_a_point(tmp_path: Path) -> None:
    loaded = load_scenario(write_scenario(tmp_path, SMALL_LINK))
    study = LinkStudy(loaded)
    run_study(study, folder=tmp_path / "run")
    rows = list(csv.DictReader(write(tmp_path / "run", into=tmp_path).open()))
    assert [*rows[0]] == [
        "link.modulation", "ebno_db", "metric", "mean", "low", "high", "errors", "total", "seed", "version", "date",
        "source",
    ]  # fmt: skip
    with study.store.open_existing(tmp_path / "run") as store:
        measured = [one for points in read_results(store, study.plan) for one in points]
    assert len(rows) == 2 * len(measured)
    bits = [one.rates()[0] for one in measured]
    assert [(row["errors"], row["total"]) for row in rows[::2]] == [
        (str(b.errors), str(b.observations)) for b in bits if b
    ]
    assert [row["mean"] for row in rows[::2]] == ["" if b.rate is None else f"{b.rate:.5g}" for b in bits if b]
    assert {row["source"] for row in rows} == {"phyloop link small-link"}
    with study.store.open(tmp_path / "run", scenario_name="small-link") as store:
        write_point(store, replace(measured[0], stop=Stop(reason="time")))
    with pytest.raises(SystemExit, match=r"QPSK at 0 dB is not finished, or ended by its time limit; .*--max-seconds"):
        write(tmp_path / "run", into=tmp_path)


def test_rates_and_curves_of_a_run_are_stored_with_their_counts(tmp_path: Path) -> None:
    plan, _ = library_run(tmp_path / "run", "fedavg-bursts")
    rows = list(csv.DictReader(write(tmp_path / "run", into=tmp_path).open()))
    # A tenth of a percent of 1000 bits a round, two devices, three rounds, five trials.
    assert {(row["metric"], row["errors"], row["total"], row["mean"]) for row in rows} == {
        ("bit_error_rate", "30", "30000", "0.001"),
        ("packet_error_rate", "30", "300", "0.1"),
    }
    curves = list(csv.DictReader((tmp_path / "curves" / "fedavg-bursts.csv").open()))
    of_bits = [row for row in curves if row["metric"] == "bit_error_rate"]
    on_air = [point for point in plan.points if point.scenario.link.error_model != "error_free"]
    assert [row["x"] for row in of_bits] == ["1", "2", "3"] * len(on_air)
    assert {(row["axis"], row["errors"], row["total"]) for row in of_bits} == {("round", "10", "10000")}


def test_curves_are_stored_of_the_sweep_points_that_a_figure_shows(tmp_path: Path) -> None:
    library_run(tmp_path / "run", "aircomp-privacy")
    write(tmp_path / "run", into=tmp_path)
    curves = list(csv.DictReader((tmp_path / "curves" / "aircomp-privacy.csv").open()))
    # `where` of the figure of amplitudes; trials of accuracies have none over rounds.
    assert {(row["metric"], row["privacy.budget.epsilon"]) for row in curves} == {("amplitude", "8")}


def test_a_long_curve_keeps_its_ends_and_even_steps() -> None:
    (point, *_) = expand(load_scenario("fedavg-bursts")).points
    spots = [(point, "", Spot(x=x, y=0.0)) for x in range(1, 101)]
    kept = [spot.x for *_, spot in thinned(spots)]
    assert (kept[0], kept[-1], len(kept)) == (1, 100, MOST_ROUNDS)
    assert {b - a for a, b in pairwise(kept)} == {4, 5}
    assert [spot.x for *_, spot in thinned(spots[:3])] == [1, 2, 3]


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
    assert {(row["trials"], row["low"], row["source"]) for row in rows} == {
        ("1", "", "phyloop run cpa-table4 --trials 1")
    }


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("cpa-table4", ["label"]),
        ("cpa-table5", ["label", "learning.num_devices"]),
        (
            "flmc-snr",
            ["learning.scheme", "learning.step_size", "learning.lmc_cap", "link.power.snr_max_db", "privacy"],
        ),
    ],
)
def test_sweep_points_are_named_by_labels_rather_than_mappings(name: str, paths: list[str]) -> None:
    plan = expand(load_scenario(name))
    assert sorted(telling_paths(plan.points, plan.swept_paths)) == sorted(paths)
