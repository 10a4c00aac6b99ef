"""Columns of the recorder are the rounds that were noted."""

from __future__ import annotations

import numpy as np
import pytest

from fl.base.recorder import Recorder, with_totals

ONE, OTHER = np.arange(4.0), np.arange(4.0)[::-1].copy()


@pytest.mark.parametrize(
    "noted",
    [
        {0: ONE, 1: ONE, 2: ONE, 3: ONE},
        {0: ONE, 1: ONE, 2: OTHER, 3: OTHER},
        {0: ONE, 1: ONE},
        {0: ONE, 2: ONE, 3: ONE},
        {2: ONE, 3: ONE},
        {3: OTHER},
    ],
)
@pytest.mark.parametrize("looked_at", [(), (1,), (2, 4)])
def test_a_column_holds_what_was_noted_and_zeros_elsewhere(
    noted: dict[int, np.ndarray], looked_at: tuple[int, ...]
) -> None:
    recorder, expected = Recorder(4, num_devices=1, num_trials=4, unmeasured=0.0), np.zeros((4, 4))
    for index, values in noted.items():
        recorder.note(index, rounds={"loss": values})
        expected[index] = values
        for rounds in looked_at:
            np.testing.assert_array_equal(recorder.table("rounds", rounds=rounds)["loss"], expected[:rounds])
    np.testing.assert_array_equal(recorder.table("rounds", rounds=4)["loss"], expected)


def test_running_totals_are_those_of_every_trial() -> None:
    values = np.random.default_rng(3).random((50, 6))
    found = with_totals({"energy_j": values})["spent_j"]
    assert found.tobytes() == np.cumsum(values, axis=0).tobytes()
