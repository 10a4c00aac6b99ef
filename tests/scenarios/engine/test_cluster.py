"""The engine of many processes: what goes over the wire, who is refused, and what becomes of what is lost."""

from __future__ import annotations

import json
import os
import pickle
import random
import time
from collections.abc import Iterator
from pathlib import Path

import cluster_work
import numpy as np
import pytest
from command import SMALL, write_scenario
from dask_processes import PATIENCE_S, running_cluster
from small_jobs import rows_of

import scenarios.engine.cluster.engine as engine_module
from fl.base.errors import LearningError
from scenarios.engine.batch import Finished, Job
from scenarios.engine.cluster.compatibility import SOURCE, refuse_other_versions, source_digest, versions
from scenarios.engine.cluster.connection import own_workers
from scenarios.engine.cluster.engine import DaskEngine, log_again
from scenarios.engine.cluster.task import plain_record
from scenarios.engine.options import RunOptions, refuse_impossible
from scenarios.engine.start import thread_variables, threads_per_worker
from scenarios.engine.study import Progress
from scenarios.files.log import as_fields, event, logger
from scenarios.plan.identity import physics_json
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import library_names, load_scenario

# --- the wire -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n, _ in library_names() if load_scenario(n).scenario.measure is None])
def test_every_point_of_the_library_arrives_as_it_was_sent(name: str) -> None:
    points = expand(load_scenario(name)).points
    for point in random.Random(2022).sample(points, min(len(points), 5)):
        arrived = pickle.loads(pickle.dumps(point.scenario))
        assert arrived == point.scenario
        assert physics_json(arrived) == physics_json(point.scenario)


# --- who is refused -------------------------------------------------------------------------------


def test_versions_tell_all_that_numbers_hang_on() -> None:
    assert {"python", "phyloop", "numpy", "tensorflow", "sionna", "numba", "distributed", SOURCE} <= set(versions())
    assert versions()[SOURCE] == source_digest()


@pytest.mark.parametrize("name", ["numpy", SOURCE, "phyloop", "python"])
def test_a_worker_of_another_version_is_refused_with_both_and_the_remedy(name: str) -> None:
    there = {**versions(), name: "0.0.1"}
    with pytest.raises(ScenarioError) as told:
        refuse_other_versions(versions(), there, address="tcp://10.0.0.1:4000")
    sentence = str(told.value)
    for part in ("tcp://10.0.0.1:4000", name, "0.0.1", versions()[name], "; install"):
        assert part in sentence


def test_a_worker_that_knows_less_than_we_ask_is_refused() -> None:
    there = {key: value for key, value in versions().items() if key != SOURCE}
    with pytest.raises(ScenarioError, match="none"):
        refuse_other_versions(versions(), there, address="tcp://10.0.0.1:4000")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (RunOptions(workers=2, scheduler="tcp://127.0.0.1:8786"), "--workers and --scheduler"),
        (RunOptions(workers=0), "--workers = 0"),
        (RunOptions(workers=100_000), "4 per core"),
    ],
)
def test_options_that_cannot_be_are_refused_in_a_sentence(options: RunOptions, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        refuse_impossible(options)


def test_cores_are_divided_among_workers_and_sums_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHYLOOP_THREADS", "8")
    assert [threads_per_worker(workers) for workers in (1, 2, 3, 8, 9)] == [8, 4, 2, 1, 1]
    told = thread_variables(4)
    assert told["TF_NUM_INTRAOP_THREADS"] == told["OPENBLAS_NUM_THREADS"] == told["OMP_NUM_THREADS"] == "1"
    assert told["PHYLOOP_THREADS"] == told["NUMBA_NUM_THREADS"] == told["TF_NUM_INTEROP_THREADS"] == "4"


def test_workers_keep_to_their_share_of_what_the_environment_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("PHYLOOP_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS")
    for name in names:
        monkeypatch.setenv(name, "8")
    with own_workers(2) as client:
        told = client.run(lambda: [os.environ.get(name) for name in names])
    assert list(told.values()) == [["4", "4", "1"]] * 2
    assert {os.environ[name] for name in names} == {"8"}


def test_what_a_worker_logs_is_logged_again_with_its_time_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    there = logger("checkpoint")
    there.warning("%s is left aside", Path("a.ckpt"), extra=event("checkpoint-refused", file=Path("a.ckpt")))
    first = as_fields(caplog.records[0])
    sent = [plain_record(one) for one in caplog.records]
    caplog.clear()
    for record in json.loads(json.dumps(sent)):
        log_again(record)
    assert [as_fields(one) for one in caplog.records] == [{**first, "file": "a.ckpt"}]
    assert first["says"] == "a.ckpt is left aside"
    assert first["logger"] == "phyloop.checkpoint"


# --- a scheduler and two workers ------------------------------------------------------------------


@pytest.fixture(scope="module")
def mark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mark") / "happened"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, mark: Path) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    with running_cluster(folder, workers=2, **{cluster_work.MARK: str(mark)}) as address:
        yield address


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return expand(load_scenario(write_scenario(tmp_path, SMALL)))


def single_trials(plan: Plan, trials: int = 4) -> list[Job]:
    return [Job(point=point, trials=(trial,)) for trial in range(trials) for point in plan.points]


def by_task(finished: list[Finished]) -> dict[tuple[int, int], dict[str, dict[str, np.ndarray]]]:
    """What is stored of each task, by point and trial; every job has one trial."""
    told = {(one.point, one.trials[0]): next(rows_of(one))[1] for one in finished}
    assert len(told) == len(finished)
    return told


def test_jobs_come_back_whole_in_any_order_and_few_are_out_at_a_time(address: str, plan: Plan) -> None:
    taken, rounds = [], []
    jobs = single_trials(plan, 8)

    def hand_out() -> Iterator[Job]:
        for job in jobs:
            taken.append(job)
            yield job

    finished = []
    engine = DaskEngine(scheduler=address, work=cluster_work.draw)
    for one in engine.run(hand_out(), progress=Progress(advance=rounds.append)):
        finished.append(one)
        assert len(taken) - len(finished) <= 4
    assert [(one.point, one.trials) for one in finished] != [(job.point.index, job.trials) for job in jobs]
    assert sum(rounds) == len(jobs) * 20
    for (_, trial), content in by_task(finished).items():
        expected = np.random.default_rng([7, trial]).normal(size=20)
        assert content["rounds"]["amplitude"].tobytes() == expected.tobytes()
        assert np.isnan(content["metrics"]["nothing"])
    assert len(by_task(finished)) == len(jobs)


def test_jobs_that_wait_for_stored_results_are_handed_out_after_these(address: str, plan: Plan) -> None:
    """The caller stores a result when it has it; only then does a study know its next jobs."""
    jobs = single_trials(plan)
    stored: list[Finished] = []

    def in_turns() -> Iterator[Job | None]:
        yield from jobs[:2]
        while len(stored) < 2:
            yield None
        yield from jobs[2:]

    engine = DaskEngine(scheduler=address, work=cluster_work.draw)
    for one in engine.run(in_turns(), progress=Progress()):
        assert len(stored) < 2 or (one.point, one.trials) not in [(job.point.index, job.trials) for job in jobs[:2]]
        stored.append(one)
    assert len(stored) == len(jobs)


def test_the_job_of_a_killed_worker_is_computed_by_another(address: str, plan: Plan, mark: Path) -> None:
    mark.unlink(missing_ok=True)
    rounds: list[int] = []
    jobs = single_trials(plan)
    engine = DaskEngine(scheduler=address, work=cluster_work.die_once)
    finished = list(engine.run(jobs, progress=Progress(advance=rounds.append)))
    assert mark.exists()
    assert len(by_task(finished)) == len(jobs)
    assert not any(one.failures for one in finished)
    # The rounds before the death are heard twice and count once.
    assert sum(rounds) == len(jobs) * 20


def test_a_job_that_kills_every_worker_has_failed_and_the_others_go_on(address: str, plan: Plan) -> None:
    jobs = [Job(point=plan.points[0], trials=(trial,)) for trial in range(6)]
    finished = DaskEngine(scheduler=address, work=cluster_work.die_always).run(jobs, progress=Progress())
    told = {one.trials[0]: one.failures.get(one.trials[0]) for one in finished}
    assert told.pop(3) == "the worker was lost 4 times; likely out of memory"
    assert told == dict.fromkeys((0, 1, 2, 4, 5))


def test_an_error_of_ours_is_the_same_as_in_one_process(address: str, plan: Plan) -> None:
    engine = DaskEngine(scheduler=address, work=cluster_work.raise_an_error_of_ours)
    with pytest.raises(LearningError, match="trial 5 cannot be"):
        list(engine.run([Job(point=plan.points[0], trials=(5,))], progress=Progress()))


def test_workers_stop_with_their_round_when_nobody_waits_any_more(address: str, plan: Plan, mark: Path) -> None:
    mark.unlink(missing_ok=True)
    heard: list[int] = []
    engine = DaskEngine(scheduler=address, work=cluster_work.go_on_and_on)

    def stop(rounds: int) -> None:
        heard.append(rounds)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(engine.run(single_trials(plan, 1), progress=Progress(advance=stop)))
    assert heard
    deadline = time.monotonic() + PATIENCE_S
    while not mark.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_orders_of_another_checkout_are_refused_by_whoever_gets_them(
    address: str, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "versions", lambda: {**versions(), SOURCE: "another"})
    with pytest.raises(ScenarioError, match=f"has {SOURCE} {versions()[SOURCE]}, and this process another"):
        list(DaskEngine(scheduler=address).run(single_trials(plan, 1), progress=Progress()))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:1", "tcp://127.0.0.1", "tcp://127.0.0.1:99999"])
def test_a_scheduler_that_is_not_there_is_told_in_a_sentence(
    address: str, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.engine.cluster.connection._ANSWER_S", 0.3)
    with pytest.raises(ScenarioError, match="no dask scheduler answers"):
        list(DaskEngine(scheduler=address).run(single_trials(plan, 1), progress=Progress()))
