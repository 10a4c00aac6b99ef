"""One process, several, a scheduler, any number of threads: the same tables, bit for bit, for every scenario family."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from dask_processes import running_cluster
from small_jobs import ALL, FAST, differing, digests, small_jobs

from scenarios.engine.cluster.engine import DaskEngine
from scenarios.engine.study import Progress

HELPERS = Path(__file__).parents[2] / "helpers"


def in_one_process(names: Sequence[str], out: Path, *, threads: int) -> dict[str, dict[str, str]]:
    """In a process of its own: whoever ran before in this one may have started TensorFlow with other threads."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HELPERS.parents[1]), str(HELPERS)]),
        "PHYLOOP_THREADS": str(threads),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    subprocess.run([sys.executable, HELPERS / "small_jobs.py", out, *names], env=env, check=True)
    return dict(json.loads(out.read_text()))


def test_two_workers_compute_the_numbers_of_one_process(tmp_path: Path) -> None:
    expected = in_one_process(list(FAST), tmp_path / "alone.json", threads=4)
    jobs = small_jobs(FAST)
    random.Random(2022).shuffle(jobs)
    found = digests(DaskEngine(workers=2).run(jobs, progress=Progress()))
    assert differing(found, expected) == []
    assert all(task["failure"] == "None" for task in expected.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ALL))
def test_threads_change_no_number(name: str, tmp_path: Path) -> None:
    alone = [in_one_process([name], tmp_path / f"{threads}.json", threads=threads) for threads in (1, 2, 4)]
    assert differing(alone[0], alone[1]) == differing(alone[0], alone[2]) == []


@pytest.mark.slow
def test_every_family_has_the_same_numbers_with_four_workers_and_on_a_scheduler(tmp_path: Path) -> None:
    expected = in_one_process(list(ALL), tmp_path / "alone.json", threads=2)
    jobs = small_jobs(ALL)
    found = digests(DaskEngine(workers=4).run(jobs, progress=Progress()))
    assert differing(found, expected) == []
    random.Random(2022).shuffle(jobs)
    with running_cluster(tmp_path, workers=3) as address:
        found = digests(DaskEngine(scheduler=address).run(jobs, progress=Progress()))
    assert differing(found, expected) == []
