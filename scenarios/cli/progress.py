"""Progress of a study: on a terminal a bar and a line about the work in hand, in a log a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from scenarios.engine.study import Progress
from scenarios.schema.labels.units import time_left

_LOG_EVERY_S = 15.0
_MEASURED_S = 60.0


@contextmanager
def shown_progress(num_tasks: int, *, stored: str = "tasks stored", quiet: bool = False) -> Iterator[Progress]:
    """Progress on standard error, and rows of results on standard output.

    `stored`: words behind the number of finished tasks; `quiet`: only the rows are shown.
    """
    if quiet:
        yield Progress(row=print)
    elif sys.stderr is not None and sys.stderr.isatty():
        yield from _bar(num_tasks, stored)
    else:
        yield _Log(num_tasks, stored).as_progress()


def _bar(num_tasks: int, words: str) -> Iterator[Progress]:
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, Task, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Left(TextColumn):
        def render(self, task: Task) -> Text:
            seconds = task.time_remaining
            return Text("" if seconds is None or task.finished else time_left(seconds))

    class TwoLines(Bar):
        def get_renderables(self) -> Iterator[RenderableType]:
            for task in self.tasks:
                state = "starting" if task.total is None else "running"
                task.description = "compiling" if _is_compiling() else state
                yield self.make_tasks_table([task])
                yield Text(task.fields["doing"], no_wrap=True, overflow="ellipsis")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TextColumn(f"{{task.fields[stored]}} {words}"),
        TimeElapsedColumn(),
        Left(""),
    )
    rows_above = sys.stdout.isatty()
    with TwoLines(*columns, console=Console(stderr=True), transient=True, redirect_stdout=rows_above) as bar:
        row = bar.add_task("", total=None, stored=0, doing="")
        stored = 0

        def keep(tasks: int) -> None:
            nonlocal stored
            stored += tasks
            bar.update(row, stored=f"{stored} of {num_tasks}")

        def restore(units: int) -> None:
            # Not by `advance`, which counts them towards the speed of the machine.
            bar.tasks[row].completed += units

        yield Progress(
            start=lambda total: bar.update(row, total=total),
            advance=lambda units: bar.advance(row, units),
            restored=restore,
            stored=keep,
            taken=lambda _, text: bar.update(row, doing=text),
            row=print,
        )


def _is_compiling() -> bool:
    """Return True while a kernel is compiled in this process; without kernels numba is not imported."""
    compiled = sys.modules.get("phy.numerics.compiled")
    return getattr(getattr(compiled, "compilations", None), "under_way", 0) > 0


class _Log:
    """Lines for a log file: share done, time left, and the work in hand, every quarter of a minute."""

    def __init__(self, num_tasks: int, words: str) -> None:
        self._num_tasks, self._words, self._doing = num_tasks, words, ""
        self._total = self._done = self._restored = self._stored = 0
        self._printed = time.monotonic()
        self._first: tuple[float, int] | None = None

    def as_progress(self) -> Progress:
        return Progress(
            start=self._start,
            advance=self._advance,
            restored=self._restore,
            stored=self._keep,
            taken=self._take,
            row=lambda text: print(text, flush=True),
        )

    def _start(self, total: int) -> None:
        self._total = total
        self._printed = time.monotonic()

    def _keep(self, tasks: int) -> None:
        self._stored += tasks

    def _restore(self, units: int) -> None:
        self._restored += units

    def _take(self, key: object, text: str) -> None:
        del key
        self._doing = text

    def _advance(self, units: int) -> None:
        self._done += units
        now, to_do = time.monotonic(), self._total - self._restored
        # The first units pay for loading and compiling: measure time after them, for a share of the run or a minute.
        if self._first is None and self._done:
            self._first = now, self._done
        if self._first is None or now - self._printed < _LOG_EVERY_S:
            return
        since, before = self._first
        if self._done == before or (self._done < 0.02 * to_do and now - since < _MEASURED_S):
            return
        self._printed = now
        left = (now - since) * (to_do - self._done) / (self._done - before)
        share = (self._restored + self._done) / self._total
        print(
            f"phyloop: {share:.0%} done, {self._stored} of {self._num_tasks} {self._words}, {time_left(left)}"
            f"{f'; {self._doing}' if self._doing else ''}",
            file=sys.stderr,
            flush=True,
        )
