"""What Laplace noise, JoPEQ and MVU have in common as schemes: bits, device numbers, side information, aggregation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from baseline_setting import NUM_VALUES, PIECES, round_of, updates

from fl.base.errors import LearningError
from fl.schemes.aggregation.estimates import weighted_mean
from fl.schemes.coders import value_coder
from fl.schemes.coders.coder import Senders
from fl.schemes.coders.value_coder import TensorScaling, ValueCoder
from fl.schemes.jopeq import JopeqScheme
from fl.schemes.laplace import LaplaceScheme
from fl.schemes.mvu import MvuScheme
from phy.numerics.draws import device_words, laplace, normals, uniforms
from phy.numerics.random import Purpose, threefry

CONFIGS = [
    LaplaceScheme(name="laplace"),
    JopeqScheme(name="jopeq"),
    JopeqScheme(name="jopeq", rate_bits=2, dimension=2),
    MvuScheme(name="mvu"),
    MvuScheme(name="mvu", epsilon=2.0, input_bits=3, output_bits=3),
]
K = 9
DEVICES = np.arange(100, 100 + K)
EQUAL = np.full(K, 1 / K)


def scheme(config: LaplaceScheme | JopeqScheme | MvuScheme) -> ValueCoder:
    return config.build(pieces=PIECES)


def decoded(made: ValueCoder, values: np.ndarray, devices: np.ndarray = DEVICES, index: int = 0) -> np.ndarray:
    payload = made.encode(values, devices=devices, context=round_of(index))
    return made.decode(payload, devices=devices, context=round_of(index))


@pytest.mark.parametrize(("config", "bits"), list(zip(CONFIGS, [32 * 101, 2 * 101, 5 * 51, 101, 3 * 101], strict=True)))
def test_bits_are_those_really_sent(config: LaplaceScheme | JopeqScheme | MvuScheme, bits: int) -> None:
    # JoPEQ: 3 levels take 2 bits; 19 points of a hexagonal lattice take 5 for two numbers.
    made = scheme(config)
    assert (config.upload_bits(101), config.response) == (bits, None)
    payload = made.encode(updates(K), devices=DEVICES, context=round_of())
    assert payload.shape == (1, K, -(-bits // 8))
    assert not np.unpackbits(payload, axis=-1)[..., bits:].any()


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_what_a_device_sends_depends_on_its_number_and_round_alone(
    config: LaplaceScheme | JopeqScheme | MvuScheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = updates(K)
    made = scheme(config)
    whole = made.encode(values, devices=DEVICES, context=round_of())
    read = made.decode(whole, devices=DEVICES, context=round_of())
    aggregate = made.aggregate(whole, Senders(devices=DEVICES, context=round_of(), weights=EQUAL, factor=np.ones(K)))
    some = np.array([7, 2, 2])
    alone = made.encode(values[some], devices=DEVICES[some], context=round_of())
    np.testing.assert_array_equal(alone, whole[:, some])
    np.testing.assert_array_equal(made.decode(alone, devices=DEVICES[some], context=round_of()), read[some])
    monkeypatch.setattr(value_coder, "_VALUES_AT_ONCE", 64)
    np.testing.assert_array_equal(made.encode(values, devices=DEVICES, context=round_of()), whole)
    np.testing.assert_array_equal(made.decode(whole, devices=DEVICES, context=round_of()), read)
    parts = made.aggregate(whole, Senders(devices=DEVICES, context=round_of(), weights=EQUAL, factor=np.ones(K)))
    np.testing.assert_allclose(parts, aggregate, rtol=3e-7, atol=1e-9)
    assert (made.encode(values, devices=DEVICES + 1, context=round_of()) != whole).any()
    assert (made.encode(values, devices=DEVICES, context=round_of(1)) != whole).any()


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_the_aggregate_is_that_of_what_was_decoded_and_arrived(
    config: LaplaceScheme | JopeqScheme | MvuScheme,
) -> None:
    rng = np.random.default_rng(8)
    weights = rng.dirichlet(np.ones(K))
    made = scheme(config)
    payload = made.encode(updates(K), devices=DEVICES, context=round_of())
    values = made.decode(payload, devices=DEVICES, context=round_of())
    known = np.ones((K, made.num_bits), bool)
    known[3, rng.integers(0, made.num_bits, 5)] = False
    known[4] = False
    per_block = made.code.bits_per_block
    held = np.repeat(known.reshape(K, -1, per_block).all(axis=-1), made.code.block, axis=1)[:, :NUM_VALUES]
    assert not held.all(axis=1)[3]
    given: Any = {"devices": DEVICES, "context": round_of(), "weights": weights, "factor": np.ones(K)}
    found = made.aggregate(payload, Senders(**given, known=known))
    zeros = np.zeros(NUM_VALUES, np.float32)
    wanted = weighted_mean(values, weights=weights, known=held, otherwise=zeros)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    nothing = made.aggregate(payload, Senders(**given, known=~(known | True)))
    np.testing.assert_array_equal(nothing, zeros)


def test_scales_belong_to_the_device() -> None:
    made = scheme(JopeqScheme(name="jopeq"))
    values = updates(K)
    payload = made.encode(values, devices=DEVICES, context=round_of())
    read = made.decode(payload, devices=DEVICES, context=round_of())
    some = np.array([5, 1])
    np.testing.assert_array_equal(made.decode(payload[:, some], devices=DEVICES[some], context=round_of()), read[some])
    # An empty seat of the link is lent to device 0 behind the seats that are taken.
    lent = np.array([4, 0, 8, 0])
    values[3] = 0.0
    payload = made.encode(values[:4], devices=lent, context=round_of())
    read = made.decode(payload[:, 1:2], devices=np.array([0]), context=round_of())
    np.testing.assert_array_equal(read[0], made.decode(payload, devices=lent, context=round_of())[1])
    assert read.any()


def test_tensors_are_scaled_each_on_its_own_and_back() -> None:
    scaling = TensorScaling(PIECES)
    values = updates(K)
    values[2, 93:] = 0.25  # a constant tensor has no spread
    x, side = scaling.scale(values)
    for place in (slice(0, 93), slice(93, 101)):
        part = values[:, place].astype(float)
        wanted = (part - part.mean(axis=1, keepdims=True)) / np.maximum(3 * part.std(axis=1, keepdims=True), 1e-30)
        rows = [k for k in range(K) if k != 2 or place.start == 0]
        np.testing.assert_allclose(x[rows, place], wanted[rows], atol=1e-5)
    np.testing.assert_array_equal(x[2, 93:], 0.0)
    scaling.undo(x, side)
    np.testing.assert_allclose(x, values, rtol=1e-5, atol=1e-7)


def test_words_are_threefry_by_device_and_place() -> None:
    key = np.array([123, 456], np.uint32)
    devices = np.array([3, 70_000, 3])
    words = device_words(key, devices=devices, count=200, first=64)
    place = np.arange(64, 264)
    pair = (place // 64 * 32 + place % 32).astype(np.uint32)
    for row, device in enumerate(devices):
        first, second = threefry((key[:1], key[1:]), (pair, np.full(200, device, np.uint32)))
        np.testing.assert_array_equal(words[row], np.where(place % 64 < 32, first, second))


def test_draws_have_their_laws() -> None:
    words = device_words(round_of().keys(Purpose.PRIVACY)[0], devices=np.arange(50), count=10_048)
    n = words.size
    for drawn, variance, fourth in (
        (uniforms(words) - 0.5, 1 / 12, 1 / 80),
        (laplace(words), 2.0, 24.0),
        (normals(words), 1.0, 3.0),
    ):
        sample = drawn.astype(float)
        assert abs(sample.mean()) < 4 * np.sqrt(variance / n)
        assert abs((sample**2).mean() - variance) < 4 * np.sqrt((fourth - variance**2) / n)
        # Neighbours, halves of a pair, and devices do not know of each other.
        for one, other in (
            (sample[:, :-1], sample[:, 1:]),
            (sample[:, :-32], sample[:, 32:]),
            (sample[:-1], sample[1:]),
        ):
            assert abs((one * other).mean()) < 4 * variance / np.sqrt(one.size)
    tails = np.abs(laplace(words))
    for t in (0.1, 1.0, 5.0, 9.0):
        share = np.exp(-t)
        assert abs((tails > t).mean() - share) < 4 * np.sqrt(share * (1 - share) / n)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_refused_by_the_devices_number(bad: float) -> None:
    values = updates(K)
    values[4, 7] = bad
    for config in CONFIGS:
        with pytest.raises(LearningError, match="device 104"):
            scheme(config).encode(values, devices=DEVICES, context=round_of())
