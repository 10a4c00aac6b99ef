"""Arrays of a Flower message as one vector, and back."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr")
import ml_dtypes
from flwr.app import Array, ArrayRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from phyloop.flower.numbers import from_numpy, layout_of, to_numpy, vector, with_vector


@given(st.lists(st.floats(width=32), min_size=1, max_size=40))
def test_bfloat16_is_that_of_ml_dtypes(values: list[float]) -> None:
    numbers = np.array(values, np.float32)
    with np.errstate(all="ignore"):
        expected = numbers.astype(ml_dtypes.bfloat16)
    own = from_numpy(numbers, dtype="bfloat16")
    assert (own.dtype, own.shape) == ("bfloat16", numbers.shape)
    np.testing.assert_array_equal(to_numpy(own), expected.astype(np.float32))
    np.testing.assert_array_equal(to_numpy(Array(expected)), expected.astype(np.float32))


def content(**values: object) -> RecordDict:
    return RecordDict({"arrays": ArrayRecord({name: Array(np.asarray(value)) for name, value in values.items()})})


def test_a_vector_goes_back_to_where_it_came_from() -> None:
    values = {"a": np.ones((2, 3), np.float16), "n": np.arange(3), "b": np.float64(0.1), "c": np.zeros((0, 4))}
    whole = content(**values)
    layout = layout_of(whole)
    numbers = vector(whole, layout)
    assert (numbers.dtype, numbers.size) == (np.float64, 7)
    changed = with_vector(whole, layout, 2 * numbers).array_records["arrays"]
    assert [one.dtype for one in changed.values()] == ["float16", "int64", "float64", "float64"]
    assert changed["b"].numpy() == 0.2
    np.testing.assert_array_equal(whole.array_records["arrays"]["a"].numpy(), values["a"])
    np.testing.assert_array_equal(changed["n"].numpy(), values["n"])


def test_an_array_that_was_not_sent_counts_as_zeros() -> None:
    layout = layout_of(content(w=np.ones(3, np.float32), new=np.ones(2, np.float32)))
    sent = RecordDict({"model": ArrayRecord({"w": Array(np.full(3, 5.0, np.float32))})})
    np.testing.assert_array_equal(vector(sent, layout), [5, 5, 5, 0, 0])
    other = RecordDict({"model": ArrayRecord({"w": Array(np.ones(4, np.float32))})})
    np.testing.assert_array_equal(vector(other, layout), np.zeros(5))
