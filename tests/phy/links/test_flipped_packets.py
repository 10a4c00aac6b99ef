"""Packets in error by independent flips under a check sum, beside packets in error on the air."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, context, link_config, random_payload, standard_errors_off
from scipy import special

from phy.compile import compile_digital
from phy.config import LinkConfig, NomaConfig, OfdmConfig
from phy.config.coding import CodingConfig
from phy.links.conflicts import link_conflicts
from phy.links.link import DigitalUplink, Reception
from phy.measure import theory
from phy.measure.counts import LinkCounts

PACKET_BITS, CRC_BITS = 1024, 16
ON_AIR = PACKET_BITS + CRC_BITS


def packets(error_model: str, *, policy: str = "drop", **link: Any) -> LinkConfig:
    """QPSK in packets of 1,024 bits with CRC16."""
    usual = {"snr_max_db": 15.0, "packet_size_bytes": PACKET_BITS // 8}
    return link_config("qpsk", error_model=error_model, packets={"policy": policy}, **usual | link)


def send(config: LinkConfig, *, trials: int, devices: int, num_packets: int, round_index: int = 0) -> Reception:
    num_bits = num_packets * PACKET_BITS
    uplink = compile_digital(config, num_devices=devices, num_bits=num_bits)
    payload = random_payload(trials, devices, num_bits)
    return uplink.send(payload, context=context(trials, round_index=round_index), caps={})


def total(counts: LinkCounts, name: str) -> float:
    return float(getattr(counts, name).sum())


@pytest.mark.parametrize("snr_max_db", [12.0, 12.8, 13.5])
def test_the_packet_error_rate_is_one_minus_the_chance_of_no_flip_in_all_bits(snr_max_db: float) -> None:
    """1 - (1 - p)^n, n payload and check sum; undetected errors, 2^-16 of those, are far below a standard error."""
    p = float(theory.awgn_bit_error_rate(10.0 ** (snr_max_db / 10.0) / 2.0, bits_per_symbol=2))
    counts = send(packets("analytic", snr_max_db=snr_max_db), trials=10, devices=10, num_packets=40).counts
    expected = 1.0 - (1.0 - p) ** ON_AIR
    assert 0.03 < expected < 0.97
    error = np.sqrt(expected * (1.0 - expected) / 4000)
    assert abs(total(counts, "packet_errors") / 4000 - expected) < ERRORS_OF_A_CHECK * error
    raw = np.sqrt(p * (1.0 - p) / (4000 * ON_AIR))
    assert abs(total(counts, "raw_bit_errors") / total(counts, "raw_bits") - p) < ERRORS_OF_A_CHECK * raw
    assert total(counts, "raw_bits") == 4000 * ON_AIR


def test_each_device_loses_packets_at_the_rate_that_its_probe_measured() -> None:
    config = packets("iid", fading="rayleigh", snr_max_db=22.0, probe_bits=8 * PACKET_BITS)
    uplink = compile_digital(config, num_devices=20, num_bits=8 * PACKET_BITS)
    where = context(20)
    p = uplink.probe(8 * PACKET_BITS, context=where, caps={}).bit_error_rate
    lost = 1.0 - (1.0 - p) ** ON_AIR
    found = uplink.send(random_payload(20, 20, 8 * PACKET_BITS), context=where, caps={}).counts
    score = (found.packet_errors - 8 * lost) / np.sqrt(np.maximum(8 * lost * (1 - lost), 1e-3))
    assert (found.packet_errors[p == 0.0] == 0).all()
    assert abs(score.mean()) < ERRORS_OF_A_CHECK / np.sqrt(score.size)
    assert abs(found.packet_errors.sum() - 8 * lost.sum()) < ERRORS_OF_A_CHECK * np.sqrt(8 * (lost * (1 - lost)).sum())
    assert 0.2 < (p == 0.0).mean() < 0.9  # devices differ, so one rate for all would not pass


def rayleigh_rates() -> tuple[float, float, NDArray[np.float64]]:
    """P0 / N0 [dB] at which the mean bit error rate is .0031, that rate, and rates `[n, 21]` of 21 fades.

    With g the mean SNR of a bit, p(|h|^2) = Q(sqrt(2 g |h|^2)), and its mean is (1 - sqrt(g / (1 + g))) / 2.
    """
    p = 0.0031
    root = (1.0 - 2.0 * p) ** 2
    g = root / (1.0 - root)
    fades = np.random.default_rng(5).exponential(size=(40_000, 21))
    return 10.0 * np.log10(4.0 * g), p, 0.5 * special.erfc(np.sqrt(g * fades))


@pytest.mark.parametrize(("error_model", "share"), [("measured", 0.06), ("iid", 0.49), ("iid-mean", 0.96)])
def test_over_rayleigh_fading_shortcuts_lose_8_and_15_times_the_packets(error_model: str, share: float) -> None:
    """At one bit error rate, .0031: the radio, flips at the rate of 21 packets of a device, flips at the mean rate."""
    snr_max_db, p, rates = rayleigh_rates()
    config = packets(
        error_model, fading="rayleigh", coherence="packet", snr_max_db=snr_max_db, probe_bits=21 * PACKET_BITS
    )
    trials = 5 if error_model == "iid-mean" else 30  # a trial of iid-mean probes 256 rounds
    counts = send(config, trials=trials, devices=20, num_packets=21).counts
    expected = {
        "measured": (1.0 - (1.0 - rates) ** ON_AIR).mean(),
        "iid": (1.0 - (1.0 - rates.mean(axis=1)) ** ON_AIR).mean(),
        "iid-mean": 1.0 - (1.0 - p) ** ON_AIR,
    }[error_model]
    found = counts.packet_error_rate
    if error_model == "iid-mean":
        # 256 rounds of 20 devices of 21 fades: p has a relative error near 10 / sqrt(107,520) = 3 % in each trial.
        assert found.mean() == pytest.approx(expected, abs=0.01)
    else:
        assert abs(standard_errors_off(found, expected)) < ERRORS_OF_A_CHECK
    assert found.mean() == pytest.approx(share, abs=0.025)


def test_attempts_follow_the_geometric_law_and_take_their_time() -> None:
    """A packet lost with chance q is sent (1 - q^4) / (1 - q) times on average, and lost for good with q^4."""
    p = float(theory.awgn_bit_error_rate(10.0**1.25 / 2.0, bits_per_symbol=2))
    q = 1.0 - (1.0 - p) ** ON_AIR
    config = packets("analytic", policy="retransmit", snr_max_db=12.5)
    reception = send(config, trials=10, devices=10, num_packets=40)
    counts = reception.counts
    attempts = 1.0 + total(counts, "retransmissions") / 4000
    chances = q ** np.arange(4) * np.where(np.arange(4) < 3, 1.0 - q, 1.0)
    mean = chances @ np.arange(1, 5)
    assert mean == pytest.approx((1.0 - q**4) / (1.0 - q))
    spread = np.sqrt(chances @ np.arange(1, 5) ** 2 - mean**2)
    assert abs(attempts - mean) < ERRORS_OF_A_CHECK * spread / np.sqrt(4000)
    lost = total(counts, "dropped") / 4000
    assert abs(lost - q**4) < ERRORS_OF_A_CHECK * np.sqrt(q**4 * (1 - q**4) / 4000)
    assert reception.delivered is not None
    assert (~reception.delivered).sum() == total(counts, "dropped")
    symbols = ON_AIR // 2
    assert total(counts, "symbols") == pytest.approx(4000 * attempts * symbols)
    assert total(counts, "airtime_s") == pytest.approx(4000 * attempts * symbols / config.bandwidth_hz)
    assert reception.round_airtime_s == pytest.approx(counts.airtime_s.sum(axis=1))


@pytest.mark.parametrize("policy", ["drop", "retransmit"])
@pytest.mark.parametrize("waveform", ["none", "ofdm"])
def test_without_errors_counts_airtime_and_energy_are_those_of_the_radio(policy: str, waveform: str) -> None:
    ofdm = OfdmConfig(num_subcarriers=72, num_symbols=14, cyclic_prefix_length=6) if waveform == "ofdm" else "none"
    radio, flips = (
        send(packets(model, policy=policy, snr_max_db=40.0, ofdm=ofdm), trials=2, devices=3, num_packets=5)
        for model in ("measured", "analytic")
    )
    assert np.array_equal(radio.payload, flips.payload)
    for name in ("bits", "bit_errors", "packets", "packet_errors", "dropped", "retransmissions", "symbols", "raw_bits"):
        assert np.array_equal(getattr(radio.counts, name), getattr(flips.counts, name)), name
    for name in ("airtime_s", "transmit_energy", "energy_j"):  # of the radio in single precision
        np.testing.assert_allclose(getattr(flips.counts, name), getattr(radio.counts, name), rtol=1e-5)
    assert np.array_equal(radio.round_airtime_s, flips.round_airtime_s)


def test_a_short_check_sum_misses_its_share_of_wrong_packets() -> None:
    """Flips at a rate near one half pass a CRC of 6 bits with chance 2^-6, and reach the payload then."""
    config = packets("analytic", snr_max_db=-40.0).model_copy(
        update={"packets": packets("analytic").packets.model_copy(update={"crc": "crc6"})}
    )
    counts = send(config, trials=10, devices=10, num_packets=40).counts
    accepted = 4000 - total(counts, "dropped")
    assert abs(accepted / 4000 - 2.0**-6) < ERRORS_OF_A_CHECK * np.sqrt(2.0**-6 / 4000)
    assert total(counts, "packet_errors") == 4000  # accepted, and wrong all the same
    assert total(counts, "bit_errors") / total(counts, "bits") == pytest.approx(0.5, abs=0.02)


def test_the_mean_rate_is_one_for_all_devices_and_rounds_of_a_trial() -> None:
    """Of three devices with gains apart the probes of all make one rate; bits flip at it in every round."""
    config = packets(
        "iid-mean", fading="rayleigh", snr_max_db=15.0, channel={"gain": (0.5, 1.0, 2.0)}, probe_bits=PACKET_BITS
    )
    num_bits = 64 * PACKET_BITS
    uplink = compile_digital(config, num_devices=3, num_bits=num_bits)
    radio = compile_digital(config.model_copy(update={"error_model": "measured"}), num_devices=3, num_bits=num_bits)
    probes = [radio.probe(PACKET_BITS, context=context(2, round_index=number), caps={}) for number in range(256)]
    rate = sum(one.bit_errors.sum(axis=1) for one in probes) / sum(one.bits.sum(axis=1) for one in probes)
    for number in (0, 400):
        counts = uplink.send(random_payload(2, 3, num_bits), context=context(2, round_index=number), caps={}).counts
        found = counts.raw_bit_errors / counts.raw_bits
        error = np.sqrt(rate * (1.0 - rate) / (64 * ON_AIR))
        assert (np.abs(found - rate[:, None]) < 4.5 * error[:, None]).all()


@pytest.mark.parametrize("error_model", ["iid", "iid-mean", "analytic"])
def test_a_trial_loses_the_same_packets_in_any_batch_and_after_any_round(error_model: str) -> None:
    config = packets(error_model, policy="retransmit", fading="rayleigh", coherence="packet", probe_bits=PACKET_BITS)

    def built() -> DigitalUplink:
        return compile_digital(config, num_devices=3, num_bits=5 * PACKET_BITS)

    payload, uplink = random_payload(3, 3, 5 * PACKET_BITS), built()
    uplink.send(payload, context=context(3, round_index=7), caps={})
    together = uplink.send(payload, context=context(3, round_index=4), caps={})
    alone = built().send(payload[[2]], context=context((2,), round_index=4), caps={})
    assert np.array_equal(alone.payload[0], together.payload[2])
    assert np.array_equal(alone.counts.retransmissions[0], together.counts.retransmissions[2])


def test_behind_a_code_no_bits_on_the_air_are_counted() -> None:
    config = packets("iid", coding=CodingConfig(code="convolutional"), snr_max_db=0.0, probe_bits=PACKET_BITS)
    counts = send(config, trials=2, devices=2, num_packets=3).counts
    assert total(counts, "raw_bits") == 0
    assert 0 < total(counts, "packet_errors") <= total(counts, "packets") == 12


def test_users_of_noma_lose_packets_at_rates_of_their_own() -> None:
    config = packets("iid", access="noma", noma=NomaConfig(group_size=2), snr_max_db=16.0, probe_bits=1 << 15)
    uplink = compile_digital(config, num_devices=2, num_bits=40 * PACKET_BITS)
    where = context(10)
    p = uplink.probe(40 * PACKET_BITS, context=where, caps={}).bit_error_rate
    found = uplink.send(random_payload(10, 2, 40 * PACKET_BITS), context=where, caps={}).counts.packet_errors
    lost = 1.0 - (1.0 - p) ** ON_AIR
    error = np.sqrt(40 * np.maximum(lost * (1 - lost), 1e-3))
    assert (np.abs(found - 40 * lost) < 4.5 * error).all()
    assert np.ptp(p.mean(axis=0)) > 1e-4  # the ladder sets users apart


def test_flips_have_no_soft_values_to_combine() -> None:
    (found,) = link_conflicts(packets("iid", policy="retransmit-combine"), num_devices=2, payload_bits=PACKET_BITS)
    assert found.problem == "retransmit-combine adds up soft values, and the flips of error model iid have none"
    assert found.remedy == "write packets.policy: retransmit, or error_model: measured"
