"""What cannot fit into memory or onto the disk is refused before anything is computed or written."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from learning_run import run_scenario

from scenarios.cli.check import check_scenario
from scenarios.engine.batch import LIBRARIES_BYTES, TENSORFLOW_BYTES, batch_size
from scenarios.engine.limits import (
    disk_bytes_of_task,
    estimate,
    free_memory,
    process_bytes,
    read_bytes,
    refuse_disk,
    refuse_memory,
    room,
)
from scenarios.engine.options import RunOptions
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.studies.learning import missing_jobs


def plan_of(name: str, **changes: Any) -> Plan:
    return expand(load_scenario(name, **changes))


@pytest.mark.parametrize(
    ("text", "number"),
    [("4GB", 4 * 10**9), ("3.5 GiB", 7 << 29), ("500mb", 5 * 10**8), (" 2tb ", 2 * 10**12), ("1000000B", 10**6)],
)
def test_a_memory_limit_is_read_with_its_unit(text: str, number: int) -> None:
    assert read_bytes(text) == number
    assert room(text).said_by == "--memory-limit"


@pytest.mark.parametrize("text", ["", "4Go", "-1GB", "GB", "1e9", "inf", "nan"])
def test_another_memory_limit_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match=r"write for example 4GB\.$"):
        read_bytes(text)


def test_without_an_option_the_free_memory_counts() -> None:
    import psutil

    limit_bytes, said_by = free_memory()
    assert 0 < limit_bytes <= psutil.virtual_memory().total
    assert room(None).said_by == said_by


def group(folder: Path, *, limit: str, used: int, cache: int = 0) -> Path:
    """What Linux tells a process of its control group, in files of our own."""
    proc, mounted = folder / "proc", folder / "mounted"
    (mounted / "jobs" / "one").mkdir(parents=True)
    proc.mkdir()
    (proc / "cgroup").write_text("0::/jobs/one\n")
    (mounted / "jobs" / "memory.max").write_text(f"{limit}\n")
    (mounted / "jobs" / "memory.current").write_text(f"{used}\n")
    (mounted / "jobs" / "memory.stat").write_text(f"anon 5\ninactive_file {cache}\n")
    return proc


def test_a_control_group_around_the_process_counts(tmp_path: Path) -> None:
    proc = group(tmp_path, limit="50000000", used=30_000_000, cache=10_000_000)
    limit_bytes, said_by = free_memory(proc=proc, mounted=tmp_path / "mounted")
    assert limit_bytes == 30_000_000  # what is cached of files gives way
    assert "control group" in said_by


@pytest.mark.parametrize("limit", ["max", "nonsense"])
def test_a_control_group_without_a_limit_does_not_count(limit: str, tmp_path: Path) -> None:
    proc = group(tmp_path, limit=limit, used=1)
    for one in (proc, tmp_path / "nowhere"):
        assert free_memory(proc=one, mounted=tmp_path / "mounted")[1] == "the available memory of this machine"


def test_a_trial_that_does_not_fit_is_refused_with_the_numbers_and_the_remedy() -> None:
    plan = plan_of("cpa-table4-cnn3")
    needed = max(process_bytes(point.scenario) for point in plan.points)
    scenarios = [point.scenario for point in plan.points]
    refuse_memory(scenarios, room(f"{needed}B"), file=Path("s.yaml"))
    with pytest.raises(ScenarioError) as caught:
        refuse_memory(scenarios, room(f"{needed - 1}B"), file=Path("s.yaml"))
    said = str(caught.value)
    assert said.startswith(f"s.yaml: one trial needs about {needed / 1e9:.1f} GB of memory, --memory-limit is ")
    assert said.endswith(f"or give it --memory-limit {-(-needed // 10**8) / 10:.1f}GB if there is that much.")


def test_the_remedy_of_several_workers_is_a_limit_that_fits() -> None:
    scenarios = [point.scenario for point in plan_of("cpa-table4-cnn3").points]
    with pytest.raises(ScenarioError, match=r"leaves each of 3 .* fewer --workers") as caught:
        refuse_memory(scenarios, room("12GB", workers=3), file=Path("s.yaml"))
    told = caught.value.remedy.split("--memory-limit ")[1].split()[0]
    refuse_memory(scenarios, room(told, workers=3), file=Path("s.yaml"))


def test_the_option_sets_the_memory_of_each_remote_worker() -> None:
    assert room(None, workers=8, elsewhere=True).process_bytes > 1 << 60
    assert room("3GB", workers=8, elsewhere=True).process_bytes == 3 * 10**9
    assert room("9GB", workers=2).process_bytes < 4.5e9


def test_batches_shrink_to_the_limit_and_tasks_stay_the_same() -> None:
    plan = plan_of("flmc-error-models", trials=200)
    large, small = (room(limit).process_bytes for limit in ("20GB", "300MB"))
    sizes = [[batch_size(p.scenario, limit_bytes=size) for p in plan.points] for size in (large, small)]
    assert sizes[0] != sizes[1]
    assert all(1 <= few <= many for many, few in zip(*sizes, strict=True))
    tasks = [
        {(job.point.index, trial) for job in missing_jobs(plan, set(), limit_bytes=size) for trial in job.trials}
        for size in (large, small)
    ]
    assert tasks[0] == tasks[1]
    assert len(tasks[0]) == len(plan.points) * plan.trials
    costs = [estimate(plan, limit_bytes=size) for size in (large, small)]
    assert costs[1].memory_bytes <= small < costs[0].memory_bytes


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("cpa-snr", ["learning.model={name: resnet18}"]),
        ("fedavg-digits", ["learning.local={optimizer: adam, learning_rate: 0.01, batch_size: 10}"]),
        ("probit-personal", []),
        ("flmc-analog-ofdm", []),
    ],
)
def test_tensorflow_counts_where_a_network_or_a_link_needs_it(name: str, settings: list[str]) -> None:
    first = plan_of(name, overrides=tuple(settings)).points[0].scenario
    assert process_bytes(first) > LIBRARIES_BYTES + TENSORFLOW_BYTES
    for overrides in ((), ("learning.model.name=mlp",)):
        assert process_bytes(plan_of("cpa-snr", overrides=overrides).points[0].scenario) < TENSORFLOW_BYTES


def test_results_larger_than_the_disk_are_refused(tmp_path: Path) -> None:
    scenario = plan_of("flmc-snr").points[0].scenario
    refuse_disk([(scenario, 10)], tmp_path / "not" / "yet", file=Path("s.yaml"))
    refuse_disk([], tmp_path, file=Path("s.yaml"))
    tasks = 10**18 // disk_bytes_of_task(scenario)
    with pytest.raises(ScenarioError, match=r"need about 1\d{9} GB of disk, .* free; free some, choose another disk"):
        refuse_disk([(scenario, tasks)], tmp_path / "not" / "yet", file=Path("s.yaml"))
    if Path("/proc/self").exists():
        with pytest.raises(ScenarioError, match="/proc/runs has 0 kB free"):
            refuse_disk([(scenario, 1)], Path("/proc/runs"), file=Path("s.yaml"))
    assert not (tmp_path / "not").exists()


def test_run_and_check_refuse_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**6))
    with pytest.raises(ScenarioError, match=r"--memory-limit is 200 MB; make .* give it --memory-limit 0\.\dGB"):
        run_scenario("flmc-snr", out=out, overrides=(), trials=1, seed=None, options=RunOptions(memory_limit="200MB"))
    with pytest.raises(ScenarioError, match="of disk"):
        run_scenario("probit-epsilon", out=out, overrides=(), trials=1000, seed=None)
    with pytest.raises(ScenarioError, match="--trials: trials: 86 points x 9,000,000 trials are 774,000,000 tasks"):
        run_scenario("flmc-snr", out=out, overrides=(), trials=9_000_000, seed=None)
    with pytest.raises(ScenarioError, match="--memory-limit is 200 MB"):
        check_scenario("flmc-snr", overrides=(), trials=1, seed=None, memory_limit="200MB")
    assert not out.exists()


def test_check_shows_memory_and_disk_of_one_task_and_the_source_of_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    check_scenario("flmc-snr", overrides=(), trials=2, seed=None, memory_limit="9GB")
    said = " ".join(capsys.readouterr().out.split())
    assert "phyloop check --time measures a round" in said
    assert "0.2 GB memory, one task 0.2 GB (of 9.0 GB)" in said


PEAK = """
import resource, sys
from scenarios.engine.batch import Job, batch_size, compute
from scenarios.engine.start import prepare_tensorflow
from scenarios.engine.study import Progress
from scenarios.schema.loader import load_scenario
from scenarios.plan.plan import expand
plan = expand(load_scenario(sys.argv[1], overrides=sys.argv[3:], trials=int(sys.argv[2])))
prepare_tensorflow()
point = plan.points[-1]
compute(Job(point=point, trials=tuple(range(min(batch_size(point.scenario), plan.trials)))), progress=Progress())
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak if sys.platform == "darwin" else 1024 * peak)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "trials", "overrides"),
    [
        ("flmc-snr", 1000, ()),
        ("flmc-error-models", 100, ()),
        ("fedavg-digits", 2, ("learning.rounds=3",)),
        ("bitflip-kappa", 1, ()),
        ("probit-personal", 1, ("learning.rounds=3",)),
        ("attack-membership", 1, ()),
        ("cpa-snr-mlp", 1, ("learning.rounds=1",)),
        ("flmc-coded-ofdm", 1, ("learning.rounds=20", "learning.burn_in=10")),
    ],
)
def test_the_estimate_of_memory_is_good_to_a_factor_of_two(name: str, trials: int, overrides: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, name, str(trials), *overrides], capture_output=True, text=True, check=True
    )
    plan = plan_of(name, trials=trials, overrides=overrides)
    estimated = estimate(replace(plan, points=plan.points[-1:])).memory_bytes
    assert 0.5 < estimated / int(done.stdout) < 2.0
