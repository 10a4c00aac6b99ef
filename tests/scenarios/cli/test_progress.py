"""What a run says of its tasks while it goes on."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest
from command import SMALL, write_scenario
from learning_run import run_plan
from numba.core.event import Event, Listener, install_listener
from typer.testing import CliRunner

from scenarios.cli.app import app
from scenarios.cli.progress import shown_progress
from scenarios.engine.batch import InProcess
from scenarios.engine.compiling import compiling_s, is_compiling
from scenarios.engine.compiling import told as told_words
from scenarios.engine.study import Progress
from scenarios.plan.plan import expand
from scenarios.schema.labels.units import time_left
from scenarios.schema.loader import load_scenario


def stored_tasks(folder: Path, *, trials: int) -> list[int]:
    """Tasks told as stored, one number for each time, while the small scenario runs with so many trials."""
    scenario = write_scenario(folder.parent, SMALL.replace("trials: 6", f"trials: {trials}"))
    loaded = load_scenario(str(scenario), overrides=("learning.rounds=2", "learning.burn_in=0"))
    told: list[int] = []
    run_plan(loaded, expand(loaded), folder=folder, engine=InProcess(), progress=Progress(stored=told.append))
    return told


def test_tasks_found_done_are_told_as_stored_before_the_first_is_computed(tmp_path: Path) -> None:
    first, *rest = stored_tasks(tmp_path / "run", trials=1)
    assert (first, sum(rest)) == (0, 8)
    first, *rest = stored_tasks(tmp_path / "run", trials=2)
    assert (first, sum(rest)) == (8, 8)
    assert stored_tasks(tmp_path / "run", trials=2) == [16]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What progress takes for the time, `now` [s], where standard error is no terminal."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("scenarios.cli.progress.time.monotonic", lambda: clock.now)
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    return clock


def test_the_time_left_goes_by_rounds_behind_those_that_paid_for_compiling(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    """100 s until the first 10 of 1000 rounds are heard, then 10 rounds a second: 40 s after 600."""
    with shown_progress(10) as progress:
        progress.start(1000)
        clock.now = 100.0
        for _ in range(60):
            progress.advance(10)
            clock.now += 1.0
    last = capsys.readouterr().err.splitlines()[-1]
    share, left = re.findall(r"(\d+)% done.*about (\d+) s left", last)[0]
    assert int(left) == pytest.approx(100 - int(share), abs=1)  # rounded to whole percents


def test_long_and_short_sweep_points_count_alike_for_the_time_left(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rounds of 0.1 s for a minute, then of 1 s for a minute, both twice: 2 min left, not the 11 of the last ones."""
    with shown_progress(4) as progress:
        progress.start(2 * (600 + 60))
        for step in (*[0.1] * 600, *[1.0] * 60):
            clock.now += step
            progress.advance(1)
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.findall(r"about (\d+) min left", last) == ["2"]


def test_no_time_left_is_told_by_the_rounds_that_were_compiled(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    """20 s for the first 2 of 10,000 rounds would be 28 h; after a twentieth of all rounds the speed is known."""
    with shown_progress(10) as progress:
        progress.start(10_000)
        for clock.now, rounds in ((10.0, 1), (20.0, 1), (80.0, 498)):
            progress.advance(rounds)
    first, last = capsys.readouterr().err.splitlines()
    assert first == "phyloop: 0% done, 0 of 10 tasks stored"
    assert last.startswith("phyloop: 5% done, 0 of 10 tasks stored, about ")


@pytest.mark.parametrize(
    "command", [["run", "flmc-snr", "--out", ""], ["link", "link-uncoded", "--out", ""], ["status", ""]]
)
def test_an_empty_name_is_not_the_working_directory(command: list[str]) -> None:
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 2
    assert "no text names no folder" in " ".join(told.output.split())


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "less than 1 s left"), (12.2, "about 12 s left")])
def test_the_time_left_is_never_about_0_s(seconds: float, words: str) -> None:
    assert time_left(seconds) == words


def test_a_kernel_is_said_to_be_compiled_while_it_is() -> None:
    from phy.numerics.compiled import compilations

    seen: list[bool] = []

    @numba.njit  # type: ignore[untyped-decorator]
    def twice(number: int) -> int:
        return 2 * number

    class Watch(Listener):  # type: ignore[misc]
        def on_start(self, _: Event) -> None:
            seen.append(is_compiling())

        def on_end(self, _: Event) -> None:
            pass

    assert not is_compiling()
    with install_listener("numba:compile", Watch()):
        assert twice(2) == 4
    assert seen
    assert all(seen)
    assert compilations.under_way == 0


def test_a_time_spent_on_compiling_is_told_from_a_second_on() -> None:
    assert told_words(0.9) == ""
    assert told_words(14.4) == "14 s of compiling kernels, which are kept for the next time"


def test_the_time_spent_on_compiling_is_that_of_the_kernels_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from phy.numerics.compiled import compilations

    before = compiling_s()
    monkeypatch.setattr(compilations, "seconds", compilations.seconds + 3.0)
    assert compiling_s() - before == pytest.approx(3.0)
