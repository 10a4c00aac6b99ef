"""signSGD: signs against a slow oracle, coins for zeros, mean and majority, and what flips leave of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fl.models.federated import Piece
from fl.schemes.coders.coder import Senders
from fl.schemes.scheme import flip_target
from fl.schemes.sign import SignScheme, SignVote
from phy.fading.block_taps import UplinkContext
from phy.numerics.bit_flips import flip_bits
from phy.numerics.random import Purpose

CONTEXT = UplinkContext(seed=5, trials=(3,), round_index=2)
DEVICES = np.array([90_000, 2, 11])
Array = NDArray[Any]


def sign(num_values: int, **settings: Any) -> SignVote:
    return SignVote(SignScheme(name="sign", **settings), num_values)


def vote(scheme: SignVote, bits: Array, **given: Any) -> Array:
    """The update of bits `[K, M]` given one by one."""
    count = len(bits)
    more: dict[str, Any] = {"weights": np.full(count, 1.0 / count), "factor": np.ones(count)}
    return scheme.aggregate(
        np.packbits(bits, axis=1)[None], Senders(devices=np.arange(count), context=CONTEXT, **{**more, **given})
    )


def test_bits_are_signs_for_numbers_of_any_size() -> None:
    rng = np.random.default_rng(0)
    updates = (rng.choice([-1.0, 1.0], (3, 500)) * 10.0 ** rng.integers(-42, 38, (3, 500))).astype(np.float32)
    sent = sign(500, epsilon=None).encode(updates, devices=DEVICES, context=CONTEXT)
    np.testing.assert_array_equal(np.unpackbits(sent[0], axis=1, count=500), updates > 0.0)


def test_a_zero_is_a_fair_coin_of_its_device_round_and_place() -> None:
    num_values = 100_000
    scheme = sign(num_values, epsilon=None)
    zeros = np.zeros((3, num_values), np.float32)
    zeros[1] = -0.0
    sent = scheme.encode(zeros, devices=DEVICES, context=CONTEXT)
    signs = 2.0 * np.unpackbits(sent[0], axis=1, count=num_values) - 1.0
    error = 1.0 / math.sqrt(num_values)
    assert np.all(np.abs(signs.mean(axis=1)) < 4.0 * error)
    together = signs @ signs.T / num_values
    assert np.all(np.abs(together[np.triu_indices(3, 1)]) < 4.0 * error)
    order = np.array([2, 0])
    np.testing.assert_array_equal(
        scheme.encode(zeros[order], devices=DEVICES[order], context=CONTEXT)[0], sent[0, order]
    )
    later = UplinkContext(seed=5, trials=(3,), round_index=3)
    next_round = np.unpackbits(scheme.encode(zeros, devices=DEVICES, context=later)[0], axis=1, count=num_values)
    assert np.all(np.abs((signs * (2.0 * next_round - 1.0)).mean(axis=1)) < 4.0 * error)


def test_the_majority_decides_by_weight_and_a_balance_leaves_the_number_alone() -> None:
    bits = np.array([[1, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]], np.uint8)
    scheme = sign(4, epsilon=None, step=0.1)
    np.testing.assert_allclose(vote(scheme, bits), [0.0, 0.0, -0.1, 0.0])
    heavy = np.array([0.4, 0.2, 0.2, 0.2])
    np.testing.assert_allclose(vote(scheme, bits, weights=heavy), np.float32([0.1, 0.1, -0.1, 0.1]))
    known = np.ones((4, 4), bool)
    known[0, 0] = known[1, 1] = False
    known[:, 2] = False
    np.testing.assert_allclose(vote(scheme, bits, known=known), np.float32([-0.1, 0.1, 0.0, 0.0]))


def test_bad_channels_weigh_no_more_in_a_majority() -> None:
    bits = np.array([[1], [0], [0]], np.uint8)
    factor = np.array([0.1, 1.0, 1.0])
    assert vote(sign(1, epsilon=0.5, step=1.0), bits, factor=factor)[0] == -1.0
    unbiased = sign(1, epsilon=0.5, vote="mean", step=1.0, decode="unbiased")
    assert vote(unbiased, bits, factor=factor)[0] == pytest.approx((10.0 - 2.0) / 3.0, rel=1e-6)


@pytest.mark.parametrize("decode", ["coded", "unbiased"])
def test_the_mean_undoes_the_channel_and_where_asked_randomized_response_too(decode: Any) -> None:
    epsilon, channel, count, num_values = 1.0, 0.1, 4, 100_000
    scheme = sign(num_values, epsilon=epsilon, vote="mean", step=0.5, decode=decode)
    target = flip_target(epsilon)
    assert target == pytest.approx(1.0 / (1.0 + math.e))
    kept = (1.0 - 2.0 * target) * (1.0 - 2.0 * channel)
    updates = np.tile(np.array([[2.0], [1e-3], [-5.0], [0.1]], np.float32), (1, num_values))
    sent = scheme.encode(updates, devices=np.arange(count), context=CONTEXT)
    heard = flip_bits(
        sent,
        probability=np.full((1, count), (1.0 - kept) / 2.0),
        num_bits=num_values,
        keys=CONTEXT.keys(Purpose.BIT_FLIPS),
    )
    found = scheme.aggregate(
        heard,
        Senders(devices=np.arange(count), context=CONTEXT, weights=np.full(count, 0.25), factor=np.full(count, kept)),
    ).astype(float)
    left = math.tanh(epsilon / 2.0) if decode == "coded" else 1.0
    # Mean of four signs, three of them +1; each flipped sign has the variance 1 - kept^2.
    error = 0.5 * left / kept * math.sqrt((1.0 - kept**2) / 4.0 / num_values)
    assert abs(found.mean() - 0.5 * left * 0.5) < 4.0 * error


def test_the_scheme_is_built_as_configured() -> None:
    scheme = SignScheme(name="sign", epsilon=None, vote="mean", step=0.3)
    assert (scheme.upload_bits(9), scheme.response.flip_target) == (9, None)
    coder = scheme.build(pieces=[Piece(name="w", shape=(9,), offset=0)])
    assert coder == sign(9, epsilon=None, vote="mean", step=0.3)


def test_the_decode_that_is_written_says_whether_randomized_response_is_undone() -> None:
    bits, factor = np.ones((3, 1), np.uint8), np.full(3, math.tanh(0.25))
    for decode, expected in (("coded", 1.0), ("unbiased", 1.0 / math.tanh(0.25))):
        config = SignScheme(name="sign", epsilon=0.5, vote="mean", step=1.0, decode=decode)
        assert vote(config.build(pieces=[Piece(name="w", shape=(1,), offset=0)]), bits, factor=factor)[
            0
        ] == pytest.approx(expected, rel=1e-6)
