"""Operations on vectors of 8-bit integers inside kernels, against NumPy with all pairs of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phy.coding import byte_vectors as vectors
from phy.numerics.compiled import lean_kernel

NUMBERS = np.arange(-128, 128).astype(np.int8)
ONE, TWO = (np.ascontiguousarray(numbers.ravel()) for numbers in np.meshgrid(NUMBERS, NUMBERS))
BYTES = ONE.view(np.uint8).astype(int), TWO.view(np.uint8).astype(int)
SIGNED = ONE.astype(int), TWO.astype(int)


def with_two(operation: Any) -> Any:
    @lean_kernel
    def kernel(one: Any, two: Any, out: Any) -> None:
        for at in range(0, len(out), vectors.WIDTH):
            vectors.store(out, at, operation(vectors.load(one, at), vectors.load(two, at)))

    return kernel


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (vectors.add, SIGNED[0] + SIGNED[1]),
        (vectors.subtract, SIGNED[0] - SIGNED[1]),
        (vectors.exclusive_or, SIGNED[0] ^ SIGNED[1]),
        (vectors.minimum, np.minimum(*BYTES)),
        (vectors.maximum, np.maximum(*BYTES)),
        (vectors.add_saturated, np.clip(SIGNED[0] + SIGNED[1], -128, 127)),
        (vectors.subtract_saturated, np.clip(SIGNED[0] - SIGNED[1], -128, 127)),
        (vectors.subtract_to_zero, np.maximum(BYTES[0] - BYTES[1], 0)),
        (vectors.negative_where, np.where(SIGNED[0] < 0, -SIGNED[1], SIGNED[1])),
    ],
)
def test_an_operation_on_two_vectors_is_that_of_numpy(operation: Any, expected: Any) -> None:
    out = np.empty_like(ONE)
    with_two(operation)(ONE, TWO, out)
    assert np.array_equal(out, expected.astype(np.int8))


@lean_kernel
def others(one: Any, two: Any, number: Any, out: Any) -> None:
    """Quarters, magnitudes, and a choice between two vectors, row by row of `out`."""
    for at in range(0, len(one), vectors.WIDTH):
        first, second = vectors.load(one, at), vectors.load(two, at)
        vectors.store(out, at, vectors.quarter(first))
        vectors.store(out, len(one) + at, vectors.magnitude(first))
        vectors.store(out, 2 * len(one) + at, vectors.where_equal(first, vectors.filled(number), first, second))


def test_operations_on_one_vector_and_choices_are_those_of_numpy() -> None:
    out, number = np.empty(3 * len(ONE), np.int8), np.int8(-7)
    others(ONE, TWO, number, out)
    quarters, sizes, chosen = out.reshape(3, -1)
    assert np.array_equal(quarters.view(np.uint8), BYTES[0] // 4)
    assert np.array_equal(sizes.view(np.uint8), abs(SIGNED[0]))
    assert np.array_equal(chosen, np.where(number == ONE, ONE, TWO))


def test_vectors_are_read_and_written_at_any_place() -> None:
    @lean_kernel
    def move(source: Any, target: Any) -> None:
        vectors.store(target, 5, vectors.load(source, 3))

    source, target = np.arange(100, dtype=np.int8), np.zeros(100, np.int8)
    move(source, target)
    assert np.array_equal(target[5 : 5 + vectors.WIDTH], source[3 : 3 + vectors.WIDTH])
    assert not target[:5].any()
    assert not target[5 + vectors.WIDTH :].any()
