"""How far a run or a link study is, from what its folder holds: at any moment, without touching anything.

TensorFlow is not loaded, no plan is expanded and no result read: 100,000 tasks are counted in a fraction of a second.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from scenarios.schema.errors import ScenarioError
from scenarios.store.database import DATABASE, LOCK, check_identity
from scenarios.store.heartbeat import read_heartbeat
from scenarios.store.integrity import has_table
from scenarios.store.log import LOG, OLDER
from scenarios.store.onlooker import looking
from scenarios.store.plain_files import open_plain
from scenarios.store.run_notes import Planned, planned_by

RECENT_S = 300.0
"""The rate is that of the last so many seconds of a run that goes on."""
_LATEST_TASKS = 100_000
_GUESS_FROM = 0.02
"""Share of the work that has to be done before the time left is guessed: the first rounds pay for compiling."""
_TAIL_BYTES = 256 << 10

State = Literal["running", "done", "interrupted", "failed", "killed", "not begun"]


@dataclass(frozen=True, kw_only=True)
class LastError:
    """The youngest failure: of a task, or of the whole run (`task` None)."""

    at: str
    says: str
    task: str | None = None
    trial: int | None = None


@dataclass(frozen=True, kw_only=True)
class Status:
    """What can be said of a folder; None: not known.

    - `unit`: what is counted, tasks or points of a link study; `skipped` points were not needed;
    - `state` of the last run, `running` only while a process holds the folder; `held_by`: its PID, on `host`;
    - `planned` is what the last run set out to have; `done`, `failed` and `left` are of that, `elsewhere` is stored
      here and of other plans;
    - `rate_per_minute`: tasks (points) stored per minute of late, while it runs; `left_s`: time left [s];
    - `attempts`: failed tasks that were computed again since; `bytes`: sizes on disk.
    """

    folder: str
    scenario: str
    unit: Literal["tasks", "points"]
    state: State
    held_by: int | None
    host: str | None
    sign_of_life_s: float | None
    planned: int | None
    done: int
    failed: int
    left: int | None
    skipped: int
    elsewhere: int
    num_in_hand: int
    in_hand: tuple[str, ...]
    rate_per_minute: float | None
    left_s: float | None
    last_error: LastError | None
    runs: int
    started_at: str | None
    finished_at: str | None
    command: str | None
    attempts: int
    bytes: Mapping[str, int]


def read_status(folder: Path, *, now: datetime | None = None) -> Status:
    """The status of a run folder; ScenarioError if it holds none."""
    path = folder / DATABASE
    if not path.is_file():
        raise ScenarioError(
            file=folder, problem=f"holds no results ({DATABASE} is missing)", remedy="name the folder of a run"
        )
    check_identity(path, scenario_name=None)
    now = datetime.now(UTC) if now is None else now
    held, pid = holder(folder)
    with looking(path) as database:
        return _status(folder, database, held=held, pid=pid, now=now)


def holder(folder: Path) -> tuple[bool, int | None]:
    """Whether a process holds the folder to write to it, and its PID if that is known.

    The lock says so, not the number in it, which outlives its process and may be that of another by now.
    """
    try:
        with os.fdopen(open_plain(folder / LOCK), encoding="ascii", errors="replace") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                digits = "".join(one for one in lock.read(32) if one.isdigit())
                return True, int(digits) if digits else None
    except OSError:
        pass
    return False, None


def _status(folder: Path, database: sqlite3.Connection, *, held: bool, pid: int | None, now: datetime) -> Status:
    (name,) = database.execute("SELECT value FROM meta WHERE key = 'scenario_name'").fetchone()
    (runs,) = database.execute("SELECT count(*) FROM runs").fetchone()
    last = database.execute(
        "SELECT id, command, started_at, finished_at, status FROM runs ORDER BY id DESC LIMIT 1"
    ).fetchone()
    run, command, started_at, finished_at, noted = last if last is not None else (None,) * 5
    heart = read_heartbeat(folder)
    if heart is not None and heart["run"] != run:
        heart = None  # of a run before
    state: State = "running" if held else "killed" if noted == "running" else noted or "not begun"
    planned = None if run is None else planned_by(database, run)
    count = _points if has_table(database, "link_points") else _tasks
    tally = count(database, planned, since=started_at if held else None)
    elapsed = None if started_at is None else (now - _time(started_at)).total_seconds()
    rate = None
    if held and elapsed is not None and tally.column is not None:
        window = max(min(RECENT_S, elapsed), 1.0)
        rate = 60.0 / window * _stored_since(database, tally.column, now - timedelta(seconds=window))
    live = heart if held else None
    return Status(
        folder=str(folder),
        scenario=name,
        unit=tally.unit,
        state=state,
        held_by=pid,
        host=None if live is None else live["host"],
        sign_of_life_s=None if heart is None else max((now - _time(heart["updated_at"])).total_seconds(), 0.0),
        planned=None if planned is None else planned.tasks,
        done=tally.done,
        failed=tally.failed,
        left=tally.left,
        skipped=tally.skipped,
        elsewhere=tally.elsewhere,
        num_in_hand=0 if live is None else live["num_in_hand"],
        in_hand=() if live is None else tuple(map(str, live["in_hand"])),
        rate_per_minute=rate,
        left_s=_time_left(live, tally.left, rate),
        last_error=tally.last_error if state != "failed" else _error_of_run(folder) or tally.last_error,
        runs=runs,
        started_at=started_at,
        finished_at=finished_at,
        command=command,
        attempts=_count(database, "attempts"),
        bytes=_sizes(folder),
    )


# --- what is counted ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Tally:
    unit: Literal["tasks", "points"]
    done: int
    failed: int
    left: int | None
    skipped: int = 0
    elsewhere: int = 0
    last_error: LastError | None = None
    column: tuple[str, str] | None = None  # table and column of the times at which something was stored


def _tasks(database: sqlite3.Connection, planned: Planned | None, *, since: str | None) -> _Tally:
    query = "SELECT count(*), total(status = 'failed'), max(CASE WHEN status = 'failed' THEN id END) FROM tasks"
    stored, failed, youngest = database.execute(query).fetchone()
    failed = int(failed)
    done = stored - failed
    error = None
    if failed:
        query = "SELECT finished_at, failure, task_id, trial FROM tasks WHERE id = ?"
        at, says, task, trial = database.execute(query, (youngest,)).fetchone()
        error = LastError(at=at, says=says or "", task=task, trial=trial)
    column = ("tasks", "finished_at")
    if planned is None:
        return _Tally(unit="tasks", done=done, failed=failed, left=None, last_error=error, column=column)
    done -= planned.others - planned.others_failed
    failed -= planned.others_failed
    if since is not None and planned.again:
        # Those that wait to be computed again count as left.
        query = "SELECT count(*) FROM attempts WHERE replaced_at >= ?"
        failed -= max(planned.again - database.execute(query, (since,)).fetchone()[0], 0)
    return _Tally(
        unit="tasks",
        done=max(done, 0),
        failed=max(failed, 0),
        left=max(planned.tasks - done - failed, 0),
        elsewhere=planned.others,
        last_error=error,
        column=column,
    )


def _points(database: sqlite3.Connection, planned: Planned | None, *, since: str | None) -> _Tally:
    del since
    (done,) = database.execute("SELECT count(*) FROM link_points WHERE stop IS NOT NULL").fetchone()
    column = ("link_points", "stopped_at")
    if planned is None:
        return _Tally(unit="points", done=done, failed=0, left=None, column=column)
    done -= planned.others
    return _Tally(
        unit="points",
        done=max(done, 0),
        failed=0,
        left=max(planned.tasks - done - planned.skipped, 0),
        skipped=planned.skipped,
        elsewhere=planned.others,
        column=column,
    )


def _stored_since(database: sqlite3.Connection, column: tuple[str, str], since: datetime) -> int:
    table, time = column
    query = f"SELECT count(*) FROM (SELECT {time} AS at FROM {table} ORDER BY id DESC LIMIT {_LATEST_TASKS})"
    # All times are written by `utc_now`: their order as text is theirs in time.
    row = database.execute(f"{query} WHERE at >= ?", (since.isoformat(timespec="seconds"),)).fetchone()
    return int(row[0])


def _count(database: sqlite3.Connection, table: str) -> int:
    if not has_table(database, table):
        return 0
    return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _time_left(heart: Mapping[str, Any] | None, left: int | None, rate: float | None) -> float | None:
    """By the rounds that were done in this run, where they are known and enough, else by tasks."""
    if heart is not None and (to_do := heart["total"] - heart["restored"]) > 0 and heart["seconds"] > 0:
        done = min(heart["done"], to_do)
        return heart["seconds"] * (to_do - done) / done if done >= max(_GUESS_FROM * to_do, 1) else None
    return 60.0 * left / rate if left is not None and rate else None


def _time(text: str) -> datetime:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return datetime.now(UTC)
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _error_of_run(folder: Path) -> LastError | None:
    """Why the last run ended, as the log tells it."""
    try:
        with os.fdopen(open_plain(folder / LOG), "rb") as file:
            file.seek(-min(_TAIL_BYTES, file.seek(0, 2)), 2)
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict) and told.get("event") == "run-ended":
            return LastError(at=str(told.get("time")), says=str(told.get("says")))
    return None


def _sizes(folder: Path) -> dict[str, int]:
    sizes = {
        "store": sum(_size(folder / f"{DATABASE}{end}") for end in ("", "-wal")),
        "log": _size(folder / LOG) + _size(folder / OLDER),
        "all": 0,
    }
    with contextlib.suppress(OSError):
        sizes["all"] = sum(_size(file) for file in folder.rglob("*") if not file.is_symlink())
    return sizes


def _size(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:
        return 0
