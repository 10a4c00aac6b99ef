"""From numbers to what the server holds of them: codec, protection and radio in one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from transport_setting import CONTEXT, link

from fl.schemes.aggregation.estimates import weighted_mean
from fl.schemes.codecs.partwise import Binary32, FixedPoint
from fl.uplink.protection import BitFlipping, NoiseOnNumbers, Protection, RoundPlan
from fl.uplink.transport import NumberTransport, Upload, believe
from phy.config import LinkConfig
from privacy.config import BitFlippingConfig

DEVICES, VALUES = 4, 3000
FRACTIONS = FixedPoint()


def carried(
    where: LinkConfig,
    protection: Protection | None = None,
    *,
    codec: FixedPoint | Binary32 = FRACTIONS,
    limit: float | None = None,
    values: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.float32], Upload]:
    transport = NumberTransport(
        where,
        codec=codec,
        protection=protection or Protection(),
        num_devices=DEVICES,
        num_values=VALUES,
        receiver_limit=limit,
    )
    if values is None:
        values = np.random.default_rng(1).uniform(-0.9, 0.9, (DEVICES, VALUES)).astype(np.float32)
    return values, transport.send(values, devices=np.arange(DEVICES), context=CONTEXT)


def rate_is(upload: Upload, expected: float) -> None:
    errors, bits = upload.observed["end_errors"].sum(), upload.observed["end_bits"].sum()
    assert abs(errors / bits - expected) < 4 * np.sqrt(expected * (1 - expected) / bits)


def test_without_radio_and_privacy_values_arrive_as_the_codec_writes_them() -> None:
    values, upload = carried(link(None))
    assert upload.known is None
    assert np.abs(upload.values - values).max() <= 2.0**-23  # half a step of the grid over [-1, 1)


@pytest.mark.parametrize("cipher", ["none", "stream"])
def test_native_flips_bring_the_bits_to_the_target_and_no_further(cipher: str) -> None:
    config = BitFlippingConfig(mechanism="bit-flipping", epsilon=10, kappa=0.02, cipher=cipher)
    _, upload = carried(where := link(0.02), BitFlipping(config, target=0.1, link=where))
    errors, bits = upload.observed["end_errors"].sum(), upload.observed["end_bits"].sum()
    # Only the lower limit is credited: above the target by the width of the probe's interval, some 3 of its 0.00031.
    assert errors / bits > 0.1 - 4 * np.sqrt(0.09 / bits)
    assert errors / bits < 0.1 + 0.8 * 3 * 0.00031 + 4 * np.sqrt(0.09 / bits)
    assert (upload.observed["probed_low"] < 0.02).all()


def test_agnostic_flips_come_on_top_of_the_channel() -> None:
    config = BitFlippingConfig(mechanism="bit-flipping", epsilon=10, kappa=0.02, channel="agnostic")
    _, upload = carried(where := link(0.02, probe_bits=10_000), BitFlipping(config, target=0.1, link=where))
    rate_is(upload, 0.1 + 0.02 - 2 * 0.1 * 0.02)


def test_a_block_cipher_spreads_errors_and_the_flips_allow_for_it() -> None:
    config = BitFlippingConfig(mechanism="bit-flipping", epsilon=10, kappa=0.02, cipher="aes")
    _, upload = carried(where := link(None), BitFlipping(config, target=0.1, link=where))
    errors, bits = upload.observed["end_errors"].sum(), upload.observed["end_bits"].sum()
    # A block is garbled or not: 128 bits err together, so the interval is that of blocks (2 p of them, half wrong).
    assert abs(errors / bits - 0.1) < 4 * np.sqrt(0.2 * 0.8 / 4 / (bits / 128) + 0.09 / bits)


def test_debiasing_gives_back_the_mean() -> None:
    config = BitFlippingConfig(mechanism="bit-flipping", epsilon=10, kappa=0.02, debias=True)
    values = np.full((DEVICES, VALUES), 0.5, np.float32)
    _, upload = carried(where := link(0.05), BitFlipping(config, target=0.2, link=where), values=values)
    deviation = upload.values.std() / np.sqrt(upload.values.size)
    # 4 standard errors of the mean, and those of the rate divided by (200,000 bits per device).
    slack = 0.5 * 2 * 3 * np.sqrt(0.05 / 200_000) / 0.6
    assert abs(upload.values.mean() - 0.5) < 4 * deviation + slack
    as_received = config.model_copy(update={"debias": False})
    _, biased = carried(where := link(0.05), BitFlipping(as_received, target=0.2, link=where), values=values)
    assert biased.values.mean() < 0.35


def test_gaussian_noise_has_the_deviation_of_each_device() -> None:
    sigma = np.array([0.1, 0.2, 0.3, 0.4])
    values, upload = carried(link(None), NoiseOnNumbers(sigma), codec=Binary32())
    noise = upload.values - values
    np.testing.assert_allclose(noise.std(axis=1), sigma, rtol=4 / np.sqrt(2 * VALUES))
    assert np.abs(np.corrcoef(noise) - np.eye(DEVICES)).max() < 4 / np.sqrt(VALUES)


def test_a_wrong_exponent_bit_is_a_catastrophe_unless_the_receiver_disbelieves_it() -> None:
    values, naive = carried(link(0.02), codec=Binary32())
    assert not (np.abs(naive.values) < 1e6).all()
    _, careful = carried(link(0.02), codec=Binary32(), limit=1.0)
    assert careful.known is not None
    assert (np.abs(careful.values) <= 1.0).all()
    assert 0.5 < careful.known.mean() < 1.0
    mean = weighted_mean(careful.values, weights=np.ones(DEVICES), known=careful.known, otherwise=values[0])
    assert np.isfinite(mean).all()


def test_dropped_packets_take_their_values_with_them() -> None:
    values, upload = carried(link(1e-4, packets={"policy": "drop"}, packet_size_bytes=100))
    assert upload.known is not None
    share = 1 - upload.known.mean()
    # A value goes with any of its packets: 23 bits over 800 bits of a packet straddle two in 23/800 of all cases.
    expected = 1 - (1 - 1e-4) ** (800 * (1 + 22 / 800))
    packets = DEVICES * VALUES * 23 / 800
    assert abs(share - expected) < 4 * np.sqrt(expected / packets) + 0.01
    where = upload.known
    assert np.abs(upload.values - values)[where].max() <= 2.0**-23


def test_the_weighted_mean_counts_who_was_heard() -> None:
    values = np.array([[1.0, 2.0, 3.0], [5.0, 6.0, 7.0]], np.float32)
    q, none = np.array([3.0, 1.0]), np.full(3, -1.0, np.float32)
    assert weighted_mean(values, weights=q, otherwise=none).tolist() == [2.0, 3.0, 4.0]
    known = np.array([[True, True, False], [True, False, False]])
    assert weighted_mean(values, weights=q, known=known, otherwise=none).tolist() == [2.0, 2.0, -1.0]
    assert weighted_mean(values, weights=np.zeros(2), otherwise=none).tolist() == [-1.0, -1.0, -1.0]


def test_values_that_are_not_numbers_are_taken_as_missing_only_where_told() -> None:
    values = np.array([[np.nan, 1.0, 9.0]])
    assert believe(values, None, None)[1] is None
    seen, known = believe(values, None, 2.0)
    assert known is not None
    assert known.tolist() == [[False, True, False]]
    assert seen.tolist() == [[0.0, 1.0, 0.0]]


def test_flips_of_one_probability_are_that_many() -> None:
    _, upload = carried(link(None), Protection(RoundPlan(flip_probability=np.full(DEVICES, 0.3))))
    rate_is(upload, 0.3)
