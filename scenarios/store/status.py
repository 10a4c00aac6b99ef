"""How far a run or a link study is, from what its folder holds: at any moment, without touching anything.

TensorFlow is not loaded, no plan is expanded and no result read: 100,000 tasks are counted in a fraction of a second.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, cast

from scenarios.files.heartbeat import read_heartbeat
from scenarios.files.lock import holder
from scenarios.files.log import LOG, OLDER
from scenarios.files.plain_files import DATABASE, JOURNAL, open_plain
from scenarios.files.plain_json import fits
from scenarios.store.folder import RunFolder
from scenarios.store.rows import Planned

RECENT_S = 300.0
"""The rate is that of the last so many seconds of a run that goes on."""
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
    """Return the status of a run folder; ScenarioError if it holds none."""
    with RunFolder.open_existing(folder) as store:
        held, pid = holder(folder)
        return _status(store, held=held, pid=pid, now=datetime.now(UTC) if now is None else now)


def _status(store: RunFolder, *, held: bool, pid: int | None, now: datetime) -> Status:
    folder, runs = store.folder, store.read_runs()
    last = runs[-1] if runs else None
    heart = read_heartbeat(folder)
    if heart is not None and (last is None or heart["run"] != len(runs)):
        heart = None  # of an earlier run
    noted = "not begun" if last is None else last.status
    state: State = "running" if held else "killed" if noted == "running" else cast("State", noted)
    started_at = None if last is None else last.started_at
    planned = None if last is None else last.planned
    done, failed, left = _count(store, planned, since=started_at if held else None)
    rate = None
    if held and started_at is not None:
        window = max(min(RECENT_S, (now - _time(started_at)).total_seconds()), 1.0)
        rate = 60.0 / window * _stored_since(store, now - timedelta(seconds=window))
    live = heart if held else None
    return Status(
        folder=str(folder),
        scenario=store.scenario_name,
        unit="points" if store.identity["study"] in ("link", "audit") else "tasks",
        state=state,
        held_by=pid,
        host=None if live is None else live["host"],
        sign_of_life_s=None if heart is None else max((now - _time(heart["updated_at"])).total_seconds(), 0.0),
        planned=None if planned is None else planned.tasks,
        done=done,
        failed=failed,
        left=left,
        skipped=0 if planned is None else planned.skipped,
        elsewhere=0 if planned is None else planned.others,
        num_in_hand=0 if live is None else live["num_in_hand"],
        in_hand=() if live is None else tuple(live["in_hand"]),
        rate_per_minute=rate,
        left_s=_time_left(live, left, rate),
        last_error=(_error_of_run(folder) if state == "failed" else None) or _last_failure(store),
        runs=len(runs),
        started_at=started_at,
        finished_at=None if last is None else last.finished_at,
        command=None if last is None else last.command,
        attempts=len(store.failed_before()),
        bytes=_sizes(folder),
    )


def _count(store: RunFolder, planned: Planned | None, *, since: str | None) -> tuple[int, int, int | None]:
    """Return how many tasks of the plan are done, failed and left."""
    numbers = Counter(task.status for task in store.tasks.values())
    done, failed = numbers["done"], numbers["failed"]
    if planned is None:
        return done, failed, None
    done -= planned.others - planned.others_failed
    failed -= planned.others_failed
    if since is not None and planned.again:
        # Failed tasks that wait to be computed again count as left.
        failed -= max(planned.again - sum(at >= since for _, at in store.failed_before()), 0)
    done, failed = max(done, 0), max(failed, 0)
    return done, failed, max(planned.tasks - done - failed - planned.skipped, 0)


def _last_failure(store: RunFolder) -> LastError | None:
    failed = (task for task in store.tasks.values() if task.status == "failed")
    last = max(failed, key=lambda task: (task.batch, task.row), default=None)
    if last is None:
        return None
    return LastError(at=last.finished_at, says=last.failure or "", task=last.task_id, trial=last.trial)


def _stored_since(store: RunFolder, since: datetime) -> int:
    # All times are written by `utc_now`: their order as text is theirs in time.
    text = since.isoformat(timespec="seconds")
    return sum(task.status != "part" and task.finished_at >= text for task in store.history)


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
        if fits(told, {"event": str, "time": str, "says": str}) and told["event"] == "run-ended":
            return LastError(at=told["time"], says=told["says"])
    return None


def _sizes(folder: Path) -> dict[str, int]:
    sizes = {
        "store": sum(_size(folder / name) for name in (DATABASE, JOURNAL)),
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
