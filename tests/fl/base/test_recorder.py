"""The recorder gives each trial the rounds that were noted, and sums what is counted over rounds."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from fl.base.recorder import Recorder
from phy.measure.burstiness import Burstiness


def bursts(number: int) -> Burstiness:
    """Counts of two trials and three devices, all `number`."""
    wide = {"in_a_row": 8, "label_bits": 2, "label_errors": 2}
    shapes = {f.name: (2, 3, wide[f.name]) if f.name in wide else (2, 3) for f in fields(Burstiness)}
    return Burstiness(**{name: np.full(shape, number) for name, shape in shapes.items()})


def finished(recorder: Recorder, rounds: int) -> Recorder:
    for index in range(rounds):
        recorder.note(index, rounds={"always": np.array([index, 10.0 + index])})
        recorder.finish(index)
    return recorder


def test_bursts_of_all_rounds_are_added() -> None:
    recorder = finished(Recorder(2, num_devices=3, num_trials=2), 2)
    for one in (bursts(1), None, bursts(4)):
        recorder.note_bursts(one)
    for result in recorder.results((0, 1), metrics=({}, {}), failures=(None, None)):
        assert all((counts == 5).all() for counts in result.bursts.values())
        assert set(result.bursts) == {f.name for f in fields(Burstiness)}


def test_a_round_in_which_nothing_was_measured_has_no_number_and_counts_nothing() -> None:
    recorder = Recorder(3, num_devices=3, num_trials=2)
    recorder.note(1, rounds={"loss": np.array([0.5, 0.25])}, link={"bits": np.full((2, 3), 7)})
    first, second = finished(recorder, 3).results((4, 9), metrics=({}, {}), failures=(None, None))
    np.testing.assert_array_equal(first.rounds["loss"], [np.nan, 0.5, np.nan])
    np.testing.assert_array_equal(second.rounds["always"], [10.0, 11.0, 12.0])
    np.testing.assert_array_equal(second.link["bits"], [[0] * 3, [7] * 3, [0] * 3])


def test_a_restored_recorder_gives_the_results_of_an_undisturbed_one() -> None:
    whole, half = (Recorder(3, num_devices=3, num_trials=2) for _ in range(2))
    other = Recorder(3, num_devices=3, num_trials=2)
    for recorder in (whole, half):
        finished(recorder, 2).note_bursts(bursts(2))
    other.restore(half.state())
    for recorder in (whole, other):
        recorder.note(2, rounds={"always": np.array([2.0, 12.0])}, devices={"clipped": np.full((2, 3), 3)})
        recorder.note_bursts(bursts(3))
        recorder.finish(2)
    expected, found = (one.results((0, 1), metrics=({}, {}), failures=(None, None)) for one in (whole, other))
    for one, two in zip(expected, found, strict=True):
        for table in ("rounds", "link", "devices", "bursts"):
            assert getattr(one, table).keys() == getattr(two, table).keys()
            for name, values in getattr(one, table).items():
                np.testing.assert_array_equal(values, getattr(two, table)[name])
