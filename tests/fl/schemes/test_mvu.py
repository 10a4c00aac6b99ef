"""MVU: private by enumeration, unbiased, no worse than the closed form, and sampled as its table says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from baseline_setting import there_and_back
from scipy import optimize

from fl.schemes.mvu import MvuScheme, alias_tables
from privacy.errors import PrivacyError
from privacy.mechanisms.mvu import mvu_table, randomized_response

TABLES = [(0.1, 2, 2), (0.5, 1, 1), (0.5, 3, 1), (1.0, 2, 3), (1.0, 4, 2), (3.0, 3, 3), (3.0, 1, 4), (8.0, 4, 4)]


@pytest.mark.parametrize(("epsilon", "input_bits", "output_bits"), TABLES)
def test_a_table_is_private_unbiased_and_no_worse_than_the_closed_form(
    epsilon: float, input_bits: int, output_bits: int
) -> None:
    table = mvu_table(epsilon=epsilon, input_bits=input_bits, output_bits=output_bits)
    p, alpha, x = table.probabilities, table.symbols, np.arange(2**input_bits) / (2**input_bits - 1)
    assert p.shape == (2**input_bits, 2**output_bits)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    for j in range(p.shape[1]):
        for i in range(len(p)):
            # Every symbol, every pair of inputs.
            assert p[i, j] >= 0
            assert (p[i, j] <= math.exp(epsilon) * p[:, j] * (1 + 1e-9)).all()
    np.testing.assert_allclose(p @ alpha, x, atol=1e-7)
    variance = (p @ alpha**2 - x**2).sum()
    np.testing.assert_allclose(table.variances().sum(), variance, rtol=1e-6, atol=1e-9)
    closed = randomized_response(epsilon=epsilon, num_inputs=len(p)).variances().sum()
    assert variance <= closed * (1 + 1e-12)
    if min(input_bits, output_bits) > 1:
        assert variance < closed


def test_one_bit_in_and_out_is_randomized_response() -> None:
    e = math.exp(0.5)
    table = mvu_table(epsilon=0.5, input_bits=1, output_bits=1)
    np.testing.assert_allclose(table.symbols, [-1 / (e - 1), e / (e - 1)])
    np.testing.assert_allclose(table.probabilities, np.array([[e, 1], [1, e]]) / (1 + e))
    np.testing.assert_allclose(table.variances(), e / (e - 1) ** 2)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_no_other_solver_finds_a_better_table(epsilon: float) -> None:
    """SLSQP on P and alpha together, from the closed form and from disturbed tables: an independent way to look."""
    n = 4
    x = np.arange(n) / (n - 1)
    rng = np.random.default_rng(0)
    found = mvu_table(epsilon=epsilon, input_bits=2, output_bits=2)

    def split(v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return v[: n * n].reshape(n, n), v[n * n : n * n + n], v[n * n + n :]

    def cost(v: np.ndarray) -> float:
        p, alpha, _ = split(v)
        return float((p * (alpha - x[:, None]) ** 2).sum())

    def equal(v: np.ndarray) -> np.ndarray:
        p, alpha, _ = split(v)
        return np.concatenate([p.sum(axis=1) - 1, p @ alpha - x])

    def private(v: np.ndarray) -> np.ndarray:
        p, _, least = split(v)
        return np.concatenate([(p - least).ravel(), (math.exp(epsilon) * least - p).ravel()])

    best = math.inf
    for spread in (0.0, 0.05, 0.3):
        start = found.probabilities + spread * rng.random((n, n))
        start /= start.sum(axis=1, keepdims=True)
        guess = np.concatenate([start.ravel(), found.symbols + spread * rng.normal(size=n), start.min(axis=0)])
        result = optimize.minimize(
            cost,
            guess,
            method="SLSQP",
            bounds=[(0, 1)] * (n * n) + [(None, None)] * n + [(0, 1)] * n,
            constraints=[{"type": "eq", "fun": equal}, {"type": "ineq", "fun": private}],
            options={"maxiter": 300},
        )
        if np.abs(equal(result.x)).max() < 1e-6 and private(result.x).min() > -1e-6:
            best = min(best, result.fun)
    assert best < math.inf
    assert found.variances().sum() <= best * 1.002


@pytest.mark.parametrize(("epsilon", "input_bits", "output_bits"), [(0.5, 1, 1), (1.0, 2, 2), (3.0, 3, 2), (3.0, 2, 4)])
def test_decoded_numbers_are_unbiased_with_the_tables_variance(
    epsilon: float, input_bits: int, output_bits: int
) -> None:
    code = MvuScheme(name="mvu", epsilon=epsilon, clip=0.2, input_bits=input_bits, output_bits=output_bits)
    steps = 2**input_bits - 1
    # On grid points of the table and between.
    inputs = np.concatenate([-0.2 + 0.4 * np.arange(steps + 1) / steps, [-0.13, 0.0, 0.077]])
    n = 60_000
    values = np.repeat(inputs, n // 100).reshape(1, -1).repeat(100, axis=0)
    read = there_and_back(code, values).astype(float).reshape(100, len(inputs), -1).transpose(1, 0, 2).reshape(-1, n)
    x = (inputs / 0.2 + 1) / 2
    lower = np.minimum(np.floor(x * steps + 1e-9), steps - 1).astype(int)
    share = x * steps - lower
    second = code.table.probabilities @ code.table.symbols**2
    variance = 0.16 * ((1 - share) * second[lower] + share * second[lower + 1] - x**2)
    reach = 0.4 * np.abs(code.table.symbols).max() + 0.4
    error = read - inputs[:, None]
    assert (np.abs(error.mean(axis=1)) < 4 * np.sqrt(variance / n)).all()
    assert (np.abs((error**2).mean(axis=1) - variance) < 4 * np.sqrt(variance * reach**2 / n)).all()


@pytest.mark.parametrize(("input_bits", "output_bits"), [(1, 1), (2, 3)])
def test_symbols_come_as_often_as_the_table_says(input_bits: int, output_bits: int) -> None:
    code = MvuScheme(name="mvu", epsilon=1.5, clip=1.0, input_bits=input_bits, output_bits=output_bits)
    grid = code.table.grid
    n = 100_000
    values = np.repeat(2 * grid - 1, n // 100)[None].repeat(100, axis=0)
    read = there_and_back(code, values).reshape(100, len(grid), -1).transpose(1, 0, 2).reshape(len(grid), n)
    for row, chances in zip(read, code.table.probabilities, strict=True):
        used = chances > 0
        counts = np.array([(row == np.float32(2 * a - 1)).sum() for a in code.table.symbols])
        assert counts[used].sum() == n
        assert (np.abs(counts - n * chances) <= 4.5 * np.sqrt(n * chances * (1 - chances)) + 1e-6 * n).all()


def test_numbers_beyond_the_clip_are_clipped() -> None:
    code = MvuScheme(name="mvu", epsilon=3.0, clip=0.1, input_bits=2, output_bits=2)
    values = np.full((100, 2000), 5.0)
    read = there_and_back(code, values)
    deviation = 0.2 * math.sqrt(code.table.variances()[-1] / read.size)
    assert read.mean() == pytest.approx(0.1, abs=4 * deviation)


def test_aliases_give_every_row_its_chances() -> None:
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.dirichlet(np.full(8, 0.3), 20), np.eye(8), np.full((1, 8), 1 / 8)])
    stay, other = (table.reshape(rows.shape) for table in alias_tables(rows))
    built = stay / 8
    for row in range(len(rows)):
        np.add.at(built[row], other[row], (1 - stay[row]) / 8)
    np.testing.assert_allclose(built, rows, atol=1e-6)


def test_what_no_table_can_be_made_for_is_refused() -> None:
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(PrivacyError, match="epsilon is"):
            mvu_table(epsilon=bad, input_bits=1, output_bits=1)
    with pytest.raises(PrivacyError, match="5 bits per number exceed 4"):
        mvu_table(epsilon=1.0, input_bits=2, output_bits=5)
    with pytest.raises(PrivacyError, match="at most 20"):
        mvu_table(epsilon=21.0, input_bits=2, output_bits=2)
