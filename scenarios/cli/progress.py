"""Progress of a study: on a terminal a bar and a line about the work in hand, in a log a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scenarios.engine.compiling import is_compiling
from scenarios.engine.study import Progress
from scenarios.schema.labels.units import time_left

if TYPE_CHECKING:
    from rich.progress import Task

_LOG_EVERY_S = 15.0
_SURE_S, _SURE = 300.0, 5.0
"""The time left is told after so many seconds of work [s], or so many per cent of all: the first sweep points compile,
which later ones need not."""


@dataclass
class _Speed:
    """Units of work behind the first ones, which are compiled.

    All of them count, as long and short sweep points take turns; rich keeps a thousand reports.
    """

    units: int = 0
    first: float | None = None
    last: float = 0.0

    def add(self, units: int) -> None:
        self.last = time.monotonic()
        if self.first is None:
            self.first = self.last
        else:
            self.units += units

    def left(self, task: Task) -> str:
        """The time left in words, empty while it is not known."""
        seconds = self.last - (self.first or 0.0)
        if not self.units or task.finished or (task.percentage < _SURE and seconds < _SURE_S):
            return ""
        return time_left(seconds * (task.remaining or 0.0) / self.units)


@contextmanager
def shown_progress(num_tasks: int, *, stored: str = "tasks stored", quiet: bool = False) -> Iterator[Progress]:
    """Progress on standard error, and rows of results on standard output.

    `stored`: words behind the number of finished tasks; `quiet`: only the rows are shown.
    """
    if quiet:
        yield Progress(row=print)
        return
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    speed = _Speed()

    class Left(TextColumn):
        def render(self, task: Task) -> Text:
            return Text(speed.left(task))

    class TwoLines(Bar):
        def get_renderables(self) -> Iterator[RenderableType]:
            for task in self.tasks:
                state = "starting" if task.total is None else "running"
                task.description = "compiling" if is_compiling() else state
                yield self.make_tasks_table([task])
                yield Text(task.fields["doing"], no_wrap=True, overflow="ellipsis")

    bar = TwoLines(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TextColumn(f"{{task.fields[stored]}} of {num_tasks} {stored}"),
        TimeElapsedColumn(),
        Left(""),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
        get_time=time.monotonic,
    )
    row = bar.add_task("", total=None, stored=0, doing="")
    (task,) = bar.tasks
    on_terminal, printed = sys.stderr is not None and sys.stderr.isatty(), time.monotonic()

    def advance(units: int) -> None:
        nonlocal printed
        speed.add(units)
        bar.advance(row, units)
        if on_terminal or time.monotonic() - printed < _LOG_EVERY_S or task.finished:
            return
        printed, doing = time.monotonic(), task.fields["doing"]
        known = ", ".join(filter(None, (f"{task.fields['stored']} of {num_tasks} {stored}", speed.left(task))))
        print(
            f"phyloop: {task.percentage / 100:.0%} done, {known}{f'; {doing}' if doing else ''}",
            file=sys.stderr,
            flush=True,
        )

    def restore(units: int) -> None:
        task.completed += units  # no work, so that it does not count towards the speed

    with bar if on_terminal else nullcontext():
        yield Progress(
            start=lambda total: bar.update(row, total=total),
            advance=advance,
            restored=restore,
            stored=lambda tasks: bar.update(row, stored=task.fields["stored"] + tasks),
            taken=lambda _, text: bar.update(row, doing=text),
            row=lambda text: print(text, flush=not on_terminal),
        )
