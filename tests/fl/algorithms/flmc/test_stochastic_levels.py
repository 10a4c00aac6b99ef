"""Rounding to levels: word by word against NumPy, without a bias, and through bits and symbols."""

from __future__ import annotations

import numpy as np
import pytest

from fl.algorithms.flmc.stochastic_levels import StochasticLevels
from fl.base.errors import LearningError
from phy.numerics.random import Purpose, round_keys, uniform_words

REACH = 30.0


def quantizer(bits: int, *, planes: bool = False) -> StochasticLevels:
    amplitudes = tuple(np.linspace(0.5, 1.5, bits)) if planes else None
    return StochasticLevels(bits_per_value=bits, reach=REACH, plane_amplitudes=amplitudes)


@pytest.mark.parametrize(
    ("devices", "entries", "bits"), [(20, 5, 4), (3, 64, 2), (3, 700, 8), (50, 1, 3), (2, 513, 5), (1, 512, 1)]
)
def test_levels_are_those_of_numpy_for_the_same_words(devices: int, entries: int, bits: int) -> None:
    keys = round_keys(1, tuple(range(4)), Purpose.LOCAL_TRAINING, 3)
    values = np.random.default_rng(entries).uniform(-1.2 * REACH, 1.2 * REACH, (4, devices, entries))
    words = uniform_words(keys, num_devices=devices, num_words=entries)
    top = 2**bits - 1
    u = np.clip(values * (0.5 * top / REACH) + 0.5 * top, 0.0, top)
    wanted = np.floor(u) + (words < (u - np.floor(u)) * 2.0**32)
    rounding = quantizer(bits)
    np.testing.assert_array_equal(rounding.indices(values, keys=keys), wanted)
    payload = rounding.encode(values, keys=keys).payload
    assert payload.shape == (4, devices, -(-entries * bits // 8))
    np.testing.assert_allclose(rounding.decode(payload, num_values=entries), 2.0 * wanted / top - 1.0, atol=1e-15)


@pytest.mark.parametrize("planes", [False, True])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_symbols_carry_the_level_by_bits_or_at_once(bits: int, planes: bool) -> None:
    keys = round_keys(2, (0, 1), Purpose.LOCAL_TRAINING, 0)
    values = np.random.default_rng(bits).uniform(-REACH, REACH, (2, 6, 5))
    rounding = quantizer(bits, planes=planes)
    payload, sent = rounding.encode(values, keys=keys).payload, rounding.symbols(values, keys=keys)
    assert sent.shape == (2, 6, 5 * (bits if planes else 1))
    np.testing.assert_array_equal(rounding.symbols_of(payload, num_values=5), sent)
    level = rounding.decode(payload, num_values=5)
    np.testing.assert_allclose(rounding.of_planes(sent), level, atol=1e-14)
    # Linear: sums over devices of symbols are sums of levels.
    np.testing.assert_allclose(rounding.of_planes(sent.sum(axis=1)), level.sum(axis=1), atol=1e-13)
    if planes:
        signs = np.sign(sent.reshape(2, 6, 5, bits))
        np.testing.assert_allclose(
            np.abs(sent.reshape(2, 6, 5, bits)), np.broadcast_to(np.linspace(0.5, 1.5, bits), signs.shape)
        )
        np.testing.assert_allclose(signs @ rounding.plane_weights, level, atol=1e-14)


@pytest.mark.parametrize("bits", [2, 3, 8])
def test_the_mean_is_the_gradient_and_the_variance_that_of_its_two_levels(bits: int) -> None:
    top, count = 2**bits - 1, 1 << 18
    gradients = np.array([-REACH, -17.3, 0.0, 4.4, 29.9, REACH])
    keys = round_keys(5, (0,), Purpose.LOCAL_TRAINING, 0)
    values = np.broadcast_to(gradients, (1, count, len(gradients)))
    levels = quantizer(bits).indices(np.ascontiguousarray(values), keys=keys)[0] * (2.0 * REACH / top) - REACH
    share = np.modf((gradients / REACH + 1.0) * top / 2.0)[0]
    deviation = 2.0 * REACH / top * np.sqrt(share * (1.0 - share))
    error = np.abs(levels.mean(axis=0) - gradients)
    assert (error <= 4.5 * deviation / np.sqrt(count) + 1e-9).all()
    np.testing.assert_allclose(levels.var(axis=0), deviation**2, rtol=0.03, atol=1e-9)
    # The ends are levels: nothing is drawn there.
    assert (levels[:, [0, -1]] == [-REACH, REACH]).all()


def test_numbers_that_are_none_are_refused() -> None:
    keys = round_keys(5, (0,), Purpose.LOCAL_TRAINING, 0)
    with pytest.raises(LearningError):
        quantizer(2).indices(np.array([[[1.0, np.nan]]]), keys=keys)
