"""Clipping and looking for lost numbers in one pass: bit by bit what NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

from fl.algorithms.flmc_kernels import clipped, rows_below, rows_with_nan

NUMBERS = np.random.default_rng(5).standard_normal((40, 3, 7))
ODD = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 5e-324, 1e100, -1e100)
for place, odd in enumerate(ODD):
    NUMBERS[3 * place, place % 3, place % 7] = odd


@pytest.mark.parametrize("bound", [0.5, 1e-300, np.inf])
@pytest.mark.parametrize("values", [NUMBERS, NUMBERS[::2], NUMBERS.transpose(1, 0, 2), NUMBERS[:0]])
def test_clipping_is_that_of_numpy(values: np.ndarray, bound: float) -> None:
    found, lost = clipped(values, bound)
    assert found.tobytes() == np.clip(values, -bound, bound).tobytes()
    assert lost.tolist() == np.isnan(values).any(axis=(1, 2)).tolist()


@pytest.mark.parametrize("values", [NUMBERS, NUMBERS[:, 0], NUMBERS[:0], NUMBERS[:, :0]])
def test_lost_and_diverged_rows_are_found(values: np.ndarray) -> None:
    flat = values.reshape(len(values), int(np.prod(values.shape[1:])))
    assert rows_with_nan(values).tolist() == np.isnan(flat).any(axis=1).tolist()
    with np.errstate(invalid="ignore"):
        assert rows_below(values, 1e100).tolist() == (np.abs(flat) < 1e100).all(axis=1).tolist()
