"""Checkpoints of tasks under way, in a small folder beside the store, empty most of the time.

A file is a blob whose content is the state of trials that are computed together. It is replaced as a whole. Its name
has the start of the first task's identity, and the number of trials.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fl.base.checkpoints import Saved, State
from fl.base.words import plural
from scenarios.files.log import event, logger
from scenarios.files.plain_files import open_plain
from scenarios.files.provenance import PACKAGES, find_version
from scenarios.files.replacement import replacement
from scenarios.plan.identity import task_ids
from scenarios.store.blobs import Blob, BlobError, pack

CHECKPOINTS = "checkpoints"
"""The folder, inside that of the run."""

_NAMED = 32
"""Digits of the identity of a task in the name of a file."""
_MOST_OF_THE_TIME = 0.01
"""Share of the time that checkpoints by the clock may take."""

_log = logger("checkpoint")


@dataclass(frozen=True, kw_only=True)
class CheckpointPolicy:
    """Where checkpoints are kept, and when: after every `rounds`, after every so many `minutes` (0: never), or both.

    By the clock they are made more seldom where one takes long: they take at most 1 % of the time.
    """

    folder: Path
    rounds: int | None = None
    minutes: float = 1.0


@dataclass
class TaskCheckpoints:
    """A `fl.base.checkpoints.Checkpoints` on a file, for trials of the point whose identity is the JSON `physics`."""

    policy: CheckpointPolicy
    physics: str
    trials: tuple[int, ...]
    _last_s: float = field(init=False, default_factory=time.monotonic)
    _asked_s: float = field(init=False, default=0.0)
    _took_s: float = field(init=False, default=0.0)
    _rounds: int = field(init=False, default=0)

    @cached_property
    def about(self) -> dict[str, Any]:
        """What determines the numbers: the tasks, and versions of phyloop and its libraries."""
        versions = {name: find_version(candidates) for name, candidates in PACKAGES.items()}
        return {"tasks": list(task_ids(self.physics, trials=self.trials)), "versions": versions}

    @property
    def path(self) -> Path:
        """The file."""
        return self.policy.folder / f"{self.about['tasks'][0][:_NAMED]}-{len(self.trials)}.ckpt"

    def saved(self) -> Saved | None:
        """See `fl.base.checkpoints.Checkpoints.saved`; a file that is not whole, or of other tasks, is left aside."""
        if not self.path.exists() or (self.policy.rounds is None and self.policy.minutes <= 0.0):
            return None
        try:
            about, state = read_checkpoint(self.path)
            self._rounds = about.pop("rounds")
            if about != self.about:
                raise BlobError("it is of other tasks, or other versions of phyloop or its libraries made it")
        except (BlobError, OSError, LookupError) as error:
            self._leave_aside(str(error))
            return None
        fields = event("checkpoint-taken", file=self.path.name, rounds=self._rounds, trials=list(self.trials))
        _log.info("%d rounds are taken from %s", self._rounds, self.path, extra=fields)
        return Saved(rounds_done=self._rounds, state=state)

    def refuse(self, saved: Saved, why: str) -> None:
        """See `fl.base.checkpoints.Checkpoints.refuse`."""
        self._leave_aside(f"its state after {plural(saved.rounds_done, 'round')} is not of this task: {why}")

    def due(self, rounds_done: int) -> bool:
        """See `fl.base.checkpoints.Checkpoints.due`."""
        self._asked_s = time.monotonic()
        if self.policy.rounds is not None and rounds_done - self._rounds >= self.policy.rounds:
            return True
        pause_s = max(60.0 * self.policy.minutes, self._took_s * (1.0 / _MOST_OF_THE_TIME - 1.0))
        return self.policy.minutes > 0.0 and self._asked_s - self._last_s >= pause_s

    def save(self, rounds_done: int, state: State) -> None:
        """See `fl.base.checkpoints.Checkpoints.save`."""
        self._rounds, folder = rounds_done, self.policy.folder
        try:
            # The folder of the run itself is not made: another machine may not have it.
            folder.mkdir(exist_ok=True)
            write_checkpoint(self.path, about={**self.about, "rounds": rounds_done}, state=state)
            seconds = round(time.monotonic() - self._asked_s, 3)
            fields = event("checkpoint-saved", rounds=rounds_done, trials=list(self.trials), seconds=seconds)
            _log.debug("%d rounds are saved in %s", rounds_done, self.path, extra=fields)
        except OSError as error:
            fields = event("checkpoint-failed", trials=list(self.trials), reason=str(error), many=True)
            _log.warning("checkpoints cannot be kept in %s (%s); the run goes on", folder, error, extra=fields)
        self._last_s = time.monotonic()
        self._took_s = self._last_s - self._asked_s

    def _leave_aside(self, why: str) -> None:
        self._rounds = 0
        fields = event("checkpoint-refused", file=self.path.name, reason=why)
        _log.warning("%s is left aside: %s; the task begins anew", self.path, why, extra=fields)


def discard(folder: Path, *, tasks: Collection[str]) -> None:
    """Delete the files of trials whose first is one of `tasks`, half written ones too: results of them are stored."""
    named = {one[:_NAMED] for one in tasks}
    with suppress(OSError):
        for path in folder.iterdir():
            if path.name[:_NAMED] in named:
                path.unlink(missing_ok=True)
        folder.rmdir()


def write_checkpoint(path: Path, *, about: Mapping[str, Any], state: State) -> None:
    """Write the file whole or not at all. Raises OSError; ValueError for a state that no blob holds."""
    parts = pack(about, state)
    with replacement(path) as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())


def read_checkpoint(path: Path) -> tuple[dict[str, Any], State]:
    """Return what a file is about, and the state. Raises BlobError for other files, OSError."""
    with os.fdopen(open_plain(path), "rb") as file:
        blob = Blob(file, most=os.fstat(file.fileno()).st_size)
        try:
            return dict(json.loads(blob.about)), dict(blob.read())
        except (ValueError, TypeError, RecursionError) as error:
            raise BlobError(f"it is not a checkpoint ({error})") from error
