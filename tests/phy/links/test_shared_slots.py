"""Packets that share slots: lengths on the air, bits where one long packet has them, and errors that come together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packet_rows import assert_same, departure
from radio import ERRORS_OF_A_CHECK, context, random_payload

from fl.uplink.channel_credit import errors_together, packets_are_independent
from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.engines.fused.packets.chain import FusedPacketChain
from phy.engines.sionna.packets import compiled_chain
from phy.inspection import Chains, inspect_packets
from phy.links.airtime import FILLED, packets_in_shared_slots, runs_of, slots_for, upload_airtime_s
from phy.links.link import LinkError, Reception
from phy.links.packets.chain import ChainSpec, compiled_part
from phy.links.packets.layout import Clock, all_rows, cut_payload
from phy.measure import theory
from phy.numerics.packing import regroup

GRID = {"num_subcarriers": 72, "num_symbols": 14, "pilot_symbols": [2, 11]}
SLOT = 864
"""Data symbols of 72 carriers in 12 of 14 OFDM symbols."""
BYTES = 96
"""Of a packet: 384 symbols of QPSK. Nine of them fill four slots."""


def link(packing: str = "shared", **changes: Any) -> LinkConfig:
    given = {
        "access": "orthogonal",
        "modulation": "qpsk",
        "ofdm": {**GRID, "packing": packing},
        "channel": {"model": "tdl-a"},
        "power": {"policy": "fixed", "snr_max_db": 15.0},
        "packet_size_bytes": BYTES,
        "engine": "fused",
        **changes,
    }
    return LinkConfig.model_validate(given)


def sent_by(config: LinkConfig, *, num_bytes: int = 20 * BYTES, trials: int = 1, round_index: int = 0) -> Reception:
    uplink = compile_digital(config, num_devices=2, num_bits=8 * num_bytes)
    where = context(trials, round_index=round_index)
    return uplink.send(random_payload(trials, 2, 8 * num_bytes), context=where, caps={})


@settings(deadline=None)
@given(st.integers(1, 40 * SLOT), st.integers(1, 4 * SLOT))
def test_packets_fill_the_slots_that_they_share(symbols: int, slot_symbols: int) -> None:
    packets = packets_in_shared_slots(symbols, slot_symbols)
    slots = slots_for(packets * symbols, slot_symbols)
    assert packets * symbols >= FILLED * slots * slot_symbols
    assert slots <= 20 + slots_for(symbols, slot_symbols)
    for number in (1, packets, 2 * packets + 1, 100):
        runs, last = runs_of(number, shared=packets)
        assert runs * packets + last == number
        taken = runs * slots + slots_for(last * symbols, slot_symbols)
        # No more than the slots of all symbols, by 5 % of every run and a part of the last slot.
        assert taken <= number * symbols / FILLED / slot_symbols + 1


@pytest.mark.parametrize("coding", ["none", {"code": "ldpc5g", "rate": 0.75}])
@pytest.mark.parametrize("modulation", ["qpsk", "64qam"])
@pytest.mark.parametrize("size", [96, 480])
def test_bytes_take_the_airtime_of_their_bits_however_they_are_cut(size: int, modulation: str, coding: Any) -> None:
    config = link(packet_size_bytes=size, modulation=modulation, coding=coding)
    found = sent_by(config)
    slot_s = 14 * config.symbol_s
    symbols = int(found.counts.raw_bits[0, 0]) // config.bits_per_symbol
    assert found.counts.airtime_s[0, 0] == pytest.approx(-(-symbols // SLOT) * slot_s)
    assert upload_airtime_s(config, payload_bits=8 * 1920) == pytest.approx(found.counts.airtime_s[0, 0])
    alone = sent_by(config.model_copy(update={"ofdm": link("whole-slots").ofdm}))
    assert found.counts.symbols[0, 0] <= alone.counts.symbols[0, 0]
    # Filler is of the power of data: energy goes with the slots.
    per_slot = [one.counts.energy_j[0, 0] / one.counts.airtime_s[0, 0] for one in (found, alone)]
    assert per_slot[0] == pytest.approx(per_slot[1], rel=0.05)


@pytest.mark.parametrize("csi", ["perfect", {"estimator": "ls"}, {"estimator": "lmmse"}])
def test_uncoded_packets_of_a_run_are_one_long_packet(csi: Any) -> None:
    """Over a moving channel, estimated from the pilots that they share, with the noise of the same places."""
    channel = {"model": "tdl-c", "speed_m_s": 30.0}
    for size, packets in ((BYTES, 9), (13, 31)):
        run = sent_by(link(csi=csi, channel=channel, packet_size_bytes=size), num_bytes=size * packets)
        config = link("whole-slots", csi=csi, channel=channel, packet_size_bytes=size * packets)
        long = sent_by(config, num_bytes=size * packets)
        assert run.counts.bit_errors.sum() > 10
        assert np.array_equal(run.payload, long.payload)
        assert np.array_equal(run.counts.airtime_s, long.counts.airtime_s)
        np.testing.assert_allclose(run.counts.energy_j, long.counts.energy_j, rtol=1e-6)


@pytest.mark.parametrize("packing", ["whole-slots", "shared"])
def test_packets_are_lost_as_often_as_alone_without_fading(packing: str) -> None:
    config = link(packing, channel={"model": "awgn"}, packets={"policy": "drop"}, power={"snr_max_db": 13.0})
    found = sent_by(config, trials=40)
    bits = 8 * BYTES + 16
    rate = float(theory.awgn_bit_error_rate(np.array(10**1.3 / 2), bits_per_symbol=2))
    lost, packets = 1.0 - (1.0 - rate) ** bits, int(found.counts.packets.sum())
    error = ERRORS_OF_A_CHECK * np.sqrt(lost * (1.0 - lost) / packets)
    assert 0.2 < lost < 0.8
    assert abs(found.counts.dropped.sum() / packets - lost) < error
    wrong, raw = found.counts.raw_bit_errors.sum(), found.counts.raw_bits.sum()
    assert abs(wrong / raw - rate) < ERRORS_OF_A_CHECK * np.sqrt(rate / raw)


def test_packets_of_one_slot_are_lost_together_where_slots_fade() -> None:
    """Two packets with one fade are both lost in the mean of p(h)^2, packets with two fades in the square of p's."""
    names = {"coherence": "packet", "model": "flat", "fading": "rayleigh"}
    esno = 10**1.5 / 2
    nodes, weights = np.polynomial.legendre.leggauss(400)
    power = -np.log(0.5 * (nodes + 1.0))  # unit mean exponential, by its quantiles
    bits = 8 * BYTES + 16
    lost = 1.0 - (1.0 - theory.awgn_bit_error_rate(esno * power, bits_per_symbol=2)) ** bits
    mean, square = (float(0.5 * (weights * value).sum()) for value in (lost, lost**2))
    expected = {"shared": square, "whole-slots": mean**2}
    for packing, both in expected.items():
        config = link(packing, channel=names, packets={"policy": "drop", "crc": "crc16"})
        found = sent_by(config, trials=300, num_bytes=9 * BYTES)
        assert found.delivered is not None
        gone = ~found.delivered.reshape(600, 9)
        pairs = gone[:, 0] & gone[:, 8]  # of the first and the last of four slots
        error = ERRORS_OF_A_CHECK * np.sqrt(both * (1.0 - both) / 600)
        assert abs(pairs.mean() - both) < error
        assert abs(gone[:, 0].mean() - mean) < ERRORS_OF_A_CHECK * np.sqrt(mean * (1.0 - mean) / 600)
    assert expected["shared"] - expected["whole-slots"] > 6 * np.sqrt(square / 600)


def test_packets_that_share_luck_are_not_counted_as_independent() -> None:
    fading = {"coherence": "packet", "model": "flat", "fading": "rayleigh"}
    assert packets_are_independent(link("whole-slots", channel=fading))
    assert not packets_are_independent(link(channel=fading))
    assert packets_are_independent(link(channel={"model": "awgn"}))
    assert errors_together(link("whole-slots", channel=fading)) == 8 * BYTES
    # Runs of nine packets, of which the last may have eight more.
    assert errors_together(link(channel=fading)) == 17 * 8 * BYTES


def test_packets_in_error_are_sent_again_without_the_others() -> None:
    packets = {"policy": "retransmit", "max_retransmissions": 1}
    config = link(channel={"model": "awgn"}, packets=packets, power={"snr_max_db": 13.0})
    found = sent_by(config, num_bytes=9 * BYTES, trials=8)
    again = found.counts.retransmissions
    assert len(np.unique(again)) > 3
    slots = -(-9 * 392 // SLOT) + -(-again * 392 // SLOT)
    np.testing.assert_allclose(found.counts.airtime_s, slots * 14 * config.symbol_s)
    assert np.array_equal(found.counts.raw_bits, (9 + again) * 784)


def test_soft_values_of_a_packet_add_up_over_its_own_attempts() -> None:
    """At -1.5 dB a packet of rate 3/4 needs the sum of three attempts or more, wherever it lies in a slot."""
    combined = {"policy": "retransmit-combine", "max_retransmissions": 7}
    weak: dict[str, Any] = {
        "coding": {"code": "ldpc5g", "rate": 0.75},
        "channel": {"model": "awgn"},
        "power": {"snr_max_db": 1.5},
    }
    found = sent_by(link(packets=combined, **weak), trials=3)
    lost = sent_by(link(packets={**combined, "policy": "retransmit"}, **weak), trials=3)
    assert found.counts.dropped.sum() == 0
    assert found.counts.bit_errors.sum() == 0
    assert found.counts.retransmissions.sum() >= 2 * found.counts.packets.sum()
    assert lost.counts.dropped.sum() == lost.counts.packets.sum()


def test_both_engines_send_the_same_runs() -> None:
    config = link(csi={"estimator": "ls"}, modulation="16qam")
    spec = ChainSpec(
        config=compiled_part(config),
        users=1,
        num_devices=1,
        payload_bits=8 * 25,
        crc="crc11",
        combine=True,
        rows_per_trial=6,
        packets=3,
    )
    there, bits = departure(6), np.random.default_rng(6).integers(0, 256, (6, 1, 75), dtype=np.uint8)
    found, expected = FusedPacketChain(spec).send(bits, there, None), compiled_chain(spec).send(bits, there, None)
    assert_same(found, expected)
    assert expected.accepted.any()
    assert not expected.accepted.all()


def test_flips_put_packets_of_a_run_in_error_one_by_one() -> None:
    packets = {"policy": "drop", "crc": "crc11"}
    config = link(
        channel={"model": "awgn"},
        packets=packets,
        error_model="analytic",
        power={"policy": "fixed", "snr_max_db": 13.0},
    )
    found = sent_by(config, trials=40)
    rate = float(theory.awgn_bit_error_rate(np.array(10**1.3 / 2), bits_per_symbol=2))
    lost, number = 1.0 - (1.0 - rate) ** (8 * BYTES + 11), int(found.counts.packets.sum())
    assert abs(found.counts.dropped.sum() / number - lost) < ERRORS_OF_A_CHECK * np.sqrt(lost * (1 - lost) / number)
    assert (
        found.counts.airtime_s[0, 0] == sent_by(link(packets={"policy": "drop", "crc": "crc11"})).counts.airtime_s[0, 0]
    )


def test_runs_follow_each_other_and_the_rest_follows_the_last_run() -> None:
    # 1,000 bits in packets of 40: runs of 4, a last one of 5, and none left; with 7 more bits a short packet.
    batches = cut_payload(1007, packet_size_bytes=5, shared=4)
    assert [(b.payload_bits, b.num_packets, b.shared, b.first) for b in batches] == [
        (40, 20, 4, 0),
        (40, 5, 5, 20),
        (7, 1, 1, 25),
    ]
    timed = Clock(coherence="doppler", packet_s=1.0, round_s=10.0, shared=4, rest=25, saved_s=7.0 - 6.25)
    starts = [timed.start_s(all_rows(1, 1, batch), attempt=0, context=context(1)).tolist() for batch in batches]
    assert starts == [[0, 1, 2, 3, 4], [5], [6.25]]


def test_bits_of_rows_that_are_no_bytes_are_joined_and_split_again() -> None:
    bits = np.random.default_rng(1).integers(0, 2, (6, 13), dtype=np.uint8)
    joined = regroup(np.packbits(bits, axis=1), rows=2, num_bits=13)
    assert np.array_equal(joined, np.packbits(bits.reshape(2, 39), axis=1))
    assert np.array_equal(regroup(joined, rows=6, num_bits=39), np.packbits(bits, axis=1))


def test_an_inspection_of_shared_slots_is_refused() -> None:
    chains = Chains(flat=lambda _: None, packets=lambda _: None)  # type: ignore[arg-type, return-value]
    payload = random_payload(1, 1, 8 * BYTES)
    with pytest.raises(LinkError, match=r"write ofdm\.packing: whole-slots"):
        inspect_packets(link(), chains=chains, num_bits=8 * BYTES, num_packets=1, payload=payload, context=context(1))
