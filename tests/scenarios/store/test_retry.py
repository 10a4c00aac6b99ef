"""Failed tasks are computed again when asked, and replaced only by a result; a finished run is known at once."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest
from command import SMALL, write_scenario
from known_engine import Known
from learning_run import run_plan, run_scenario
from tampered import change_row, flip_arrays

from fl.base.results import TrialResult
from scenarios.engine.study import Outcome, Progress
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.store.store import Store

TRIALS = 4
RETRY = True


@pytest.fixture
def small(tmp_path: Path) -> tuple[LoadedScenario, Plan]:
    text = SMALL.replace("trials: 6", f"trials: {TRIALS}")
    text = text.replace("rounds: 20", "rounds: 2").replace("burn_in: 10", "burn_in: 0")
    loaded = load_scenario(
        str(write_scenario(tmp_path, text[: text.index("sweep:")] + "sweep: {learning.scheme: [noiseless, exact]}\n"))
    )
    return loaded, expand(loaded)


def run(small: tuple[LoadedScenario, Plan], folder: Path, engine: Known, retry_failed: bool = False) -> Outcome:
    loaded, plan = small
    return run_plan(loaded, plan, folder=folder, engine=engine, progress=Progress(), retry_failed=retry_failed)


def statuses(small: tuple[LoadedScenario, Plan], folder: Path) -> list[list[str]]:
    ids = small[1].task_ids
    with Store.open_existing(folder) as store:
        found = store.statuses([one for point in ids for one in point])
    return [[found[one] for one in point] for point in ids]


def test_failed_tasks_stay_failed_unless_they_are_asked_for_again(
    small: tuple[LoadedScenario, Plan], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    first = run(small, folder, Known(failing=frozenset({1, 2})))
    assert (first.computed, first.failed) == (8, 4)
    again = Known()
    same = run(small, folder, again)
    assert (same.computed, same.found, same.failed, again.computed) == (0, 8, 4, [])

    again = Known(failing=frozenset({2}))
    retried = run(small, folder, again, RETRY)
    assert {(point, trial) for point, trials in again.computed for trial in trials} == {(0, 1), (0, 2), (1, 1), (1, 2)}
    assert (retried.computed, retried.found, retried.failed) == (4, 4, 2)
    assert statuses(small, folder) == [["done", "done", "failed", "done"]] * 2
    ids = small[1].task_ids
    with Store.open_existing(folder) as store:
        assert len(store.tasks) == 8
        assert store.read_metrics([ids[0][1]])[ids[0][1]] == {"mse": 1.0, "wasserstein2": 1.0}
        np.testing.assert_array_equal(store.read_series([ids[0][1]], "rounds")[ids[0][1]]["squared_error"], [1.0, 1.0])
        attempts = store.replaced
    assert {(one.task_id, one.trial, one.failure) for one, _ in attempts} == {
        (ids[point][trial], trial, f"round 1: trial {trial} diverged") for point in range(2) for trial in (1, 2)
    }


def test_a_retried_run_equals_one_that_never_failed(small: tuple[LoadedScenario, Plan], tmp_path: Path) -> None:
    run(small, tmp_path / "never", Known())
    run(small, tmp_path / "run", Known(failing=frozenset({0, 3})))
    run(small, tmp_path / "run", Known(), RETRY)
    ids = [one for point in small[1].task_ids for one in point]
    with Store.open_existing(tmp_path / "run") as ours, Store.open_existing(tmp_path / "never") as theirs:
        assert ours.read_metrics(ids) == theirs.read_metrics(ids)
        for one in ids:
            for name, values in theirs.read_series([one], "rounds")[one].items():
                np.testing.assert_array_equal(ours.read_series([one], "rounds")[one][name], values)


def test_an_interrupted_retry_loses_no_failure_and_goes_on(small: tuple[LoadedScenario, Plan], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(small, folder, Known(failing=frozenset({1})))
    with pytest.raises(KeyboardInterrupt):
        run(small, folder, Known(stop_after=1), RETRY)
    assert statuses(small, folder) == [["done"] * 4, ["done", "failed", "done", "done"]]
    with Store.open_existing(folder) as store:
        assert tuple(store.runs.values())[-1].status == "interrupted"
    again = Known()
    assert run(small, folder, again, RETRY).failed == 0
    assert again.computed == [(1, (1,))]


def test_a_failed_attempt_stays_if_what_replaces_it_cannot_be_stored(tmp_path: Path) -> None:
    failed = TrialResult(trial=0, metrics={}, rounds={"x": np.zeros(3)}, failure="diverged")
    with Store.open(tmp_path, scenario_name="demo") as store:
        store.write({"a": failed}, physics={}, seconds=1.0)
        broken = TrialResult(trial=0, metrics={"mse": 1.0}, rounds={})
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (store.path.stat().st_size + 100, limits[1]))
        try:
            with pytest.raises(ScenarioError, match=r"results cannot be written here .*; free or change the disk"):
                store.write({"a": broken}, physics={}, seconds=1.0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert store.read_tasks(["a"])["a"].failure == "diverged"
        assert store.read_series(["a"], "rounds")["a"]["x"].shape == (3,)
        assert store.replaced == []
    with Store.open(tmp_path, scenario_name="demo") as store:
        assert store.statuses(["a"]) == {"a": "failed"}
        store.write({"a": broken}, physics={}, seconds=1.0)
        assert store.statuses(["a"]) == {"a": "done"}


# --- a finished run ---------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_finished_run_touches_nothing(small: tuple[LoadedScenario, Plan], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = run(small, folder, Known())
    assert not first.complete
    before = contents(folder)
    second = run(small, folder, Known())
    assert second.complete
    assert second.report == first.report
    assert contents(folder) == before


def test_a_finished_run_with_a_damaged_batch_computes_that_batch_again(
    small: tuple[LoadedScenario, Plan], tmp_path: Path
) -> None:
    folder, again = tmp_path / "run", Known()
    run(small, folder, Known())
    flip_arrays(folder)
    outcome = run(small, folder, again)
    assert (outcome.computed, outcome.found, outcome.complete) == (TRIALS, TRIALS, False)
    assert statuses(small, folder) == [["done"] * TRIALS] * 2
    assert run(small, folder, Known()).complete


@pytest.mark.parametrize(
    "change",
    ["the page is gone", "a figure is gone", "other figures are asked for", "the report of another version"],
)
def test_a_report_that_does_not_show_what_is_asked_for_is_written(change: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    scenario = write_scenario(tmp_path, SMALL.replace("trials: 6", f"trials: {TRIALS}"), name="two.yaml")
    loaded = load_scenario(str(scenario))
    first = run((loaded, expand(loaded)), folder, Known())
    assert len(first.report.figures) == 2
    if change == "the page is gone":
        first.report.html.unlink()
    elif change == "a figure is gone":
        first.report.figures[1].unlink()
    elif change == "other figures are asked for":
        loaded = load_scenario(str(scenario), overrides=("report.figures=[{x: link.power.snr_max_db, y: mse}]",))
    else:
        change_row(folder, {"report": ["another version", []]})
    engine = Known()
    second = run((loaded, expand(loaded)), folder, engine)
    assert not second.complete
    assert engine.computed == []
    assert all(path.is_file() for path in (second.report.html, *second.report.figures))
    assert run((loaded, expand(loaded)), folder, engine).complete


def test_fewer_trials_are_another_report_and_more_are_computed(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, SMALL.replace("trials: 6", "trials: 3"))
    for trials, computed, whole in ((3, 24, False), (2, 0, False), (2, 0, True), (4, 8, False)):
        loaded = load_scenario(str(scenario), trials=trials)
        outcome = run((loaded, expand(loaded)), tmp_path / "run", Known())
        assert (outcome.computed, outcome.complete) == (computed, whole)
        kept = [one for one in outcome.notices if "also keeps 8 tasks of other settings or trials" in one]
        assert len(kept) == (trials == 2)  # the third trial of eight sweep points


def test_the_command_says_that_all_is_finished_and_still_exits_with_1_for_failures(
    small: tuple[LoadedScenario, Plan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    run(small, folder, Known(failing=frozenset({1})))
    source = str(small[0].source)
    code = run_scenario(source, out=folder, overrides=(), trials=None, seed=None)
    said = capsys.readouterr()
    assert code == 1
    assert "all 8 tasks are finished: 0 computed, 8 found done" in said.out
    assert f"report  {folder / 'report.html'}" in said.out
    assert "2 of 8 tasks failed" in said.err
    assert "--retry-failed" in said.err


def test_a_finished_run_of_another_scenario_is_still_refused(
    small: tuple[LoadedScenario, Plan], tmp_path: Path
) -> None:
    run(small, tmp_path / "run", Known())
    other = small[0].source.with_name("other.yaml")
    other.write_text(small[0].source.read_text().replace("name: small", "name: other"))
    loaded = load_scenario(str(other))
    with pytest.raises(ScenarioError, match="holds results of phyloop run, scenario small"):
        run((loaded, expand(loaded)), tmp_path / "run", Known())
