"""The command line as a user meets it."""

from __future__ import annotations

import csv
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command import COMMAND, SMALL, exported, phyloop, write_scenario

from fl.base.measured import MIXING
from scenarios.cli.command import how_to_go_on
from scenarios.files.plain_files import RESULTS


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the small scenario."""
    folder = tmp_path_factory.mktemp("finished")
    result = phyloop("run", write_scenario(folder), "--out", folder / "run")
    assert result.returncode == 0, result.stderr
    return folder / "run"


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_a_run_leaves_figures_a_page_and_a_store(finished: Path) -> None:
    assert {p.name for p in finished.glob("figures/*")} == {
        "01-mse.svg",
        "01-mse.csv",
        "02-bit_error_rate.svg",
        "02-bit_error_rate.csv",
    }
    page = (finished / "report.html").read_text()
    assert "48</b> of <b>48</b> trials finished" in page
    assert "http" not in page[: page.index("<script>")].replace("http-equiv", "")


def test_exported_tables_are_tidy_and_consistent_with_each_other(finished: Path, tmp_path: Path) -> None:
    tables = exported(finished, tmp_path / "csv")
    assert set(tables) == {
        *(
            "metrics.csv",
            "rounds.csv",
            "link.csv",
            "privacy.csv",
            "bursts.csv",
            "devices.csv",
            "rates.csv",
            "curves.csv",
        )
    }
    metrics = rows_of(tables["metrics.csv"])
    settings = ["learning.scheme", "link.power.snr_max_db", "trial"]
    names = [
        "mse",
        "wasserstein2",
        "variance_ratio",
        *MIXING,
        "amplitude",
        "active_cap",
        "total_airtime_s",
        "total_energy_j",
    ]
    assert list(metrics[0])[:3] == settings
    assert set(metrics[0]) == {*settings, *names}
    link = rows_of(tables["link.csv"])
    assert {r["learning.scheme"] for r in link} == {"digital-orthogonal"}
    assert len(link) == 2 * 6 * 20 * 4
    assert {int(r["bits"]) for r in link} == {3}
    assert all(0 <= int(r["bit_errors"]) <= 3 for r in link)

    def of_analog(rows: list[dict[str, str]]) -> list[dict[str, str]]:
        wanted = ("analog", "10.0", "0")
        return [r for r in rows if tuple(r[name] for name in settings) == wanted]

    rounds = of_analog(rows_of(tables["rounds.csv"]))
    first = [float(r["squared_error"]) for r in rounds if int(r["round"]) > 10]
    (stored,) = (float(r["mse"]) for r in of_analog(metrics))
    # Two ways of adding the same ten float64 numbers.
    assert np.isclose(np.mean(first), stored, rtol=1e-12)


def test_running_again_computes_nothing_and_changes_no_number(finished: Path, tmp_path: Path) -> None:
    before = exported(finished, tmp_path / "before")
    scenario = write_scenario(tmp_path)
    started = time.perf_counter()
    result = phyloop("run", scenario, "--out", finished)
    assert result.returncode == 0
    assert "0 computed, 48 found done" in result.stdout
    assert "MSE to the posterior" in result.stdout
    assert time.perf_counter() - started < 20
    assert exported(finished, tmp_path / "after") == before


@pytest.mark.slow
def test_more_trials_add_only_the_missing_ones_and_equal_a_fresh_run(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path)
    few = phyloop("run", scenario, "--out", tmp_path / "grown", "--trials", "2")
    more = phyloop("run", scenario, "--out", tmp_path / "grown", "--trials", "5")
    assert (few.returncode, more.returncode) == (0, 0)
    assert "24 computed, 16 found done" in more.stdout
    fresh = phyloop("run", scenario, "--out", tmp_path / "fresh", "--trials", "5")
    assert fresh.returncode == 0
    assert exported(tmp_path / "grown", tmp_path / "a") == exported(tmp_path / "fresh", tmp_path / "b")


@pytest.mark.slow
def test_another_seed_gives_other_numbers(finished: Path, tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path)
    assert phyloop("run", scenario, "--out", tmp_path / "run", "--seed", "8").returncode == 0
    ours, theirs = exported(finished, tmp_path / "a"), exported(tmp_path / "run", tmp_path / "b")
    assert ours["metrics.csv"] != theirs["metrics.csv"]


def test_report_is_drawn_again_from_the_folder_alone(finished: Path) -> None:
    (finished / "report.html").unlink()
    result = phyloop("report", finished)
    assert result.returncode == 0, result.stderr
    assert (finished / "report.html").exists()


def cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def least_cpu_seconds(*command: str | Path) -> float:
    """The best of four: others may hold the cores and their caches."""
    seconds = []
    for _ in range(4):
        before = cpu_seconds_of_children()
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
        seconds.append(cpu_seconds_of_children() - before)
    return min(seconds)


def test_help_names_the_default_of_an_option_and_a_list_of_a_sweep() -> None:
    words = " ".join(phyloop("run", "--help").stdout.replace("│", " ").split())
    assert "(default: runs/NAME" in words
    assert "sweep.PATH=[0, 10]" in words


@pytest.mark.slow
def test_help_and_check_cost_little_more_than_the_libraries_they_read(tmp_path: Path) -> None:
    # About a second on a free core: NumPy, SciPy and pydantic alone take 0.6 of it, `check flmc-snr` 1.9 times that,
    # and TensorFlow alone would take some five times them. A ratio holds on slow and busy machines too.
    libraries = least_cpu_seconds(
        sys.executable, "-c", "import numpy, pydantic, typer, yaml, scipy.special, scipy.optimize"
    )
    scenario = write_scenario(tmp_path)
    for arguments in (("--help",), ("check", "flmc-snr"), ("check", scenario), ("list",), ("schema",)):
        assert least_cpu_seconds(*COMMAND, *arguments) < 2.8 * libraries, arguments


def test_check_names_the_cap_that_binds(tmp_path: Path) -> None:
    text = SMALL.replace("lmc_cap: none", "lmc_cap: printed")
    result = phyloop("check", write_scenario(tmp_path, text), "--all")
    assert result.returncode == 0, result.stderr
    assert "8 points x 6 trials = 48 tasks" in result.stdout
    # sqrt(eta N0 / 2) = sqrt(1e-3 / 2) = 0.02236 binds digital at 10 dB, where power admits 0.1265.
    digital = next(line for line in result.stdout.splitlines() if line.startswith("digital ") and " 10 " in line)
    assert "0.1265" in digital
    assert "0.02236" in digital
    assert "lmc" in digital


def test_check_needs_neither_tensorflow_nor_numba() -> None:
    code = (
        "import sys; sys.argv = ['phyloop', 'check', 'flmc-snr']\n"
        "from scenarios.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not {'tensorflow', 'sionna', 'numba'} & sys.modules.keys()\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_every_command_takes_debug(tmp_path: Path) -> None:
    for command in ("export", "report", "privacy", "status", "index"):
        more = ["--out", str(tmp_path / "csv")] if command == "export" else []
        done = phyloop(command, str(tmp_path / "none"), *more, "--debug")
        assert (done.returncode, "No such option" in done.stderr) == (2, False), command


def test_the_schema_is_json_that_knows_the_keys() -> None:
    schema = json.loads(phyloop("schema").stdout)
    assert {"link", "learning", "privacy", "sweep"} <= set(schema["properties"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--set", "learning.round=3"), "did you mean learning.rounds"),
        (("--trials", "0"), "must be at least 1"),
        (("--set", "link.channel.noise_power=-1"), "must be above 1e-30"),
        (("--set", "link.modulation=16qam"), "16qam"),
        (("--set", "link.power.snr_max_db=4000"), "at most 300"),
        (("--set", "report.figures=[{x: link.power.snr_max_db, y: nope}]"), "names nothing that is measured"),
        (("--set", "report.figures=[{x: foo, y: mse}]"), "names no key of a scenario"),
    ],
)
def test_bad_input_exits_with_2_a_line_per_error_and_nothing_on_disk(
    arguments: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    scenario = write_scenario(tmp_path)
    result = phyloop("run", scenario, "--out", tmp_path / "run", *arguments)
    assert result.returncode == 2
    assert expected in result.stderr
    assert all(line.startswith("phyloop: ") and line.endswith(".") for line in result.stderr.splitlines())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small.yaml"]


def test_a_folder_of_another_scenario_is_refused_untouched(finished: Path, tmp_path: Path) -> None:
    other = write_scenario(tmp_path, SMALL.replace("name: small", "name: other"))
    before = {p: p.read_bytes() for p in finished.rglob("*") if p.is_file()}
    result = phyloop("run", other, "--out", finished)
    assert result.returncode == 2
    assert "other" in result.stderr
    assert {p: p.read_bytes() for p in finished.rglob("*") if p.is_file()} == before


def test_a_damaged_store_is_said_in_one_sentence(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    path = tmp_path / "run" / RESULTS
    data = bytearray(path.read_bytes())
    data[4096:8192] = bytes(4096)
    path.write_bytes(data)
    result = phyloop("report", tmp_path / "run")
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert "results.phyloop: is damaged" in result.stderr
    assert "run the scenario into this folder again" in result.stderr


def test_the_folder_keeps_a_scenario_that_gives_the_same_tasks(finished: Path) -> None:
    result = phyloop("run", finished / "scenario.yaml", "--out", finished)
    assert result.returncode == 0, result.stderr
    assert "0 computed, 48 found done" in result.stdout


def test_an_unknown_library_name_suggests_a_near_one() -> None:
    result = phyloop("run", "flmc-snrr")
    assert result.returncode == 2
    assert "flmc-snr" in result.stderr


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (True, "stopped; everything finished is kept in {folder}. Go on with: phyloop run a"),
        (False, "stopped before anything was finished. Begin again with: phyloop run a"),
    ],
)
def test_a_stop_says_what_is_kept_if_anything_is(
    stored: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["phyloop", "run", "a"])
    if stored:
        (tmp_path / RESULTS).touch()
    assert how_to_go_on("stopped", tmp_path) == words.format(folder=tmp_path)
