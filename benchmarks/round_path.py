"""The path of one round: our frames from the command down to the kernel, and the containers of its result.

    python benchmarks/round_path.py

Runs rounds of `fedavg-digits` and of `flmc-snr` by the entry of `phyloop run`, in this process and on one thread. A
frame is ours if its file lies in one of `PACKAGES`; library frames are left out.

- Frames: the deepest stack of our frames that calls a kernel for the payload, inside the engine's `carry` or `add_up`.
- Containers: classes whose objects hold what the link measured (error counts, received symbols or energies): those that
  functions on that stack return, and the recorder of learning. The rows of the database come on top.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PHYLOOP_THREADS": "1"}  # a worker thread has a stack of its own

import numpy as np

import phy

PACKAGES = ("phy", "fl", "privacy", "scenarios", "phyloop")
ROOT = f"{Path(phy.__file__).parents[1]}{os.sep}"
OURS = tuple(f"{ROOT}{package}{os.sep}" for package in PACKAGES)
ROUNDS = {
    "FedAvg": ("fedavg-digits", "learning.rounds=1", "link.power.snr_max_db=4"),
    "FLMC": ("flmc-snr", "learning.rounds=2", "learning.burn_in=0"),
}


class Tracer:
    """Receives the events of `sys.setprofile` while a round runs, up to the first result of a class of scenarios."""

    def __init__(self) -> None:
        self.deepest: list[str] = []
        self._holders: dict[tuple[str, str], None] = {}
        self._measured: set[bytes] = set()

    @property
    def containers(self) -> list[str]:
        """Names of classes, from the link to the store."""
        return list(dict.fromkeys(kind for where, kind in self._holders if where in ("recorder", *self.deepest)))

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        """Look at one call or return."""
        path = frame.f_code.co_filename
        if not path.startswith(OURS):
            return
        if event == "call" and "engines" in path:
            stack = _stack(frame)
            payload = any("engines" in line and line.endswith((" carry", " add_up")) for line in stack)
            if payload and " run_tasks" in "".join(stack) and len(stack) > len(self.deepest):
                self.deepest = stack
        elif event == "return":
            if not self._measured and "engines" in path:
                counts = getattr(result, "counts", result)
                arrays = [getattr(counts, name, None) for name in ("bit_errors", "received", "energy_j")]
                found = [array for array in arrays if isinstance(array, np.ndarray) and array.any()]
                totals = [array.sum() for array in found if array.dtype == np.float64]
                self._measured = {np.asarray(one).tobytes() for one in (*found, *totals)}
            owner = frame.f_locals.get("self") if path.startswith(OURS[1]) else None
            if "record" in type(owner).__name__.lower() and self._holds(owner):
                self._holders["recorder", type(owner).__name__] = None
            for one in result if type(result) in (list, tuple) else (result,):
                if type(one).__module__.split(".")[0] in PACKAGES and self._holds(one):
                    self._holders[_name(frame), type(one).__name__] = None
                    if type(one).__module__.startswith("scenarios"):
                        sys.setprofile(None)

    def _holds(self, value: Any) -> bool:
        return any(found in data for data in _bytes_in(value, depth=5) for found in self._measured)


def _name(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename.removeprefix(ROOT)} {frame.f_code.co_name}"


def _stack(frame: FrameType | None) -> list[str]:
    """Our frames from the command to this one, as `file function`."""
    above = [] if frame is None else _stack(frame.f_back)
    return [*above, _name(frame)] if frame and frame.f_code.co_filename.startswith(OURS) else above


def _bytes_in(value: Any, *, depth: int) -> Iterator[bytes]:
    """Data of all arrays in a container and in what it holds."""
    if isinstance(value, np.ndarray):
        yield value.tobytes()
    elif depth:
        held = value if isinstance(value, list | tuple) else value.values() if isinstance(value, dict) else ()
        if not held and type(value).__module__.split(".")[0] in PACKAGES and hasattr(value, "__dict__"):
            held = vars(value).values()
        for one in held:
            yield from _bytes_in(one, depth=depth - 1)


if __name__ == "__main__":
    from scenarios.cli.app import main

    for round_of, (scenario, *settings) in ROUNDS.items():
        tracer = Tracer()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            sets = [part for one in settings for part in ("--set", one)]
            sys.argv = ["phyloop", "run", scenario, "--trials", "1", "--out", f"{folder}/run", *sets]
            sys.setprofile(tracer)
            with contextlib.suppress(SystemExit):
                main()
            sys.setprofile(None)
        print(f"{round_of}: {len(tracer.deepest)} frames, {len(tracer.containers)} containers and the database")
        print("\n".join(f"  {number:2} {line}" for number, line in enumerate(tracer.deepest, 1)))
        print("  back: " + ", ".join(tracer.containers))
