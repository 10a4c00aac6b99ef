"""Quantisers of one-bit schemes: their levels, their nearest points, and the error that dither leaves."""

from __future__ import annotations

import numpy as np
import pytest

from fl.schemes.coders.quantizers import HexagonalQuantizer, Quantizer, ScalarQuantizer, build_quantizer

EVERY = [
    build_quantizer(gamma=0.7, rate_bits=rate, form=form, dimension=dimension)
    for rate in (1, 2, 3)
    for form in ("coded", "printed")
    for dimension in (1, 2)
]
NAMES = [f"{type(one).__name__}-{one.rate_bits}-{one.form}" for one in EVERY]


def test_scalar_levels_are_those_of_the_paper_and_of_the_authors_code() -> None:
    coded = ScalarQuantizer(gamma=0.05, rate_bits=1)
    np.testing.assert_allclose(coded.points[:, 0], [-0.1 / 3, 0.0, 0.1 / 3])
    assert len(ScalarQuantizer(gamma=1.0, rate_bits=4).points) == 17
    printed = ScalarQuantizer(gamma=0.8, rate_bits=2, form="printed")
    np.testing.assert_allclose(printed.points[:, 0], [-0.6, -0.2, 0.2, 0.6])
    # (5): overloaded numbers go to +-(gamma - D/2).
    assert printed.points[-1, 0] == pytest.approx(printed.gamma - printed.spacing / 2)


def test_coded_quantisation_rounds_and_then_clips() -> None:
    quantizer = ScalarQuantizer(gamma=0.05, rate_bits=2)
    x = np.random.default_rng(1).normal(0.0, 0.05, 4000)
    spacing = 0.1 / 5
    expected = np.clip(np.round(x / spacing), -2, 2) * spacing
    np.testing.assert_allclose(quantizer.points[quantizer.indices(x[:, None]), 0], expected, atol=1e-12)


@pytest.mark.parametrize("quantizer", EVERY, ids=NAMES)
def test_every_vector_goes_to_the_nearest_point(quantizer: Quantizer) -> None:
    vectors = np.random.default_rng(2).normal(0.0, 0.5, (3000, quantizer.dimension))
    distance = np.linalg.norm(vectors[:, None] - quantizer.points, axis=-1)
    chosen = distance[np.arange(len(vectors)), quantizer.indices(vectors)]
    np.testing.assert_allclose(chosen, distance.min(axis=1), atol=1e-12)


@pytest.mark.parametrize("quantizer", EVERY, ids=NAMES)
def test_points_are_symmetric_lie_in_the_ball_and_have_0_among_them_only_as_coded(quantizer: Quantizer) -> None:
    points = quantizer.points
    np.testing.assert_allclose(points.sum(axis=0), 0.0, atol=1e-12)
    mirrored = np.linalg.norm(points[:, None] + points, axis=-1).min(axis=1)
    np.testing.assert_allclose(mirrored, 0.0, atol=1e-12)
    norms = np.linalg.norm(points, axis=1)
    assert norms.max() <= 0.7 * (1 + 1e-6)
    coded = quantizer.form == "coded"
    assert (norms.min() < 1e-12) == coded
    assert len(points) % 2 == coded
    apart = np.linalg.norm(points[:, None] - points, axis=-1)
    assert apart[apart > 0].min() == pytest.approx(quantizer.spacing)


def test_no_point_of_the_lattice_in_the_ball_is_missing() -> None:
    # Far more combinations than the ball can hold.
    steps = np.arange(-40, 41)
    for form, shift in (("coded", 0.0), ("printed", 0.5)):
        quantizer = HexagonalQuantizer(gamma=1.0, rate_bits=3, form=form)
        every = [
            (quantizer.spacing * (a + shift + b / 2), quantizer.spacing * b * np.sqrt(3) / 2)
            for a in steps
            for b in steps
        ]
        assert len(quantizer.points) == sum(np.hypot(x, y) <= 1.0 + 1e-9 for x, y in every)
    assert len(HexagonalQuantizer(gamma=1.0, rate_bits=1).points) == 7
    assert len(HexagonalQuantizer(gamma=1.0, rate_bits=1, form="printed").points) == 4


@pytest.mark.parametrize("quantizer", EVERY, ids=NAMES)
def test_subtractive_dither_leaves_an_error_that_knows_nothing_of_the_number(quantizer: Quantizer) -> None:
    rng = np.random.default_rng(3)
    num = 200_000
    # Away from the edge, so that nothing is overloaded: the cell's furthest corner is D / sqrt(3) from its middle.
    inside = np.asarray(quantizer.points[len(quantizer.points) // 2]) * 0.4
    u = quantizer.dither(rng.random((num, quantizer.dimension), np.float32)).astype(np.float64)
    error = quantizer.points[quantizer.indices(inside + u)] - inside - u
    if quantizer.rate_bits > 1:
        assert np.all(np.abs(error.mean(axis=0)) < 4 * error.std(axis=0) / np.sqrt(num))
        squares = (error**2).sum(axis=1)
        assert abs(squares.mean() - quantizer.cell_moment) < 4 * squares.std() / np.sqrt(num)
    squares = (u**2).sum(axis=1)
    assert abs(squares.mean() - quantizer.cell_moment) < 4 * squares.std() / np.sqrt(num)
    assert np.all(np.abs(u.mean(axis=0)) < 4 * u.std(axis=0) / np.sqrt(num))
