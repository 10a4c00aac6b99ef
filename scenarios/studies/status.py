"""Progress of a study, from its folder alone, at any moment.

TensorFlow is not loaded, no plan is expanded and no result read: 100,000 tasks are counted in a fraction of a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, cast

from scenarios.files.heartbeat import Beat, read_heartbeat
from scenarios.files.log import LOG, OLDER
from scenarios.files.plain_files import RESULTS, holder
from scenarios.store.rows import Planned
from scenarios.store.store import Store, telling_damage

RECENT_S = 300.0
"""The rate is that of the last so many seconds of a run that goes on."""
_GUESS_FROM = 0.02
"""Share of the work that has to be done before the time left is guessed: the first rounds pay for compiling."""

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
    with Store.open_existing(folder) as store, telling_damage(store.path):
        return _status(store, now=datetime.now(UTC) if now is None else now)


def _status(store: Store, *, now: datetime) -> Status:
    folder, runs, (held, pid) = store.folder, tuple(store.runs.values()), holder(store.folder)
    last = runs[-1] if runs else None
    heart = read_heartbeat(folder)
    if heart is not None and heart.run != len(runs):
        heart = None  # of an earlier run
    noted = "not begun" if last is None else last.status
    state: State = "running" if held else "killed" if noted == "running" else cast("State", noted)
    planned = None if last is None else last.planned
    live = heart if held else None
    rate = None
    if held and last is not None:
        window = max(min(RECENT_S, (now - datetime.fromisoformat(last.started_at)).total_seconds()), 1.0)
        # All times are written by `utc_now`: their order as text is theirs in time.
        since = (now - timedelta(seconds=window)).isoformat(timespec="seconds")
        rate = 60.0 / window * sum(task.status != "part" and task.finished_at >= since for task in store.tasks.values())
    done, failed, left = _count(store, planned, since=last.started_at if held and last is not None else None)
    plan = Planned(tasks=0) if planned is None else planned
    return Status(
        folder=str(folder),
        scenario=store.identity.scenario,
        unit="points" if store.identity.study in ("link", "audit") else "tasks",
        state=state,
        held_by=pid,
        host=None if live is None else live.host,
        sign_of_life_s=None if heart is None else max((now - heart.updated_at).total_seconds(), 0.0),
        planned=None if planned is None else planned.tasks,
        done=done,
        failed=failed,
        left=left,
        skipped=plan.skipped,
        elsewhere=plan.others,
        num_in_hand=0 if live is None else live.num_in_hand,
        in_hand=() if live is None else tuple(live.in_hand),
        rate_per_minute=rate,
        left_s=_time_left(live, left, rate),
        last_error=_last_error(store),
        runs=len(runs),
        started_at=getattr(last, "started_at", None),
        finished_at=getattr(last, "finished_at", None),
        command=getattr(last, "command", None),
        attempts=len(store.replaced),
        bytes=_sizes(folder),
    )


def _count(store: Store, planned: Planned | None, *, since: str | None) -> tuple[int, int, int | None]:
    """Return how many tasks of the plan are done, failed and left; `since`: start of a run that goes on."""
    numbers = Counter(task.status for task in store.tasks.values())
    done, failed = numbers["done"], numbers["failed"]
    if planned is None:
        return done, failed, None
    done -= planned.others - planned.others_failed
    failed -= planned.others_failed
    if since is not None and planned.again:
        # Failed tasks that wait to be computed again count as left.
        failed -= max(planned.again - sum(at >= since for _, at in store.replaced), 0)
    done, failed = max(done, 0), max(failed, 0)
    return done, failed, max(planned.tasks - done - failed - planned.skipped, 0)


def _last_error(store: Store) -> LastError | None:
    """Return the error that ended the last run, if one did, or the youngest failure of a task."""
    runs = tuple(store.runs.values())
    if runs and runs[-1].status == "failed":
        return LastError(at=runs[-1].finished_at or "", says=runs[-1].failure or "")
    failed = (task for task in store.tasks.values() if task.status == "failed")
    last = max(failed, key=lambda task: (task.batch, task.row), default=None)
    if last is None:
        return None
    return LastError(at=last.finished_at, says=last.failure or "", task=last.task_id, trial=last.trial)


def _time_left(heart: Beat | None, left: int | None, rate: float | None) -> float | None:
    """Return the time left [s] by the rounds of this run, where enough of them are known, or by tasks."""
    if heart is not None and (to_do := heart.total - heart.restored) > 0 and heart.seconds > 0:
        done = min(heart.done, to_do)
        return heart.seconds * (to_do - done) / done if done >= max(_GUESS_FROM * to_do, 1) else None
    return 60.0 * left / rate if left is not None and rate else None


def _sizes(folder: Path) -> dict[str, int]:
    """Return the bytes on disk of the store, of the log and of all files."""
    sizes: Counter[str] = Counter(store=0, log=0, all=0)
    for file in folder.rglob("*"):
        with suppress(OSError):  # gone since it was listed
            if file.is_file() and not file.is_symlink():
                size, name = file.stat().st_size, file.relative_to(folder).as_posix()
                sizes["all"] += size
                sizes["store"] += size * (name == RESULTS)
                sizes["log"] += size * (name in (LOG, OLDER))
    return dict(sizes)
