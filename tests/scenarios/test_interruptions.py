"""Killing for real: whatever stops a run, the next one goes on and ends with the same tables."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from command import SMALL, exported, phyloop, start_phyloop, write_scenario

from scenarios.store import DATABASE

# Many small batches: a kill then falls between, before and inside them.
SLOWER = (
    SMALL.replace("rounds: 20", "rounds: 200")
    .replace("burn_in: 10", "burn_in: 100")
    .replace("link.power.snr_max_db: [10, 20]", "link.power.snr_max_db: [5, 15, 25]")
)

PATIENCE_S = 300
"""Beyond any machine that is merely busy."""


def stored_tasks(run: Path) -> list[tuple[str, str]]:
    if not (run / DATABASE).exists():
        return []
    database = sqlite3.connect(run / DATABASE, timeout=20)
    try:
        return database.execute("SELECT task_id, finished_at FROM tasks ORDER BY task_id").fetchall()
    finally:
        database.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert phyloop("run", write_scenario(folder, SLOWER), "--out", folder / "run").returncode == 0
    return exported(folder / "run", folder / "csv")


def test_sigkill_at_random_moments_loses_and_repeats_nothing(undisturbed: dict[str, str], tmp_path: Path) -> None:
    scenario, run = write_scenario(tmp_path, SLOWER), tmp_path / "run"
    moments = random.Random(2022)
    kept: dict[str, str] = {}
    kills_inside = 0
    for _ in range(3):
        process = start_phyloop("run", scenario, "--out", run)
        known = len(kept)
        deadline = time.monotonic() + PATIENCE_S
        # Wait for progress beyond what is known, so that every kill falls into live work, then a little more.
        while process.poll() is None and len(stored_tasks(run)) <= known and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(moments.uniform(0.0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills_inside += process.returncode == -signal.SIGKILL
        after = dict(stored_tasks(run))
        # Nothing that was finished is gone or has been computed again.
        assert kept.items() <= after.items()
        kept = after
    assert kills_inside >= 2, "the runs ended before they could be killed: make them longer"
    assert phyloop("run", scenario, "--out", run).returncode == 0
    assert kept.items() <= dict(stored_tasks(run)).items()
    assert exported(run, tmp_path / "csv") == undisturbed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_cleanly_and_says_how_to_go_on(
    number: signal.Signals, undisturbed: dict[str, str], tmp_path: Path
) -> None:
    scenario, run = write_scenario(tmp_path, SLOWER), tmp_path / "run"
    process = start_phyloop("run", scenario, "--out", run)
    deadline = time.monotonic() + PATIENCE_S
    while not stored_tasks(run) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Go on with: phyloop run" in said
    assert "Traceback" not in said
    assert 0 < len(stored_tasks(run)) < 11 * 6
    assert phyloop("run", scenario, "--out", run).returncode == 0
    assert exported(run, tmp_path / "csv") == undisturbed


def test_a_second_interrupt_does_not_disturb_the_first(tmp_path: Path) -> None:
    scenario, run = write_scenario(tmp_path, SLOWER), tmp_path / "run"
    process = start_phyloop("run", scenario, "--out", run)
    deadline = time.monotonic() + PATIENCE_S
    while not stored_tasks(run) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Traceback" not in said


def test_a_second_process_on_the_same_folder_is_told_who_holds_it(tmp_path: Path) -> None:
    scenario, run = write_scenario(tmp_path, SLOWER), tmp_path / "run"
    process = start_phyloop("run", scenario, "--out", run)
    deadline = time.monotonic() + PATIENCE_S
    while not stored_tasks(run) and time.monotonic() < deadline:
        time.sleep(0.02)
    second = phyloop("run", scenario, "--out", run)
    process.kill()
    process.communicate()
    assert second.returncode == 2
    assert str(process.pid) in second.stderr
