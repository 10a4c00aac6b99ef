"""Kernels: the same machine code for whoever compiles them and whoever finds them on disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from phy.numerics.compiled import inlined, kernel, shared


@inlined
def _energies(values: Any, energies: Any, count: Any) -> None:
    """Long enough that LLVM would leave it a function of its own."""
    for i in range(count):
        energies[0] += values[i] * values[i]
    for i in range(count):
        energies[1] += values[i] * values[i] * values[count - 1 - i]
    for i in range(count):
        energies[2] += values[i] / (values[i] + values[count - 1 - i])
    for i in range(count):
        energies[3] += max(values[i], values[count - 1 - i])


@shared
def _sum_of_squares(count: Any) -> Any:
    total = np.int64(0)
    for i in range(count):
        total += i * i
    return total


def _of_rows(rows: Any, energies: Any) -> None:
    for row in range(len(rows)):
        _energies(rows[row], energies[row], rows.shape[1])
        _energies(rows[row], energies[row], 0)


def test_a_kernel_calls_no_part_whose_copy_another_kernel_may_have_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))  # what is found on disk tells no names
    compiled = kernel(_of_rows)
    energies = np.zeros((3, 4), np.float32)
    compiled(np.ones((3, 40), np.float32), energies)
    np.testing.assert_array_equal(energies, np.tile([40, 40, 20, 40], (3, 1)))
    (code,) = compiled.inspect_llvm().values()
    names = re.findall(r"^(?:define|declare) .*@(\S+)\(", code, re.MULTILINE)
    assert any("_of_rows" in name for name in names)
    assert not any("_energies" in name for name in names)


def test_a_kernel_gives_the_same_sums_when_it_is_found_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    rows, sums = np.random.default_rng(1).normal(size=(3, 1001)).astype(np.float32), []
    for _ in range(2):
        energies = np.zeros((3, 4), np.float32)
        found = kernel(_of_rows)
        found(rows, energies)
        sums.append(energies)
    assert sum(found.stats.cache_hits.values()) == 1
    np.testing.assert_array_equal(sums[0], sums[1])


def test_parts_are_functions_of_python_for_whoever_calls_them_there() -> None:
    assert _sum_of_squares(4) == 14
