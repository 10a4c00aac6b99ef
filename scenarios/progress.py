"""A bar with the time left on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from scenarios.run import Progress

_LOG_EVERY_S = 15.0


@contextmanager
def shown_progress(num_tasks: int, *, stored: str = "tasks stored") -> Iterator[Progress]:
    """Progress on standard error, in whichever way its reader can use; `stored`: what is said of finished tasks."""
    if sys.stderr is not None and sys.stderr.isatty():
        yield from _bar(num_tasks, stored)
    else:
        yield _Log(num_tasks, stored).as_progress()


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

        yield Progress(
            start=lambda total: bar.update(row, total=total, description="running"),
            advance=lambda rounds: bar.advance(row, rounds),
            stored=keep,
        )


class _Log:
    """Lines for a log file: share done and time left, every quarter of a minute."""

    def __init__(self, num_tasks: int, what: str) -> None:
        self._num_tasks, self._what = num_tasks, what
        self._total = self._done = self._stored = 0
        self._started = self._spoken = time.monotonic()

    def as_progress(self) -> Progress:
        return Progress(start=self._start, advance=self._advance, stored=self._keep)

    def _start(self, total: int) -> None:
        self._total = total
        self._started = self._spoken = time.monotonic()

    def _keep(self, tasks: int) -> None:
        self._stored += tasks

    def _advance(self, rounds: int) -> None:
        self._done += rounds
        now = time.monotonic()
        # The first rounds pay for loading and compiling: no guess before some share is done.
        if now - self._spoken < _LOG_EVERY_S or self._done < 0.02 * self._total:
            return
        self._spoken = now
        left = (now - self._started) * (self._total - self._done) / self._done
        print(
            f"phyloop: {self._done / self._total:.0%} done, {self._stored} of {self._num_tasks} {self._what}, "
            f"about {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )
