"""Progress of a study: on a terminal a bar and a line about the work in hand, in a log a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from scenarios.engine.study import Progress
from scenarios.schema.labels.units import time_left

_LOG_EVERY_S = 15.0
_MEASURED_S = 60.0
"""The time left goes by the work of so many seconds [s]."""


@contextmanager
def shown_progress(num_tasks: int, *, stored: str = "tasks stored", quiet: bool = False) -> Iterator[Progress]:
    """Progress on standard error, and rows of results on standard output.

    `stored`: words behind the number of finished tasks; `quiet`: only the rows are shown.
    """
    if quiet:
        yield Progress(row=print)
        return
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, Task, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    def left(task: Task) -> str:
        # The first units are compiled.
        told = task.percentage >= 1.0 or (task.elapsed or 0.0) > _MEASURED_S
        return time_left(task.time_remaining) if told and task.time_remaining and not task.finished else ""

    class Left(TextColumn):
        def render(self, task: Task) -> Text:
            return Text(left(task))

    class TwoLines(Bar):
        def get_renderables(self) -> Iterator[RenderableType]:
            for task in self.tasks:
                state = "starting" if task.total is None else "running"
                task.description = "compiling" if _is_compiling() else state
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
        speed_estimate_period=_MEASURED_S,
    )
    row = bar.add_task("", total=None, stored=0, doing="")
    (task,) = bar.tasks
    on_terminal, printed = sys.stderr is not None and sys.stderr.isatty(), time.monotonic()

    def advance(units: int) -> None:
        nonlocal printed
        bar.advance(row, units)
        if on_terminal or time.monotonic() - printed < _LOG_EVERY_S or task.finished:
            return
        printed, doing = time.monotonic(), task.fields["doing"]
        known = ", ".join(filter(None, (f"{task.fields['stored']} of {num_tasks} {stored}", left(task))))
        print(
            f"phyloop: {task.percentage / 100:.0%} done, {known}{f'; {doing}' if doing else ''}",
            file=sys.stderr,
            flush=True,
        )

    def restore(units: int) -> None:
        # Not by `advance`, which counts them towards the speed of the machine.
        task.completed += units

    with bar if on_terminal else nullcontext():
        yield Progress(
            start=lambda total: bar.update(row, total=total),
            advance=advance,
            restored=restore,
            stored=lambda tasks: bar.update(row, stored=task.fields["stored"] + tasks),
            taken=lambda _, text: bar.update(row, doing=text),
            row=lambda text: print(text, flush=not on_terminal),
        )


def _is_compiling() -> bool:
    """Return True while a kernel is compiled in this process; without kernels numba is not imported."""
    compiled = sys.modules.get("phy.numerics.compiled")
    return getattr(getattr(compiled, "compilations", None), "under_way", 0) > 0
