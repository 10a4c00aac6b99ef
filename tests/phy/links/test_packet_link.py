"""The packet link: policies for packets in error, what they cost, and power control on what was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from radio import context, random_payload, standard_errors_off
from scipy.special import ndtr, ndtri

from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.links.link import Reception
from phy.measure.counts import rate_interval

PACKET_BYTES = 16


def link(snr_db: float = 4.0, **changes: Any) -> LinkConfig:
    """Uncoded BPSK over AWGN: P0 / N0 = `snr_db`, hence a bit error rate of Q(10^(snr_db / 20))."""
    return LinkConfig.model_validate(
        {
            "access": "orthogonal",
            "modulation": "bpsk",
            "channel": {"model": "awgn"},
            "power": {"policy": "fixed", "snr_max_db": snr_db},
            "packet_size_bytes": PACKET_BYTES,
            "packets": {"crc": "crc16"},
            **changes,
        }
    )


def send(
    config: LinkConfig, *, trials: int = 4, devices: int = 2, packets: int = 200, round_index: int = 0
) -> Reception:
    num_bits = 8 * PACKET_BYTES * packets
    uplink = compile_digital(config, num_devices=devices, num_bits=num_bits)
    return uplink.send(
        random_payload(trials, devices, num_bits), context=context(trials, round_index=round_index), caps={}
    )


def packet_error_rate(snr_db: float, bits: int = 8 * PACKET_BYTES + 16) -> float:
    """1 - (1 - p)^n over the packet with its CRC."""
    return float(1.0 - (1.0 - ndtr(-(10 ** (snr_db / 20)))) ** bits)


def test_bits_err_as_often_as_the_closed_form_says() -> None:
    counts = send(link()).counts
    low, high = rate_interval(counts.bit_errors.sum(), counts.bits.sum(), confidence=0.9999)
    assert low < ndtr(-(10 ** (4 / 20))) < high
    low, high = rate_interval(counts.raw_bit_errors.sum(), counts.raw_bits.sum(), confidence=0.9999)
    assert low < ndtr(-(10 ** (4 / 20))) < high


def test_half_a_decibel_is_detected() -> None:
    counts = send(link(4.5)).counts
    low, high = rate_interval(counts.bit_errors.sum(), counts.bits.sum(), confidence=0.9999)
    assert not low < ndtr(-(10 ** (4 / 20))) < high


def test_dropped_packets_are_known_missing_and_the_rest_is_intact() -> None:
    config = link(7.0, packets={"policy": "drop"})
    reception = send(config)
    delivered = reception.delivered
    assert delivered is not None
    bits = 8 * PACKET_BYTES
    sent = random_payload(4, 2, bits * 200).reshape(4, 2, 200, PACKET_BYTES)
    received = reception.payload.reshape(sent.shape)
    assert np.array_equal(received[delivered], sent[delivered])  # CRC16 misses one wrong packet in 65 536
    assert not received[~delivered].any()
    counts = reception.counts
    assert np.array_equal(counts.bits, delivered.sum(axis=-1) * bits)
    assert np.array_equal(counts.dropped, (~delivered).sum(axis=-1))
    low, high = rate_interval(counts.packet_errors.sum(), counts.packets.sum(), confidence=0.9999)
    assert low < packet_error_rate(7.0) < high


def test_each_retransmission_gives_another_chance_and_costs_its_airtime() -> None:
    once, again = (
        send(link(7.0, packets={"policy": policy, **extra})).counts
        for policy, extra in (("drop", {}), ("retransmit", {"max_retransmissions": 2}))
    )
    per = packet_error_rate(7.0)
    lost = again.dropped.sum()
    low, high = rate_interval(lost, again.packets.sum(), confidence=0.9999)
    assert low < per**3 < high
    low, high = rate_interval(again.retransmissions.sum(), again.packets.sum() * 2, confidence=0.9999)
    assert low < (per + per**2) / 2 < high
    attempts = again.packets + again.retransmissions
    assert again.airtime_s == pytest.approx(once.airtime_s / once.packets * attempts)
    assert again.energy_j == pytest.approx(once.energy_j / once.packets * attempts, rel=1e-5)


def test_combining_two_attempts_is_worth_three_decibels() -> None:
    # Over AWGN the sum of the soft values of two attempts has twice the SNR: attempt two fails with PER(snr + 3 dB)
    # given that attempt one failed, which shares half of its noise; the exact value by a NumPy simulation.
    snr_db, bits, draws = 5.0, 8 * PACKET_BYTES + 16, 4000
    noise = np.random.default_rng(8).normal(size=(2, draws, bits))
    statistic = 10 ** (snr_db / 20) + noise
    lost = ((statistic[0] < 0).any(axis=1) & (statistic.sum(axis=0) < 0).any(axis=1)).mean()
    counts = send(link(snr_db, packets={"policy": "retransmit-combine", "max_retransmissions": 1})).counts
    measured = counts.dropped.sum() / counts.packets.sum()
    spread = np.sqrt(lost * (1 - lost) * (1 / draws + 1 / counts.packets.sum()))
    assert abs(measured - lost) < 4 * spread
    plain = send(link(snr_db, packets={"policy": "retransmit", "max_retransmissions": 1})).counts
    assert measured + 8 * spread < plain.dropped.sum() / plain.packets.sum()


def test_transmit_energy_is_power_times_airtime() -> None:
    counts = send(link(6.0, bandwidth_hz=2e6)).counts
    # BPSK has constant envelope: N0 = 1 per real dimension, P0 = snr_max.
    assert counts.energy_j == pytest.approx(10**0.6 * counts.airtime_s, rel=1e-5)
    assert counts.airtime_s == pytest.approx(counts.symbols / 2e6)


def test_inversion_brings_every_device_in_at_one_amplitude() -> None:
    config = link(
        10.0,
        channel={"fading": "rayleigh", "coherence": "packet", "gain": [1.0, 0.3]},
        power={"policy": "inversion", "snr_max_db": 10.0},
        receiver={"num_antennas": 2},
    )
    reception = send(config, packets=50)
    # The signal that arrives, averaged over both antennas, is A^2 for every packet by construction.
    per_symbol = reception.counts.signal_energy / reception.counts.symbols
    expected = np.repeat(reception.decision.amplitude[:, None] ** 2, 2, axis=1)
    assert per_symbol == pytest.approx(expected, rel=1e-4)
    power = reception.counts.transmit_energy / reception.counts.symbols
    assert (power <= config.max_power * (1 + 1e-5)).all()


def test_truncated_inversion_leaves_out_the_packets_in_a_fade() -> None:
    config = link(
        10.0,
        channel={"fading": "rayleigh", "coherence": "packet"},
        power={"policy": "truncated-inversion", "snr_max_db": 10.0, "cutoff_db": -3.0},
        coding={"code": "repetition", "rate": "1/2"},
    )
    reception = send(config)
    assert reception.delivered is not None
    # |h|^2 is exponential: a packet is silent with probability 1 - exp(-cutoff).
    silent = (~reception.delivered).sum()
    low, high = rate_interval(silent, reception.delivered.size, confidence=0.9999)
    assert low < 1 - np.exp(-(10**-0.3)) < high


def closed_loop(config: LinkConfig, *, rounds: int, devices: int) -> np.ndarray[Any, Any]:
    uplink = compile_digital(config, num_devices=devices, num_bits=8 * PACKET_BYTES * 100)
    payload = random_payload(1, devices, 8 * PACKET_BYTES * 100)
    path = []
    for index in range(rounds):
        reception = uplink.send(payload, context=context(1, round_index=index), caps={})
        assert reception.power_db is not None
        path.append(reception.power_db[0])
    return np.array(path)


def test_the_closed_loop_brings_every_device_to_its_target_over_the_measured_link() -> None:
    config = link(
        channel={"model": "awgn", "gain": [1.0, 0.5]},
        power={"policy": "closed-loop", "snr_max_db": 25.0, "loop": {"target_rate": 1e-2}},
    )
    path = closed_loop(config, rounds=40, devices=2)
    needed = 20 * np.log10(-ndtri(1e-2) / np.array([1.0, 0.5]))
    assert path[0].tolist() == [25.0, 25.0]
    # 128 errors a round: 0.04 decades of spread each, 20 rounds averaged.
    assert path[20:].mean(axis=0) == pytest.approx(needed, abs=0.2)
    assert (path <= 25.0).all()


def test_a_power_limit_below_the_need_holds() -> None:
    config = link(
        channel={"model": "awgn", "gain": 0.2},
        power={"policy": "closed-loop", "snr_max_db": 15.0, "loop": {"target_rate": 1e-2, "initial_snr_db": 0.0}},
    )
    assert closed_loop(config, rounds=12, devices=1)[-1].item() == 15.0


@pytest.mark.parametrize("detector", ["sic", "sic-codeword", "ml", "lmmse"])
def test_a_silent_user_does_not_affect_its_group(detector: str) -> None:
    antennas = 2 if detector == "lmmse" else 1
    config = link(
        10.0,
        access="noma",
        noma={"group_size": 2, "ladder_db": [0.0, -6.0], "detector": detector},
        receiver={"num_antennas": antennas},
    )
    num_bits = 8 * PACKET_BYTES * 200
    uplink = compile_digital(config, num_devices=4, num_bits=num_bits)
    heard = uplink.send(random_payload(2, 4, num_bits), context=replace(context(2), silent=(0, 2)), caps={})
    alone = ndtr(-np.sqrt(antennas * config.noma.power_shares[1] * 10.0))
    counts = heard.counts
    low, high = rate_interval(counts.bit_errors[:, [1, 3]].sum(), counts.bits[:, [1, 3]].sum(), confidence=0.9999)
    assert low < alone < high
    for spent in (counts.bits, counts.packets, counts.airtime_s, counts.energy_j):
        assert not spent[:, [0, 2]].any()
    assert heard.delivered is not None
    assert not heard.delivered[:, [0, 2]].any()


def test_antennas_combine_as_the_closed_form_says() -> None:
    config = link(
        5.0,
        channel={"fading": "rayleigh", "coherence": "symbol"},
        receiver={"num_antennas": 2},
        packets={"crc": "none"},
    )
    counts = send(config, trials=10).counts
    rates = counts.bit_errors / counts.bits
    # Two branches of mean gamma: p = ((1 - m) / 2)^2 (2 + m), m = sqrt(g / (1 + g)), g = 10^0.5 / 2 (Proakis 13.4-15).
    mu = np.sqrt(10**0.5 / 2 / (1 + 10**0.5 / 2))
    assert abs(standard_errors_off(rates, ((1 - mu) / 2) ** 2 * (2 + mu))) < 4


@pytest.mark.parametrize("policy", [pytest.param("fixed", marks=pytest.mark.slow), "inversion"])
def test_a_probe_errs_as_often_as_the_payload(policy: str) -> None:
    # Coded packets over fades that last the round: another packet length or power would have another error rate.
    config = link(
        6.0,
        channel={"fading": "rayleigh", "coherence": "round"},
        power={"policy": policy, "snr_max_db": 8.0},
        coding={"code": "convolutional"},
        packets={"crc": "none"},
    )
    uplink = compile_digital(config, num_devices=4, num_bits=100)
    apart = []
    for index in range(30):
        where = context(20, round_index=index)
        sent = uplink.send(random_payload(20, 4, 100), context=where, caps={}).counts
        probed = uplink.probe(900, context=where, caps={})
        assert (probed.bits == 900).all()
        apart.append((sent.bit_error_rate - probed.bit_error_rate).mean())
    assert abs(standard_errors_off(np.array(apart), 0.0)) < 4


def test_rounds_powers_gains_and_devices_share_one_trace() -> None:
    from phy.engines.sionna.packets import compiled_chain

    compiled_chain.cache_clear()
    for snr_db, gain, devices in ((4.0, 1.0, 6), (9.0, 1.0, 6), (9.0, 0.3, 7), (9.0, 0.3, 8)):
        config = link(snr_db, channel={"model": "awgn", "gain": gain}, engine="sionna")
        for index in range(2):
            send(config, devices=devices, packets=3, round_index=index)
    assert compiled_chain.cache_info().misses == 1
    uplink = compile_digital(link(engine="sionna"), num_devices=6, num_bits=3 * 8 * PACKET_BYTES)
    chain = uplink._chain(uplink._payload[0])
    assert chain.traced.experimental_get_tracing_count() == 1
    assert compiled_chain.cache_info().misses == 1
