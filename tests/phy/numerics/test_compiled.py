"""Kernels: the same machine code for whoever compiles them and whoever finds them on disk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import float64, int64
from numba.core.caching import NullCache

from phy.numerics.compiled import kernel, stage


@stage
def _energies(values: Any, energies: Any, count: Any) -> None:
    """Long enough to stay a function of its own."""
    for i in range(count):
        energies[0] += values[i] * values[i]
    for i in range(count):
        energies[1] += values[i] * values[i] * values[count - 1 - i]
    for i in range(count):
        energies[2] += values[i] / (values[i] + values[count - 1 - i])
    for i in range(count):
        energies[3] += max(values[i], values[count - 1 - i])


def _of_rows(rows: Any, energies: Any) -> None:
    for row in range(len(rows)):
        _energies(rows[row], energies[row], rows.shape[1])
        _energies(rows[row], energies[row], 0)


def test_a_kernel_calls_its_own_copies_of_stages_whatever_was_loaded_before() -> None:
    compiled = kernel(_of_rows)
    compiled._cache = NullCache()  # what is found on disk tells no names
    energies = np.zeros((3, 4), np.float32)
    compiled(np.ones((3, 40), np.float32), energies)
    np.testing.assert_array_equal(energies, np.tile([40, 40, 20, 40], (3, 1)))
    (overload,) = compiled.overloads.values()
    functions = {one.name: one.linkage.name for one in overload.library.get_defined_functions()}
    assert {linkage for name, linkage in functions.items() if "_energies" in name} == {"internal"}
    # What others may define too is the copy of whoever came first.
    assert set(functions.values()) == {"internal", "external"}


def test_no_machine_code_is_made_of_a_stage_alone() -> None:
    _energies.compile((float64[::1], float64[::1], int64))
    alone = _energies.overloads[float64[::1], float64[::1], int64]
    (name,) = [one.name for one in alone.library.get_defined_functions() if one.linkage.name == "external"]
    assert name == alone.fndesc.llvm_func_name  # no ways in from Python or C
    assert alone.target_context.codegen()._engine.get_function_address(name) == 0


def test_a_stage_that_is_called_from_python_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="not callable"):
        _energies(np.ones(40, np.float32), np.zeros(4, np.float32), 40)
