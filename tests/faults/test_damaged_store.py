"""A store truncated at every 4 KiB and with flipped bytes: never a number in silence, and all that verifies is kept.

On copies, in this process: each fault is one byte or one length of a store whose every number is known.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import Outcome, Tally, obey
from rows_of_before import PAGE_OF_BEFORE, create_store_of_before, write_as_before

from fl.results import TrialResult
from phy.measure.burstiness import Burstiness
from phy.measure.monte_carlo import Stop
from scenarios.engine.salvage import surviving_damage
from scenarios.schema.errors import ScenarioError
from scenarios.store.damage import DamagedStoreError
from scenarios.store.database import DATABASE, LOCK, PAGE
from scenarios.store.provenance import collect_provenance
from scenarios.store.store import Store
from scenarios.store.store_reading import SERIES_TABLES
from scenarios.studies.link.batches import AMOUNTS, COUNTS, Batch
from scenarios.studies.link.plan import BatchShape
from scenarios.studies.link.store import LinkStore

POINTS, TRIALS = 4, 6
IDS = [f"task{point}-{trial}" for point in range(POINTS) for trial in range(TRIALS)]
LOG = f"{DATABASE}-wal"
SEED = int(os.environ.get("PHYLOOP_FAULTS_SEED", "2022"))


def a_trial(point: int, trial: int) -> TrialResult:
    """Numbers that say whose they are."""
    draw = np.random.default_rng([point, trial])
    return TrialResult(
        trial=trial,
        metrics={"mse": point + trial / 7, "never_measured": float("nan"), "ratio": float("inf"), "zero": -0.0},
        rounds={"amplitude": draw.normal(size=30)},
        link={"bits": np.full((4, 3), 100), "bit_errors": draw.integers(9, size=(4, 3))},
        privacy={"epsilon": np.full(4, 5.0)},
        devices={"end_errors": draw.integers(99, size=(4, 3))},
        failure="diverged" if (point, trial) == (1, 1) else None,
    )


def fill(folder: Path) -> None:
    """Write what is missing, as a run would."""
    with Store.open(folder, scenario_name="demo") as store:
        store.save_scenario(yaml="name: demo", root={"name": "demo", "trials": TRIALS})
        run = store.record_run(PROVENANCE)
        for point in range(POINTS):
            there = store.finished(IDS)
            some = {f"task{point}-{trial}": a_trial(point, trial) for trial in range(TRIALS)}
            missing = {task: result for task, result in some.items() if task not in there}
            if missing:
                store.write(missing, physics={"point": point}, seconds=1.0)
        store.finish_run(run)


def numbers(folder: Path) -> list[str]:
    """Everything that a table or a figure could show."""
    with Store.open_existing(folder) as store:
        read: list[Any] = [store.scenario_name, store.read_scenario().root, sorted(store.finished(IDS))]
        read += [store.count_tasks(), store.read_metrics(IDS), store.statuses(IDS), len(store.read_runs()) > 0]
        read += [(one.task_id, one.trial, one.status, one.failure) for one in store.read_tasks(IDS).values()]
        for table in SERIES_TABLES:
            arrays = store.read_series(IDS, table)
            read.append(store.read_totals(IDS, table))
            read.append({task: {name: a.tobytes() for name, a in some.items()} for task, some in arrays.items()})
        return [str(one) for one in read]


PROVENANCE = collect_provenance(argv=["phyloop", "run", "demo.yaml"])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    fill(folder)
    return folder


@pytest.fixture(scope="module")
def truth(sound: Path) -> list[str]:
    return numbers(sound)


class Bench:
    """Damages copies of a store, and counts what came of it."""

    def __init__(self, room: Path, truth: list[str], row: Tally) -> None:
        self.room, self.truth, self.row = room, truth, row
        self.said = self.harmless = 0
        self.kept: list[int] = []

    def try_out(self, files: dict[str, bytes], *, what: str) -> None:
        """Read, then run into, a folder of these files."""
        shutil.rmtree(self.room, ignore_errors=True)
        self.room.mkdir()
        (self.room / LOCK).write_text("1\n")
        for name, content in files.items():
            (self.room / name).write_bytes(content)
        self.row.injected += 1
        try:
            assert numbers(self.room) == self.truth, f"{what}: other numbers, and nothing was said"
            self.harmless += 1
        except DamagedStoreError:
            self.said += 1
        told: list[str] = []
        surviving_damage(lambda: fill(self.room), folder=self.room, scenario_name="demo", tell=told.append)
        if told:
            kept = int(told[0].split(" tasks that verify")[0].rsplit(" ", 1)[1])
            self.kept.append(kept)
            assert "results.damaged-1.sqlite" in told[0]
            aside = (self.room / "results.damaged-1.sqlite").read_bytes()
            assert aside == files[DATABASE]
        assert numbers(self.room) == self.truth, f"{what}: another end than undisturbed"
        fill(self.room)  # sound from now on: nothing is told again


def flipped(content: bytes, place: int, chance: random.Random) -> bytes:
    return content[:place] + bytes([content[place] ^ chance.randrange(1, 256)]) + content[place + 1 :]


def flip_many(bench: Bench, content: bytes, places: list[int]) -> None:
    chance = random.Random(SEED)
    for place in places:
        bench.try_out({DATABASE: flipped(content, place, chance)}, what=f"byte {place} flipped")
    bench.row.conclude(equal=True)
    # One byte is in one row or one page: of 24 tasks hardly any is lost, whichever byte it was.
    assert min(bench.kept) >= len(IDS) - TRIALS
    assert bench.said > 0
    assert bench.harmless > 0


def test_flipped_bytes_are_said_and_what_verifies_is_kept(
    sound: Path, truth: list[str], tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    content = (sound / DATABASE).read_bytes()
    # Of the header every third byte, of the rest what a seed says.
    places = [*range(0, 100, 3), *random.Random(SEED).sample(range(100, len(content)), 40)]
    flip_many(Bench(tmp_path / "run", truth, tally("store: byte flipped")), content, places)


def test_a_flipped_bit_of_a_metric_a_count_or_a_trial_is_never_shown(
    sound: Path, truth: list[str], tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    """Where a flip leaves all of SQLite's structure whole, and only the number is another."""
    content = (sound / DATABASE).read_bytes()
    bench = Bench(tmp_path / "run", truth, tally("store: bit of a number flipped"))
    metrics = [content.index(struct.pack("<d", point + trial / 7)) + 1 for point in (1, 3) for trial in (2, 5)]
    texts = (b"diverged", b"never_measured", b"end_errors", b'{"point":2}', b"[4,3]")
    words = [content.index(text) + 1 for text in texts]
    drawn = np.random.default_rng([2, 3]).normal(size=30)
    arrays = [content.index(drawn.tobytes()) + 20, content.index(f"[[{zlib.crc32(drawn.tobytes())},".encode()) + 4]
    arrays.append(content.index(zlib.compress(np.full((4, 3), 100).tobytes(), 1)) + 9)  # shared by its batch
    for place in (*metrics, *words, *arrays):
        damage = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        bench.try_out({DATABASE: damage}, what=f"lowest bit of byte {place} flipped")
    bench.row.conclude(equal=True)
    assert bench.said >= len(metrics)
    assert min(bench.kept) >= len(IDS) - TRIALS


def test_a_table_of_contents_that_hides_its_last_tables_costs_no_task(
    sound: Path, truth: list[str], tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    """Its count of entries, lowered, is no error of SQLite's: tables are not there then, the packs among them."""
    content = (sound / DATABASE).read_bytes()
    bench = Bench(tmp_path / "run", truth, tally("store: tables hidden"))
    for entries in (32, 29):
        assert content[104] > entries
        hiding = content[:104] + bytes([entries]) + content[105:]
        bench.try_out({DATABASE: hiding}, what=f"{entries} entries of the table of contents")
    bench.row.conclude(equal=True)
    assert min(bench.kept) == len(IDS)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_many_flipped_bytes_are_said(
    part: int, sound: Path, truth: list[str], tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    content = (sound / DATABASE).read_bytes()
    places = list(range(100 * (part > 0) + part, 100 if not part else len(content), 1 if not part else 997))
    flip_many(Bench(tmp_path / "run", truth, tally("store: byte flipped")), content, places)


def test_a_store_cut_at_every_4_kib_is_said_and_made_whole(
    sound: Path, truth: list[str], tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    content = (sound / DATABASE).read_bytes()
    bench = Bench(tmp_path / "run", truth, tally("store: cut at every 4 KiB"))
    for length in range(0, len(content), 4096):
        bench.try_out({DATABASE: content[:length]}, what=f"cut to {length} bytes")
    bench.row.conclude(equal=True)
    assert bench.harmless == 0
    assert bench.kept[0] == 0
    assert max(bench.kept) > 0


def test_a_store_with_a_page_of_zeros_is_said_and_made_whole(
    sound: Path, truth: list[str], tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    content = (sound / DATABASE).read_bytes()
    bench = Bench(tmp_path / "run", truth, tally("store: page zeroed"))
    for start in range(0, len(content), 3 * 4096):
        zeroed = content[:start] + bytes(4096) + content[start + 4096 :]
        bench.try_out({DATABASE: zeroed}, what=f"page at {start} zeroed")
    bench.row.conclude(equal=True)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a run that was killed: its log is not folded in."""
    folder = tmp_path_factory.mktemp("killed")
    with Store.open(folder, scenario_name="demo") as store:
        store.save_scenario(yaml="name: demo", root={"name": "demo", "trials": TRIALS})
        run = store.record_run(PROVENANCE)
        for point in range(POINTS):
            some = {f"task{point}-{trial}": a_trial(point, trial) for trial in range(TRIALS)}
            store.write(some, physics={"point": point}, seconds=1.0)
            if point == 1:  # part of the log is folded in, and stays in it
                store._connection.execute("PRAGMA wal_checkpoint")
        store.finish_run(run)
        return {name: (folder / name).read_bytes() for name in (DATABASE, LOG)}


def test_a_sound_log_is_read_and_a_damaged_one_is_said(
    killed: dict[str, bytes], truth: list[str], tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    row = tally("log of the store: byte flipped")
    bench = Bench(tmp_path / "run", truth, row)
    bench.try_out(killed, what="nothing")
    assert (bench.harmless, bench.kept) == (1, [])
    log, chance = killed[LOG], random.Random(SEED)
    frame = 24 + PAGE
    heads = [32 + number * frame + place for number in (0, 5, 11) for place in (0, 9, 17, 23)]
    for place in [*range(0, 32, 5), *heads, *chance.sample(range(32, len(log)), 12)]:
        files = {**killed, LOG: flipped(log, place, chance)}
        bench.try_out(files, what=f"byte {place} of the log flipped")
    row.conclude(equal=True)
    assert bench.said > 20


def test_a_log_cut_or_lost_costs_its_tasks_alone(
    killed: dict[str, bytes], truth: list[str], tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    row = tally("log of the store: cut or lost")
    log = killed[LOG]
    for length in [*range(0, len(log), 5 * 4096), len(log) - 1]:
        folder = tmp_path / f"cut-{length}"
        folder.mkdir()
        (folder / LOCK).write_text("1\n")
        (folder / DATABASE).write_bytes(killed[DATABASE])
        if length:
            (folder / LOG).write_bytes(log[:length])
        row.injected += 1
        # An earlier state of the store, as of a run that was killed earlier; or said to be damaged. Both go on.
        surviving_damage(lambda folder=folder: fill(folder), folder=folder, scenario_name="demo", tell=lambda _: None)
        assert numbers(folder) == truth, f"cut to {length} bytes"
    row.conclude(equal=True)


def test_a_damaged_store_of_before_there_were_packs_keeps_what_verifies_of_then_and_of_now(
    truth: list[str], tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    folder = tmp_path / "before"
    create_store_of_before(folder, scenario_name="demo")
    for point in range(POINTS // 2):
        some = {f"task{point}-{trial}": a_trial(point, trial) for trial in range(TRIALS)}
        write_as_before(folder, some, physics=f'{{"point":{point}}}')
    fill(folder)  # the rest, by the code of now
    assert numbers(folder) == truth
    content = (folder / DATABASE).read_bytes()
    bench = Bench(tmp_path / "run", truth, tally("store of before packs: byte flipped"))
    chance = random.Random(SEED)
    body = chance.sample(range(4 * PAGE_OF_BEFORE, len(content)), 12)
    for place in [0, 16, 18, 58, *range(101, 2 * PAGE_OF_BEFORE, 700), *body]:
        bench.try_out({DATABASE: flipped(content, place, chance)}, what=f"byte {place} flipped")
    bench.try_out({DATABASE: bytes(PAGE_OF_BEFORE) + content[PAGE_OF_BEFORE:]}, what="the first page zeroed")
    bench.row.conclude(equal=True)
    # Where the table of contents is lost, where the packs begin is not known.
    assert bench.kept[-1] == len(IDS) // 2
    assert min(bench.kept) >= len(IDS) // 2
    assert max(bench.kept) > len(IDS) // 2


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00garbage", b"9" * 5000])
def test_a_garbled_lock_is_as_good_as_any(sound: Path, tmp_path: Path, content: bytes) -> None:
    shutil.copytree(sound, tmp_path / "run")
    (tmp_path / "run" / LOCK).write_bytes(content)
    with Store.open(tmp_path / "run", scenario_name="demo"):
        (tmp_path / "run" / LOCK).write_bytes(content)  # also while it is held
        with pytest.raises(ScenarioError, match=r"another process \(PID (unknown|9+)\) is writing here"):
            Store.open(tmp_path / "run", scenario_name="demo")
    assert (tmp_path / "run" / LOCK).exists()


def test_tasks_from_before_there_were_digests_are_read(sound: Path, truth: list[str], tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "run")
    with Store.open(tmp_path / "run", scenario_name="demo") as store:
        store._connection.executescript(
            "DROP TABLE checks; DROP TABLE record_checks; DELETE FROM meta WHERE key = 'checked_from';"
        )
    assert numbers(tmp_path / "run") == truth
    # From the next task on there are digests, and one that is gone is missed.
    with Store.open(tmp_path / "run", scenario_name="demo") as store:
        store.write({"later": a_trial(7, 7)}, physics={}, seconds=1.0)
        assert store.read_tasks(["later", *IDS])
        store._connection.execute("DELETE FROM checks")
    with Store.open_existing(tmp_path / "run") as store:
        assert store.read_metrics(IDS)
        with pytest.raises(DamagedStoreError, match="of task later is damaged"):
            store.read_metrics(["later"])


# --- link studies -----------------------------------------------------------------------------------

SHAPE = BatchShape(transmissions=2, num_bits=64)
BATCHES = 5


def a_batch(point: int, number: int) -> Batch:
    draw = np.random.default_rng([point, number])
    return Batch(
        number=number,
        seconds=0.25,
        counts=draw.integers(50, size=(len(COUNTS), 2, 1)),
        amounts=draw.uniform(size=(len(AMOUNTS), 1)),
        bursts=None,
    )


def measure(folder: Path) -> None:
    """Write the batches that are missing, as a study would."""
    with LinkStore.open_study(folder, scenario_name="demo") as store:
        store.save_scenario(yaml="name: demo", root={"name": "demo"})
        for point in range(3):
            measured, stop = store.read_point(f"point{point}", num_devices=1, shape=SHAPE)
            for number in range(measured.tally.batches, BATCHES):
                store.write_batches(f"point{point}", [a_batch(point, number)], physics={"point": point})
            if stop is None:
                ended = Stop(reason="max_bits", target=None)
                store.write_batches(f"point{point}", [], physics={"point": point}, stop=ended)


def counted(folder: Path) -> str:
    with LinkStore.open_existing(folder) as store:
        points = [store.read_point(f"point{point}", num_devices=1, shape=SHAPE) for point in range(3)]
    return str([(m.counts.tolist(), m.amounts.tolist(), m.seconds, m.tally, stop) for m, stop in points])


def test_a_damaged_link_study_is_said_and_keeps_the_batches_that_verify(
    tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    row = tally("link study: byte flipped or cut")
    sound = tmp_path / "sound"
    measure(sound)
    truth, content = counted(sound), (sound / DATABASE).read_bytes()
    chance = random.Random(SEED)
    damages = [flipped(content, place, chance) for place in chance.sample(range(100, len(content)), 40)]
    # Pages of batches lie at the end: there a flip is sure to hit one.
    damages += [flipped(content, place, chance) for place in range(len(content) - 4096 * 4, len(content), 400)]
    damages += [content[:length] for length in range(0, len(content), 3 * 4096)]
    said, kept = 0, []
    for damage in damages:
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / LOCK).write_text("1\n")
        (folder / DATABASE).write_bytes(damage)
        row.injected += 1
        try:
            assert counted(folder) == truth
        except DamagedStoreError:
            said += 1
        told: list[str] = []
        surviving_damage(lambda: measure(folder), folder=folder, scenario_name="demo", tell=told.append)  # noqa: B023
        if "batches that verify" in "".join(told):
            kept.append(int(told[0].split(" batches that verify")[0].rsplit(" ", 1)[1]))
        assert counted(folder) == truth
    row.conclude(equal=True)
    assert said > 0
    assert kept
    assert sorted(kept)[len(kept) // 2] >= 2 * BATCHES


def test_bursts_are_covered_too(tmp_path: Path) -> None:
    fields = {name: np.arange(3) for name in Burstiness.__dataclass_fields__}
    assert fields
    with LinkStore.open_study(tmp_path, scenario_name="demo") as store:
        store.write_batches("point", [a_batch(0, 0)], physics={})
        store._connection.execute("UPDATE link_batches SET bursts = '[1]'")
        with pytest.raises(DamagedStoreError, match="batch 0 of point point differs"):
            store.read_point("point", num_devices=1, shape=SHAPE)


# --- end to end -------------------------------------------------------------------------------------


def test_a_run_into_a_damaged_folder_keeps_what_verifies_and_computes_the_rest(
    learning: Outcome, run: Path, tally: Callable[[str], Tally]
) -> None:
    row = tally("store cut, then run again")
    shutil.copytree(learning.folder, run)
    content = (run / DATABASE).read_bytes()
    (run / DATABASE).write_bytes(content[: 7 * len(content) // 8 // 4096 * 4096])
    (run / "scenario.yaml").write_bytes(b"\x00\xff: [")  # rewritten by every run
    row.injected += 1
    refused = obey("export", run, "--out", run / "csv", logs=run.with_suffix(".refused"))
    assert refused.code == 2
    assert "is damaged" in refused.said
    assert "run the scenario into this folder again" in refused.said
    assert "Traceback" not in refused.said
    ended = obey("run", learning.scenario, "--out", run, logs=run.with_suffix(".log"))
    assert ended.code == 0, ended.said
    assert "tasks that verify were moved into a new store" in ended.said
    row.finish(run, learning)
