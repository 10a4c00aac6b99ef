"""Where the time of a first run goes, cold and warm: importing, compiling, computing, storing, drawing.

    python benchmarks/first_figure.py ['run SCENARIO ..' ..]

Each command runs in a process of its own: cold with an empty folder of compiled kernels, then warm with the full one,
each once into a new results folder. Processor and wall seconds of

- imports: modules loaded for the first time, TensorFlow among them;
- compiling: numba's compilations, and what TensorFlow traces; what XLA compiles is told as computing;
- storing: rows and curves written while it runs;
- drawing: figures, tables and the page;
- computing: the rest, the command line and reading the scenario included.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from timing import markdown_table

COMMANDS = (
    "run flmc-snr --trials 5",
    "run fedavg-digits",
    "link link-uncoded",
    "link link-coded-tdl",
    "run probit-attacks --trials 1 --set learning.rounds=5",
    "run bitflip-kappa --trials 1",
)
"""Those that are measured if none is given, each with what shortens it."""
STAGES = ("imports", "compiling", "storing", "drawing", "computing")
_PLACES = {
    "scenarios.engine.batch:finished": "storing",
    "scenarios.store.store:Store.append": "storing",
    "scenarios.studies.learning:LearningStudy.write_report": "drawing",
    "scenarios.studies.link.study:LinkStudy.write_report": "drawing",
}


class Clock:
    """(processor, wall) seconds of each stage; a stage inside another stops the outer one."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._stages = ["computing"]
        self._since = (time.process_time(), time.perf_counter())
        self._lock = threading.RLock()

    def enter(self, stage: str) -> None:
        """A stage begins."""
        self._tell()
        self._stages.append(stage)

    def leave(self) -> None:
        """The newest stage ends."""
        self._tell()
        self._stages.pop()

    def _tell(self) -> None:
        with self._lock:
            now = (time.process_time(), time.perf_counter())
            for place, (until, since) in enumerate(zip(now, self._since, strict=True)):
                self.spent[self._stages[-1]][place] += until - since
            self._since = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """What runs inside belongs to the stage."""
        self.enter(name)
        try:
            yield
        finally:
            self.leave()

    def around(self, owner: Any, name: str, stage: str) -> None:
        """Replace a function by itself inside a stage."""
        function: Callable[..., Any] = getattr(owner, name)

        @wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            with self.stage(stage):
                return function(*arguments, **named)

        setattr(owner, name, timed)


def watched(arguments: list[str]) -> None:
    """Run the command with a clock around its stages; the last line printed is what they took, as JSON."""
    clock = Clock()
    # What `import` calls for a module that is not loaded yet.
    clock.around(importlib._bootstrap, "_find_and_load", "imports")
    from numba.core.event import Event, Listener, register

    class Compilations(Listener):
        def on_start(self, _: Event) -> None:
            clock.enter("compiling")

        def on_end(self, _: Event) -> None:
            clock.leave()

    register("numba:compile", Compilations())
    for place, stage in _PLACES.items():
        module, _, path = place.partition(":")
        *owners, name = path.split(".")
        owner: Any = importlib.import_module(module)
        for one in owners:
            owner = getattr(owner, one)
        clock.around(owner, name, stage)
    from scenarios.cli.app import main

    sys.argv = ["phyloop", *arguments]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
    clock.enter("computing")
    print(json.dumps(clock.spent))


def measured(command: str, *, cache: str) -> dict[str, list[float]]:
    """Stages of one run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, __file__, "--watched", *command.split(), "--out", str(Path(folder) / "run")],
            env={**os.environ, "NUMBA_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr[-2000:]}")
    told: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Print the table."""
    rows: list[tuple[str, ...]] = []
    for command in sys.argv[1:] or COMMANDS:
        with tempfile.TemporaryDirectory() as cache:
            for state in ("cold", "warm"):
                spent = measured(command, cache=cache)
                pairs = [spent.get(stage, [0.0, 0.0]) for stage in STAGES]
                total = [sum(column) for column in zip(*pairs, strict=True)]
                cells = (f"{processor:.1f} / {wall:.1f}" for processor, wall in (*pairs, total))
                rows.append((command, state, *cells))
    print(markdown_table(("processor / wall [s]", "kernels", *STAGES, "all"), rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--watched"]:
        watched(sys.argv[2:])
    else:
        main()
