"""Killed, interrupted, started twice: whatever stops a run, the next one goes on and ends with the same tables."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Outcome, Running, Tally, obey, stored, wait_for

SEED = int(os.environ.get("PHYLOOP_FAULTS_SEED", "2022"))


def kill_again_and_again(outcome: Outcome, run: Path, row: Tally, *, kills: int, moments: random.Random) -> None:
    """Kill runs until `kills` of them died at work, in as many folders as it takes, and let each folder end."""
    folder, kept = run.with_name("run-0"), {}
    folders = 0
    while row.injected < kills:
        process = Running(
            ["run", outcome.scenario, "--out", folder, "--checkpoint-rounds", "7"], logs=folder.with_suffix(".log")
        )
        known = len(kept)
        # Half of the kills right after something new was stored, half at any moment.
        if moments.random() < 0.5:
            wait_for(lambda folder=folder, known=known: len(stored(folder)) > known, of=process)
            time.sleep(moments.uniform(0.0, 0.8))
        else:
            time.sleep(moments.uniform(0.0, 12.0))
        process.send(signal.SIGKILL)
        ended = process.wait()
        assert ended.code in (0, -signal.SIGKILL), ended.said
        row.injected += ended.code == -signal.SIGKILL
        after = stored(folder)
        row.compare(kept, after)
        kept = after
        if ended.code == 0 or row.injected == kills:
            row_end = Tally(fault=row.fault, note=lambda *_: None, injected=1)
            ended = obey("run", outcome.scenario, "--out", folder, logs=folder.with_suffix(".log"))
            assert ended.code == 0, ended.said
            row.compare(kept, stored(folder))
            row_end.finish(folder, outcome)
            folders += 1
            folder, kept = run.with_name(f"run-{folders}"), {}
    row.conclude(equal=True)


def test_sigkill_at_random_moments_loses_and_repeats_nothing(
    learning: Outcome, run: Path, tally: Callable[[str], Tally]
) -> None:
    kill_again_and_again(learning, run, tally("SIGKILL of the run"), kills=2, moments=random.Random(SEED))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_sigkill_at_many_random_moments_while_learning(
    part: int, learning: Outcome, run: Path, tally: Callable[[str], Tally]
) -> None:
    moments = random.Random(1000 * SEED + part)
    kill_again_and_again(learning, run, tally("SIGKILL of the run"), kills=8, moments=moments)


@pytest.mark.slow
def test_sigkill_at_many_random_moments_while_sampling(
    sampling: Outcome, run: Path, tally: Callable[[str], Tally]
) -> None:
    kill_again_and_again(sampling, run, tally("SIGKILL of the run"), kills=10, moments=random.Random(SEED + 1))


def interrupt(outcome: Outcome, run: Path, row: Tally, number: signal.Signals, *, times: int) -> None:
    before = stored(run)
    process = Running(["run", outcome.scenario, "--out", run], logs=run.with_suffix(".log"))
    assert wait_for(lambda: len(stored(run)) > len(before), of=process)
    for _ in range(times):
        process.send(number)
        time.sleep(0.02)
    ended = process.wait()
    row.injected += 1
    assert ended.code == 130, ended.said
    assert "Go on with: phyloop run" in ended.said
    assert "Traceback" not in ended.said
    after = stored(run)
    row.compare(before, after)
    assert len(after) < len(outcome.tasks), "the run ended before it could be interrupted: make it longer"


def test_interrupts_once_and_twice_stop_cleanly_and_the_run_goes_on(
    learning: Outcome, run: Path, tally: Callable[[str], Tally]
) -> None:
    once, twice = tally("Ctrl-C once"), tally("SIGTERM twice")
    interrupt(learning, run, once, signal.SIGINT, times=1)
    interrupt(learning, run, twice, signal.SIGTERM, times=2)
    assert obey("run", learning.scenario, "--out", run, logs=run.with_suffix(".log")).code == 0
    once.finish(run, learning)
    twice.conclude(equal=True)


@pytest.mark.slow
def test_the_other_interrupts_stop_cleanly_too(learning: Outcome, run: Path, tally: Callable[[str], Tally]) -> None:
    once, twice = tally("SIGTERM once"), tally("Ctrl-C twice")
    interrupt(learning, run, once, signal.SIGTERM, times=1)
    interrupt(learning, run, twice, signal.SIGINT, times=2)
    assert obey("run", learning.scenario, "--out", run, logs=run.with_suffix(".log")).code == 0
    once.finish(run, learning)
    twice.conclude(equal=True)


def test_a_second_process_on_one_folder_is_told_who_holds_it_and_the_first_goes_on(
    learning: Outcome, run: Path, tally: Callable[[str], Tally]
) -> None:
    row = tally("second process on one folder")
    first = Running(["run", learning.scenario, "--out", run], logs=run.with_suffix(".log"))
    assert wait_for(lambda: bool(stored(run)), of=first)
    first.send(signal.SIGSTOP)  # or it may be done before the second begins
    second = obey("run", learning.scenario, "--out", run, logs=run.with_suffix(".second"))
    row.injected += first.is_alive
    first.send(signal.SIGCONT)
    assert second.code == 2
    assert f"another process (PID {first.pid}) is writing here" in second.said
    assert len(second.said.strip().splitlines()) == 1
    assert first.wait().code == 0
    row.finish(run, learning)
