"""A store with every byte flipped and cut everywhere: never a number in silence, and all that verifies is kept.

On copies, in this process: each fault is one byte or one length of a store whose every number is known.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from harness import Outcome, Tally, obey

from fl.base.results import TrialResult
from phy.measure.monte_carlo import Stop
from scenarios.files.plain_files import LOCK, RESULTS
from scenarios.files.provenance import collect_provenance
from scenarios.schema.errors import ScenarioError
from scenarios.store.rows import Planned
from scenarios.store.store import DamagedStoreError, Store
from scenarios.store.trials import SERIES_TABLES
from scenarios.studies.link.level import AMOUNTS, COUNTS
from scenarios.studies.link.results import LinkStore, MeasuredPoint, read_point, write_point
from scenarios.studies.status import read_status

POINTS, TRIALS = 3, 3
IDS = [f"task{point}-{trial}" for point in range(POINTS) for trial in range(TRIALS)]
SEED = int(os.environ.get("PHYLOOP_FAULTS_SEED", "2022"))
PROVENANCE = collect_provenance(argv=["phyloop", "run", "demo.yaml"])


def a_trial(point: int, trial: int) -> TrialResult:
    """Numbers that say whose they are."""
    draw = np.random.default_rng([point, trial])
    return TrialResult(
        trial=trial,
        metrics={"mse": point + trial / 7, "never_measured": float("nan"), "zero": -0.0},
        rounds={"amplitude": draw.normal(size=8)},
        link={"bits": np.full((4, 3), 100), "bit_errors": draw.integers(9, size=(4, 3))},
        failure="diverged" if (point, trial) == (1, 1) else None,
    )


def fill(folder: Path) -> None:
    """Write what is missing, as a run does."""
    with Store.open(folder, scenario_name="demo") as store:
        store.save_scenario(yaml="name: demo", root={"name": "demo", "trials": TRIALS})
        run = store.record_run(PROVENANCE)
        there = set(store.statuses(IDS))
        store.note_run(run, planned=Planned(tasks=len(IDS)))
        for point in range(POINTS):
            some = {f"task{point}-{trial}": a_trial(point, trial) for trial in range(TRIALS)}
            if missing := {task: result for task, result in some.items() if task not in there}:
                store.write(missing, physics={"point": point}, seconds=1.0)
        store.finish_run(run)


def numbers(folder: Path) -> list[str]:
    """Everything that a table, a figure or the status could show, but for the times of runs."""
    with Store.open_existing(folder) as store:
        read: list[Any] = [
            store.identity.scenario,
            store.read_scenario(),
            sorted(set(store.statuses(IDS))),
            len(store.tasks),
        ]
        read += [store.read_metrics(IDS), store.statuses(IDS), bool(store.runs), store.replaced]
        read += [(one.task_id, one.trial, one.status, one.failure) for one in store.read_tasks(IDS).values()]
        for table in SERIES_TABLES:
            arrays = store.read_series(IDS, table)
            read.append({task: {name: a.tobytes() for name, a in some.items()} for task, some in arrays.items()})
    status = read_status(folder)
    read += [status.done, status.failed, status.left, status.state, status.scenario, status.last_error and "failed"]
    return [str(one).replace(str(folder), "FOLDER") for one in read if "saved_at" not in str(one)]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    fill(folder)
    return folder


class Bench:
    """Damages copies of a store, and counts what came of it."""

    def __init__(self, room: Path, sound: Path, row: Tally, caplog: pytest.LogCaptureFixture) -> None:
        self.room, self.row, self._caplog = room, row, caplog
        self.truth, self.content = numbers(sound), (sound / RESULTS).read_bytes()
        self.said = self.harmless = 0
        self.kept: list[int] = []

    def try_out(self, content: bytes, *, what: str) -> None:
        """Read, then run into, a folder with this database."""
        shutil.rmtree(self.room, ignore_errors=True)
        self.room.mkdir()
        (self.room / LOCK).write_text("1\n")
        (self.room / RESULTS).write_bytes(content)
        self.row.injected += 1
        refused = ""
        try:
            assert numbers(self.room) == self.truth, f"{what}: other numbers, and nothing was said"
            self.harmless += 1
        except ScenarioError as error:
            self.said += 1
            refused = str(error)
            assert "\n" not in refused
        self._caplog.clear()
        fill(self.room)
        told = [record.getMessage() for record in self._caplog.records if record.name == "phyloop.store"]
        if told:
            self.kept.append(int(told[0].split(" tasks that verify are kept")[0].rsplit(" ", 1)[1]))
            assert (self.room / "results.damaged-1.phyloop").read_bytes() == content
        assert told or not refused, f"{what}: refused to readers, and the run said nothing"
        assert numbers(self.room) == self.truth, f"{what}: another end than undisturbed"
        self._caplog.clear()
        with Store.open(self.room, scenario_name="demo"):
            assert not self._caplog.records, f"{what}: told again"

    def flip(self, places: Iterable[int]) -> None:
        """Flip one byte after the other, each to a value that a seed says."""
        chance = random.Random(SEED)
        for place in places:
            spoilt = bytearray(self.content)
            spoilt[place] ^= chance.randrange(1, 256)
            self.try_out(bytes(spoilt), what=f"byte {place} flipped")
        self.row.conclude(equal=True)


@pytest.fixture
def bench(
    sound: Path, tmp_path: Path, tally: Callable[[str], Tally], caplog: pytest.LogCaptureFixture
) -> Callable[[str], Bench]:
    caplog.set_level(logging.WARNING, logger="phyloop")
    return lambda fault: Bench(tmp_path / "run", sound, tally(fault), caplog)


def test_flipped_bytes_are_said_and_what_verifies_is_kept(bench: Callable[[str], Bench]) -> None:
    one = bench("store: byte flipped")
    body = random.Random(SEED).sample(range(100, len(one.content)), 60)
    one.flip([*range(100), *body])
    assert one.said > 0
    assert one.harmless == 0
    # One byte is in one row: it costs the three tasks of one batch, or none.
    assert min(one.kept) >= len(IDS) - TRIALS


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_every_flipped_byte_is_said_or_changes_nothing(part: int, bench: Callable[[str], Bench]) -> None:
    one = bench("store: every byte flipped")
    one.flip(range(part, len(one.content), 8))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_a_store_cut_to_any_length_is_said_and_made_whole(part: int, bench: Callable[[str], Bench]) -> None:
    one = bench("store: cut to every length")
    for length in range(part, len(one.content), 8):
        one.try_out(one.content[:length], what=f"cut to {length} bytes")
    one.row.conclude(equal=True)
    assert one.harmless == 0


def test_a_store_cut_anywhere_is_said_and_made_whole(bench: Callable[[str], Bench]) -> None:
    one = bench("store: cut")
    for length in [*range(0, len(one.content), 512), 1, 99, 101, len(one.content) - 1]:
        one.try_out(one.content[:length], what=f"cut to {length} bytes")
    one.row.conclude(equal=True)


def test_a_lost_batch_costs_its_tasks_alone(sound: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    content = (run / RESULTS).read_bytes()
    drawn = np.random.default_rng([1, 2]).normal(size=8)
    place = content.index(drawn.tobytes())
    (run / RESULTS).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    assert read_status(run).done == len(IDS) - 1
    with Store.open_existing(run) as store:
        assert store.read_metrics(["task0-0", "task2-2"])
        with pytest.raises(DamagedStoreError, match="run the scenario into this folder again"):
            store.read_series(["task1-0"], "rounds")
    with caplog.at_level(logging.WARNING, logger="phyloop"):
        fill(run)
    assert "6 tasks that verify are kept" in caplog.text
    assert numbers(run) == numbers(sound)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00garbage", b"9" * 5000])
def test_a_garbled_lock_is_as_good_as_any(sound: Path, tmp_path: Path, content: bytes) -> None:
    shutil.copytree(sound, tmp_path / "run")
    (tmp_path / "run" / LOCK).write_bytes(content)
    with Store.open(tmp_path / "run", scenario_name="demo"):
        (tmp_path / "run" / LOCK).write_bytes(content)  # also while it is held
        with pytest.raises(ScenarioError, match=r"another process \(PID (unknown|9+)\) is writing here"):
            Store.open(tmp_path / "run", scenario_name="demo")
    assert (tmp_path / "run" / LOCK).exists()


# --- link studies -----------------------------------------------------------------------------------

BATCHES = 5


def a_batch(point: int, number: int) -> MeasuredPoint:
    draw = np.random.default_rng([point, number])
    counts: Any = SimpleNamespace(
        **{name: draw.integers(50, size=(2, 1)) for name in COUNTS},
        **{name: draw.uniform(size=(2, 1)) for name in AMOUNTS},
    )
    return MeasuredPoint.of(counts, bursts=None, num_bits=64, seconds=0.25)


CURVE: Any = SimpleNamespace(num_devices=1)
LINK_POINTS: list[Any] = [SimpleNamespace(point_id=f"point{number}", physics={"point": number}) for number in range(3)]


def measure(folder: Path) -> None:
    """Write the batches that are missing, as a study does."""
    with LinkStore.open(folder, scenario_name="demo") as store:
        store.save_scenario(yaml="name: demo", root={"name": "demo"})
        for number, point in enumerate(LINK_POINTS):
            found = read_point(store, CURVE, point)
            for batch in range(found.measured.tally.batches, BATCHES):
                found = replace(found, measured=found.measured + a_batch(number, batch))
                write_point(store, found)
            if found.stop is None:
                write_point(store, replace(found, stop=Stop(reason="max_bits", target=None)))


def counted(folder: Path) -> str:
    with LinkStore.open_existing(folder) as store:
        points = [read_point(store, CURVE, point) for point in LINK_POINTS]
    kept = [(one.measured, one.stop) for one in points]
    return str([(m.counts.tolist(), m.amounts.tolist(), m.seconds, m.tally, stop) for m, stop in kept])


def test_a_damaged_link_study_is_said_and_ends_as_if_undisturbed(
    tmp_path: Path, tally: Callable[[str], Tally], caplog: pytest.LogCaptureFixture
) -> None:
    row = tally("link study: byte flipped or cut")
    sound = tmp_path / "sound"
    measure(sound)
    truth, content = counted(sound), (sound / RESULTS).read_bytes()
    chance = random.Random(SEED)
    damages = [content[:length] for length in range(0, len(content), 3 * 1024)]
    places = chance.sample(range(100, len(content)), 60)
    damages += [content[:one] + bytes([content[one] ^ chance.randrange(1, 256)]) + content[one + 1 :] for one in places]
    said = 0
    for damage in damages:
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / LOCK).write_text("1\n")
        (folder / RESULTS).write_bytes(damage)
        row.injected += 1
        try:
            assert counted(folder) == truth
        except DamagedStoreError:
            said += 1
        measure(folder)
        assert counted(folder) == truth
    row.conclude(equal=True)
    assert said > 0
    assert "tasks that verify are kept" in caplog.text


# --- end to end -------------------------------------------------------------------------------------


def test_a_run_into_a_damaged_folder_keeps_what_verifies_and_computes_the_rest(
    learning: Outcome, run: Path, tally: Callable[[str], Tally]
) -> None:
    row = tally("store cut, then run again")
    shutil.copytree(learning.folder, run)
    content = (run / RESULTS).read_bytes()
    (run / RESULTS).write_bytes(content[: 7 * len(content) // 8 // 4096 * 4096])
    (run / "scenario.yaml").write_bytes(b"\x00\xff: [")  # rewritten by every run
    row.injected += 1
    refused = obey("export", run, "--out", run / "csv", logs=run.with_suffix(".refused"))
    assert refused.code == 2
    assert "is damaged" in refused.said
    assert "run the scenario into this folder again" in refused.said
    assert "Traceback" not in refused.said
    ended = obey("run", learning.scenario, "--out", run, logs=run.with_suffix(".log"))
    assert ended.code == 0, ended.said
    assert "tasks that verify are kept" in ended.said
    row.finish(run, learning)
