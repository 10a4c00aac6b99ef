"""The store keeps every committed task whole, and refuses what is not its own."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tampered import flip_arrays

from fl.base.results import TrialResult
from scenarios.files.plain_files import RESULTS
from scenarios.files.provenance import collect_provenance
from scenarios.schema.errors import ScenarioError
from scenarios.store import store as store_module
from scenarios.store.store import STORE_VERSION, DamagedStoreError, Store
from scenarios.store.trials import SERIES_TABLES

ROOT = Path(__file__).resolve().parents[3]


def a_result(trial: int, *, failure: str | None = None, rounds: int = 4, devices: int = 3) -> TrialResult:
    """A trial whose every array says which trial it is."""
    shape = (rounds, devices)
    return TrialResult(
        trial=trial,
        metrics={"mse": trial + 0.5, "never_measured": float("nan"), "ratio": float("inf")},
        rounds={
            "amplitude": np.full(rounds, trial, dtype=np.float64),
            "active_cap": np.arange(rounds, dtype=np.float64) % 4,
        },
        link={
            "bits": np.full(shape, 100, dtype=np.int64),
            "bit_errors": np.full(shape, trial, dtype=np.int64),
            "snr_db": np.linspace(0.0, 1.0, rounds * devices).reshape(shape),
        },
        privacy={"epsilon": np.full(rounds, 5.0)},
        bursts={"bits": np.full(devices, trial), "in_a_row": np.full((devices, 8), trial)},
        failure=failure,
    )


def fill(folder: Path, *, trials: int = 3) -> None:
    with Store.open(folder, scenario_name="demo") as store:
        store.write({f"task{t}": a_result(t) for t in range(trials)}, physics={"seed": 1}, seconds=3.0)


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}


def test_what_is_written_is_read_back_bit_by_bit(tmp_path: Path) -> None:
    fill(tmp_path)
    with Store.open_existing(tmp_path) as store:
        assert store.identity.scenario == "demo"
        assert set(store.statuses(["task2", "task0", "nobody"])) == {"task0", "task2"}
        metrics = store.read_metrics(["task2", "nobody", "task0"])
        assert list(metrics) == ["task2", "task0"]
        assert list(metrics["task2"]) == ["mse", "never_measured", "ratio"]
        assert metrics["task2"]["mse"] == 2.5
        assert np.isnan(metrics["task2"]["never_measured"])
        assert np.isinf(metrics["task2"]["ratio"])
        for table in SERIES_TABLES:
            read = store.read_series(["task1"], table)["task1"]
            expected = getattr(a_result(1), table)
            assert list(read) == list(expected)
            for name, array in expected.items():
                assert read[name].dtype == array.dtype
                np.testing.assert_array_equal(read[name], array)
        assert store.read_tasks(["task1"])["task1"].seconds == 1.0


def test_a_failed_trial_is_finished_and_keeps_its_reason_but_adds_no_counts(tmp_path: Path) -> None:
    with Store.open(tmp_path, scenario_name="demo") as store:
        store.write({"a": a_result(0, failure="NaN in round 3")}, physics={}, seconds=1.0)
        assert set(store.statuses(["a"])) == {"a"}
        assert store.read_tasks(["a"])["a"].status == "failed"
        assert store.read_tasks(["a"])["a"].failure == "NaN in round 3"
        assert store.read_series(["a"], "rounds")["a"]["amplitude"].shape == (4,)


def test_many_ids_may_be_asked_for(tmp_path: Path) -> None:
    ids = [f"task{t}" for t in range(40_000)]
    fill(tmp_path)
    with Store.open_existing(tmp_path) as store:
        assert set(store.statuses(ids)) == {"task0", "task1", "task2"}
        assert sum(one["bits"].sum() for one in store.read_series(ids, "link").values()) == 3600


def test_an_error_amid_a_batch_leaves_nothing_of_it(tmp_path: Path) -> None:
    broken = TrialResult(trial=1, metrics={"mse": "not a number"}, rounds={})
    with Store.open(tmp_path, scenario_name="demo") as store:
        with pytest.raises(ValueError, match="could not convert"):
            store.write({"whole": a_result(0), "broken": broken}, physics={}, seconds=1.0)
        assert set(store.statuses(["whole", "broken"])) == set()
        store.write({"whole": a_result(0)}, physics={}, seconds=1.0)


def test_arrays_of_other_types_are_refused(tmp_path: Path) -> None:
    result = TrialResult(trial=0, metrics={}, rounds={"x": np.zeros(2, dtype=np.float32)})
    with (
        Store.open(tmp_path, scenario_name="demo") as store,
        pytest.raises(ValueError, match="x has type float32"),
    ):
        store.write({"a": result}, physics={}, seconds=1.0)


def test_the_physics_of_a_point_is_kept_with_its_trials(tmp_path: Path) -> None:
    fill(tmp_path)
    with Store.open_existing(tmp_path) as store:
        assert store.read(store.tasks["task1"], "physics") == {"seed": 1}


def spoil(folder: Path, change: Callable[[bytes], bytes]) -> None:
    path = folder / RESULTS
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data[:20],
        lambda data: data.replace(b"phyblob", b"phyblot", 1),
        lambda data: data[:60] + data[61:],
        lambda data: data[:60] + b"\0" + data[60:],
    ],
)
def test_a_changed_file_is_noticed_on_opening(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    fill(tmp_path)
    spoil(tmp_path, change)
    with pytest.raises(DamagedStoreError, match="is damaged"):
        Store.open_existing(tmp_path)


def test_a_changed_array_is_noticed_on_reading_it_and_costs_no_other(tmp_path: Path) -> None:
    fill(tmp_path)
    with Store.open(tmp_path, scenario_name="demo") as store:
        store.write({"later": a_result(7)}, physics={"seed": 1}, seconds=1.0)
    flip_arrays(tmp_path)
    with Store.open_existing(tmp_path) as store:
        assert store.read_series(["task0"], "rounds")["task0"]["amplitude"].tolist() == [0.0] * 4
        assert store.read_series(["later"], "bursts")["later"]["bits"].tolist() == [7] * 3
        with pytest.raises(DamagedStoreError, match="SHA-256 of an array differs"):
            store.read_series(["task0"], "bursts")


def test_bytes_behind_the_end_are_those_of_a_killed_commit_and_do_not_count(tmp_path: Path) -> None:
    fill(tmp_path)
    spoil(tmp_path, lambda data: data + b"half of a blob" * 3)
    with Store.open(tmp_path, scenario_name="demo") as store:
        store.write({"later": a_result(7)}, physics={"seed": 1}, seconds=1.0)
    with Store.open_existing(tmp_path) as store:
        store.verify()
        assert set(store.tasks) == {"task0", "task1", "task2", "later"}


@pytest.mark.parametrize("version", [STORE_VERSION + 1, STORE_VERSION - 1])
def test_a_store_of_another_version_is_refused_untouched(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "STORE_VERSION", version)
        fill(tmp_path)
    before = contents(tmp_path)
    for attempt in (lambda: Store.open(tmp_path, scenario_name="demo"), lambda: Store.open_existing(tmp_path)):
        with pytest.raises(ScenarioError, match=rf"store version {version}, not {STORE_VERSION}\); run the scenario"):
            attempt()
    assert contents(tmp_path) == before


def test_a_failed_trial_that_is_computed_again_stays_as_an_attempt(tmp_path: Path) -> None:
    with Store.open(tmp_path, scenario_name="demo") as store:
        store.write({"a": a_result(0, failure="diverged"), "b": a_result(1)}, physics={}, seconds=1.0)
        store.write({"a": a_result(0)}, physics={}, seconds=1.0)
    with Store.open_existing(tmp_path) as store:
        assert [(one.task_id, one.failure) for one, _ in store.replaced] == [("a", "diverged")]
        assert store.statuses(["a", "b"]) == {"a": "done", "b": "done"}
        assert len(store.tasks) == 2


def test_trials_of_one_batch_may_differ_in_their_arrays(tmp_path: Path) -> None:
    results = {f"task{t}": a_result(t, rounds=4 + t % 2) for t in range(6)} | {
        "bare": TrialResult(trial=6, metrics={}, rounds={})
    }
    with Store.open(tmp_path, scenario_name="demo") as store:
        store.write(results, physics={}, seconds=1.0)
        lengths = {one: found["amplitude"].size for one, found in store.read_series(results, "rounds").items() if found}
        assert lengths == {f"task{t}": 4 + t % 2 for t in range(6)}
        assert list(store.read_metrics(results)) == list(results)


def test_a_folder_of_another_scenario_is_refused_untouched(tmp_path: Path) -> None:
    fill(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ScenarioError, match="of phyloop run, scenario demo, not of phyloop run, scenario other;"):
        Store.open(tmp_path, scenario_name="other")
    assert contents(tmp_path) == before


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(ScenarioError, match="File exists"):
        Store.open(path, scenario_name="demo")


def test_a_folder_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(ScenarioError, match="cannot be written here"):
        Store.open(Path("/proc/phyloop/results"), scenario_name="demo")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_can_be_read_but_not_written(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "run.lock").unlink()
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ScenarioError, match="cannot be written here"):
            Store.open(tmp_path, scenario_name="demo")
        with Store.open_existing(tmp_path) as store:
            assert set(store.statuses(["task0"])) == {"task0"}
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_without_results_is_not_created_by_reading(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="holds no results"):
        Store.open_existing(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_second_writer_hears_the_process_id_of_the_first(tmp_path: Path) -> None:
    with Store.open(tmp_path, scenario_name="demo") as first:
        with pytest.raises(ScenarioError, match=rf"another process \(PID {os.getpid()}\)"):
            Store.open(tmp_path, scenario_name="demo")
        first.write({"a": a_result(0)}, physics={}, seconds=1.0)
        with Store.open_existing(tmp_path) as reader:  # readers need no lock
            assert set(reader.statuses(["a"])) == {"a"}
            first.write({"b": a_result(1)}, physics={}, seconds=1.0)
            assert set(reader.statuses(["a", "b"])) == {"a"}  # what was there when it was opened
            assert reader.read_metrics(["a"])["a"]["mse"] == 0.5
    Store.open(tmp_path, scenario_name="demo").close()


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    fill(tmp_path)
    with Store.open_existing(tmp_path) as store, pytest.raises(ScenarioError, match="cannot be written"):
        store.write({"z": a_result(0)}, physics={}, seconds=1.0)


def test_a_closed_store_leaves_its_file_and_the_lock(tmp_path: Path) -> None:
    fill(tmp_path)
    with Store.open_existing(tmp_path):
        pass
    assert sorted(p.name for p in tmp_path.iterdir()) == [RESULTS, "run.lock"]


def test_runs_and_the_scenario_are_kept(tmp_path: Path) -> None:
    provenance = collect_provenance(argv=["phyloop", "run", "a file.yaml"])
    with Store.open(tmp_path, scenario_name="demo") as store:
        with pytest.raises(ScenarioError, match="holds no scenario yet"):
            store.read_scenario()
        first = store.record_run(provenance)
        store.record_run(provenance)
        store.finish_run(first, status="done")
        store.save_scenario(yaml="name: demo\n", root={"name": "demo", "trials": 1})
        store.save_scenario(yaml="name: demo\n", root={"name": "demo", "trials": 2})
    with Store.open(tmp_path, scenario_name="demo") as store:
        assert store.read_scenario().root == {"name": "demo", "trials": 2}
        done, killed = store.runs.values()
    assert (done.status, killed.status) == ("done", "killed")
    assert done.finished_at is not None
    assert done.command == "phyloop run 'a file.yaml'"
    assert done.provenance.versions["numpy"] == np.__version__


def test_the_store_imports_neither_pandas_nor_matplotlib_nor_tensorflow() -> None:
    code = (
        "import sys, scenarios.store.store;"
        "print({'pandas', 'matplotlib', 'scipy', 'tensorflow'} & {m.split('.')[0] for m in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    import numpy as np
    from fl.base.results import TrialResult
    from scenarios.store.store import Store

    start = int(sys.argv[2])
    with Store.open(Path(sys.argv[1]), scenario_name="demo") as store:
        for batch in range(start, start + 100_000):
            results = {
                f"{batch}-{t}": TrialResult(
                    trial=t,
                    metrics={"mse": float(batch)},
                    rounds={"a": np.random.default_rng([batch, t]).normal(size=300)},
                    link={"bits": np.full((300, 5), batch, dtype=np.int64)},
                )
                for t in range(5)
            }
            store.write(results, physics={"batch": batch}, seconds=1.0)
            print(batch, flush=True)
    """
)


def test_after_sigkill_every_committed_batch_is_whole_and_nothing_else_is_there(tmp_path: Path) -> None:
    chance = random.Random(7)
    next_batch, batches = 0, 0
    for attempt in range(10):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(next_batch)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            heard = ""
            if attempt:  # the first is killed at any moment of its start, the store's birth included
                heard = process.stdout.readline()
                assert heard
            time.sleep(chance.uniform(0.0, 0.12) if attempt else 0.25)
            process.send_signal(signal.SIGKILL)
            rest = (heard + process.stdout.read()).split()
        assert process.returncode == -signal.SIGKILL
        if not (tmp_path / RESULTS).exists():
            continue
        with Store.open_existing(tmp_path) as store:
            store.verify()
            counts = Counter(task.task_id.partition("-")[0] for task in store.tasks.values())
            assert not store.replaced
        assert set(counts.values()) <= {5}  # whole batches only
        announced = max([next_batch - 1, *map(int, rest)])
        # A batch may be committed and the process killed before it could say so.
        assert len(counts) in (announced + 1, announced + 2)
        next_batch = batches = len(counts)
    assert batches > 9

    ids = [f"{batch}-{t}" for batch in range(batches) for t in range(5)]
    with Store.open_existing(tmp_path) as store:
        assert set(store.statuses(ids)) == set(ids)
        rounds, link = store.read_series(ids, "rounds"), store.read_series(ids, "link")
        for task_id in ids:
            batch, trial = map(int, task_id.split("-"))
            expected = np.random.default_rng([batch, trial]).normal(size=300)
            np.testing.assert_array_equal(rounds[task_id]["a"], expected)
            np.testing.assert_array_equal(link[task_id]["bits"], np.full((300, 5), batch))
            assert store.read_metrics([task_id])[task_id] == {"mse": float(batch)}
