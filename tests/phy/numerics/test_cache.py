"""Cache of the last result by the identity of its argument."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from phy.numerics.cache import LastResult, constant
from phy.numerics.random import Purpose, TrialNumbers, round_keys


def test_the_same_object_hits_the_cache_and_an_equal_one_misses() -> None:
    told: list[list[int]] = []

    def double(some: list[int]) -> list[int]:
        told.append(some)
        return [2 * one for one in some]

    doubled = LastResult(double)
    first, equal = [1, 2], [1, 2]
    assert doubled(first) is doubled(first)
    assert doubled(equal) is not doubled(first)
    assert [id(some) for some in told] == [id(first), id(equal), id(first)]


def test_a_constant_array_is_itself_and_any_other_is_copied() -> None:
    changing = np.arange(3.0)
    kept = constant(changing)
    changing[0] = 7.0
    assert kept.tolist() == [0.0, 1.0, 2.0]
    assert constant(kept) is kept
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 1.0
    view = changing.view()
    view.setflags(write=False)  # its owner can still change it
    assert constant(view) is not view
    assert constant(3).tolist() == 3.0


def test_trials_are_the_tuple_of_their_numbers() -> None:
    trials = TrialNumbers(range(5))
    assert trials == tuple(range(5))
    assert hash(trials) == hash(tuple(range(5)))
    assert len({trials, tuple(range(5)), pickle.loads(pickle.dumps(trials))}) == 1
    np.testing.assert_array_equal(
        round_keys(3, trials, Purpose.NOISE, 1), round_keys(3, list(range(5)), Purpose.NOISE, 1)
    )
