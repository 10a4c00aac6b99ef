"""Uploads of which parts are missing, padded or shared: what is counted of them, and what a mechanism makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from transport_setting import CONTEXT, link

from fl.algorithms.codec_studies.config import FlipMomentsConfig
from fl.algorithms.run import run_trials
from fl.schemes.codecs.partwise import FixedPoint
from fl.uplink.protection import BitFlipping, Protection, RoundPlan
from fl.uplink.transport import NumberTransport, Upload
from phy.config import LinkConfig
from phy.links.link import known_bits, known_values
from privacy.config import BitFlippingConfig

DEVICES = 4


def transport_of(where: LinkConfig, protection: Protection, num_values: int) -> NumberTransport:
    return NumberTransport(
        where,
        codec=FixedPoint(),
        protection=protection,
        num_devices=DEVICES,
        num_values=num_values,
        receiver_limit=None,
    )


def carried(where: LinkConfig, protection: Protection, num_values: int) -> tuple[NDArray[np.float32], Upload]:
    values = np.random.default_rng(1).uniform(-0.9, 0.9, (DEVICES, num_values)).astype(np.float32)
    transport = transport_of(where, protection, num_values)
    return values, transport.send(values, devices=np.arange(DEVICES), context=CONTEXT)


def mechanism(**changes: Any) -> BitFlippingConfig:
    return BitFlippingConfig.model_validate(
        {"mechanism": "bit-flipping", "epsilon": 10, "kappa": 0.02, "channel": "agnostic", **changes}
    )


@pytest.mark.parametrize("policy", ["accept", "drop"])
def test_flips_are_counted_end_to_end_on_the_values_that_packets_brought(policy: str) -> None:
    where = link(3e-4, packets={"policy": policy, "crc": "crc16"}, packet_size_bytes=100)
    _, upload = carried(where, Protection(RoundPlan(flip_probability=np.full(DEVICES, 0.2))), 3000)
    bits, errors = upload.observed["end_bits"], upload.observed["end_errors"]
    arrived = np.full(DEVICES, 3000) if upload.known is None else upload.known.sum(axis=1)
    assert (arrived < 3000).all() == (policy == "drop")
    assert bits.tolist() == (23 * arrived).tolist()
    # Errors of the radio are thrown away, or come on top: 0.6 * 3e-4, far below the standard error.
    assert (np.abs(errors / bits - 0.2) < 4 * np.sqrt(0.16 / bits)).all()


def test_moments_of_flipped_numbers_are_measured_over_packets_too() -> None:
    config = FlipMomentsConfig(rounds=3, draws=500, num_devices=DEVICES, flip_probability=0.1)
    where = link(3e-4, packets={"policy": "drop"}, packet_size_bytes=100)
    found = run_trials(config, link=where, privacy=None, seed=1, trials=[0])[0]
    heard = found.devices["end_bits"].sum(axis=1) / 23
    assert (heard < DEVICES * 500).all()
    # 4 standard errors of the mean of values of standard deviation 0.35.
    assert (np.abs(found.rounds["recovered_mean"] - found.rounds["lemma1_mean"]) < 4 * 0.35 / np.sqrt(heard)).all()


@pytest.mark.parametrize(("packet_bytes", "num_values"), [(8, 60), (125, 3000)])
def test_what_a_lost_packet_takes_of_a_cipher_block_takes_all_of_it(packet_bytes: int, num_values: int) -> None:
    where = link(2e-4 if packet_bytes > 8 else 4e-3, packets={"policy": "drop"}, packet_size_bytes=packet_bytes)
    protection = BitFlipping(mechanism(cipher="aes"), target=1e-12, link=where)
    values, upload = carried(where, protection, num_values)
    assert upload.known is not None
    assert 0.2 < upload.known.mean() < 1.0
    assert np.abs(upload.values - values)[upload.known].max() <= 2.0**-23
    assert upload.observed["end_errors"].sum() == 0


def test_blocks_that_lie_across_packets_are_known_where_all_their_packets_are() -> None:
    num_values, packet_bits, block_bits = 57, 200, 128
    num_bits = -(-num_values * 23 // block_bits) * block_bits
    delivered = np.random.default_rng(6).random((3, 4, -(-num_bits // packet_bits))) < 0.8
    bits = known_bits(delivered, packet_bits=packet_bits, num_bits=num_bits)
    blocks = bits.reshape(3, 4, -1, block_bits).all(axis=-1)
    expected = np.repeat(blocks, block_bits, axis=-1)[..., : 23 * num_values].reshape(3, 4, num_values, 23).all(axis=-1)
    found = known_values(
        delivered, packet_bits=packet_bits, bits_per_value=23, num_values=num_values, block_bits=block_bits
    )
    np.testing.assert_array_equal(found, expected)


def test_the_last_block_of_a_cipher_arrives_whole_however_many_bits_fill_it() -> None:
    tried = [n for n in range(1, 200) if -(-23 * n // 8) % 16 == 0 and 23 * n % 8]
    assert tried, "no payload fills whole blocks without filling its last byte"
    protection = BitFlipping(mechanism(cipher="aes"), target=1e-12, link=link(None))
    values, upload = carried(link(None), protection, tried[0])
    assert np.abs(upload.values - values).max() <= 2.0**-23


def test_debiasing_divides_by_the_flips_alone_where_packets_with_errors_never_arrive() -> None:
    # One attempt has a bit error rate of 5 %, of which Chase combining leaves nothing that is kept.
    where = link(
        0.05, packets={"policy": "retransmit-combine", "max_retransmissions": 8}, packet_size_bytes=20, probe_bits=8000
    )
    protection = BitFlipping(mechanism(debias=True), target=0.1, link=where)
    transport = transport_of(where, protection, 2000)
    values = np.full((DEVICES, 2000), 0.5, np.float32)
    upload = transport.send(values, devices=np.arange(DEVICES), context=CONTEXT)
    heard = upload.values if upload.known is None else upload.values[np.broadcast_to(upload.known, values.shape)]
    assert heard.size > 0.9 * values.size
    # The recovered numbers have standard deviation sqrt(4 / 3 * 0.09) / 0.8; the probe's 5 % would give 0.556.
    assert abs(heard.mean() - 0.5) < 4 * np.sqrt(0.12) / 0.8 / np.sqrt(heard.size)


def test_groups_of_noma_take_turns() -> None:
    where = link(None).model_copy(update={"error_model": "measured", "access": "noma"})
    noma = transport_of(where, Protection(), 400)
    values = np.zeros((DEVICES, 400), np.float32)
    _, _, heard, _ = noma.send(values, devices=np.arange(DEVICES), context=CONTEXT)
    assert heard.round_airtime_s is not None
    assert noma.bits.spent(heard, np.arange(DEVICES))["airtime_s"] == pytest.approx(float(heard.round_airtime_s[0]))
    assert heard.round_airtime_s[0] == pytest.approx(2 * heard.counts.airtime_s[0, 0])
    assert noma.bits.spent(heard, np.array([0, 1]))["airtime_s"] == pytest.approx(heard.counts.airtime_s[0, 0])
