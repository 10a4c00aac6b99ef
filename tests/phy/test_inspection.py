"""Inspected packets against closed forms of noise and fading, and against the counts of the link that carries them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phy.compile import compile_digital, flat_chain, packet_chain
from phy.config import LinkConfig
from phy.engines.choice import with_engine
from phy.fading.block_taps import UplinkContext
from phy.inspection import Chains, Inspection, inspect_packets
from phy.links.link import Reception
from phy.numerics.random import Purpose, random_bits
from phy.receivers.demapping import constellation_points

SNR_DB = 12.0
"""P0 / N0, N0 per real dimension."""
ERRORS = 4.5
"""Standard errors by which an estimate may be off: 1 in 100,000."""
TDL = {"model": "tdl-a", "delay_spread_s": 300e-9, "speed_m_s": 3, "carrier_frequency_hz": 3.5e9}
OFDM = {"num_subcarriers": 48, "subcarrier_spacing_hz": 15e3, "cyclic_prefix_length": 6}
RAYLEIGH = {"model": "flat", "fading": "rayleigh", "coherence": "packet"}
CODE = {"code": "convolutional", "rate": 0.5, "demapper": "maxlog"}  # its signs are the nearest point's
NOMA: dict[str, Any] = {"access": "noma", "channel": RAYLEIGH, "modulation": "qpsk"}
LADDER = [0, -0.3]
"""Powers [dB] so close that fades decide which device is detected first."""

LINKS: dict[str, dict[str, Any]] = {
    "AWGN": {"modulation": "16qam"},
    "AWGN by Sionna": {"modulation": "16qam", "engine": "sionna"},
    "symbols across packets": {"modulation": "64qam", "channel": RAYLEIGH | {"coherence": "symbol"}},
    "truncated inversion": {"modulation": "qpsk", "channel": RAYLEIGH, "power": {"policy": "truncated-inversion"}},
    "coded": {"modulation": "16qam", "coding": CODE, "channel": RAYLEIGH},
    "OFDM": {"modulation": "qpsk", "channel": TDL, "ofdm": OFDM, "csi": {"estimator": "ls"}},
    "NOMA": NOMA | {"noma": {"group_size": 2, "ladder_db": LADDER, "detector": "sic"}},
    "code words cancelled": NOMA
    | {"noma": {"group_size": 2, "ladder_db": LADDER, "detector": "sic-codeword"}, "coding": CODE},
    "joint detection": NOMA | {"noma": {"group_size": 2, "ladder_db": LADDER, "detector": "ml"}},
    "antennas": NOMA
    | {"noma": {"group_size": 2, "ladder_db": LADDER, "detector": "lmmse"}, "receiver": {"num_antennas": 2}},
}


def link_of(**settings: Any) -> LinkConfig:
    power = {"policy": "fixed", "snr_max_db": SNR_DB} | settings.pop("power", {})
    base = {"access": "orthogonal", "packet_size_bytes": 40, "power": power}
    return with_engine(LinkConfig.model_validate(base | settings))


def inspected(
    config: LinkConfig, *, devices: int = 1, trials: int = 3, packets: int = 4, keep: int | None = None
) -> tuple[Inspection, Reception]:
    """Inspected packets, and the reception of the compiled link for the same bits; `packets` per device and trial."""
    num_bits = 8 * config.packet_size_bytes * packets
    context = UplinkContext(seed=4, trials=tuple(range(trials)))
    payload = random_bits(context.keys(Purpose.PROBE_BITS), num_devices=devices, num_bits=num_bits)
    wanted = keep or trials * packets
    chains = Chains(flat=flat_chain, packets=packet_chain)
    found = inspect_packets(
        config, chains=chains, num_bits=num_bits, num_packets=wanted, payload=payload, context=context
    )
    uplink = compile_digital(config, num_devices=devices, num_bits=num_bits)
    return found, uplink.send(payload, context=context, caps={})


def by_transmission(values: NDArray[Any], found: Inspection) -> NDArray[np.int64]:
    """Sums over packets `[num_devices, num_packets]` of each transmission, `[num_transmissions, num_devices]`."""
    return np.stack([values[:, found.transmission == one].sum(axis=1) for one in np.unique(found.transmission)])


@pytest.mark.parametrize("name", LINKS)
def test_wrong_bits_are_those_that_the_link_counts(name: str) -> None:
    found, reception = inspected(link_of(**LINKS[name]), devices=2)
    assert reception.counts.bit_errors.sum() > 0
    assert np.array_equal(by_transmission(found.wrong.sum(axis=-1), found), reception.counts.bit_errors)
    held = by_transmission(found.kept * found.wrong.shape[-1], found)
    assert np.array_equal(held, reception.counts.bits)
    # A rounding may turn a decision at a border: about 1 in a million.
    assert abs(found.raw_errors.sum() - reception.counts.raw_bit_errors.sum()) <= 1


@pytest.mark.parametrize(
    "name", sorted(LINKS.keys() - {"joint detection"})
)  # which decides on no symbol of a single device
def test_symbols_are_those_on_which_the_link_decides(name: str) -> None:
    found, _ = inspected(link_of(**LINKS[name]), devices=2, packets=3)  # no transmission ends inside a symbol
    points = constellation_points(found.bits_per_symbol)
    on_air = ~np.isnan(found.equalised)
    nearest = np.abs(np.where(on_air, found.equalised, 0.0)[..., None] - points).argmin(axis=-1)
    label = np.abs(found.sent[..., None] - points).argmin(axis=-1)
    by_distance = np.bitwise_count(nearest ^ label) * on_air
    assert np.abs(by_distance - found.raw_errors * on_air).sum() <= 2


@pytest.mark.parametrize("settings", [{"modulation": "16qam"}, {"modulation": "16qam", "coding": CODE}])
def test_the_constellation_has_the_noise_of_the_snr(settings: dict[str, Any]) -> None:
    found, _ = inspected(link_of(**settings), packets=16)
    variance = 2.0 / 10.0 ** (SNR_DB / 10.0)
    error = found.equalised - found.sent
    power = np.abs(error) ** 2  # exponential: its standard deviation is its mean
    assert power.mean() == pytest.approx(variance, abs=ERRORS * variance / np.sqrt(power.size))
    # Circular: both parts carry half of it, each |Re|^2 with standard deviation sqrt(2) times its mean.
    half = np.sqrt(2.0) * (variance / 2.0) / np.sqrt(power.size)
    assert (error.real**2).mean() == pytest.approx(variance / 2.0, abs=ERRORS * half)
    assert np.allclose(found.sent.real**2 * 10.0 % 8.0, 1.0, atol=1e-4)  # 16-QAM: odd multiples of 1 / sqrt(10)


@pytest.mark.parametrize("settings", [{"channel": RAYLEIGH}, {"channel": RAYLEIGH, "coding": CODE}])
def test_the_channel_has_mean_power_one(settings: dict[str, Any]) -> None:
    found, _ = inspected(link_of(modulation="qpsk", **settings), devices=4, trials=120, packets=4)
    power = found.per_packet((np.abs(found.channel) ** 2).mean(axis=1))
    assert np.std(power) > 0.5  # a fade for each packet
    assert power.mean() == pytest.approx(1.0, abs=ERRORS / np.sqrt(power.size))
    assert np.array_equal(found.channel, found.estimate)


def test_the_ofdm_channel_has_mean_power_one_and_fades_over_carriers() -> None:
    config = link_of(modulation="qpsk", channel=TDL, ofdm=OFDM)
    found, _ = inspected(config, trials=60)
    assert found.grid is not None
    plane = (np.abs(found.channel[0, 0]) ** 2).reshape(found.kept.shape[1], -1)[:, : found.grid.num_carriers]
    assert plane.mean() == pytest.approx(1.0, abs=ERRORS / np.sqrt(len(plane)))  # packets are independent
    assert np.mean(plane.std(axis=1) / plane.mean(axis=1)) > 0.05


@pytest.mark.parametrize("settings", [{}, {"coding": CODE}], ids=["flat", "packets"])
def test_an_estimate_errs_by_the_variance_given(settings: dict[str, Any]) -> None:
    config = link_of(modulation="qpsk", channel=RAYLEIGH, csi={"error_variance": 0.04}, **settings)
    found, _ = inspected(config, devices=4, trials=30, packets=4)
    error = found.per_packet((np.abs(found.estimate - found.channel) ** 2)[:, 0])
    assert error.mean() == pytest.approx(0.04, abs=ERRORS * 0.04 / np.sqrt(error.size))


def test_retransmissions_leave_the_first_attempt_as_it_is() -> None:
    settings = {"modulation": "16qam", "coding": CODE, "channel": RAYLEIGH}
    once, _ = inspected(link_of(**settings))
    again, reception = inspected(link_of(**settings, packets={"policy": "retransmit", "max_retransmissions": 2}))
    assert reception.counts.retransmissions.sum() > 0
    # A check sum of 24 bits follows each payload, so that payload bits alone are compared.
    assert np.array_equal(once.channel[0, 0, :1], again.channel[0, 0, :1])
    first = again.per_packet(np.abs(again.channel[:, 0]) ** 2)
    assert np.allclose(first, once.per_packet(np.abs(once.channel[:, 0]) ** 2), rtol=1e-5)


def test_dropped_packets_hold_no_wrong_bit() -> None:
    found, reception = inspected(link_of(modulation="16qam", channel=RAYLEIGH, packets={"policy": "drop"}))
    assert (~found.kept).sum() == reception.counts.dropped.sum() > 0
    assert not found.wrong.any()
    assert found.raw_wrong.any()


@pytest.mark.parametrize("settings", [{"modulation": "qpsk", "channel": RAYLEIGH}, LINKS["NOMA"]])
def test_silent_devices_make_no_hard_decision(settings: dict[str, Any]) -> None:
    found, reception = inspected(link_of(**settings, coding=CODE, power={"policy": "truncated-inversion"}), devices=4)
    made = found.bits_per_symbol * (~np.isnan(found.equalised)).sum()
    assert made == reception.counts.raw_bits.sum() < found.raw_wrong.size
    assert abs(found.raw_errors.sum() - reception.counts.raw_bit_errors.sum()) <= 1


def test_fewer_packets_are_the_first_of_more() -> None:
    config = link_of(modulation="qpsk", channel=RAYLEIGH, coding=CODE)
    few, _ = inspected(config, devices=2, keep=5)
    all_, _ = inspected(config, devices=2)
    assert np.array_equal(few.wrong, all_.wrong[:, :5])
    assert np.allclose(few.equalised, all_.equalised[:, : len(few.packet)], rtol=1e-4)


def test_runs_of_wrong_bits_end_with_their_packet() -> None:
    found, reception = inspected(link_of(modulation="qpsk", channel=RAYLEIGH), devices=2)
    assert reception.bursts is not None
    counted = reception.bursts.over_trials()
    assert np.array_equal(found.bursts.run_counts, counted.run_counts)
    assert np.array_equal(found.bursts.in_a_row, counted.in_a_row)
