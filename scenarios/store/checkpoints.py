"""Checkpoints of tasks under way, kept beside the store in one small folder, empty most of the time.

A file belongs to trials that are computed together. It is named by what determines their numbers, and by the rounds
done: `DIGEST.ROUNDS.ckpt`. The newest two are kept: the newest may be torn. A file is a blob, whose `detail` is the
state as JSON with a place for every array.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from fl.checkpoints import Saved, State
from scenarios.files.log import event, logger
from scenarios.files.plain_files import open_plain
from scenarios.files.provenance import PACKAGES, find_version
from scenarios.files.replacement import replacement
from scenarios.plan.identity import canonical_json, task_id
from scenarios.store.blobs import Array, Blob, BlobError, pack

CHECKPOINTS = "checkpoints"
"""The folder, inside that of the run."""
VERSION = 5

_NAME = re.compile(r"([0-9a-f]{32})\.(\d{1,18})\.ckpt")
_GENERATIONS = 2
_MOST_OF_THE_TIME = 0.01
"""Share of the time that checkpoints by the clock may take."""
_ARRAY = "\0array"
"""Key of the place of an array; no name of a state begins with NUL."""

_log = logger("checkpoint")
_unwritable: set[Path] = set()
"""Folders that could not be written to; each process says so once."""


@dataclass(frozen=True, kw_only=True)
class About:
    """What a file is a checkpoint of: rounds done, identities of the tasks, versions of phyloop and its libraries."""

    __pydantic_config__ = ConfigDict(strict=True)

    rounds_done: int
    tasks: list[str]
    versions: dict[str, str | None]


_ABOUT = TypeAdapter(About)


@dataclass(frozen=True, kw_only=True)
class CheckpointPolicy:
    """Where checkpoints are kept, and when: after every `rounds`, after every so many `minutes` (0: never), or both.

    By the clock they are made more seldom where one takes long: they take at most 1 % of the time.
    """

    folder: Path
    rounds: int | None = None
    minutes: float = 1.0

    def of(self, physics: str, trials: Sequence[int]) -> TaskCheckpoints:
        """Those of some trials, computed together, of the point whose identity is the JSON `physics`."""
        return TaskCheckpoints(policy=self, physics=physics, trials=tuple(trials))


@dataclass(kw_only=True)
class TaskCheckpoints:
    """A `fl.checkpoints.Checkpoints` on files."""

    policy: CheckpointPolicy
    physics: str
    trials: tuple[int, ...]
    _last_s: float = field(init=False, default_factory=time.monotonic)
    _asked_s: float = field(init=False, default=0.0)
    _rounds: int = field(init=False, default=0)
    _took_s: float = field(init=False, default=0.0)

    @property
    def digest(self) -> str:
        """The first part of the files' names."""
        text = canonical_json({"physics": self.physics, "trials": list(self.trials), "version": VERSION})
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def saved(self) -> Iterator[Saved]:
        """See `fl.checkpoints.Checkpoints.saved`; files that are not whole, or another version's, are left out."""
        if self.policy.rounds is None and self.policy.minutes <= 0.0:
            return
        for path in self._files():
            try:
                about, state = read_checkpoint(path)
                if about != self._about(about.rounds_done):
                    raise BlobError("it is of other tasks, or other versions of phyloop or its libraries made it")
            except (BlobError, OSError) as error:
                _leave_aside(path, str(error))
                continue
            fields = event("checkpoint-taken", file=path.name, rounds=about.rounds_done, trials=list(self.trials))
            _log.info("%d rounds of %s are taken from %s", about.rounds_done, self._trials, path, extra=fields)
            self._rounds = about.rounds_done
            yield Saved(rounds_done=about.rounds_done, state=state)
        self._rounds = 0

    def refuse(self, saved: Saved, why: str) -> None:
        """See `fl.checkpoints.Checkpoints.refuse`."""
        _leave_aside(self._path(saved.rounds_done), f"it is not of this task: {why}")

    def due(self, rounds_done: int) -> bool:
        """See `fl.checkpoints.Checkpoints.due`."""
        self._asked_s = time.monotonic()
        if self.policy.rounds is not None and rounds_done - self._rounds >= self.policy.rounds:
            return True
        pause_s = max(60.0 * self.policy.minutes, self._took_s * (1.0 / _MOST_OF_THE_TIME - 1.0))
        return self.policy.minutes > 0.0 and self._asked_s - self._last_s >= pause_s

    def save(self, rounds_done: int, state: State) -> None:
        """See `fl.checkpoints.Checkpoints.save`."""
        self._rounds = rounds_done
        folder, trials = self.policy.folder, list(self.trials)
        try:
            # The folder of the run itself is not made: another machine may not have it.
            folder.mkdir(exist_ok=True)
            write_checkpoint(self._path(rounds_done), about=self._about(rounds_done), state=state)
            for old in self._files()[_GENERATIONS:]:
                old.unlink(missing_ok=True)
        except OSError as error:
            if folder not in _unwritable:
                _unwritable.add(folder)
                fields = event("checkpoint-failed", trials=trials, reason=str(error))
                _log.warning("checkpoints cannot be kept in %s (%s); the run goes on", folder, error, extra=fields)
        else:
            seconds = round(time.monotonic() - self._asked_s, 3)
            fields = event("checkpoint-saved", rounds=rounds_done, trials=trials, seconds=seconds)
            _log.debug("checkpoint of %s after %d rounds", self._trials, rounds_done, extra=fields)
        self._last_s = time.monotonic()
        self._took_s = self._last_s - self._asked_s

    def _path(self, rounds_done: int) -> Path:
        return self.policy.folder / f"{self.digest}.{rounds_done}.ckpt"

    def _files(self) -> list[Path]:
        """Of these trials, the newest first."""
        found = [one for one in _checkpoints_in(self.policy.folder) if one.name.startswith(self.digest)]
        return sorted(found, key=lambda path: int(path.name.split(".")[1]), reverse=True)

    @property
    def _trials(self) -> str:
        return f"trials {min(self.trials)} to {max(self.trials)}"

    def _about(self, rounds_done: int) -> About:
        return About(
            rounds_done=rounds_done,
            tasks=[task_id(self.physics, trial) for trial in self.trials],
            versions={name: find_version(candidates) for name, candidates in PACKAGES.items()},
        )


def discard(folder: Path, *, tasks: Collection[str], torn: bool = False) -> None:
    """Delete the files of `tasks`, whose results are stored, and those that cannot be read.

    `torn`: files that killed processes left half written go as well; no other process may be at work.
    """
    for path in _checkpoints_in(folder):
        with suppress(OSError):
            try:
                with _opened(path) as (about, _):
                    finished = set(about.tasks) <= set(tasks)
            except BlobError:
                finished = True
            if finished:
                path.unlink()
    with suppress(OSError):
        for path in folder.glob(".*.ckpt.*.tmp") if torn else ():
            path.unlink()
        folder.rmdir()


def write_checkpoint(path: Path, *, about: About, state: State) -> None:
    """Write the file whole or not at all; one that a power cut tears does not verify, and the older one is taken.

    Raises OSError; TypeError or ValueError for a state that no blob holds.
    """
    arrays: dict[str, Array] = {}

    def place_of(value: Any) -> object:
        if hasattr(value, "items"):
            return dict(value)
        arrays[name := str(len(arrays))] = value
        return {_ARRAY: name}

    text = json.dumps(state, default=place_of)
    # Not deflated: weights hardly shrink, and a checkpoint must not hold up the rounds.
    parts = pack(arrays, about=vars(about), detail=text, compress=False)
    with replacement(path) as file:
        file.writelines(parts)


def read_checkpoint(path: Path) -> tuple[About, State]:
    """Return what a file is a checkpoint of, and the state. Raises BlobError for other files, OSError."""

    def rebuilt(part: dict[str, Any]) -> Any:
        return blob.array(str(part[_ARRAY])) if _ARRAY in part else part

    with _opened(path) as (about, blob):
        state: State = json.loads(blob.detail, object_hook=rebuilt)
        return about, dict(state)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[About, Blob]]:
    """Open a file; BlobError, also of the block, for one that nobody wrote."""
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            blob = Blob(file, most=os.fstat(file.fileno()).st_size)
            yield _ABOUT.validate_json(blob.about), blob
    except (ValueError, TypeError, RecursionError) as error:
        raise BlobError(f"it is not a checkpoint ({str(error).splitlines()[0]})") from error


def _checkpoints_in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except OSError:
        return []


def _leave_aside(path: Path, why: str) -> None:
    fields = event("checkpoint-refused", file=path.name, reason=why)
    _log.warning("%s is left aside: %s; an older one is taken, or the task begins anew", path, why, extra=fields)
