"""How far tasks have come, kept beside the store while they are computed: one small folder, empty most of the time.

A file belongs to what is computed at a time: a trial, or trials side by side. It is named by what determines the
numbers, and by the rounds done: `DIGEST.ROUNDS.ckpt`. The newest two are kept, lest the newest be torn.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fl.checkpoints import Saved, State
from scenarios.files.log import event, logger
from scenarios.files.provenance import PACKAGES, find_version
from scenarios.plan.identity import canonical_json, task_id
from scenarios.store.blobs import BlobError
from scenarios.store.checkpoint_files import VERSION, Checkpoint, read_about, read_checkpoint, write_checkpoint

CHECKPOINTS = "checkpoints"
"""The folder, inside that of the run."""

_NAME = re.compile(r"([0-9a-f]{32})\.(\d{1,18})\.ckpt")
_UNFINISHED = re.compile(r"[0-9a-f]{32}\.\d{1,18}\.ckpt\.\d+\.new")
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

    @property
    def any_at_all(self) -> bool:
        """Whether there are ever any."""
        return self.rounds is not None or self.minutes > 0.0

    def of(self, physics: str, trials: Sequence[int]) -> TaskCheckpoints:
        """Those of some trials, computed together, of the point whose identity is the JSON `physics`."""
        return TaskCheckpoints(policy=self, physics=physics, trials=tuple(trials))


@dataclass(kw_only=True)
class TaskCheckpoints:
    """A `fl.checkpoints.Checkpoints` on files."""

    policy: CheckpointPolicy
    physics: str
    trials: tuple[int, ...]
    _last_s: float = field(init=False)
    _asked_s: float = field(init=False)
    _rounds: int = field(init=False, default=0)
    _pause_s: float = field(init=False)

    def __post_init__(self) -> None:
        """The clock starts."""
        self._last_s = self._asked_s = time.monotonic()
        self._pause_s = 60.0 * self.policy.minutes

    @property
    def digest(self) -> str:
        """The first part of the files' names."""
        return digest_of(self.physics, self.trials)

    def saved(self) -> Iterator[Saved]:
        """See `fl.checkpoints.Checkpoints.saved`; files that are not whole, or another version's, are left out."""
        if not self.policy.any_at_all:
            return
        for path in self._files():
            try:
                found = read_checkpoint(path)
                self._check(found)
            except (BlobError, OSError) as error:
                self._leave_aside(path, str(error))
                continue
            rounds_done = int(found.about["rounds_done"])
            fields = event("checkpoint-taken", file=path.name, rounds=rounds_done, trials=list(self.trials))
            _log.info("%d rounds of trials %s are taken from %s", rounds_done, _told(self.trials), path, extra=fields)
            self._rounds = rounds_done
            yield Saved(rounds_done=rounds_done, state=found.state)
        self._rounds = 0

    def refuse(self, saved: Saved, why: str) -> None:
        """See `fl.checkpoints.Checkpoints.refuse`."""
        path = self.policy.folder / _name(self.digest, saved.rounds_done)
        self._leave_aside(path, f"it is not of this task: {why}")

    def due(self, rounds_done: int) -> bool:
        """See `fl.checkpoints.Checkpoints.due`."""
        self._asked_s = time.monotonic()
        if self.policy.rounds is not None and rounds_done - self._rounds >= self.policy.rounds:
            return True
        return self.policy.minutes > 0.0 and self._asked_s - self._last_s >= self._pause_s

    def save(self, rounds_done: int, state: State) -> None:
        """See `fl.checkpoints.Checkpoints.save`."""
        self._rounds = rounds_done
        about = {"rounds_done": rounds_done, **self._about()}
        try:
            # The folder of the run itself is not made: another machine may not have it.
            self.policy.folder.mkdir(exist_ok=True)
            path = self.policy.folder / _name(self.digest, rounds_done)
            write_checkpoint(path, Checkpoint(about=about, state=state))
            for old in self._files()[_GENERATIONS:]:
                old.unlink(missing_ok=True)
        except OSError as error:
            self._say_that_nothing_is_kept(error)
        else:
            seconds = round(time.monotonic() - self._asked_s, 3)
            fields = event("checkpoint-saved", rounds=rounds_done, trials=list(self.trials), seconds=seconds)
            _log.debug("checkpoint of trials %s after %d rounds", _told(self.trials), rounds_done, extra=fields)
        self._last_s = time.monotonic()
        took_s = self._last_s - self._asked_s
        self._pause_s = max(60.0 * self.policy.minutes, took_s * (1.0 / _MOST_OF_THE_TIME - 1.0))

    def _leave_aside(self, path: Path, why: str) -> None:
        fields = event("checkpoint-refused", file=path.name, reason=why)
        _log.warning("%s is left aside: %s; an older one is taken, or the task begins anew", path, why, extra=fields)

    def _say_that_nothing_is_kept(self, error: OSError) -> None:
        if self.policy.folder in _told_of:
            return
        _told_of.add(self.policy.folder)
        _log.warning(
            "how far trials %s have come cannot be kept in %s (%s); they go on, and would begin anew after an "
            "interruption",
            _told(self.trials),
            self.policy.folder,
            error.strerror or error,
            extra=event("checkpoint-failed", trials=list(self.trials), reason=str(error)),
        )

    def _files(self) -> list[Path]:
        """Of these trials, the newest first."""
        found = {rounds: path for digest, rounds, path in _all_files(self.policy.folder) if digest == self.digest}
        return [found[rounds] for rounds in sorted(found, reverse=True)]

    def _about(self) -> dict[str, object]:
        return {
            "tasks": [task_id(self.physics, trial) for trial in self.trials],
            "versions": {name: find_version(candidates) for name, candidates in PACKAGES.items()},
        }

    def _check(self, found: Checkpoint) -> None:
        about = dict(found.about)
        rounds_done, mine = about.pop("rounds_done", None), self._about()
        if not isinstance(rounds_done, int) or about.get("tasks") != mine["tasks"]:
            raise BlobError("it is of other tasks")
        if about.get("versions") != mine["versions"]:
            raise BlobError("other versions of phyloop or its libraries made it")


def digest_of(physics: str, trials: Sequence[int]) -> str:
    """Names the files of trials that are computed together."""
    text = canonical_json({"physics": physics, "trials": list(trials), "version": VERSION})
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def discard(folder: Path, *, digests: Collection[str], tasks: Collection[str]) -> None:
    """Delete the files of `tasks`, whose results are stored; those named by `digests` whatever is in them.

    What cannot be deleted is found stale later.
    """
    for digest, _, path in _all_files(folder):
        if digest in digests:
            _remove(path)
    # Trials that were begun again in smaller groups have files of other names.
    _remove_finished(folder, lambda some: [one for one in some if one in tasks])
    _remove_if_empty(folder)


def sweep(folder: Path, *, finished: Callable[[Sequence[str]], Collection[str]]) -> None:
    """Delete what killed processes left: files half written, and those of tasks that are all `finished`.

    Files that cannot be read are left where they are: they may be another version's.
    """
    _remove_finished(folder, finished)
    for path in _inside(folder):
        if _UNFINISHED.fullmatch(path.name):
            _remove(path)
    _remove_if_empty(folder)


def _remove_finished(folder: Path, finished: Callable[[Sequence[str]], Collection[str]]) -> None:
    for _, _, path in _all_files(folder):
        try:
            tasks = read_about(path).get("tasks")
        except (BlobError, OSError):
            continue
        if not (isinstance(tasks, list) and tasks and all(isinstance(one, str) for one in tasks)):
            continue
        if set(tasks) <= set(finished(tasks)):
            _remove(path)


def _all_files(folder: Path) -> Iterator[tuple[str, int, Path]]:
    """(digest, rounds done, path) of every checkpoint, whoever's."""
    for path in _inside(folder):
        if match := _NAME.fullmatch(path.name):
            yield match[1], int(match[2]), path


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _name(digest: str, rounds_done: int) -> str:
    return f"{digest}.{rounds_done}.ckpt"


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _told(trials: Sequence[int]) -> str:
    return str(trials[0]) if len(trials) == 1 else f"{min(trials)} to {max(trials)}"
