"""`progress.json` in a run folder: who computes there, how far it is and what is in hand, for `phyloop status`.

Replaced as a whole every few seconds. It is a help for whoever watches, and no run depends on it: what is finished is
in the store alone, and whether the process still lives the lock of the folder says.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from scenarios.files.clock import utc_now
from scenarios.files.plain_files import open_plain
from scenarios.files.plain_json import fits
from scenarios.files.replacement import replace_text

PROGRESS = "progress.json"
EVERY_S = 2.0
IN_HAND_SHOWN = 8
"""Jobs in hand that are named; their number is told whatever it is."""


_SHAPE: dict[str, Any] = dict.fromkeys(("run", "pid", "total", "restored", "done", "num_in_hand"), int)
_SHAPE |= dict.fromkeys(("host", "started_at", "updated_at", "state", "unit"), str) | {
    "seconds": float,
    "in_hand": [str],
}


class Heartbeat:
    """Writes the file of one run, now and then; disks that refuse are nobody's problem here.

    Nothing is written before `open`: the folder may be somebody else's.
    """

    def __init__(self, *, unit: str, every_s: float | None = None) -> None:
        self._path: Path | None = None
        self._every_s = EVERY_S if every_s is None else every_s
        self._computing_since: float | None = None
        self._written = float("-inf")
        self._in_hand: dict[object, str] = {}
        self._content: dict[str, Any] = {
            "run": 0,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started_at": utc_now(),
            "state": "running",
            "unit": unit,
            "total": 0,
            "restored": 0,
            "done": 0,
        }

    def open(self, folder: Path, run: int) -> None:
        """The folder is ours, and the run has this number in it."""
        self._path = folder / PROGRESS
        self._content["run"] = run
        self.write()

    def begin(self, total: int) -> None:
        """So many units have to be done."""
        self._content["total"] = total
        self._computing_since = time.monotonic()
        self.write()

    def advance(self, units: int) -> None:
        """Hear of units that were done."""
        self._content["done"] += units
        self._now_and_then()

    def restore(self, units: int) -> None:
        """Hear of units that were found done within a task that had begun."""
        self._content["restored"] += units
        self._now_and_then()

    def take(self, key: object, text: str) -> None:
        """Hear that a job is in hand."""
        self._in_hand[key] = text
        self._now_and_then()

    def put_down(self, key: object) -> None:
        """Hear that it is no longer."""
        self._in_hand.pop(key, None)
        self._now_and_then()

    def end(self, state: str) -> None:
        """The run has ended: done, interrupted or failed."""
        self._content["state"] = state
        self._in_hand.clear()
        self.write()

    def _now_and_then(self) -> None:
        if time.monotonic() - self._written >= self._every_s:
            self.write()

    def write(self) -> None:
        """Write it now."""
        if self._path is None:
            return
        self._written = time.monotonic()
        since = self._computing_since
        content = self._content | {
            "updated_at": utc_now(),
            "seconds": 0.0 if since is None else round(self._written - since, 3),
            "num_in_hand": len(self._in_hand),
            "in_hand": list(self._in_hand.values())[:IN_HAND_SHOWN],
        }
        with suppress(OSError):
            replace_text(self._path, json.dumps(content) + "\n")


def read_heartbeat(folder: Path) -> Mapping[str, Any] | None:
    """What the file says; None without one, or if it is not what this version writes."""
    try:
        with os.fdopen(open_plain(folder / PROGRESS), encoding="utf-8") as file:
            content = json.loads(file.read(1 << 20))
    except (OSError, ValueError, RecursionError):
        return None
    return content if fits(content, _SHAPE) else None
