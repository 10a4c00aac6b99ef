"""Checkpoints of tasks under way: when they are kept, which one is taken, what is said, and that none stays behind."""

from __future__ import annotations

import json
import logging
import resource
import signal
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from command import SMALL, phyloop, start_phyloop, write_scenario
from learning_run import run_plan

from scenarios.engine.batch import InProcess
from scenarios.engine.study import Progress
from scenarios.plan.identity import task_ids
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.store.checkpoints import (
    CHECKPOINTS,
    CheckpointPolicy,
    TaskCheckpoints,
    discard,
    read_checkpoint,
    write_checkpoint,
)
from scenarios.store.store import Store

EVERY_2 = 2


def checkpoints(folder: Path, *, rounds: int | None = EVERY_2, minutes: float = 0.0, trial: int = 0) -> TaskCheckpoints:
    policy = CheckpointPolicy(folder=folder / CHECKPOINTS, rounds=rounds, minutes=minutes)
    return TaskCheckpoints(policy=policy, physics='{"physics": 1}', trials=(trial,))


def rounds_found_in(kept: TaskCheckpoints) -> int:
    found = kept.saved()
    assert found is not None
    return found.rounds_done


def files(folder: Path) -> list[Path]:
    return sorted((folder / CHECKPOINTS).glob("*.ckpt"))


def rounds_in(folder: Path) -> list[int]:
    return [read_checkpoint(path)[0]["rounds"] for path in files(folder)]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A folder with the state after 6 rounds, which replaced those after 2 and 4."""
    for rounds_done in (2, 4, 6):
        drawn = np.random.default_rng(rounds_done).normal(size=3999)
        checkpoints(tmp_path).save(rounds_done, {"x": np.array([float(rounds_done), *drawn])})
    return tmp_path


def test_the_newest_is_kept_and_taken(kept: Path) -> None:
    assert rounds_in(kept) == [6]
    found = checkpoints(kept).saved()
    assert found is not None
    assert (found.rounds_done, found.state["x"][0]) == (6, 6.0)


@pytest.mark.parametrize("cut", [*range(0, 32_000, 4096), "flip", "version", "foreign"])
def test_a_damaged_one_is_left_aside_with_a_sentence(
    cut: int | str, kept: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (path,) = files(kept)
    content = path.read_bytes()
    assert len(content) > 32_000
    match cut:
        case "flip":
            content = content[:20_000] + bytes([content[20_000] ^ 4]) + content[20_001:]
        case "version":
            content = content.replace(b"phyblob5", b"phyblob4")
        case "foreign":
            other = checkpoints(kept, trial=1)
            other.save(6, {"x": np.zeros(1)})
            content = other.path.read_bytes()
        case _:
            content = content[:cut]
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, logger="phyloop"):
        assert checkpoints(kept).saved() is None
    (said,) = [record.getMessage() for record in caplog.records]
    assert path.name in said
    assert "left aside" in said


def test_what_other_versions_of_a_library_wrote_is_left_aside(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.store.checkpoints.find_version", lambda _: "0.0.1")
    assert checkpoints(kept).saved() is None


def test_none_are_kept_and_none_are_looked_for_where_nobody_wants_them(kept: Path) -> None:
    never = checkpoints(kept, rounds=None, minutes=0.0)
    assert never.saved() is None
    assert not never.due(1000)


def test_by_rounds_they_are_due_that_many_after_the_last_one_kept_or_taken(kept: Path) -> None:
    fresh = checkpoints(kept, rounds=3)
    assert [fresh.due(done) for done in (1, 2, 3)] == [False, False, True]
    fresh.save(3, {})
    assert [fresh.due(done) for done in (4, 5, 6)] == [False, False, True]
    fresh.save(6, {})
    taken = checkpoints(kept, rounds=3)
    assert rounds_found_in(taken) == 6
    assert [taken.due(done) for done in (7, 8, 9)] == [False, False, True]


def test_by_the_clock_they_take_a_hundredth_of_the_time_however_often_they_are_wanted(tmp_path: Path) -> None:
    kept = checkpoints(tmp_path, rounds=None, minutes=1e-6)
    started = time.monotonic()
    took_s: list[float] = []
    done = 0
    # The first one knows nothing yet; from then on each waits for 99 times what the last one took.
    while len(took_s) < 2:
        time.sleep(1e-3)
        done += 1
        asked = time.monotonic()
        if kept.due(done):
            kept.save(done, {"momentum": np.ones(1000)})
            took_s.append(time.monotonic() - asked)
    whole_s = time.monotonic() - started + 99.0 * took_s[-1]
    # With a millisecond's sleep beside each: what the clock of the test sees beyond that of the checkpoints.
    assert sum(took_s) / whole_s < 0.0125


def test_a_disk_that_refuses_is_told_of_and_leaves_nothing_half_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = checkpoints(tmp_path)
    kept.save(2, {"x": np.zeros(10)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with caplog.at_level(logging.DEBUG, logger="phyloop"):
            kept.save(4, {"x": np.random.default_rng(1).normal(size=100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert rounds_in(tmp_path) == [2]
    (said,) = [record.getMessage() for record in caplog.records]
    assert "cannot be kept" in said
    assert rounds_found_in(checkpoints(tmp_path)) == 2


def test_a_folder_that_this_machine_does_not_have_is_not_made(tmp_path: Path) -> None:
    checkpoints(tmp_path / "elsewhere").save(2, {})
    assert not (tmp_path / "elsewhere").exists()


def test_what_is_finished_or_half_written_is_swept_and_the_rest_stays(tmp_path: Path) -> None:
    for trial in (0, 1):
        checkpoints(tmp_path, trial=trial).save(2, {})
    folder = tmp_path / CHECKPOINTS
    strange = folder / "notes.txt"
    done = task_ids('{"physics": 1}', trials=(0,))[0]
    for path in (strange, folder / f"{done[:32]}-1.ckpt.123.tmp"):
        path.write_text("?")
    discard(folder, tasks={done})
    assert set(folder.iterdir()) == {strange, checkpoints(tmp_path, trial=1).path}
    strange.unlink()
    discard(folder, tasks=task_ids('{"physics": 1}', trials=(1,)))
    assert not folder.exists()


# --- whole runs ---------------------------------------------------------------------------------------

LEARNT = """\
name: learnt
seed: 3
trials: 2
link: {error_model: error_free}
learning:
  algorithm: fedavg
  num_devices: 3
  rounds: 8
  partition: {kind: iid, samples_per_device: 10}
  local: {optimizer: sgd, batch_size: 5, momentum: 0.9, learning_rate: 0.05, steps: 2}
  upload: update
report:
  figures: [{x: round, y: test_accuracy}]
"""
SIDE_BY_SIDE = SMALL.replace("trials: 6", "trials: 3").split("sweep:")[0] + "report:\n  figures: [{x: round, y: mse}]\n"


def planned(tmp_path: Path, text: str) -> tuple[LoadedScenario, Plan]:
    loaded = load_scenario(str(write_scenario(tmp_path, text)), overrides=())
    return loaded, expand(loaded)


class Told:
    """Progress that is written down, and stops a run after so many rounds."""

    def __init__(self, *, stop_after: int | None = None) -> None:
        self.total = self.advanced = self.restored = 0
        self._stop_after = stop_after

    def progress(self) -> Progress:
        return Progress(start=self._start, advance=self._advance, restored=self._restore)

    def _start(self, total: int) -> None:
        self.total = total

    def _advance(self, rounds: int) -> None:
        self.advanced += rounds
        if self._stop_after is not None and self.advanced >= self._stop_after:
            raise KeyboardInterrupt

    def _restore(self, rounds: int) -> None:
        self.restored += rounds


def run(tmp_path: Path, text: str, told: Told, *, folder: str = "run", rounds: int | None = EVERY_2) -> Path:
    loaded, plan = planned(tmp_path, text)
    progress = told.progress()
    policy = CheckpointPolicy(folder=tmp_path / folder / CHECKPOINTS, rounds=rounds, minutes=0.0)
    engine = InProcess(checkpoints=policy)
    run_plan(loaded, plan, folder=tmp_path / folder, engine=engine, progress=progress)
    return tmp_path / folder


def stored(folder: Path, plan: Plan) -> list[object]:
    """Everything that is stored of every task, without times."""

    ids = [one for point in plan.task_ids for one in point]
    with closing(Store.open_existing(folder)) as store:
        arrays = [store.read_series(ids, table) for table in ("rounds", "link", "bursts", "devices")]
        return [
            store.read_metrics(ids),
            [{one: {n: a.tobytes() for n, a in found.items()} for one, found in table.items()} for table in arrays],
        ]


@pytest.mark.parametrize(
    ("text", "stop_after", "size", "restored"),
    # The second trial of two stops after 5 of 8 rounds, the first one is stored; three trials side by side stop after 7
    # of 20.
    [(LEARNT, 8 + 5, 1, 4), (SIDE_BY_SIDE, 3 * 7, 3, 6)],
    ids=["one after the other", "side by side"],
)
def test_an_interrupted_run_goes_on_inside_the_task_and_ends_the_same(
    text: str, stop_after: int, size: int, restored: int, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, text, Told(stop_after=stop_after))
    assert files(tmp_path / "run"), "nothing was kept"
    told = Told()
    folder = run(tmp_path, text, told)
    assert told.restored == size * restored
    assert told.restored + told.advanced == told.total
    assert not (folder / CHECKPOINTS).exists(), "a checkpoint was left behind"
    undisturbed = run(tmp_path, text, Told(), folder="undisturbed", rounds=None)
    _, plan = planned(tmp_path, text)
    assert repr(stored(folder, plan)) == repr(stored(undisturbed, plan))


def test_a_task_whose_checkpoint_is_torn_begins_anew_and_ends_the_same(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, SIDE_BY_SIDE, Told(stop_after=3 * 7))
    (torn,) = files(tmp_path / "run")
    torn.write_bytes(torn.read_bytes()[: torn.stat().st_size // 2])
    told = Told()
    folder = run(tmp_path, SIDE_BY_SIDE, told)
    assert (told.restored, told.advanced) == (0, told.total)
    undisturbed = run(tmp_path, SIDE_BY_SIDE, Told(), folder="undisturbed", rounds=None)
    _, plan = planned(tmp_path, SIDE_BY_SIDE)
    assert repr(stored(folder, plan)) == repr(stored(undisturbed, plan))


def test_a_state_of_other_shapes_is_refused_and_the_task_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, SIDE_BY_SIDE, Told(stop_after=3 * 7))
    for path in files(tmp_path / "run"):
        about, state = read_checkpoint(path)
        write_checkpoint(path, about=about, state={**state, "theta": np.zeros((3, 2))})
    told = Told()
    with caplog.at_level(logging.WARNING, logger="phyloop"):
        run(tmp_path, SIDE_BY_SIDE, told)
    assert (told.restored, told.advanced) == (0, told.total)
    assert sum("not of this task" in record.getMessage() for record in caplog.records) == 1


LONG = LEARNT.replace("trials: 2", "trials: 1").replace("rounds: 8", "rounds: 300")


def test_after_sigkill_a_long_task_goes_on_where_it_was(tmp_path: Path) -> None:
    scenario, folder = write_scenario(tmp_path, LONG), tmp_path / "run"
    command = ("run", scenario, "--out", folder, "--checkpoint-rounds", "20")
    process = start_phyloop(*command)
    deadline = time.monotonic() + 300.0
    while process.poll() is None and max(rounds_in(folder), default=0) < 40 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "the task ended before it could be killed"
    (kept,) = rounds_in(folder)
    assert 40 <= kept < 300
    result = phyloop(*command)
    assert result.returncode == 0, result.stderr
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["rounds"] for line in log if line.get("event") == "checkpoint-taken"] == [kept]
    assert not (folder / CHECKPOINTS).exists()
    undisturbed = run(tmp_path, LONG, Told(), folder="undisturbed", rounds=None)
    _, plan = planned(tmp_path, LONG)
    assert repr(stored(folder, plan)) == repr(stored(undisturbed, plan))
