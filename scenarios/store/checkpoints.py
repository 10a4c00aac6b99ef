"""How far tasks have come, kept beside the store while they are computed: one small folder, empty most of the time.

A file belongs to what is computed at a time: a trial, or trials side by side. It is named by what determines the
numbers, and by the rounds done: `DIGEST.ROUNDS.ckpt`. The newest two are kept, lest the newest be torn.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fl.checkpoints import Saved, State
from scenarios.files.log import event, logger
from scenarios.files.plain_json import fits
from scenarios.files.provenance import PACKAGES, find_version
from scenarios.plan.identity import canonical_json, task_id
from scenarios.store.blobs import BlobError
from scenarios.store.checkpoint_files import VERSION, Checkpoint, read_about, read_checkpoint, write_checkpoint

CHECKPOINTS = "checkpoints"
"""The folder, inside that of the run."""

_NAME = re.compile(r"([0-9a-f]{32})\.(\d{1,18})\.ckpt")
_UNFINISHED = re.compile(r"\.[0-9a-f]{32}\.\d{1,18}\.ckpt\.\d+\.tmp")
_GENERATIONS = 2
_MOST_OF_THE_TIME = 0.01
"""Share of the time that checkpoints by the clock may take."""

_log = logger("checkpoint")
_told_of: set[Path] = set()
"""Folders that could not be written to, which is said once by each process."""


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
        return digest_of(self.physics, self.trials)

    def saved(self) -> Iterator[Saved]:
        """See `fl.checkpoints.Checkpoints.saved`; files that are not whole, or another version's, are left out."""
        if self.policy.rounds is None and self.policy.minutes <= 0.0:
            return
        about = self._about()
        for path in self._files():
            try:
                found = read_checkpoint(path)
                rounds_done: Any = found.about.get("rounds_done")
                if found.about != {"rounds_done": rounds_done, **about} or not fits(rounds_done, int):
                    raise BlobError("it is of other tasks, or other versions of phyloop or its libraries made it")
            except (BlobError, OSError) as error:
                self._leave_aside(path, str(error))
                continue
            fields = event("checkpoint-taken", file=path.name, rounds=rounds_done, trials=list(self.trials))
            _log.info("%d rounds of %s are taken from %s", rounds_done, self._trials, path, extra=fields)
            self._rounds = rounds_done
            yield Saved(rounds_done=rounds_done, state=found.state)
        self._rounds = 0

    def refuse(self, saved: Saved, why: str) -> None:
        """See `fl.checkpoints.Checkpoints.refuse`."""
        self._leave_aside(self._path(saved.rounds_done), f"it is not of this task: {why}")

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
        about = {"rounds_done": rounds_done, **self._about()}
        try:
            # The folder of the run itself is not made: another machine may not have it.
            self.policy.folder.mkdir(exist_ok=True)
            write_checkpoint(self._path(rounds_done), Checkpoint(about=about, state=state))
            for old in self._files()[_GENERATIONS:]:
                old.unlink(missing_ok=True)
        except OSError as error:
            self._say_that_nothing_is_kept(error)
        else:
            seconds = round(time.monotonic() - self._asked_s, 3)
            fields = event("checkpoint-saved", rounds=rounds_done, trials=list(self.trials), seconds=seconds)
            _log.debug("checkpoint of %s after %d rounds", self._trials, rounds_done, extra=fields)
        self._last_s = time.monotonic()
        self._took_s = self._last_s - self._asked_s

    def _leave_aside(self, path: Path, why: str) -> None:
        fields = event("checkpoint-refused", file=path.name, reason=why)
        _log.warning("%s is left aside: %s; an older one is taken, or the task begins anew", path, why, extra=fields)

    def _say_that_nothing_is_kept(self, error: OSError) -> None:
        if self.policy.folder in _told_of:
            return
        _told_of.add(self.policy.folder)
        _log.warning(
            "how far %s have come cannot be kept in %s (%s); they go on, and would begin anew after an interruption",
            self._trials,
            self.policy.folder,
            error.strerror or error,
            extra=event("checkpoint-failed", trials=list(self.trials), reason=str(error)),
        )

    def _path(self, rounds_done: int) -> Path:
        return self.policy.folder / f"{self.digest}.{rounds_done}.ckpt"

    def _files(self) -> list[Path]:
        """Of these trials, the newest first."""
        found = [one for one in _matching(self.policy.folder, _NAME) if one.name.startswith(self.digest)]
        return sorted(found, key=lambda path: int(path.name.split(".")[1]), reverse=True)

    @property
    def _trials(self) -> str:
        return f"trials {min(self.trials)} to {max(self.trials)}"

    def _about(self) -> dict[str, Any]:
        return {
            "tasks": [task_id(self.physics, trial) for trial in self.trials],
            "versions": {name: find_version(candidates) for name, candidates in PACKAGES.items()},
        }


def digest_of(physics: str, trials: Sequence[int]) -> str:
    """Names the files of trials that are computed together."""
    text = canonical_json({"physics": physics, "trials": list(trials), "version": VERSION})
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def discard(folder: Path, *, tasks: Collection[str], digests: Collection[str] = (), torn: bool = False) -> None:
    """Delete the files of `tasks`, whose results are stored, and those named by `digests` whatever is in them.

    `torn`: files that killed processes left half written go as well; no other process may be at work. Files that
    cannot be read are left where they are: they may be another version's.
    """
    gone = _matching(folder, _UNFINISHED) if torn else []
    for path in _matching(folder, _NAME):
        # Trials that were begun again in smaller groups have files of other names.
        with suppress(BlobError, OSError):
            if path.name.split(".")[0] in digests or _is_finished(read_about(path).get("tasks"), tasks):
                gone.append(path)
    for path in gone:
        with suppress(OSError):
            path.unlink()
    with suppress(OSError):
        folder.rmdir()


def _is_finished(found: Any, tasks: Collection[str]) -> bool:
    return fits(found, [str]) and bool(found) and set(found) <= set(tasks)


def _matching(folder: Path, names: re.Pattern[str]) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if names.fullmatch(path.name))
    except OSError:
        return []
