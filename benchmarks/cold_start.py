"""Processor time that the first call of a chain takes to compile its kernels.

    python benchmarks/cold_start.py [--kernels] [NAME ..]

A chain whose name contains NAME sends once in a process of its own with an empty folder of compiled kernels, and once
more with the full one. The difference of both is printed, and the number of functions that numba compiled, parts of
kernels included. `--kernels` lists kernels with the processor time of each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from timing import print_table


def watched(name: str) -> None:
    """Send once over the chain of that name; print processor seconds and kernels [name, seconds] as JSON."""
    from numba.core.event import Event, Listener, register

    class Compilations(Listener):
        functions = 0

        def __init__(self) -> None:
            self.kernels: list[tuple[str, float]] = []
            self._starts: list[float] = []

        def on_start(self, _: Event) -> None:
            self.functions += 1
            self._starts.append(time.process_time())

        def on_end(self, event: Event) -> None:
            start = self._starts.pop()
            if not self._starts:  # parts are compiled while their kernel is
                function = event.data["dispatcher"].py_func
                where = ".".join(function.__module__.split(".")[-2:])
                self.kernels.append((f"{where}.{function.__name__}", time.process_time() - start))

    seen = Compilations()
    register("numba:compile", seen)
    from chains import COLD

    next(chain for chain in COLD if chain.name == name).rivals["fused"]().call()
    used = resource.getrusage(resource.RUSAGE_SELF)
    told: dict[str, Any] = {
        "seconds": used.ru_utime + used.ru_stime,
        "functions": seen.functions,
        "kernels": seen.kernels,
    }
    print(json.dumps(told))


def measured(name: str, *, cache: str) -> dict[str, Any]:
    """The same from a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--watched", name],
        env={**os.environ, "XDG_CACHE_HOME": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="processor time of compiling kernels")
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of the name of a chain")
    parser.add_argument("--kernels", action="store_true", help="list kernels with the processor time of each")
    asked = parser.parse_args()
    from chains import COLD

    rows = []
    for chain in COLD:
        if asked.names and not any(part.lower() in chain.name.lower() for part in asked.names):
            continue
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = (measured(chain.name, cache=cache) for _ in range(2))
        rows.append((chain.name, f"{cold['seconds'] - warm['seconds']:.1f}", str(cold["functions"])))
        print("...", *rows[-1], file=sys.stderr, flush=True)
        if asked.kernels:
            rows += [(f"    {kernel}", f"{seconds:.2f}", "") for kernel, seconds in cold["kernels"]]
    print_table(("chain", "cold - warm [s]", "functions"), rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--watched"]:
        watched(sys.argv[2])
    else:
        main()
