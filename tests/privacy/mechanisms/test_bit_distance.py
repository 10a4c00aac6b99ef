"""kappa: an oracle of Python integers, closed forms, the digest's numbers, and memory that does not grow with M."""

from __future__ import annotations

import math
import time
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privacy.errors import PrivacyError
from privacy.mechanisms import bit_distance as module
from privacy.mechanisms.bit_distance import measure_kappa


def oracle_integer(value: float, *, bits: int, value_range: float) -> int:
    """round((clip(w) + r) / (2 r) 2^b), ties to even, at most 2^b - 1, in exact arithmetic."""
    bound = Fraction(value_range)
    clipped = min(max(Fraction(value), -bound), bound)
    return min(round((clipped + bound) / (2 * bound) * 2**bits), 2**bits - 1)


def oracle(weights: NDArray[np.floating], shifted: NDArray[np.floating], *, bits: int, value_range: float) -> float:
    """(15), bit by bit."""
    total = Fraction(0)
    for pair in zip(weights.tolist(), shifted.tolist(), strict=True):
        one, other = (oracle_integer(value, bits=bits, value_range=value_range) for value in pair)
        for j in range(bits):
            total += Fraction(2) ** (j - bits) * abs((one >> j & 1) - (other >> j & 1))
    return float(total)


def uniform(bound: float) -> module.WeightSampler:
    return lambda generator, size: generator.uniform(-bound, bound, size)


def bit_distance(
    weights: np.ndarray, shifted: np.ndarray, *, fraction_bits: int = 23, value_range: float
) -> np.ndarray:
    """kappa of (15) between models, both `[..., M]`, by the integers that `measure_kappa` compares."""
    scale = 2.0**fraction_bits
    one, other = (module._integers(model.astype(np.float64), value_range, scale) for model in (weights, shifted))
    return np.asarray(np.sum(one ^ other, axis=-1, dtype=np.float64) / scale)


def normal(deviation: float) -> module.WeightSampler:
    return lambda generator, size: generator.normal(0.0, deviation, size)


def assert_distance_is_the_oracles(bits: int, value_range: float) -> None:
    rng = np.random.default_rng(bits)
    kind = np.float64 if bits == 52 else np.float32
    step = 2 * value_range / 2**bits
    weights = rng.uniform(-1.2 * value_range, 1.2 * value_range, (3, 60)).astype(kind)
    # Ties of the rounding, the borders, zero, and half a step about the first bit.
    weights[0, :8] = np.array([0.5, -0.5, 1.5, -1.5, 0.0, -0.25, 2.5, 3.5]) * step
    weights[1, :4] = np.array([1.0, -1.0, 1.0 - 2.0**-bits, 2.0]) * value_range
    shifted = (weights + rng.normal(0, 3 * step, (3, 60))).astype(kind)
    found = bit_distance(weights, shifted, fraction_bits=bits, value_range=value_range)
    want = [oracle(*rows, bits=bits, value_range=value_range) for rows in zip(weights, shifted, strict=True)]
    np.testing.assert_allclose(found, want, rtol=1e-15)


@pytest.mark.parametrize("value_range", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("bits", [1, 10, 23, 52])
def test_the_distance_is_that_of_python_integers(bits: int, value_range: float) -> None:
    assert_distance_is_the_oracles(bits, value_range)


def test_the_oracle_catches_a_grid_of_one_level_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = module._integers
    monkeypatch.setattr(module, "_integers", lambda values, bound, scale: exact(values, bound, scale - 1.0))
    with pytest.raises(AssertionError):
        assert_distance_is_the_oracles(10, 1.0)


def test_the_integer_is_the_fraction_of_a_binary32_number() -> None:
    weights = np.random.default_rng(2).uniform(-1, 1, 50_000).astype(np.float32)
    weights[:4] = [0.0, 2.0**-24, -(2.0**-24), 3 * 2.0**-24]
    stored = (weights + np.float32(3.0)).view(np.uint32)
    inside = stored >> 23 == 128
    found = module._integers(weights.astype(np.float64), 1.0, 2.0**23)
    np.testing.assert_array_equal(found[inside], stored[inside] & 0x7FFFFF)
    assert np.all(found[~inside] == 0x7FFFFF)


def test_the_first_bit_weighs_one_half_and_the_last_its_share() -> None:
    for lower, upper, distance in (
        (-1.0, 0.0, 0.5),
        (-1.0, -1.0 + 2.0**-22, 2.0**-23),
        (-(2.0**-22), 0.0, 1 - 2.0**-23),
    ):
        assert bit_distance(np.array([lower]), np.array([upper]), value_range=1.0) == distance


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), bits=st.sampled_from([4, 10, 23]), spread=st.floats(1e-8, 1.0))
def test_a_distance_is_symmetric_and_no_smaller_than_the_l1_norm(seed: int, bits: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, 0.3, 200)
    shifted = weights + rng.normal(0, spread, 200)
    there = bit_distance(weights, shifted, fraction_bits=bits, value_range=1.0)
    assert there == bit_distance(shifted, weights, fraction_bits=bits, value_range=1.0)
    assert bit_distance(weights, weights, fraction_bits=bits, value_range=1.0) == 0.0
    rounded = [np.array([oracle_integer(v, bits=bits, value_range=1.0) for v in model]) for model in (weights, shifted)]
    assert there >= np.abs(rounded[0] - rounded[1]).sum() / 2**bits


def expected_by_enumeration(deviation: float, *, bits: int) -> tuple[float, float]:
    """Mean distance and l1 per number by quadrature: w uniform in half of [-1, 1], x ~ N(0, deviation^2)."""
    step = 2.0 / 2**bits
    cells = np.arange(2 ** (bits - 2), 3 * 2 ** (bits - 2))
    offsets = (np.arange(64) + 0.5) / 64 - 0.5
    z, weight = np.polynomial.hermite_e.hermegauss(200)
    # Where w = (cell + offset) step - 1, the code is the cell, and that of w + x is cell + round(offset + x / step).
    jump = np.rint(offsets[:, None] + z[None, :] * deviation / step).astype(np.int64)
    share = weight / weight.sum()
    distance = l1 = 0.0
    for row in jump:
        for moved, chance in zip(row, share, strict=True):
            distance += chance * float(np.mean(cells ^ (cells + moved)))
            l1 += chance * abs(float(moved))
    return distance / 64 / 2**bits, l1 / 64 / 2**bits


def test_kappa_of_uniform_weights_is_the_mean_over_all_codes() -> None:
    size, bits = 40_000, 8
    per_number = 0.02
    estimate = measure_kappa(
        uniform(0.5),
        sensitivity=per_number * math.sqrt(size),
        num_pairs=40,
        fraction_bits=bits,
        value_range=1.0,
        generator=np.random.default_rng(4),
        num_parameters=size,
    )
    kappa, l1 = expected_by_enumeration(per_number, bits=bits)
    # 4 standard errors; the quadrature of a staircase is good to some 1e-3.
    assert estimate.mean == pytest.approx(size * kappa, abs=4 * estimate.standard_error + 2e-3 * size * kappa)
    assert estimate.l1_mean == pytest.approx(size * l1, rel=5e-3)
    assert estimate.l1_mean < estimate.mean


def test_kappa_of_small_shifts_is_that_of_the_formula() -> None:
    size, bits, value_range = 200_000, 10, 2.0
    deviation = 0.2 * 2 * value_range / 2**bits
    estimate = measure_kappa(
        uniform(value_range),
        sensitivity=deviation * math.sqrt(size),
        num_pairs=20,
        fraction_bits=bits,
        value_range=value_range,
        generator=np.random.default_rng(8),
        num_parameters=size,
    )
    formula = math.sqrt(2 * size / math.pi) * deviation * math.sqrt(size) * (bits - 1) / (2 * value_range)
    # Beside chance, 2^-10 of all shifts leave the range and are clipped, and one in a million is longer than a step.
    assert estimate.mean == pytest.approx(formula, abs=4 * estimate.standard_error + 2e-3 * formula)
    assert estimate.standard_error < 0.01 * formula


@pytest.mark.parametrize(
    ("size", "sensitivity", "value_range", "low", "high", "printed", "pairs"),
    [(1_206_590, 1e-4, 1.0, 1.0, 2.8, 0.02, 10), (11_689_512, 1e-3, 2.0, 15.0, 33.0, 0.025, 2)],
)
def test_kappa_of_the_papers_models_by_its_definition_is_not_that_of_the_paper(
    size: int, sensitivity: float, value_range: float, low: float, high: float, printed: float, pairs: int
) -> None:
    for weights in (uniform(value_range / 2), normal(0.05)):
        found = measure_kappa(
            weights,
            sensitivity=sensitivity,
            num_pairs=pairs,
            value_range=value_range,
            generator=np.random.default_rng(6),
            num_parameters=size,
        )
        # 4 standard errors: no number adds more than 1, so that the variance of a pair is below its mean.
        slack = 4 * math.sqrt(found.mean / pairs)
        assert low - slack < found.mean < high + slack
        assert found.mean > 20 * printed


def test_a_weight_of_exactly_zero_is_a_long_way_from_its_neighbours() -> None:
    estimate = measure_kappa(
        np.zeros((1, 1000)),
        sensitivity=math.sqrt(1000) * 1e-3,
        num_pairs=50,
        value_range=1.0,
        generator=np.random.default_rng(0),
    )
    # Half of all shifts are negative, and these change the first bit and most others.
    assert estimate.mean == pytest.approx(500, rel=0.02)


def test_shifts_are_uniform_on_the_sphere_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 2)
    rng = np.random.default_rng(3)
    points = np.stack([np.concatenate([x for _, x in module._on_sphere(5, 2.0, rng)]) for _ in range(20_000)])
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 2.0)
    # A coordinate of a uniform point in n dimensions has squares with mean 1/n and mean square 3 / (n (n + 2)).
    squares = (points / 2.0) ** 2
    for moment, want in ((squares, 1 / 5), (squares**2, 3 / 35)):
        error = moment.std(axis=0) / math.sqrt(len(points))
        assert np.all(np.abs(moment.mean(axis=0) - want) < 4 * error)
    cross = squares[:, 0] * squares[:, 4]
    assert cross.mean() == pytest.approx(1 / 35, abs=4 * cross.std() / math.sqrt(len(points)))
    assert np.all(np.abs(points.mean(axis=0)) < 4 * 2 / math.sqrt(5 * len(points)))


def test_models_are_taken_in_turn_and_equal_seeds_give_equal_numbers() -> None:
    # At zero every other number changes its first bit; at 0.3 few do.
    models = np.stack([np.full(70_000, 0.3, np.float32), np.zeros(70_000, np.float32)])
    setting = {"sensitivity": 1e-2, "value_range": 1.0}
    both = measure_kappa(models, num_pairs=4, generator=np.random.default_rng(9), **setting)
    assert both == measure_kappa(models, num_pairs=4, generator=np.random.default_rng(9), **setting)
    assert both.mean == pytest.approx(70_000 / 4, rel=0.02)
    first = measure_kappa(models[0], num_pairs=1, generator=np.random.default_rng(9), **setting)
    assert first.mean < 100
    assert math.isnan(first.standard_error)
    assert first.num_pairs == 1


def test_memory_and_time_do_not_grow_beyond_a_piece() -> None:
    size = 3_000_000
    weights = np.full((1, size), 0.1, np.float32)
    tracemalloc.start()
    start = time.process_time()
    measure_kappa(weights, sensitivity=1e-4, num_pairs=1, value_range=1.0, generator=np.random.default_rng(0))
    spent = time.process_time() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6
    # 15 ns per number where it was written; a hundred million take some 1.5 s.
    assert spent / size < 150e-9


def test_impossible_models_are_refused() -> None:
    weights = np.zeros((1, 10))
    setting = {"sensitivity": 1.0, "num_pairs": 1, "value_range": 1.0, "generator": np.random.default_rng(0)}
    with pytest.raises(PrivacyError, match="NaN or infinite"):
        measure_kappa(np.array([0.0, math.nan]), **setting)
    with pytest.raises(PrivacyError, match="sensitivity is 0"):
        measure_kappa(weights, **{**setting, "sensitivity": 0.0})
    with pytest.raises(PrivacyError, match="fraction_bits is 53"):
        measure_kappa(weights, fraction_bits=53, **setting)
    with pytest.raises(PrivacyError, match="value_range is -1"):
        measure_kappa(weights, **{**setting, "value_range": -1})
    with pytest.raises(PrivacyError, match="num_parameters"):
        measure_kappa(uniform(1.0), **setting)
    with pytest.raises(PrivacyError, match=r"shape \(0,\)"):
        measure_kappa(np.zeros(0), **setting)
