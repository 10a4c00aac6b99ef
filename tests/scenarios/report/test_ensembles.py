"""Distance of an ensemble of trials: exact samples at their floor, shifts and spreads by closed form, jackknife."""

from __future__ import annotations

import numpy as np
import pytest

from fl.base.measured import SAMPLE
from scenarios.report.figures.ensembles import ensemble_distances, ensemble_spots, samples_of


def test_a_large_ensemble_has_the_distance_of_its_law() -> None:
    rng = np.random.default_rng(5)
    z = rng.standard_normal((100_000, 3))
    # Means 0.3, spreads 1.2, 1, 0.5: W^2 = 0.09 + 0.04 + 0.25.
    found = ensemble_distances(z * [1.2, 1.0, 0.5] + [0.3, 0.0, 0.0])
    assert float(found) == pytest.approx(np.sqrt(0.38), rel=0.01)


def test_exact_samples_have_the_floor_of_their_number() -> None:
    m, n = 5, 60
    z = np.random.default_rng(6).standard_normal((2000, n, m))
    squared = ensemble_distances(z) ** 2
    assert squared.mean() == pytest.approx(m * (m + 5) / (4 * n), rel=0.06)


def test_the_interval_of_the_jackknife_covers_the_distance() -> None:
    rng = np.random.default_rng(7)
    at, shift = np.arange(200.0), 1.0
    samples = [rng.standard_normal((200, 2)) + np.array([shift, 0.0]) for _ in range(80)]
    spots = ensemble_spots(at, samples, drawn=np.arange(200))
    hits = sum(spot.low <= shift <= spot.high for spot in spots)
    # 95 % of 200, with room for the bias of a finite ensemble: W^2 is up by 0.04 of 1.
    assert 178 <= hits <= 199
    assert [spot.x for spot in spots] == at.tolist()
    assert {spot.n for spot in spots} == {80}


def test_samples_are_read_by_the_number_of_their_entry() -> None:
    columns = {f"{SAMPLE}{entry}": np.full(4, float(entry)) for entry in (2, 10, 1)} | {"amplitude": np.zeros(4)}
    found = samples_of(columns)
    assert found is not None
    np.testing.assert_array_equal(found[0], [1.0, 2.0, 10.0])
    assert samples_of({"amplitude": np.zeros(4)}) is None
    assert ensemble_spots(np.arange(4.0), [found], drawn=np.arange(4)) == []
