"""The status of a run folder as `phyloop status` tells it: in a few lines, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from fl.base.words import plural
from scenarios.schema.errors import printable
from scenarios.schema.labels.units import byte_size, duration, time_left
from scenarios.studies.status import Status, read_status


def show_status(folder: Path, *, as_json: bool) -> None:
    """`phyloop status`."""
    status = read_status(folder)
    if as_json:
        print(json.dumps(asdict(status), indent=2))
        return
    for line in in_words(status):
        # Names and reasons may come from others' folders: nothing of them may steer a terminal.
        print(printable(line))


def in_words(status: Status) -> Iterator[str]:
    """The lines of `phyloop status`."""
    yield f"{status.folder}: {status.scenario}, {_state(status)}"
    of = "" if status.planned is None else f" of {status.planned}"
    share = f" ({_share(status)} % finished)"
    parts = [f"{status.done}{of} {status.unit} done"]
    if status.unit == "tasks" or status.failed:
        parts.append(f"{status.failed} failed")
    if status.skipped:
        parts.append(f"{status.skipped} not needed")
    if status.left is not None:
        parts.append(f"{status.left} left{share}")
    yield ", ".join(parts)
    if status.rate_per_minute is not None:
        left = "" if status.left_s is None else f", {time_left(status.left_s)}"
        yield f"{status.rate_per_minute:.3g} {status.unit} a minute{left}"
    if status.num_in_hand:
        others = status.num_in_hand - len(status.in_hand)
        yield f"in hand: {'; '.join(status.in_hand)}{f' and {others} more' if others > 0 else ''}"
    if status.last_error is not None:
        error = status.last_error
        what = "the run" if error.task is None else f"task {error.task[:12]} (trial {error.trial})"
        yield f"last failure: {what} at {error.at}: {error.says}"
    if status.attempts:
        yield f"{plural(status.attempts, 'failed task was', 'failed tasks were')} computed again"
    if status.elsewhere:
        yield f"{status.elsewhere} {status.unit} here belong to other settings of this scenario"
    yield (
        f"{byte_size(status.bytes['all'])} on disk, of it {byte_size(status.bytes['store'])} results and "
        f"{byte_size(status.bytes['log'])} log"
    )
    if status.state in ("killed", "interrupted", "failed") and status.command is not None:
        yield f"go on with: {status.command}"


def _state(status: Status) -> str:
    if status.state == "not begun":
        return "no run has begun"
    number = "" if status.runs == 1 else f" (run {status.runs})"
    if status.state == "running":
        who = "an unknown process" if status.held_by is None else f"process {status.held_by}"
        where = "" if status.host is None else f" on {status.host}"
        life = "" if status.sign_of_life_s is None else f", last heard of {duration(status.sign_of_life_s)} ago"
        return f"running since {status.started_at}{number}, in {who}{where}{life}"
    if status.state == "killed":
        return f"killed: nobody computes; the last run began at {status.started_at}{number} and did not end"
    return f"{status.state} at {status.finished_at}{number}; nobody computes"


def _share(status: Status) -> int:
    """Percent of the plan that is finished, rounded down: what is left is never nothing."""
    return 100 * (status.done + status.failed + status.skipped) // max(status.planned or 0, 1)
