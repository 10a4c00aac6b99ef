"""Flipped bits: their law, their independence, and that they are functions of key, device and position alone."""

from __future__ import annotations

import numpy as np
import pytest

from phy.links.link import known_bits, known_values
from phy.measure.counts import count_differences
from phy.numerics.bit_flips import flip_bits
from phy.numerics.random import Purpose, round_keys, threefry
from phy.numerics.workers import THREADS_VARIABLE

RATES = np.array([0.0, 2.0**-11, 0.003, 0.1, 1 / 3, 0.5, 0.9, 1 - 2.0**-12, 1.0])
NUM_BITS = 400_003


def keys(trials: tuple[int, ...] = (0,), *, round_index: int = 0) -> np.ndarray:
    return round_keys(11, trials, Purpose.PRIVACY, round_index)


def flips(rates: np.ndarray, *, num_bits: int = NUM_BITS, round_index: int = 0) -> np.ndarray:
    """Unpacked flips `[num_devices, num_bits]` of one trial."""
    nothing = np.zeros((1, len(rates), -(-num_bits // 8)), np.uint8)
    flipped = flip_bits(nothing, probability=rates[None], num_bits=num_bits, keys=keys(round_index=round_index))
    return np.unpackbits(flipped, axis=-1, count=num_bits)[0]


def test_every_device_flips_at_its_rate() -> None:
    total = sum(flips(RATES, round_index=i).sum(axis=1, dtype=np.int64) for i in range(5))
    n = 5 * NUM_BITS
    # 4 standard errors. At 2^-11 and 1 - 2^-12 every flip, or its absence, comes from the rare second comparison.
    assert np.all(np.abs(total - n * RATES) <= 4 * np.sqrt(n * RATES * (1 - RATES)))


def test_flips_are_those_of_a_bit_by_bit_comparison() -> None:
    num_bits = 1234
    rates = np.array([2.0**-9, 0.1, 0.5 + 2.0**-11, 1.0, 0.0, 0.75])
    found = flips(rates, num_bits=num_bits)
    key = keys()[0]
    position = np.arange(num_bits)
    block, inside = position // 64, position % 64
    # Within a word of the machine (little endian), packed bits run from the most significant bit of each byte.
    place = 8 * (inside % 32 // 8) + 7 - inside % 8
    for device, rate in enumerate(rates):
        uniform = np.zeros(num_bits)
        for digit in range(10):
            counter = ((10 * block + digit).astype(np.uint32), np.full(num_bits, device, np.uint32))
            word = np.where(inside < 32, *threefry((key[:1], key[1:]), counter)).astype(np.uint64)
            uniform += ((word >> place.astype(np.uint64)) & np.uint64(1)) * 2.0 ** -(digit + 1)
        counter = ((position // 2).astype(np.uint32), np.full(num_bits, device + 2**31, np.uint32))
        rest = np.where(position % 2, *threefry((key[:1], key[1:]), counter)[::-1])
        np.testing.assert_array_equal(found[device], uniform + rest * 2.0**-42 < rate)


@pytest.mark.parametrize("rate", [0.03, 0.5])
def test_flips_are_independent_between_positions_devices_rounds_and_trials(rate: float) -> None:
    first = flips(np.full(2, rate)).astype(np.int8)
    later = flips(np.full(2, rate), round_index=1).astype(np.int8)
    nothing = np.zeros((1, 2, -(-NUM_BITS // 8)), np.uint8)
    elsewhere = flip_bits(nothing, probability=np.full((1, 2), rate), num_bits=NUM_BITS, keys=keys((1,)))
    pairs = [(first[0, lag:], first[0, : NUM_BITS - lag]) for lag in (1, 2, 7, 8, 23, 31, 32, 33, 64, 128, 640)]
    pairs += [(first[0], first[1]), (first[0], later[0]), (first[0], np.unpackbits(elsewhere[0, 0], count=NUM_BITS))]
    for one, other in pairs:
        n = len(one)
        both = np.count_nonzero(one & other)
        # Given independence, the number of joint flips is binomial with rate^2 (lags overlap, adding 2 rate^3 terms).
        deviation = np.sqrt(n * (rate**2 * (1 - rate**2) + 2 * (rate**3 - rate**4)))
        assert abs(both - n * rate**2) < 4 * deviation
    # Runs of 64 bits, the size of a block: the number of flips in each is binomial, so its variance is known.
    counts = first[0, : NUM_BITS // 64 * 64].reshape(-1, 64).sum(axis=1)
    variance = 64 * rate * (1 - rate)
    fourth = variance * (1 + 3 * (64 - 2) * rate * (1 - rate))
    assert counts.var() == pytest.approx(variance, abs=4 * np.sqrt((fourth - variance**2) / len(counts)))


def test_flips_do_not_depend_on_chunks_other_trials_or_other_devices_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    num_bits, trials = 1001, (4, 9, 17)
    rng = np.random.default_rng(1)
    payload = rng.integers(0, 256, (3, 5, 126), dtype=np.uint8)
    rates = rng.uniform(0, 1, (3, 5))
    rates[1, 2] = 0.0
    whole = flip_bits(payload, probability=rates, num_bits=num_bits, keys=keys(trials))
    for row, trial in enumerate(trials):
        alone = flip_bits(
            payload[row : row + 1], probability=rates[row : row + 1], num_bits=num_bits, keys=keys((trial,))
        )
        np.testing.assert_array_equal(alone[0], whole[row])
    silent = rates * np.array([1, 0, 0, 1, 0])
    some = flip_bits(payload, probability=silent, num_bits=num_bits, keys=keys(trials))
    np.testing.assert_array_equal(some, np.where((silent > 0)[..., None], whole, payload))
    for threads in (1, 3):
        monkeypatch.setenv(THREADS_VARIABLE, str(threads))
        parts = [
            flip_bits(
                payload[:, part],
                probability=rates[:, part],
                num_bits=num_bits,
                keys=keys(trials),
                first_device=part.start,
            )
            for part in (slice(0, 2), slice(2, 5))
        ]
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


def test_what_is_flipped_does_not_depend_on_what_is_sent_and_padding_stays() -> None:
    payload = np.random.default_rng(1).integers(0, 256, (1, 2, 3), dtype=np.uint8)
    for num_bits in (17, 20, 24):
        flipped = flip_bits(payload, probability=np.ones((1, 2)), num_bits=num_bits, keys=keys())
        expected = np.packbits(np.arange(24) < num_bits)
        np.testing.assert_array_equal(payload ^ flipped, np.broadcast_to(expected, payload.shape))
    rates = np.full((1, 2), 0.4)
    mask = flip_bits(np.zeros_like(payload), probability=rates, num_bits=24, keys=keys())
    np.testing.assert_array_equal(flip_bits(payload, probability=rates, num_bits=24, keys=keys()), payload ^ mask)


def test_nothing_to_flip_is_no_error() -> None:
    payload = np.full((1, 2, 4), 7, np.uint8)
    np.testing.assert_array_equal(flip_bits(payload, probability=np.zeros((1, 2)), num_bits=32, keys=keys()), payload)
    assert flip_bits(payload[..., :0], probability=np.ones((1, 2)), num_bits=0, keys=keys()).shape == (1, 2, 0)


@pytest.mark.parametrize("bad", [np.nan, -1e-9, 1.0 + 1e-9])
def test_what_is_no_probability_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="outside 0 to 1"):
        flip_bits(np.zeros((1, 2, 1), np.uint8), probability=np.array([[0.1, bad]]), num_bits=8, keys=keys())


@pytest.mark.parametrize("num_bits", [1, 8, 1003, 1008])
def test_differences_are_counted_without_padding(num_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phy.measure.counts._BYTES_AT_ONCE", 100)
    first, second = np.random.default_rng(4).integers(0, 256, (2, 2, 3, 126), dtype=np.uint8)
    differ = np.unpackbits(first ^ second, axis=-1)[..., :num_bits].sum(axis=-1, dtype=np.int64)
    counted = count_differences(first, second, num_bits=num_bits)
    assert counted.dtype == np.int64
    np.testing.assert_array_equal(counted, differ)


@pytest.mark.parametrize(
    ("packet_bits", "bits_per_value", "num_values"),
    [(64, 8, 41), (64, 23, 57), (64, 1, 200), (16, 23, 57), (8, 52, 19), (1000, 23, 3), (23, 23, 9)],
)
def test_a_value_is_known_where_all_its_bits_arrived(packet_bits: int, bits_per_value: int, num_values: int) -> None:
    num_bits = num_values * bits_per_value
    delivered = np.random.default_rng(6).random((3, 4, -(-num_bits // packet_bits))) < 0.8
    bits = known_bits(delivered, packet_bits=packet_bits, num_bits=num_bits)
    expected = bits.reshape(3, 4, num_values, bits_per_value).all(axis=-1)
    found = known_values(delivered, packet_bits=packet_bits, bits_per_value=bits_per_value, num_values=num_values)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_bits_beyond_four_thousand_million_draw_numbers_of_their_own() -> None:
    num_bits = (1 << 32) + (1 << 14)
    beyond = flip_bits(
        np.zeros((1, 1, num_bits // 8), np.uint8), probability=np.full((1, 1), 2.0**-12), num_bits=num_bits, keys=keys()
    )[0, 0, 1 << 29 :]
    # Below 2^-10 a bit flips only where the ten leading digits are all zero and the rest of its own lies below 2^30.
    found = np.unpackbits(beyond)
    position = (1 << 32) + np.arange(1 << 14, dtype=np.int64)
    counter = ((position // 64) * 10)[:, None] + np.arange(10)
    key0, key1 = keys()[0]
    device = np.zeros(1, np.uint32)
    digits = threefry((key0, key1), (counter.astype(np.uint32), device[:, None]))
    own = np.where((position % 64 < 32)[:, None], *digits)
    lane = (8 * (position % 32 // 8) + 7 - position % 8).astype(np.uint32)
    zero = ((own >> lane[:, None]) & np.uint32(1) == 0).all(axis=1)
    rest = threefry((key0, key1), ((position // 2).astype(np.uint32), device | np.uint32(1 << 31)))
    below = np.where(position % 2, rest[1], rest[0]) < np.uint32(1 << 30)
    assert zero.any()
    assert np.array_equal(found, zero & below)
