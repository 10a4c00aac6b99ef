"""Rounds kept once where nothing changes are the rounds that were noted."""

from __future__ import annotations

import numpy as np
import pytest

from fl.recorder import RoundSeries, all_alike, running_total

ONE, OTHER = np.arange(4.0), np.arange(4.0)[::-1].copy()


@pytest.mark.parametrize(
    "noted",
    [
        {0: ONE, 1: ONE, 2: ONE, 3: ONE},
        {0: ONE, 1: ONE, 2: OTHER, 3: OTHER},
        {0: ONE, 1: ONE.copy(), 2: ONE, 3: ONE},
        {0: ONE, 1: ONE},
        {0: ONE, 2: ONE, 3: ONE},
        {2: ONE, 3: ONE},
        {3: OTHER},
    ],
)
@pytest.mark.parametrize("looked_at", [(), (1,), (2, 4)])
def test_a_series_holds_what_was_noted_and_zeros_elsewhere(
    noted: dict[int, np.ndarray], looked_at: tuple[int, ...]
) -> None:
    series, expected = RoundSeries(), np.zeros((4, 4))
    for index, values in noted.items():
        series.note(index, values)
        expected[index] = values
        for rounds in looked_at:
            np.testing.assert_array_equal(series.first(rounds), expected[:rounds])
    np.testing.assert_array_equal(series.first(4), expected)


def test_what_never_changes_takes_the_memory_of_one_round() -> None:
    series = RoundSeries()
    for index in range(1000):
        series.note(index, ONE)
    assert np.shares_memory(series.first(1000), ONE)
    assert all_alike(np.broadcast_to(ONE[:1], (1000, 4)))
    assert not all_alike(series.first(1000))


@pytest.mark.parametrize("alike", [True, False])
def test_running_totals_are_those_of_every_trial(alike: bool) -> None:
    values = np.random.default_rng(3).random((50, 1 if alike else 6)) * np.ones((50, 6))
    found = running_total(values)
    assert np.ascontiguousarray(found).tobytes() == np.cumsum(values, axis=0).tobytes()
    assert (found.strides[1] == 0) == alike
