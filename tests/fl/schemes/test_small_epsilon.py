"""Randomized response that leaves next to nothing of a bit is undone exactly: only what is measured has a floor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fl.models.federated import Piece
from fl.schemes.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.schemes.coders.coder import Coder, Senders
from fl.schemes.cpa.cpa import Cpa
from fl.schemes.cpa.scheme import CpaScheme
from fl.schemes.scheme import ChannelUse, Response
from fl.schemes.sign import SignScheme
from fl.uplink.protection import RandomizedResponse
from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext

EPSILON = 0.01
KEPT = math.tanh(EPSILON / 2.0)
"""A tenth of the floor."""

ROUND = UplinkContext(seed=2, trials=(0,), round_index=1)
NUM_DEVICES, NUM_VALUES = 6, 50


def cpa(**settings: Any) -> Coder:
    return Cpa(CpaScheme(name="cpa", **settings), num_values=NUM_VALUES)


def sign(**settings: Any) -> Coder:
    pieces = [Piece(name="w", shape=(NUM_VALUES,), offset=0)]
    return SignScheme(name="sign", vote="mean", **settings).build(pieces=pieces)


def aggregated(scheme: Coder, factor: float) -> np.ndarray:
    bits = np.random.default_rng(0).integers(0, 256, (1, NUM_DEVICES, -(-NUM_VALUES // 8)), np.uint8)
    equal = np.full(NUM_DEVICES, 1.0 / NUM_DEVICES)
    senders = Senders(devices=np.arange(NUM_DEVICES), context=ROUND, weights=equal, factor=np.full(NUM_DEVICES, factor))
    return scheme.aggregate(bits, senders)


@pytest.mark.parametrize(
    ("decoded", "plain", "times"),
    [
        (cpa(epsilon=EPSILON, decode="coded"), cpa(epsilon=None, decode="printed"), 1.0),
        (cpa(epsilon=EPSILON, decode="printed"), cpa(epsilon=None, decode="printed"), 1.0 / KEPT),
        (cpa(epsilon=EPSILON, decode="unbiased"), cpa(epsilon=None, decode="unbiased"), 1.0 / KEPT),
        (sign(epsilon=EPSILON, decode="coded"), sign(epsilon=None), 1.0),
        (sign(epsilon=EPSILON, decode="unbiased"), sign(epsilon=None), 1.0 / KEPT),
    ],
    ids=["cpa coded", "cpa printed", "cpa unbiased", "sign coded", "sign unbiased"],
)
def test_the_decode_divides_by_all_of_the_response_or_as_coded_by_nothing(
    decoded: Coder, plain: Coder, times: float
) -> None:
    found, without = aggregated(decoded, KEPT), aggregated(plain, 1.0)
    # Shares and points are multiplied in single precision.
    np.testing.assert_allclose(found, times * without, rtol=1e-5, atol=1e-6 * times * np.abs(without).max())


@pytest.mark.parametrize("scheme", [cpa(epsilon=EPSILON, decode="unbiased"), sign(epsilon=EPSILON, decode="unbiased")])
def test_a_channel_that_carries_nothing_is_divided_by_no_less_than_the_floor(scheme: Coder) -> None:
    at_floor = aggregated(scheme, SMALLEST_DEBIAS_FACTOR * KEPT)
    assert np.abs(at_floor).max() > 0.0
    np.testing.assert_array_equal(aggregated(scheme, 0.0), at_floor)


@pytest.mark.parametrize(
    ("channel", "snr_max_db", "left"),
    [
        ("agnostic", -40.0, KEPT),
        ("debias", 40.0, KEPT),
        ("debias", -40.0, SMALLEST_DEBIAS_FACTOR * KEPT),
        ("native", 40.0, KEPT),
    ],
)
def test_the_plan_leaves_the_response_as_it_is_and_keeps_the_channel_above_the_floor(
    channel: ChannelUse, snr_max_db: float, left: float
) -> None:
    """At 40 dB no bit errs; at -40 dB 1 - 2 p is 0.008, and a probe of 20,000 bits errs by 0.007."""
    link = LinkConfig.model_validate(
        {
            "modulation": "qpsk",
            "access": "orthogonal",
            "power": {"policy": "fixed", "snr_max_db": snr_max_db},
            "probe_bits": 20_000,
        }
    )
    uplink = compile_digital(link, num_devices=2, num_bits=NUM_VALUES)
    response = Response(1.0 / (1.0 + math.exp(EPSILON)), channel, 0.99)
    factor = RandomizedResponse(response, link=link).begin(uplink, context=ROUND).factor
    assert factor is not None
    np.testing.assert_allclose(factor, left, rtol=1e-9)
