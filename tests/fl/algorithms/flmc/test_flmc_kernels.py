"""What a round of FLMC computes in kernels, against the same written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from fl.algorithms.flmc.one_bit import StochasticOneBit
from fl.algorithms.flmc.tasks.regression import quadratic_gradients
from phy.numerics.random import Purpose, round_keys, threefry
from phy.numerics.workers import THREADS_VARIABLE

TRIALS, DEVICES = (0, 3, 5), 7


def words_of(keys: np.ndarray, *, num_values: int) -> np.ndarray:
    """Word v of a device: half v mod 2 of counter (v // 2, device)."""
    value, device = np.arange(num_values), np.arange(DEVICES, dtype=np.uint32)[:, None]
    pair = (value // 2).astype(np.uint32)[None]
    halves = [threefry((key[0], key[1]), (pair, device)) for key in keys]
    return np.stack([np.where(value % 2, second, first) for first, second in halves])


@pytest.mark.parametrize("num_values", [1, 2, 5, 8, 31, 1000])
@pytest.mark.parametrize("slope", [0.05, 3.0])
def test_stochastic_signs_are_words_held_against_the_logistic_function(num_values: int, slope: float) -> None:
    keys = round_keys(1, TRIALS, Purpose.LOCAL_TRAINING, 4)
    values = 30.0 * np.random.default_rng(2).standard_normal((len(TRIALS), DEVICES, num_values))
    expected = words_of(keys, num_values=num_values) >= expit(slope * values) * 2.0**32
    found = StochasticOneBit(slope=slope).encode(values, keys=keys).payload
    np.testing.assert_array_equal(found, np.packbits(expected, axis=-1))


def test_words_next_to_their_threshold_fall_on_the_side_that_double_precision_says() -> None:
    """Thresholds 3 to 7000 words above and below each word, of 2^32: single precision tells 2^8 at best."""
    keys = round_keys(1, TRIALS, Purpose.LOCAL_TRAINING, 4)
    words = words_of(keys, num_values=1000).astype(float)
    off = np.random.default_rng(7).choice([-7000.0, -300.0, -30.0, -3.0, 3.0, 30.0, 300.0, 7000.0], words.shape)
    share = np.clip(words + off, 2.0**16, 2.0**32 - 2.0**16) / 2.0**32
    values = np.log(share / (1.0 - share)) / 0.05
    expected = words >= expit(0.05 * values) * 2.0**32
    assert 0.4 < expected.mean() < 0.6
    found = StochasticOneBit(slope=0.05).encode(values, keys=keys).payload
    np.testing.assert_array_equal(found, np.packbits(expected, axis=-1))


@pytest.mark.parametrize("value", [0.0, -0.0, 5e-324, 1e300, -1e300, 700.0, -700.0])
def test_signs_of_numbers_of_any_size_are_those_of_double_precision(value: float) -> None:
    keys = round_keys(1, TRIALS, Purpose.LOCAL_TRAINING, 4)
    values = np.full((len(TRIALS), DEVICES, 301), value)
    expected = words_of(keys, num_values=301) >= expit(values) * 2.0**32
    np.testing.assert_array_equal(
        StochasticOneBit(slope=1.0).encode(values, keys=keys).payload, np.packbits(expected, axis=-1)
    )


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = round_keys(1, TRIALS, Purpose.LOCAL_TRAINING, 4)
    values = np.random.default_rng(2).standard_normal((len(TRIALS), DEVICES, 5000))
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        found.append(StochasticOneBit(slope=1.0).encode(values, keys=keys).payload)
    np.testing.assert_array_equal(*found)


def test_gradients_are_products_less_offsets_and_rows_do_not_see_each_other() -> None:
    numbers = np.random.default_rng(3)
    curvature, offset = numbers.standard_normal((4, 60, 5)), numbers.standard_normal((4, 60))
    theta = numbers.standard_normal((4, 5))
    found = quadratic_gradients(curvature, offset, theta)
    # Six float64 roundings of numbers of some 10 at most.
    np.testing.assert_allclose(found, (curvature @ theta[..., None])[..., 0] - offset, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(quadratic_gradients(curvature[2:3], offset[2:3], theta[2:3]), found[2:3])


def test_a_gradient_that_is_not_a_number_stays_so() -> None:
    theta = np.array([[np.nan, 1.0]])
    assert np.isnan(quadratic_gradients(np.ones((1, 3, 2)), np.zeros((1, 3)), theta)).all()
