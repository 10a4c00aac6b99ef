"""What `phyloop status` says of a folder: while a run writes, after it, and after it was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from command import ENVIRONMENT, SMALL, phyloop, write_scenario
from known_engine import Known
from learning_run import link_scenario, run_plan
from tampered import change_heads

from scenarios.cli.status import in_words
from scenarios.files import heartbeat
from scenarios.files.heartbeat import PROGRESS, read_heartbeat
from scenarios.files.plain_files import RESULTS, holder, take_lock
from scenarios.files.provenance import collect_provenance
from scenarios.plan.plan import expand
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.store.rows import Planned
from scenarios.store.store import Store
from scenarios.studies.status import Status, read_status

HELPERS = Path(__file__).resolve().parents[2] / "helpers"


def known_run(
    folder: Path, *, engine: Known | None = None, trials: int = 4, retry_failed: bool = False, kept: bool = False
) -> None:
    """A run of 2 points with known results into `folder/run`."""
    text = SMALL.replace("rounds: 20", "rounds: 2").replace("burn_in: 10", "burn_in: 0")
    text = text[: text.index("sweep:")] + "sweep: {learning.scheme: [noiseless, exact]}\n"
    loaded = load_scenario(str(write_scenario(folder, text)), trials=trials)
    if kept:
        heartbeat.EVERY_S = 0.0
    run_plan(loaded, expand(loaded), folder=folder / "run", engine=engine or Known(), retry_failed=retry_failed)


RUNS_SLOWLY = """
import sys
from pathlib import Path
from known_engine import Known
from test_status import known_run

known_run(Path(sys.argv[1]), engine=Known(seconds=0.3, one_by_one=True), trials=200, kept=True)
"""


@pytest.fixture
def slow_run(tmp_path: Path) -> subprocess.Popen[bytes]:
    """A process that writes a task every 0.3 s, of 400, and has written some."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUNS_SLOWLY, str(tmp_path)],
        cwd=HELPERS,
        env={
            **ENVIRONMENT,
            "PYTHONPATH": os.pathsep.join(map(str, (HELPERS, HELPERS.parents[1], Path(__file__).parent))),
        },
    )
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None:
        if (tmp_path / "run" / RESULTS).is_file() and read_status(tmp_path / "run").done >= 2:
            break
        time.sleep(0.1)
    yield process
    process.kill()
    process.wait()


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def said(status: Status) -> str:
    return "\n".join(in_words(status))


def test_while_a_run_writes_and_after_it_was_killed(slow_run: subprocess.Popen[bytes], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    live = read_status(folder)
    assert slow_run.poll() is None
    assert live.state == "running"
    assert live.held_by == slow_run.pid
    assert live.planned == 400
    assert live.left is not None
    assert live.done >= 2
    assert live.done + live.left == 400
    assert live.rate_per_minute is not None
    assert 0 < live.rate_per_minute <= 60 / 0.3
    assert live.num_in_hand == 1
    assert "trials" in live.in_hand[0]
    assert live.sign_of_life_s is not None
    assert live.sign_of_life_s < 60
    assert f"in process {slow_run.pid}" in said(live)
    later = read_status(folder)
    assert later.done >= live.done

    slow_run.send_signal(signal.SIGKILL)
    slow_run.wait()
    before = contents(folder)
    dead = read_status(folder)
    assert dead.state == "killed"
    assert dead.held_by is None
    assert dead.done >= later.done
    assert dead.left == 400 - dead.done
    assert dead.rate_per_minute is None
    assert dead.num_in_hand == 0
    assert "killed: nobody computes" in said(dead)
    assert "go on with: " in said(dead)
    # The log of the killed run was read and is still there; only SQLite's index of it may have been made anew.
    after = contents(folder)
    assert {k: v for k, v in after.items() if not k.endswith("-shm")} == {
        k: v for k, v in before.items() if not k.endswith("-shm")
    }


def test_a_finished_run_is_told_without_a_trace(tmp_path: Path) -> None:
    known_run(tmp_path, engine=Known(failing=frozenset({1})), kept=True)
    before = contents(tmp_path / "run")
    status = read_status(tmp_path / "run")
    assert (status.state, status.planned, status.done, status.failed, status.left) == ("done", 8, 6, 2, 0)
    assert status.last_error is not None
    assert status.last_error.says == "round 1: trial 1 diverged"
    assert status.last_error.trial == 1
    assert status.bytes["store"] > 0
    assert status.bytes["all"] > status.bytes["store"] + status.bytes["log"]
    assert contents(tmp_path / "run") == before


def test_an_interrupted_run_and_one_that_an_error_ended(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        known_run(tmp_path, engine=Known(stop_after=1))
    status = read_status(tmp_path / "run")
    assert (status.state, status.done, status.left) == ("interrupted", 4, 4)
    with pytest.raises(OSError, match="Input/output"):
        known_run(tmp_path, engine=Known(error=OSError(5, "Input/output error")))
    status = read_status(tmp_path / "run")
    assert (status.state, status.runs) == ("failed", 2)
    assert status.last_error is not None
    assert status.last_error.says == "OSError: [Errno 5] Input/output error"
    assert "last failure: the run at " in said(status)


def test_tasks_of_other_settings_count_apart(tmp_path: Path) -> None:
    known_run(tmp_path, engine=Known(failing=frozenset({3})))
    known_run(tmp_path, trials=2)
    status = read_status(tmp_path / "run")
    assert (status.planned, status.done, status.failed, status.left, status.elsewhere) == (4, 4, 0, 0, 4)
    known_run(tmp_path, trials=5)
    status = read_status(tmp_path / "run")
    assert (status.planned, status.done, status.failed, status.left, status.elsewhere) == (10, 8, 2, 0, 0)


def test_failed_tasks_that_wait_to_be_computed_again_are_left_while_the_run_goes_on(tmp_path: Path) -> None:
    known_run(tmp_path, engine=Known(failing=frozenset({1, 2})))
    with pytest.raises(KeyboardInterrupt):
        known_run(tmp_path, engine=Known(stop_after=1), retry_failed=True)
    status = read_status(tmp_path / "run")
    assert (status.done, status.failed, status.left, status.attempts) == (6, 2, 0, 2)
    with take_lock(tmp_path / "run" / "run.lock"):  # as if it went on
        status = read_status(tmp_path / "run")
        assert (status.done, status.failed, status.left) == (6, 0, 2)


def test_a_number_in_the_lock_of_a_dead_process_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.lock").write_text(f"{os.getpid()}\n")  # a PID that lives, and holds nothing
    assert holder(tmp_path) == (False, None)
    with take_lock(tmp_path / "run.lock"):
        assert holder(tmp_path) == (True, os.getpid())
    assert holder(tmp_path) == (False, None)


def test_the_clock_set_back_gives_no_negative_times(tmp_path: Path) -> None:
    known_run(tmp_path, kept=True)
    with take_lock(tmp_path / "run" / "run.lock"):
        status = read_status(tmp_path / "run", now=datetime.now(UTC) - timedelta(days=3))
    assert status.sign_of_life_s == 0.0
    assert status.rate_per_minute is not None
    assert status.rate_per_minute >= 0


def test_a_run_that_was_killed_before_it_noted_its_plan_says_what_it_knows(tmp_path: Path) -> None:
    known_run(tmp_path)
    with Store.open(tmp_path / "run", scenario_name="small") as store:
        store.record_run(collect_provenance(argv=["phyloop", "run"]))
    status = read_status(tmp_path / "run")
    assert (status.planned, status.done, status.left, status.state) == (None, 8, None, "killed")
    assert "8 tasks done, 0 failed" in said(status)


def test_a_heartbeat_that_is_damaged_or_of_another_run_is_passed_over(tmp_path: Path) -> None:
    known_run(tmp_path, kept=True)
    folder = tmp_path / "run"
    told = read_heartbeat(folder)
    assert told is not None
    assert (told.total, told.done) == (16, 16)
    for text in ("", "{", "[]", '{"done": 1}', "9" * 5000, "[" * 100_000):
        (folder / PROGRESS).write_text(text)
        assert read_heartbeat(folder) is None
        assert read_status(folder).done == 8


def test_a_folder_without_results_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="holds no results"):
        read_status(tmp_path)


def test_the_command_tells_a_script_all_it_tells_a_reader_and_loads_no_tensorflow(tmp_path: Path) -> None:
    known_run(tmp_path, engine=Known(failing=frozenset({0})))
    result = phyloop("status", tmp_path / "run", "--json")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    expected = json.loads(json.dumps(asdict(read_status(tmp_path / "run"))))
    assert told.pop("sign_of_life_s") <= expected.pop("sign_of_life_s")  # told first
    assert told == expected
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import scenarios.cli.app, scenarios.cli.status"],
        cwd=HELPERS.parents[1],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    for library in ("tensorflow", "scipy", "matplotlib", "fl.schemes"):
        assert f" {library}\n" not in loaded


LINK = """\
name: waterfall
seed: 5
link: {channel: {model: awgn}, modulation: qpsk, access: orthogonal}
measure:
  over: ebno_db
  values: [0, 2, 30, 31]
  stop: {bit_errors: 100, max_seconds: 0.3}
"""


@pytest.mark.slow
def test_a_link_study_counts_points(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, LINK, name="waterfall.yaml")
    assert link_scenario(str(scenario), out=tmp_path / "run", overrides=(), seed=None, max_seconds=None) == 0
    status = read_status(tmp_path / "run")
    assert status.unit == "points"
    assert status.planned == 4
    assert (status.state, status.left) == ("done", 0)
    assert status.done + status.skipped == 4


def test_text_of_others_cannot_steer_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from scenarios.cli.status import show_status

    known_run(tmp_path)
    change_heads(tmp_path / "run", lambda head: head.update(failures={"0": "\x1b[2Jgone\x07"}))
    show_status(tmp_path / "run", as_json=False)
    told = capsys.readouterr().out
    assert r"\x1b[2Jgone\x07" in told
    assert "\x1b" not in told


def test_the_notes_of_a_plan_are_read_as_written(tmp_path: Path) -> None:
    known_run(tmp_path)
    with Store.open_existing(tmp_path / "run") as store:
        (run,) = store.runs.values()
    assert run.planned == Planned(tasks=8)
