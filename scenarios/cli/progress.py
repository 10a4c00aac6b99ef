"""A bar with the time left on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scenarios.engine.batch import Job
from scenarios.engine.run import Progress
from scenarios.engine.run_log import ranges
from scenarios.store.heartbeat import Heartbeat

_LOG_EVERY_S = 15.0


@contextmanager
def shown_progress(num_tasks: int, *, stored: str = "tasks stored", quiet: bool = False) -> Iterator[Progress]:
    """Progress on standard error, in whichever way its reader can use; `stored`: what is said of finished tasks.

    `quiet`: nothing is shown.
    """
    if quiet:
        yield Progress()
    elif sys.stderr is not None and sys.stderr.isatty():
        yield from _bar(num_tasks, stored)
    else:
        yield _Log(num_tasks, stored).as_progress()


def beside(progress: Progress, heart: Heartbeat) -> Progress:
    """The same progress, which `heart` hears as well and keeps for whoever asks for the status of the run."""

    def in_words(job: Job) -> str:
        settings = ", ".join(f"{path}: {value}" for path, value in job.point.settings.items())
        return f"{settings}{', ' if settings else ''}trials {ranges(job.trials)}"

    def key(job: Job) -> tuple[int, int]:  # also of what is left of a job that was cut short
        return job.point.index, job.trials[-1]

    return Progress(
        start=_both(progress.start, heart.begin),
        advance=_both(progress.advance, heart.advance),
        restored=_both(progress.restored, heart.restore),
        stored=progress.stored,
        opened=lambda folder, run: heart.open(folder, run),
        taken=lambda job: heart.take(key(job), in_words(job)),
        settled=lambda job: heart.put_down(key(job)),
        ended=heart.end,
    )


def _both(first: Callable[[int], None], second: Callable[[int], None]) -> Callable[[int], None]:
    def hear(number: int) -> None:
        first(number)
        second(number)

    return hear


def _bar(num_tasks: int, what: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn(f"{{task.fields[stored]}} {what}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        row = bar.add_task("starting", total=None, stored=0)
        stored = 0

        def keep(tasks: int) -> None:
            nonlocal stored
            stored += tasks
            bar.update(row, stored=f"{stored} of {num_tasks}")

        def restore(rounds: int) -> None:
            # Not by `advance`, which would take them for the speed of the machine.
            bar.tasks[row].completed += rounds

        yield Progress(
            start=lambda total: bar.update(row, total=total, description="running"),
            advance=lambda rounds: bar.advance(row, rounds),
            restored=restore,
            stored=keep,
        )


class _Log:
    """Lines for a log file: share done and time left, every quarter of a minute."""

    def __init__(self, num_tasks: int, what: str) -> None:
        self._num_tasks, self._what = num_tasks, what
        self._total = self._done = self._restored = self._stored = 0
        self._spoken = time.monotonic()
        self._first: tuple[float, int] | None = None

    def as_progress(self) -> Progress:
        return Progress(start=self._start, advance=self._advance, restored=self._restore, stored=self._keep)

    def _start(self, total: int) -> None:
        self._total = total
        self._spoken = time.monotonic()

    def _keep(self, tasks: int) -> None:
        self._stored += tasks

    def _restore(self, rounds: int) -> None:
        self._restored += rounds

    def _advance(self, rounds: int) -> None:
        self._done += rounds
        now, to_do = time.monotonic(), self._total - self._restored
        # The first rounds pay for loading and compiling: time counts behind them. No guess before some share is done.
        if self._first is None and self._done:
            self._first = now, self._done
        if self._first is None or now - self._spoken < _LOG_EVERY_S or self._done < 0.02 * to_do:
            return
        since, before = self._first
        if self._done == before:
            return
        self._spoken = now
        left = (now - since) * (to_do - self._done) / (self._done - before)
        share = (self._restored + self._done) / self._total
        print(
            f"phyloop: {share:.0%} done, {self._stored} of {self._num_tasks} {self._what}, about {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )
