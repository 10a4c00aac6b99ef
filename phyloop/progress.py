"""Progress of a study: a bar in a notebook, else what the command shows."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from scenarios.cli.progress import shown_progress
from scenarios.engine.study import Progress, Study

_EVERY_S = 0.25


@contextmanager
def shown(study: Study, *, quiet: bool) -> Iterator[Progress]:
    """Progress of a study for `run_study`; rows of results are never shown."""
    if quiet:
        yield Progress()
    elif _in_notebook():
        yield _Bar(len(study.ids), study.done_words).progress()
    else:
        with shown_progress(len(study.ids), stored=study.done_words) as progress:
            yield replace(progress, row=lambda _: None)


def _in_notebook() -> bool:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


class _Bar:
    """A bar in the output of a notebook cell, drawn anew a few times a second."""

    def __init__(self, num_tasks: int, words: str) -> None:
        from IPython.display import display

        self._num_tasks, self._words = num_tasks, words
        self._units = self._total = self._stored = 0
        self._drawn = 0.0
        self._handle = display(self._html(), display_id=True)  # type: ignore[no-untyped-call]

    def progress(self) -> Progress:
        return Progress(start=self._start, advance=self._advance, restored=self._advance, stored=self._keep)

    def _start(self, units: int) -> None:
        self._total = units

    def _advance(self, units: int) -> None:
        self._units += units
        self._draw()

    def _keep(self, tasks: int) -> None:
        self._stored += tasks
        self._draw(now=self._stored == self._num_tasks)

    def _draw(self, *, now: bool = False) -> None:
        if now or time.monotonic() - self._drawn > _EVERY_S:
            self._drawn = time.monotonic()
            self._handle.update(self._html())

    def _html(self) -> object:
        from IPython.display import HTML

        share = 1.0 if self._stored == self._num_tasks else self._units / max(self._total, 1)
        return HTML(  # type: ignore[no-untyped-call]
            f"<progress max=1 value={share:.3f}></progress> {self._stored} of {self._num_tasks} {self._words}"
        )
