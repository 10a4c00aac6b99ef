"""Kernels on disk: of two processes that begin with one, one compiles it; a changed part is noticed."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest

from phy.numerics import compiled

KERNEL = """
from phy.numerics.compiled import kernel

@kernel
def doubled(values):
    return 2.0 * values
"""
CALL = """
import numpy as np
from own_kernel_in_turns import doubled
from phy.numerics.compiled import compilations
print("calls", flush=True)
doubled(np.ones(3))
print(sum(doubled.stats.cache_hits.values()), sum(doubled.stats.cache_misses.values()), compilations.seconds)
"""
TREE = Path(__file__).parents[3]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module with one kernel that no process has compiled."""
    (tmp_path / "own_kernel_in_turns.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delitem(sys.modules, "own_kernel_in_turns", raising=False)
    return importlib.import_module("own_kernel_in_turns")


def test_a_process_waits_for_the_one_that_compiles_the_same_kernel(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_now = module.doubled._compiler.compile
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{TREE}:{tmp_path}"}
    other: list[subprocess.Popen[str]] = []

    def compile_late(*arguments: Any) -> Any:
        """Compile when the other process has asked for the kernel as well."""
        other.append(subprocess.Popen([sys.executable, "-c", CALL], env=environment, stdout=subprocess.PIPE, text=True))
        assert other[0].stdout is not None
        assert other[0].stdout.readline() == "calls\n"
        time.sleep(2.0)  # until it waits, on a loaded machine as well
        return compile_now(*arguments)

    monkeypatch.setattr(module.doubled._compiler, "compile", compile_late)
    module.doubled(np.ones(3))
    hits, misses, seconds = map(float, other[0].communicate()[0].split())
    assert (hits, misses) == (1, 0)
    assert seconds > 0.0  # the wait counts as compiling
    assert sum(module.doubled.stats.cache_misses.values()) == 1


def test_where_files_cannot_be_locked_a_kernel_is_compiled_all_the_same(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int, __: int) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(compiled.fcntl, "flock", refuse)
    assert module.doubled(np.ones(3)).tolist() == [2.0] * 3


def test_a_process_that_hangs_does_not_keep_others_for_ever(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "_LONGEST_WAIT_S", 0.1)
    monkeypatch.setattr(compiled, "_locked", lambda _: False)
    before = compiled.compilations.seconds
    assert module.doubled(np.ones(3)).tolist() == [2.0] * 3
    assert compiled.compilations.seconds - before > 0.1
    assert compiled.compilations.under_way == 0


PART = """
from phy.numerics.compiled import inlined

@inlined
def by(value):
    return FACTOR * value
"""
CALLER = """
import numpy as np
from own_part import by
from phy.numerics.compiled import kernel

@kernel
def scaled(values):
    out = np.empty_like(values)
    for place in range(len(values)):
        out[place] = by(values[place])
    return out
"""


def test_a_kernel_is_compiled_anew_when_a_part_in_a_file_beside_it_changes(tmp_path: Path) -> None:
    (tmp_path / "own_caller.py").write_text(CALLER)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{TREE}:{tmp_path}"}
    call = (
        "import numpy as np, own_caller as o; print(o.scaled(np.ones(1))[0], sum(o.scaled.stats.cache_hits.values()))"
    )
    found = []
    for factor in ("2.0", "2.0", "5.0"):
        (tmp_path / "own_part.py").write_text(PART.replace("FACTOR", factor))
        done = subprocess.run([sys.executable, "-c", call], env=environment, capture_output=True, text=True, check=True)
        found.append(done.stdout.split())
    assert found == [["2.0", "0"], ["2.0", "1"], ["5.0", "0"]]
