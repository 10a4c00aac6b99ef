"""Fraction bits as codes: equal to IEEE 754 addition, exact on the whole grid, and Lemma 1 of Li et al. 2025."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from fl.schemes.codecs.partwise import FixedPoint
from phy.numerics.bit_flips import flip_bits
from phy.numerics.packing import unpack
from phy.numerics.random import Purpose, round_keys

NO_KEYS = np.zeros((1, 2), np.uint32)


def codes_of(codec: FixedPoint, values: np.ndarray) -> np.ndarray:
    payload = codec.encode(values[None, None], keys=NO_KEYS).payload
    return unpack(payload, bits=codec.fraction_bits, num_values=len(values))[0, 0]


@pytest.mark.parametrize("value_range", [2.0**-20, 0.5, 1.0, 2.0, 2.0**17])
@pytest.mark.parametrize(
    ("fraction_bits", "dtype", "word"),
    [(10, np.float16, np.uint16), (23, np.float32, np.uint32), (52, np.float64, np.uint64)],
)
def test_codes_are_the_fraction_bits_of_the_ieee_sum(
    fraction_bits: int, dtype: type, word: type, value_range: float
) -> None:
    if dtype is np.float16:
        value_range = min(max(value_range, 2.0**-5), 2.0**10)  # 4 B and steps of binary16 within its exponents
    codec = FixedPoint(fraction_bits=fraction_bits, bound=value_range / 2)
    rng = np.random.default_rng(fraction_bits)
    top = value_range - codec.step
    values = np.concatenate(
        [
            rng.uniform(-value_range, top, 100_000),
            rng.normal(scale=value_range / 100, size=100_000).clip(-value_range, top),
            # Half way between two points of the grid, where ties go to even.
            (rng.integers(-(2 ** (min(fraction_bits, 20) - 1)), 2 ** (min(fraction_bits, 20) - 2), 1000) + 0.5)
            * codec.step,
            [-value_range, 0.0, -0.0, top, -codec.step / 2, codec.step / 2],
        ]
    ).astype(dtype)
    total = values + dtype(3.0 * value_range)
    assert total.dtype == dtype
    fraction = total.view(word) & word(2**fraction_bits - 1)
    # Sign and exponent are those of 2 B, for every value.
    np.testing.assert_array_equal(
        total.view(word) >> word(fraction_bits), dtype(2 * value_range).view(word) >> word(fraction_bits)
    )
    given = values.astype(np.float32) if dtype is np.float16 else values
    np.testing.assert_array_equal(codes_of(codec, given), fraction)


@pytest.mark.parametrize(("fraction_bits", "value_range"), [(10, 1.0), (10, 2.0**-30), (23, 1.0), (23, 2.0**40)])
def test_every_number_of_the_grid_survives(fraction_bits: int, value_range: float) -> None:
    codec = FixedPoint(fraction_bits=fraction_bits, bound=value_range / 2)
    half = 2 ** (fraction_bits - 1)
    grid = (np.arange(-half, half, dtype=np.float64) * codec.step).astype(np.float32)
    encoded = codec.encode(grid[None, None], keys=NO_KEYS)
    assert not encoded.clipped.any()
    codes = unpack(encoded.payload, bits=fraction_bits, num_values=2 * half)[0, 0]
    np.testing.assert_array_equal(codes, np.arange(2 * half))
    np.testing.assert_array_equal(codec.decode(encoded.payload, num_values=2 * half)[0, 0], grid)


def test_a_dense_sweep_of_the_double_grid_survives() -> None:
    codec = FixedPoint(fraction_bits=52, bound=1.0)
    rng = np.random.default_rng(2)
    half = 2**51
    n = np.concatenate(
        [
            rng.integers(-half, half, 200_000),
            np.arange(-half, -half + 999),
            np.arange(half - 999, half),
            np.arange(-999, 999),
        ]
    )
    grid = n * codec.step
    payload = codec.encode(grid[None, None], keys=NO_KEYS).payload
    np.testing.assert_array_equal(codec.decode(payload, num_values=len(n))[0, 0], grid)


def test_the_upper_end_is_clipped_and_what_lies_just_below_stays_at_the_last_point() -> None:
    codec = FixedPoint(fraction_bits=23, bound=0.5)
    just_below = np.nextafter(np.float32(1.0), np.float32(0.0))
    values = np.array([1.0, just_below, -1.0, np.nextafter(np.float32(-1.0), np.float32(-2.0)), 5.0], np.float32)
    encoded = codec.encode(values[None, None], keys=NO_KEYS)
    # B itself and whatever lies outside count; -B and the float just below B do not.
    assert encoded.clipped.tolist() == [[3]]
    last = 1.0 - 2.0**-22
    np.testing.assert_array_equal(codec.decode(encoded.payload, num_values=5)[0, 0], [last, last, -1.0, -1.0, last])


@pytest.mark.parametrize("fraction_bits", [10, 23, 52])
def test_a_flip_of_bit_i_moves_the_value_by_the_range_over_two_to_the_i(fraction_bits: int) -> None:
    codec = FixedPoint(fraction_bits=fraction_bits, bound=1.0)
    value = 5 * codec.step
    payload = codec.encode(np.full((1, fraction_bits, 1), value), keys=NO_KEYS).payload
    for bit in range(fraction_bits):
        payload[0, bit, bit // 8] ^= 0x80 >> bit % 8
    moved = np.abs(codec.decode(payload, num_values=1)[0, :, 0] - value)
    np.testing.assert_array_equal(moved, 2.0 * 2.0 ** -np.arange(fraction_bits))


@pytest.mark.parametrize("probability", [0.02, 0.1, 0.35])
@pytest.mark.parametrize("fraction_bits", [10, 23])
def test_recovered_numbers_have_mean_and_variance_of_lemma_1(fraction_bits: int, probability: float) -> None:
    # E = (1 - 2 p) w - p s, the last for a grid that has no point at +B (printed for a symmetric range, 2^-23 of it);
    # variance (1 - 4^-f) / 3 p (1 - p) (2 B)^2, whatever the value.
    codec = FixedPoint(fraction_bits=fraction_bits, bound=0.5)
    n = 150_000
    values = np.repeat(np.array([-0.9, -0.25, 0.0, 0.6], np.float32), n).reshape(1, 4, n)
    payload = codec.encode(values, keys=NO_KEYS).payload
    flipped = flip_bits(
        payload,
        probability=np.full((1, 4), probability),
        num_bits=n * fraction_bits,
        keys=round_keys(3, (0,), Purpose.PRIVACY, 0),
    )
    recovered = codec.decode(flipped, num_values=n)[0].astype(np.float64)
    sent = codec.decode(payload, num_values=n)[0, :, 0].astype(np.float64)
    variance = (1 - 4.0**-fraction_bits) / 3 * probability * (1 - probability) * 4.0
    for device in range(4):
        one = recovered[device]
        mean = (1 - 2 * probability) * sent[device] - probability * codec.step
        assert one.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / n))
        fourth = ((one - one.mean()) ** 4).mean()
        assert one.var() == pytest.approx(variance, abs=4 * np.sqrt((fourth - variance**2) / n))


def test_only_the_fraction_of_a_float_has_a_fixed_point_format() -> None:
    with pytest.raises(ValidationError, match="fraction_bits"):
        FixedPoint(fraction_bits=8)  # type: ignore[arg-type]


@pytest.mark.parametrize(("bound", "value_range"), [(0.3, 0.5), (0.5, 1.0), (0.9, 1.0), (1.0, 2.0)])
def test_the_range_is_the_power_of_two_of_the_next_exponent(bound: float, value_range: float) -> None:
    assert FixedPoint(bound=bound).value_range == value_range
