"""A disk that fills up or turns read-only under a run: one sentence, nothing lost, and the run goes on later."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import Outcome, Running, Tally, obey, stored, tables_of, wait_for

from scenarios.studies.status import read_status


def mount(*arguments: str | Path) -> bool:
    tool = shutil.which("mount")
    done = tool and subprocess.run([tool, *map(str, arguments)], capture_output=True, check=False)
    return bool(done) and done.returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 MiB in memory."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() or not mount("-t", "tmpfs", "-o", "size=64m", "tmpfs", place):
        pytest.skip("mounting a small disk takes rights that this process does not have")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def fill_up(disk: Path) -> Path:
    """Leave not a byte free."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return ballast


def test_a_full_disk_stops_the_run_with_a_sentence_and_keeps_what_is_finished(
    learning: Outcome, disk: Path, tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    row, run = tally("disk full"), disk / "run"
    process = Running(["run", learning.scenario, "--out", run, "--checkpoint-rounds", "20"], logs=tmp_path / "log")
    assert wait_for(lambda: bool(stored(run)), of=process), process.wait().said
    before = stored(run)
    ballast = fill_up(disk)
    row.injected += process.is_alive
    ended = process.wait()
    assert ended.code == 2, ended.said
    assert "Traceback" not in ended.said
    assert "free or change the disk and run again" in ended.said
    status = read_status(run)
    assert (status.state, status.failed) == ("failed", 0)
    # Still full: said again, and nothing is made worse.
    again = obey("run", learning.scenario, "--out", run, logs=tmp_path / "again")
    row.injected += 1
    assert again.code == 2, again.said
    assert "Traceback" not in again.said
    ballast.unlink()
    row.compare(before, stored(run))
    assert obey("run", learning.scenario, "--out", run, logs=tmp_path / "last").code == 0
    row.compare(before, stored(run))
    shutil.copytree(run, tmp_path / "run")
    row.finish(tmp_path / "run", learning)


def test_a_folder_that_turned_read_only_is_read_and_not_written_to(
    learning: Outcome, disk: Path, tmp_path: Path, tally: Callable[[str], Tally]
) -> None:
    row, run = tally("read-only folder"), disk / "run"
    shutil.copytree(learning.folder, run)
    assert mount("-o", "remount,ro", disk)
    row.injected += 1
    more = obey("run", learning.scenario, "--out", run, "--trials", "3", logs=tmp_path / "more")
    assert more.code == 2, more.said
    assert "Traceback" not in more.said
    assert "choose a folder on a writable disk" in more.said or "cannot be written" in more.said
    same = tables_of(run, tmp_path / "csv") == learning.tables
    assert mount("-o", "remount,rw", disk)
    row.conclude(equal=same and stored(run) == stored(learning.folder))
