"""`progress.json` in a run folder: who computes there, how far it is and what is in hand, for `phyloop status`.

Replaced as a whole every few seconds. It is a help for whoever watches, and no run depends on it: what is finished is
in the store alone, and the lock of the folder shows whether the process lives.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import AwareDatetime, ConfigDict, TypeAdapter

from scenarios.files.plain_files import open_plain
from scenarios.files.replacement import replace_text

PROGRESS = "progress.json"
EVERY_S = 2.0
IN_HAND_SHOWN = 8
"""Jobs in hand that are named; `num_in_hand` counts all of them."""


@dataclass(kw_only=True)
class Beat:
    """Content of the file: trial-rounds (or games, or packets) in total and so far, and the work in hand."""

    __pydantic_config__ = ConfigDict(strict=True)

    run: int
    host: str = field(default_factory=socket.gethostname)
    updated_at: AwareDatetime = field(default_factory=lambda: datetime.now(UTC))
    total: int = 0
    restored: int = 0
    done: int = 0
    seconds: float = 0.0
    num_in_hand: int = 0
    in_hand: list[str] = field(default_factory=list)


_BEAT = TypeAdapter(Beat)


class Heartbeat:
    """Writes the file of run number `run` in `folder`, now and then; a disk that refuses stops nothing.

    Its methods `start` to `settled` are those of `scenarios.engine.study.Progress`.
    """

    def __init__(self, folder: Path, *, run: int) -> None:
        self._path, self._beat = folder / PROGRESS, Beat(run=run)
        self._in_hand: dict[object, str] = {}
        self._began = self._written = float("-inf")
        self._write()

    def start(self, total: int) -> None:
        self._began, self._beat.total = time.monotonic(), total
        self._write()

    def advance(self, units: int) -> None:
        self._beat.done += units
        self._write(at_once=False)

    def restored(self, units: int) -> None:
        self._beat.restored += units
        self._write(at_once=False)

    def taken(self, key: object, text: str) -> None:
        self._in_hand[key] = text
        self._write(at_once=False)

    def settled(self, key: object) -> None:
        self._in_hand.pop(key, None)
        self._write(at_once=False)

    def end(self) -> None:
        """Note that nothing is in hand any more."""
        self._in_hand.clear()
        self._write()

    def _write(self, *, at_once: bool = True) -> None:
        now, beat = time.monotonic(), self._beat
        if not at_once and now - self._written < EVERY_S:
            return
        self._written, beat.updated_at = now, datetime.now(UTC)
        beat.seconds = round(now - self._began, 3) if beat.total else 0.0
        beat.num_in_hand, beat.in_hand = len(self._in_hand), list(self._in_hand.values())[:IN_HAND_SHOWN]
        with suppress(OSError):
            replace_text(self._path, _BEAT.dump_json(beat).decode() + "\n")


def read_heartbeat(folder: Path) -> Beat | None:
    """Return what the file says; None without one, or if it is not what this version writes."""
    try:
        with os.fdopen(open_plain(folder / PROGRESS), encoding="utf-8") as file:
            return _BEAT.validate_json(file.read(1 << 20))
    except (OSError, ValueError):
        return None
