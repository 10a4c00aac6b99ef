"""An exception inside a task fails that task, with its reason; the others go on, and errors of ours stop the run."""

from __future__ import annotations

import errno
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import ENVIRONMENT, SMALL, phyloop, write_scenario
from learning_run import run_plan

from fl.base.errors import LearningError
from fl.base.results import TrialResult
from phy.links.link import LinkError
from privacy.errors import PrivacyError
from scenarios.engine import interruption
from scenarios.engine.batch import Finished, InProcess, Job, compute
from scenarios.engine.failures import results_or_failures
from scenarios.engine.study import Progress
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.schema.plugins import import_plugins
from scenarios.store.store import Store

ROOT = Path(__file__).resolve().parents[3]


class Attempts:
    """Trials whose result is their own number, but for those that meet an exception; remembers what was tried."""

    def __init__(self, fault: Callable[[tuple[int, ...]], Exception | None]) -> None:
        self._fault = fault
        self.tried: list[tuple[int, ...]] = []

    def __call__(self, trials: tuple[int, ...]) -> list[TrialResult]:
        self.tried.append(trials)
        error = self._fault(trials)
        if error is not None:
            raise error
        return [TrialResult(trial=trial, metrics={"number": float(trial)}, rounds={}) for trial in trials]


def failed(results: Sequence[TrialResult]) -> list[int]:
    return [one.trial for one in results if one.failure is not None]


def test_without_an_exception_trials_are_computed_once() -> None:
    attempts = Attempts(lambda _: None)
    results, incidents = results_or_failures(attempts, (4, 7, 9))
    assert [one.metrics["number"] for one in results] == [4, 7, 9]
    assert attempts.tried == [(4, 7, 9)]
    assert incidents == []


@pytest.mark.parametrize("culprit", range(7))
def test_one_bad_trial_fails_alone_and_the_others_keep_their_results(culprit: int) -> None:
    attempts = Attempts(lambda trials: ZeroDivisionError("nothing to divide") if culprit in trials else None)
    results, incidents = results_or_failures(attempts, range(7))
    assert [one.trial for one in results] == list(range(7))
    assert failed(results) == [culprit]
    (incident,) = incidents
    assert incident.trials == (culprit,)
    assert incident.reason == results[culprit].failure
    assert incident.reason.startswith("unexpected ZeroDivisionError: nothing to divide (at ")
    assert "Traceback (most recent call last)" in incident.trace
    assert len(attempts.tried) <= 1 + 2 * 3  # halves of halves of seven


def test_what_fails_all_trials_alike_is_not_tried_trial_by_trial() -> None:
    attempts = Attempts(lambda _: TypeError("a mistake of ours"))
    results, incidents = results_or_failures(attempts, range(1000))
    assert failed(results) == list(range(1000))
    assert len(incidents) == 1
    assert len(attempts.tried) == 3


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"),
    ],
)
def test_out_of_memory_trials_are_halved_until_they_fit(error: Exception) -> None:
    attempts = Attempts(lambda trials: error if len(trials) > 2 else None)
    results, incidents = results_or_failures(attempts, range(9))
    assert failed(results) == []
    assert incidents == []
    assert max(map(len, attempts.tried[-1:])) <= 2


def test_one_trial_that_never_fits_fails_and_the_others_do_not() -> None:
    attempts = Attempts(lambda trials: MemoryError("too much") if 3 in trials or len(trials) > 2 else None)
    results, incidents = results_or_failures(attempts, range(8))
    assert failed(results) == [3]
    assert incidents[0].reason.startswith("out of memory MemoryError: too much (at ")


@pytest.mark.parametrize(
    "error",
    [
        ScenarioError(problem="cannot be", remedy="change it"),
        LearningError("cannot be"),
        LinkError("cannot be"),
        PrivacyError("cannot be"),
        OSError(errno.ENOSPC, "No space left on device"),
        ImportError("no such library"),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_no_fault_of_a_task_ends_the_run(error: BaseException) -> None:
    import_plugins({})  # other tests in this process may have loaded some

    def attempt(_: tuple[int, ...]) -> list[TrialResult]:
        raise error

    with pytest.raises(type(error)):
        results_or_failures(attempt, (0, 1))


def test_an_exception_that_a_stop_was_turned_into_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "_asked", [2])
    with pytest.raises(KeyboardInterrupt):
        results_or_failures(Attempts(lambda _: RuntimeError("cancelled")), (0, 1))


def test_memory_that_was_refused_is_given_back_before_the_halves_are_tried() -> None:
    """For real: 8 trials of 64 MiB want more than the limit on this process leaves, 2 fit only alone."""
    body = """
    import resource, sys
    import numpy as np
    from fl.base.results import TrialResult
    from scenarios.engine.failures import results_or_failures

    MIB = 1 << 20
    tried, size = [], 64 * MIB

    def attempt(trials):
        tried.append(len(trials))
        held = []
        try:
            for _ in trials:
                held.append(np.ones(size // 8))
        except MemoryError:
            held.append(held)  # a cycle, which only a collection of garbage frees
            raise
        sums = [float(array.sum()) for array in held]
        return [TrialResult(trial=one, metrics={"sum": sum}, rounds={}) for one, sum in zip(trials, sums)]

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limit = used + 3 * 64 * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    results, incidents = results_or_failures(attempt, range(8))
    assert tried == [8, 4, 4, 2, 2, 2, 2], tried
    assert [one.failure for one in results] == [None] * 8 and incidents == []

    size = 256 * MIB  # more than what the heap may have kept of the arrays before
    limit = used + 32 * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    results, incidents = results_or_failures(attempt, range(2))
    print(results[1].failure)
    assert [one.failure is None for one in results] == [False, False] and len(incidents) == 2
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("out of memory")
    assert "Unable to allocate 256. MiB" in done.stdout


# --- in a run ---------------------------------------------------------------------------------------


def small_plan(folder: Path) -> tuple[Any, Plan]:
    text = (
        SMALL.replace("trials: 6", "trials: 3").replace("rounds: 20", "rounds: 3").replace("burn_in: 10", "burn_in: 0")
    )
    text = text[: text.index("sweep:")] + "sweep: {learning.scheme: [noiseless, exact]}\n"
    loaded = load_scenario(str(write_scenario(folder, text)))
    return loaded, expand(loaded)


def with_a_fault(monkeypatch: pytest.MonkeyPatch, *, scheme: str, trial: int) -> None:
    """Let one trial at one point meet what nobody foresaw."""
    from fl.algorithms import run

    whole = run.run_trials

    def run_trials(learning: Any, **given: Any) -> list[TrialResult]:
        results = whole(learning, **given)
        if learning.scheme == scheme and trial in given["trials"]:
            np.linalg.inv(np.zeros((2, 2)))
        return results

    monkeypatch.setattr(run, "run_trials", run_trials)


def test_a_run_stores_the_failed_task_with_its_reason_and_all_others_as_ever(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded, plan = small_plan(tmp_path)
    run_plan(loaded, plan, folder=tmp_path / "whole", engine=InProcess(), progress=Progress())
    with_a_fault(monkeypatch, scheme="exact", trial=1)
    rounds: list[int] = []
    started: list[int] = []
    progress = Progress(start=started.append, advance=rounds.append)
    outcome = run_plan(loaded, plan, folder=tmp_path / "run", engine=InProcess(), progress=progress)
    assert (outcome.planned, outcome.computed, outcome.failed) == (6, 6, 1)
    assert sum(rounds) == started[0]
    assert min(rounds) >= 0
    ids = plan.task_ids
    every = [one for point in ids for one in point]
    with Store.open_existing(tmp_path / "run") as store, Store.open_existing(tmp_path / "whole") as whole:
        bad = ids[1][1]
        record = store.read_tasks([bad])[bad]
        assert record.status == "failed"
        assert record.failure is not None
        assert record.failure.startswith("unexpected LinAlgError: Singular matrix (at ")
        others = [one for one in every if one != bad]
        assert repr(store.read_metrics(others)) == repr(whole.read_metrics(others))  # NaN is unequal to itself
        for one in others:
            for name, values in whole.read_series([one], "rounds")[one].items():
                np.testing.assert_array_equal(store.read_series([one], "rounds")[one][name], values)


def test_who_asks_to_stop_while_rounds_are_told_is_obeyed(tmp_path: Path) -> None:
    class EnoughError(Exception):
        """As an engine of ours raises it."""

    EnoughError.__module__ = "scenarios.engine.cluster.task"
    _, plan = small_plan(tmp_path)

    def enough(_: int) -> None:
        raise EnoughError

    with pytest.raises(EnoughError):
        compute(Job(point=plan.points[0], trials=(0,)), progress=Progress(advance=enough))


def test_a_finished_job_says_which_exceptions_failed_what(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, plan = small_plan(tmp_path)
    with_a_fault(monkeypatch, scheme="noiseless", trial=2)
    finished: Finished = compute(Job(point=plan.points[0], trials=(0, 1, 2)), progress=Progress())
    assert list(finished.failures) == [2]
    (incident,) = finished.incidents
    assert incident.trials == (2,)
    assert "LinAlgError" in incident.trace


LIMITED = """
import resource
from scenarios.cli.app import main
from scenarios.engine.start import prepare_tensorflow

prepare_tensorflow()
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1500 << 20),) * 2)
main()
"""


@pytest.mark.slow
def test_a_task_that_wants_more_memory_than_there_is_fails_and_the_others_are_done(tmp_path: Path) -> None:
    """The command under a real limit of 1.5 GB: a posterior of 10,000 dimensions takes several matrices of 0.8 GB."""
    text = SMALL[: SMALL.index("sweep:")] + "sweep: {learning.task.dimension: [3, 10000]}\n"
    scenario = write_scenario(tmp_path, text.replace("trials: 6", "trials: 2"))
    arguments = ("run", scenario, "--out", tmp_path / "run", "--memory-limit", "900TB")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "failed: out of memory" in done.stderr
    assert "2 of 4 tasks failed" in done.stderr
    assert "Traceback" not in done.stderr
    log = (tmp_path / "run" / "log.jsonl").read_text()
    assert "Traceback" in log
    assert str(ROOT) not in log.replace(str(scenario), "")
    status = phyloop("status", tmp_path / "run")
    assert "2 of 4 tasks done, 2 failed, 0 left" in status.stdout
