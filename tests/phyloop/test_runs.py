"""Runs from Python: the same folders and numbers as those of the command."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from learning_run import export_run, run_scenario

import phyloop
from phyloop.progress import shown
from scenarios.engine.study import Progress
from scenarios.files.plain_files import RESOLVED
from scenarios.studies.verify.study import VerifyStore

ROOT = Path(__file__).parents[2]
SMALL = {
    "name": "small",
    "seed": 7,
    "trials": 2,
    "link": {"channel": {"gain": 0.04}},
    "learning": {
        "task": {"name": "gaussian-linear", "num_samples": 60, "dimension": 3},
        "num_devices": 4,
        "rounds": 20,
        "burn_in": 10,
        "step_size": 1e-3,
        "lmc_cap": "none",
    },
    "privacy": {"epsilon": 5, "delta": 0.01},
    "sweep": {"learning.scheme": ["analog", "digital-orthogonal"], "link.power.snr_max_db": np.array([0, 10])},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> phyloop.Run:
    return phyloop.run(SMALL, out=tmp_path_factory.mktemp("runs") / "small", progress=False)


def test_tables_are_those_of_the_csv_files(run: phyloop.Run, tmp_path: Path) -> None:
    export_run(run.folder, tmp_path)
    loaded = phyloop.load(run.folder)
    for name in ("metrics", "rounds", "devices", "privacy", "link"):
        written = pd.read_csv(tmp_path / f"{name}.csv", keep_default_na=name != "rounds")
        table = getattr(loaded, name).astype({"active_cap": str} if name in ("metrics", "rounds") else {})
        pd.testing.assert_frame_equal(written, table, check_dtype=False, check_exact=True)


def test_the_command_goes_on_with_the_folder(run: phyloop.Run, tmp_path: Path) -> None:
    scenario = tmp_path / "small.yaml"
    scenario.write_text((run.folder / RESOLVED).read_text())
    before = run.metrics
    assert run_scenario(str(scenario), out=run.folder, trials=3) == 0
    more = phyloop.load(run.folder)
    assert (run.planned, more.planned, more.done) == (8, 12, 12)
    again = more.metrics[more.metrics["trial"] < 2].reset_index(drop=True)
    pd.testing.assert_frame_equal(again, before)


def test_a_curve_is_that_of_the_figure(run: phyloop.Run) -> None:
    axes = run.plot("mse", x="link.power.snr_max_db", series="learning.scheme")
    curve = run.curve("mse", x="link.power.snr_max_db", series="learning.scheme")
    drawn = np.concatenate([line.get_ydata() for line in axes.get_lines() if len(line.get_xdata()) > 1])
    assert np.array_equal(np.sort(drawn), np.sort(curve["mean"].to_numpy()))
    means = run.metrics.groupby(["learning.scheme", "link.power.snr_max_db"], sort=False)["mse"].mean()
    assert np.allclose(curve["mean"], means)
    assert "<table" in run._repr_html_()


@pytest.mark.parametrize("wrong", [{"y": "msee"}, {"x": "link.powre"}, {"series": "colour"}, {"y_scale": "cubic"}])
def test_a_wrong_curve_is_refused(run: phyloop.Run, wrong: dict[str, str]) -> None:
    with pytest.raises(phyloop.ScenarioError, match=f"report.figures\\[0\\].{next(iter(wrong))}"):
        run.plot(**{"y": "mse", "x": "link.power.snr_max_db", **wrong})


def test_privacy_of_a_run_is_that_of_its_ledgers(run: phyloop.Run) -> None:
    claims = phyloop.epsilon(run, accountants=["basic"], everything=True)
    of_round = claims[(claims["scope"] == "round") & claims["channel_credited"] & (claims["accountant"] == "paper")]
    assert of_round["epsilon"].between(0, 5.0 + 1e-9).all()
    with pytest.raises(phyloop.ScenarioError, match="accountants = mine: is not known"):
        phyloop.epsilon(run, accountants=["mine"])


def test_a_link_study_has_the_table_of_its_points(tmp_path: Path) -> None:
    study = {"name": "ber", "link": {"modulation": "bpsk"}, "measure": {"values": [0], "stop": {"max_bits": 1000}}}
    table = phyloop.link_study(study, out=tmp_path / "ber", progress=False)
    loaded = phyloop.load(tmp_path / "ber")
    assert repr(loaded) == f"<phyloop link ber in {tmp_path / 'ber'}: 1 of 1 points done>"
    pd.testing.assert_frame_equal(loaded.link, table)
    assert loaded.link["bit_errors"].tolist() == table["bit_errors"].tolist() != [0]
    assert "<table" in loaded._repr_html_()
    assert loaded.report().name == "report.html"
    with pytest.raises(phyloop.ScenarioError, match="results of phyloop link have no table metrics; use link"):
        _ = loaded.metrics
    with pytest.raises(phyloop.ScenarioError, match="results of phyloop link have no curves here"):
        loaded.curve("mse", x="round")
    with pytest.raises(phyloop.ScenarioError, match="holds no results"):
        phyloop.load(tmp_path)


def test_an_audit_has_the_table_of_its_bounds(tmp_path: Path) -> None:
    settings = {"sweep": {"learning.scheme": ["analog"], "link.power.snr_max_db": [10]}}
    table = phyloop.audit(SMALL, games=200, set=settings, out=tmp_path, progress=False)
    assert table["bound"].tolist() == pd.read_csv(tmp_path / "audit.csv")["bound"].tolist()
    loaded = phyloop.load(tmp_path)
    pd.testing.assert_frame_equal(loaded.privacy, table)
    assert loaded.report().is_file()
    with pytest.raises(phyloop.ScenarioError, match="results of phyloop audit have no table link; use privacy"):
        _ = loaded.link


def test_reference_checks_are_no_run(tmp_path: Path) -> None:
    with VerifyStore.open(tmp_path, scenario_name="verify") as store:
        store.save_scenario(yaml="", root={"cards": [], "fast": True, "seed": None})
    with pytest.raises(phyloop.ScenarioError, match="holds results of phyloop verify; name the folder of a learning"):
        phyloop.load(tmp_path)


@pytest.mark.parametrize(
    ("scenario", "problem"),
    [
        ({"learning": {"rounds": {1, 2}}}, "must be one value; move the list into the sweep"),
        ({"learning": {"rounds": object()}}, "no plain data"),
        ({"learning": {"rounds": None}}, "the key has no value"),
        ({"base": "nothing"}, "neither a file beside this one nor a scenario of the library"),
        ("nothing", "no scenario of the library"),
    ],
)
def test_a_wrong_scenario_is_an_error_of_the_check_and_of_the_run(scenario: object, problem: str) -> None:
    checked = phyloop.check(scenario)
    assert not checked.ok
    assert problem in str(checked)
    with pytest.raises(phyloop.ScenarioError, match=problem):
        phyloop.run(scenario)


def test_errors_of_all_parts_of_a_scenario_are_told_at_once() -> None:
    figures = [{"x": "round", "y": "nothing"}, {"x": "nowhere", "y": "mse"}]
    sweep = {"learning.scheme": ["analog"], "link.power.snr_max_db": [0, 999]}
    checked = phyloop.check(SMALL, set={"report": {"figures": figures}, "sweep": sweep}, memory_limit="1MB")
    keys = [error.key for error in checked.errors]
    assert keys == ["report.figures[0].y", "report.figures[1].x", "link.power.snr_max_db"]
    assert "needs about" in str(phyloop.check(SMALL, memory_limit="1MB"))


@pytest.mark.parametrize("section", ["link", "learning", "privacy", "measure"])
def test_figures_and_sweep_are_checked_beside_an_unknown_key(section: str) -> None:
    scenario: dict[str, Any] = {
        "learning": {"algorithm": "fedavg"},
        "sweep": {"link.power.snr_db": [1]},
        "report": {"figures": [{"x": "round", "y": "ber"}, {"x": "round", "y": "test_accuracy"}]},
    }
    scenario[section] = {**scenario.get(section, {}), "wrong": 1}
    keys = [error.key for error in phyloop.check(scenario).errors if error.problem != "the key is missing"]
    assert keys == [f"{section}.wrong", "link.power.snr_db", "report.figures[0].y"]


def test_a_bar_in_a_notebook_shows_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    handle = SimpleNamespace(update=lambda html: drawn.append(html.data))
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.display.display", lambda html, **_: drawn.append(html.data) or handle)
    with shown(SimpleNamespace(ids=range(4), done_words="tasks stored"), quiet=False) as progress:  # type: ignore[arg-type]
        assert isinstance(progress, Progress)
        progress.start(10)
        progress.stored(4)
    assert drawn[0].endswith("0 of 4 tasks stored")
    assert drawn[-1] == "<progress max=1 value=1.000></progress> 4 of 4 tasks stored"


INTERRUPTED = """
import phyloop, signal
before = signal.getsignal(signal.SIGINT)
try:
    phyloop.run("flmc-snr", trials=30, out={out!r})
except KeyboardInterrupt as stop:
    assert signal.getsignal(signal.SIGINT) is before
    print("stopped:", *stop.__notes__)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-c", INTERRUPTED.format(out=str(out))]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not stored(out) and process.poll() is None:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    told, errors = process.communicate(timeout=120)
    assert f"stopped: Everything finished is kept in {out}: the same call goes on." in told, errors
    left = phyloop.load(out)
    assert 0 < left.done < left.planned
    settings = {"learning.scheme": ["analog"], "learning.step_size": [1.28e-4]}
    done = left.metrics
    some = phyloop.run("flmc-snr", trials=1, set={"sweep": settings}, out=out)
    assert some.done == 1
    assert len(done) == left.done


def stored(folder: Path) -> int:
    try:
        return phyloop.load(folder).done
    except phyloop.ScenarioError:
        return 0


UNGUARDED = """
import phyloop
run = phyloop.run({scenario!r}, trials=1, out={out!r}, workers=2, progress=False)
print(run.done, "done")
"""


def test_workers_need_no_guard_in_a_script(tmp_path: Path) -> None:
    script, scenario = tmp_path / "script.py", {**SMALL, "sweep": {"link.power.snr_max_db": [0, 10]}}
    script.write_text(UNGUARDED.format(scenario=scenario, out=str(tmp_path / "run")))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=environment)
    assert (done.stdout, done.stderr) == ("2 done\n", "")


def test_a_run_tells_its_progress_only_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", told := io.StringIO())
    phyloop.run(SMALL, trials=1, set={"sweep": {}}, out=tmp_path / "quiet", progress=False)
    assert told.getvalue() == ""


def test_numbers_of_numpy_are_settings() -> None:
    found = phyloop.check(SMALL, set={"learning.rounds": np.int64(30)}, trials=np.int64(3), seed=np.int64(1))
    assert found.ok, found
    assert found.loaded is not None
    assert (found.loaded.scenario.learning.rounds, found.loaded.scenario.trials) == (30, 3)


def test_all_wrong_overrides_are_told_at_once() -> None:
    found = phyloop.check(SMALL, set={"learning.roundss": 3, "link.bogus": 1})
    assert [error.key for error in found.errors] == ["learning.roundss", "link.bogus"]


def test_settings_may_be_given_in_the_words_of_the_tables(run: phyloop.Run) -> None:
    analog = run.curve("mse", x="link.power.snr_max_db", where={"learning.scheme": "analog"})
    assert len(analog) == 2
    assert len(run.curve("mse", x="learning.scheme", where={"link.power.snr_max_db": "10"})) == 2


def test_a_curve_without_a_point_is_an_error_that_lists_the_settings(run: phyloop.Run) -> None:
    with pytest.raises(phyloop.ScenarioError, match=r"link\.power\.snr_max_db: 0 or 10"):
        run.curve("mse", x="learning.scheme", where={"link.power.snr_max_db": 99})


def test_what_a_lower_layer_refuses_is_a_scenario_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHYLOOP_DATA", str(tmp_path / "nothing"))
    with pytest.raises(phyloop.ScenarioError, match="PHYLOOP_DATA names") as caught:
        phyloop.run("cpa-table2", trials=1, out=tmp_path / "run", progress=False)
    assert caught.value.errors[0].remedy


def test_claims_have_settings_in_words(run: phyloop.Run) -> None:
    claims = phyloop.epsilon(run)
    assert set(claims["learning.scheme"]) == {"analog", "digital-orthogonal"}
    assert claims["link.power.snr_max_db"].map(type).isin([int, float]).all()
    assert claims.attrs["labels"]["epsilon"]
