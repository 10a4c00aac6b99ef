"""The log of a run folder: a line per event, whole whatever happens to the process, bounded, and never in the way."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from scenarios.engine.failures import short_trace
from scenarios.files.log import ALIKE_SHOWN, LOG, OLDER, LogFile, StandardError, event, logged, logger, telling

ROOT = Path(__file__).resolve().parents[3]


def lines(folder: Path, name: str = LOG) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def test_a_record_is_one_object_with_its_time_level_event_and_fields(tmp_path: Path) -> None:
    with logged(tmp_path):
        logger("run").info("%d tasks\nstored", 3, extra=event("tasks-stored", tasks=["ab"], seconds=1.5))
    (line,) = lines(tmp_path)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "event": "tasks-stored",
        "logger": "phyloop.run",
        "says": "3 tasks\nstored",
        "tasks": ["ab"],
        "seconds": 1.5,
    }


@pytest.mark.parametrize(("level", "kept"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_says_from_where_on_records_are_kept(level: str, kept: int, tmp_path: Path) -> None:
    with logged(tmp_path, level=level):
        for say in (logger("x").debug, logger("x").info, logger("x").warning, logger("x").error):
            say("something")
    logger("x").error("after the run")
    assert len(lines(tmp_path)) == kept


def test_warnings_of_libraries_go_in_and_their_chatter_does_not(tmp_path: Path) -> None:
    with warnings.catch_warnings(), telling(), logged(tmp_path):
        warnings.simplefilter("always")
        warnings.warn("this will change", FutureWarning, stacklevel=1)
        logging.getLogger("somelibrary").warning("odd")
        logging.getLogger("somelibrary").info("chatter")
    told = [(line["logger"], line["event"], line["says"]) for line in lines(tmp_path)]
    assert told[0][:2] == ("py.warnings", "warning")
    assert told[0][2].startswith("FutureWarning: this will change (")
    assert told[1:] == [("somelibrary", "message", "odd")]


def test_what_is_told_before_the_folder_is_known_goes_in_first(tmp_path: Path) -> None:
    with telling():
        logger("scenario").warning("the prefix is short")
        with logged(tmp_path):
            logger("run").info("begins")
    assert [line["says"] for line in lines(tmp_path)] == ["the prefix is short", "begins"]


def test_standard_error_says_warnings_and_the_first_of_many_failures(capsys: pytest.CaptureFixture[str]) -> None:
    with telling():
        logger("run").info("not told")
        logger("run").warning("a prefix\nis short")
        for trial in range(ALIKE_SHOWN + 3):
            logger("run").error("trial %d failed", trial, extra=event("task-failed", many=True, trace="frames"))
        logger("run").error("ended", extra=event("run-ended", quiet=True))
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "phyloop: warning: a prefix is short."
    assert told[1:] == [f"phyloop: trial {trial} failed." for trial in range(ALIKE_SHOWN)]
    with telling(level="error", traces=True):
        logger("run").warning("not told")
        logger("run").error("trial 0 failed", extra=event("task-failed", trace="frames"))
    assert capsys.readouterr().err.splitlines() == ["phyloop: trial 0 failed.", "frames"]


def test_a_full_log_becomes_the_older_one_and_the_two_stay_bounded(tmp_path: Path) -> None:
    handler = LogFile(tmp_path, max_bytes=2000)
    for number in range(200):
        handler.handle(logging.LogRecord("phyloop.x", logging.INFO, "", 0, "event %d", (number,), None))
    handler.close()
    for name in (LOG, OLDER):
        assert 0 < (tmp_path / name).stat().st_size <= 2000
    kept = [int(line["says"].split()[1]) for name in (OLDER, LOG) for line in lines(tmp_path, name)]
    assert kept == list(range(200 - len(kept), 200))


def test_a_disk_that_refuses_the_log_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / LOG).write_text("full")
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, usual[1]))  # every write fails as on a full disk
    try:
        with logged(tmp_path):
            logger("run").error("nowhere to go")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        signal.signal(signal.SIGXFSZ, ignored)
    assert (tmp_path / LOG).read_text() == "full"
    with logged(tmp_path / "gone"):
        logger("run").error("nowhere to go")
    assert not (tmp_path / "gone").exists()


def test_a_message_that_does_not_fit_its_values_stops_nothing(tmp_path: Path) -> None:
    misused = logging.LogRecord("somelibrary", logging.WARNING, "", 0, "%d and %d", ("one",), None)
    fine = logging.LogRecord("phyloop.run", logging.INFO, "", 0, "next", (), None)
    for handler in (LogFile(tmp_path), StandardError()):
        handler.handle(misused)
        handler.handle(fine)
        handler.close()
    assert [line["says"] for line in lines(tmp_path)] == ["next"]


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    body = (
        "import sys; from pathlib import Path; from scenarios.files.log import logged, logger\n"
        "with logged(Path(sys.argv[1])):\n"
        "    for number in range(10**9):\n"
        "        logger('run').info('event %d', number)\n"
        "        if number == 500: print('go', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", body, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ}
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    told = [int(line["says"].split()[1]) for line in lines(tmp_path)]
    assert len(told) > 500
    assert told == list(range(len(told)))


def test_a_traceback_names_files_below_their_package_only() -> None:
    try:
        try:
            json.loads("{")
        except ValueError as error:
            raise RuntimeError("no object") from error
    except RuntimeError as error:
        told = short_trace(error)
    assert 'File "tests/scenarios/store/test_log.py"' in told
    assert "RuntimeError: no object" in told
    assert "JSONDecodeError" in told
    assert str(ROOT) not in told
    assert sys.prefix not in told
