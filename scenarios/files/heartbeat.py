"""`progress.json` in a run folder: who computes there, how far it is and what is in hand, for `phyloop status`.

Replaced as a whole every few seconds. It is a help for whoever watches, and no run depends on it: what is finished is
in the store alone, and the lock of the folder shows whether the process lives.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, ConfigDict, TypeAdapter

from scenarios.files.plain_files import open_plain
from scenarios.files.provenance import utc_now
from scenarios.files.replacement import replace_text

PROGRESS = "progress.json"
EVERY_S = 2.0
IN_HAND_SHOWN = 8
"""Jobs in hand that are named; `num_in_hand` counts all of them."""


@dataclass(frozen=True, kw_only=True)
class Beat:
    """Content of the file: trial-rounds (or games, or packets) in total and so far, and the work in hand."""

    __pydantic_config__ = ConfigDict(strict=True)

    run: int
    pid: int
    host: str
    unit: str
    started_at: str
    updated_at: AwareDatetime
    state: str
    total: int
    restored: int
    done: int
    seconds: float
    num_in_hand: int
    in_hand: list[str]


_BEAT = TypeAdapter(Beat)


class Heartbeat:
    """Writes the file of run number `run` in `folder`, now and then; a disk that refuses stops nothing.

    Its methods `start` to `settled` are those of `scenarios.engine.study.Progress`.
    """

    def __init__(self, folder: Path, *, run: int, unit: str) -> None:
        self._path = folder / PROGRESS
        self._computing_since: float | None = None
        self._written = float("-inf")
        self._in_hand: dict[object, str] = {}
        self._content: dict[str, Any] = {"run": run, "pid": os.getpid(), "host": socket.gethostname(), "unit": unit}
        self._content |= {"started_at": utc_now(), "state": "running", "total": 0, "restored": 0, "done": 0}
        self._write()

    def start(self, total: int) -> None:
        """So many units have to be done."""
        self._content["total"] = total
        self._computing_since = time.monotonic()
        self._write()

    def advance(self, units: int) -> None:
        """So many more units were computed."""
        self._content["done"] += units
        self._now_and_then()

    def restored(self, units: int) -> None:
        """So many more units were found in checkpoints."""
        self._content["restored"] += units
        self._now_and_then()

    def taken(self, key: object, text: str) -> None:
        """A job is in hand."""
        self._in_hand[key] = text
        self._now_and_then()

    def settled(self, key: object) -> None:
        """It no longer is."""
        self._in_hand.pop(key, None)
        self._now_and_then()

    def end(self, state: str) -> None:
        """The run has ended: done, interrupted or failed."""
        self._content["state"] = state
        self._in_hand.clear()
        self._write()

    def _now_and_then(self) -> None:
        if time.monotonic() - self._written >= EVERY_S:
            self._write()

    def _write(self) -> None:
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


def read_heartbeat(folder: Path) -> Beat | None:
    """Return what the file says; None without one, or if it is not what this version writes."""
    try:
        with os.fdopen(open_plain(folder / PROGRESS), encoding="utf-8") as file:
            return _BEAT.validate_json(file.read(1 << 20))
    except (OSError, ValueError):
        return None
