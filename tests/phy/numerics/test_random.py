"""Random numbers by counter: known answers, the right law, and the same numbers whoever shares the batch."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from phy.fading.block_taps import draw_normals
from phy.numerics.random import (
    RECEIVER,
    Purpose,
    complex_normal,
    generator,
    real_normals,
    round_keys,
    threefry,
    trial_keys,
    uniform_words,
)

ALL_ONES = 0xFFFFFFFF

# Key, counter and output of threefry2x32 with 20 rounds, from `kat_vectors` of Random123 1.14.
KNOWN_ANSWERS = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((ALL_ONES, ALL_ONES), (ALL_ONES, ALL_ONES), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


def normals(num: int, *, purpose: Purpose = Purpose.NOISE, round_index: int = 0, device: int = 0) -> Any:
    """The first `num` CN(0, 1) of one stream of trial 0, drawn by compiled code as the links do."""
    key = round_keys(2022, (0,), purpose, round_index)
    draw = tf.function(draw_normals, jit_compile=True)
    return draw(key, np.array([device], np.uint32), np.arange(num, dtype=np.uint32)).numpy()[0]


@pytest.mark.parametrize("ops", [np, tf.bitwise], ids=["numpy", "tensorflow"])
@pytest.mark.parametrize(("key", "counter", "answer"), KNOWN_ANSWERS)
def test_threefry_gives_the_answers_of_random123(
    key: tuple[int, int], counter: tuple[int, int], answer: tuple[int, int], ops: Any
) -> None:
    def words(pair: tuple[int, int]) -> tuple[Any, Any]:
        arrays = [np.array([word], np.uint32) for word in pair]
        return tuple(arrays if ops is np else map(tf.constant, arrays))

    found = threefry(words(key), words(counter), ops)
    assert tuple(int(np.asarray(word)[0]) for word in found) == answer


@pytest.mark.parametrize("round_index", [0, 1, 300, 2**32 - 1])
def test_keys_of_many_trials_are_those_that_each_has_alone(round_index: int) -> None:
    trials = (*range(40), 10**6)
    together = round_keys(2022, trials, Purpose.NOISE, round_index)
    assert together.dtype == np.uint32
    for row, trial in enumerate(trials):
        assert np.array_equal(together[row], round_keys(2022, (trial,), Purpose.NOISE, round_index)[0])


def test_words_on_the_host_are_threefry_of_position_and_device() -> None:
    keys = round_keys(3, (0, 5), Purpose.PROBE_BITS, 4)
    found = uniform_words(keys, num_devices=3, num_words=7)
    for (row, key), device, pair in product(enumerate(keys), range(3), range(3)):
        oracle = threefry((key[:1], key[1:]), (np.array([pair], np.uint32), np.array([device], np.uint32)))
        assert [int(word[0]) for word in oracle] == found[row, device, 2 * pair : 2 * pair + 2].tolist()


def test_words_from_a_later_pair_on_continue_the_stream() -> None:
    keys = round_keys(3, (0, 1), Purpose.BIT_FLIPS, 0)
    whole = uniform_words(keys, num_devices=2, num_words=24)
    rest = uniform_words(keys, num_devices=2, num_words=16, first_pair=4)
    assert np.array_equal(rest, whole[..., 8:])


def test_every_byte_of_a_word_is_uniform() -> None:
    words = uniform_words(round_keys(1, (0,), Purpose.BIT_FLIPS, 0), num_devices=1, num_words=1 << 18)
    counts = np.stack([np.bincount(column, minlength=256) for column in words.view(np.uint8).reshape(-1, 4).T])
    # Chance that four correct chi-square tests all pass: 1 - 4e-4, at a fixed seed.
    assert (stats.chisquare(counts, axis=1).pvalue > 1e-4).all()


def test_complex_normals_are_box_muller_of_their_words() -> None:
    words = uniform_words(round_keys(9, (0,), Purpose.NOISE, 0), num_devices=1, num_words=1 << 17)[0, 0]
    extremes = np.array([0, 1, 0x7FFFFFFF, 0x80000000, ALL_ONES], np.uint32)
    pairs = np.concatenate([words.reshape(-1, 2), np.array(list(product(extremes, extremes)))]).astype(np.uint32)
    found = complex_normal((tf.constant(pairs[:, 0]), tf.constant(pairs[:, 1]))).numpy()
    uniform = (pairs[:, 0] + 0.5) * 2.0**-32
    exact = np.sqrt(-np.log(uniform)) * np.exp(2j * np.pi * pairs[:, 1] * 2.0**-32)
    # The angle is exact to 2^-25 turns (a relative error of 1.9e-7), the polynomial to 2e-7; the radius
    # loses most near 0, where float32 holds u = 1 - x to 2^-24 only: sqrt(2^-24) = 2.4e-4 at worst.
    assert np.abs(found - exact).max() < 2.5e-4
    usual = uniform < 0.99
    assert (np.abs(found - exact)[usual] <= 3e-6 * np.abs(exact)[usual]).all()


def test_normals_have_the_moments_of_a_circular_gaussian() -> None:
    num = 1 << 20
    drawn = normals(num).astype(np.complex128)
    for part in (drawn.real, drawn.imag):
        z = part * np.sqrt(2.0)
        # Variance of z^r is (2r-1)!! - ((r-1)!!)^2: 1, 2, 15, 96, so the standard errors below; k = 4.
        for power, moment, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
            assert abs((z**power).mean() - moment) < 4.0 * np.sqrt(variance / num)
    # In-phase and quadrature are uncorrelated, and so are their squares (radius and angle independent).
    assert abs(np.corrcoef(drawn.real, drawn.imag)[0, 1]) < 4.0 / np.sqrt(num)
    assert abs(np.corrcoef(drawn.real**2, drawn.imag**2)[0, 1]) < 4.0 / np.sqrt(num)


def test_normals_follow_the_normal_distribution_function() -> None:
    drawn = normals(1 << 18)
    for part in (drawn.real, drawn.imag):
        # p of a correct generator is uniform: below 1e-4 once in 10 000 seeds, and the seed is fixed.
        assert stats.kstest(part * np.sqrt(2.0), "norm").pvalue > 1e-4


@pytest.mark.parametrize("threshold", [4.0, 4.5, 5.0])
def test_normals_have_the_tails_of_a_gaussian(threshold: float) -> None:
    num = 1 << 22
    drawn = normals(num)
    beyond = int((np.abs(np.concatenate([drawn.real, drawn.imag])) * np.sqrt(2.0) > threshold).sum())
    expected = 2 * num * 2 * stats.norm.sf(threshold)
    # Poisson limits at the tail probability of 4 standard errors, 3.2e-5 on each side.
    low, high = stats.poisson.ppf([stats.norm.sf(4.0), stats.norm.cdf(4.0)], expected)
    assert low <= beyond <= high


@pytest.mark.parametrize(
    "other",
    [
        {"purpose": Purpose.PROBE_NOISE},
        {"purpose": Purpose.CHANNEL},
        {"round_index": 1},
        {"device": 1},
    ],
    ids=str,
)
def test_streams_of_another_purpose_round_or_device_are_uncorrelated(other: dict[str, Any]) -> None:
    num = 1 << 17
    here, there = normals(num), normals(num, **other)
    for shift in (0, 1):
        correlation = np.vdot(here, np.roll(there, shift)) / num
        # Each of real and imaginary part has variance 1 / (2 num); k = 4.
        assert max(abs(correlation.real), abs(correlation.imag)) < 4.0 / np.sqrt(2.0 * num)


def test_no_two_streams_share_a_key() -> None:
    keys = np.concatenate([round_keys(2022, range(40), purpose, index) for purpose in Purpose for index in range(40)])
    # 24 000 keys of 64 bits: two correct ones coincide with probability 1e-11.
    assert len(np.unique(keys.astype(np.uint64) @ np.array([1 << 32, 1], np.uint64))) == len(keys)


def test_keys_belong_to_seed_and_trial_not_to_the_batch() -> None:
    together = trial_keys(5, (3, 1, 8), Purpose.NOISE)
    assert np.array_equal(together[1], trial_keys(5, (1,), Purpose.NOISE)[0])
    assert not np.array_equal(together[1], trial_keys(6, (1,), Purpose.NOISE)[0])


def test_a_key_handed_out_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        trial_keys(5, (3,), Purpose.NOISE)[0, 0] = 1


def test_purposes_keep_their_numbers() -> None:
    assert [(p.name, p.value) for p in Purpose][:15] == [
        ("DATA", 0),
        ("PARTITION", 1),
        ("INITIAL_MODEL", 2),
        ("LOCAL_TRAINING", 3),
        ("CHANNEL", 4),
        ("NOISE", 5),
        ("PRIVACY", 6),
        ("CODEBOOK", 7),
        ("CSI", 8),
        ("PROBE_BITS", 9),
        ("PROBE_NOISE", 10),
        ("BIT_FLIPS", 11),
        ("LANGEVIN_NOISE", 12),
        ("POSTERIOR", 13),
        ("SCRAMBLING", 14),
    ]


@pytest.mark.parametrize("num_values", [1, 5, 30, 257])
def test_server_normals_are_the_same_alone_and_in_any_batch(num_values: int) -> None:
    keys = round_keys(11, range(300), Purpose.LANGEVIN_NOISE, 2)
    together = real_normals(keys, num_values=num_values)
    assert together.shape == (300, num_values)
    for trial in (0, 1, 7, 254, 255, 256, 299):
        assert np.array_equal(real_normals(keys[trial : trial + 1], num_values=num_values)[0], together[trial])
    assert np.array_equal(real_normals(keys[100:133], num_values=num_values), together[100:133])


def test_server_normals_are_those_of_tensorflow_bit_for_bit() -> None:
    keys = round_keys(12, range(512), Purpose.LANGEVIN_NOISE, 3)
    words = threefry((keys[:, 0, None], keys[:, 1, None]), (np.arange(999, dtype=np.uint32)[None], RECEIVER))
    expected = tf.function(complex_normal, jit_compile=True)([tf.constant(word) for word in words])
    assert np.array_equal(real_normals(keys, num_values=999), np.asarray(expected).real * np.sqrt(2.0))


def test_server_normals_are_standard() -> None:
    drawn = real_normals(round_keys(11, range(512), Purpose.LANGEVIN_NOISE, 0), num_values=256).ravel()
    assert stats.kstest(drawn, "norm").pvalue > 1e-4  # as above: one correct seed in 10 000 falls below
    assert abs(drawn.var() - 1.0) < 4.0 * np.sqrt(2.0 / drawn.size)  # k = 4


def test_words_do_not_depend_on_the_batch_or_on_how_many_are_asked() -> None:
    keys = round_keys(4, range(9), Purpose.BIT_FLIPS, 1)
    together = uniform_words(keys, num_devices=4, num_words=33)
    assert np.array_equal(uniform_words(keys[6:7], num_devices=2, num_words=9), together[6:7, :2, :9])


def test_host_generators_differ_by_purpose_and_repeat() -> None:
    first = generator(1, 2, Purpose.DATA).normal(size=4)
    assert np.array_equal(first, generator(1, 2, Purpose.DATA).normal(size=4))
    assert not np.array_equal(first, generator(1, 2, Purpose.PARTITION).normal(size=4))
    assert not np.array_equal(first, generator(1, 3, Purpose.DATA).normal(size=4))
