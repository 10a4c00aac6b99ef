"""Devices with an MCS each: lists, and link adaptation by effective SNR, by an outer loop and by a genie."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phy.compile import compile_digital
from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.adaptation.choice import move_offset
from phy.links.adaptation.effective_snr import bit_information, mean_information, snr_of_information
from phy.links.adaptation.link import AdaptedLink
from phy.links.link import LinkError, Reception
from phy.measure.counts import LinkCounts, empty_counts, rate_interval
from phy.numerics.random import Purpose, random_bits

OVER_CARRIERS: dict[str, Any] = {
    "access": "orthogonal",
    "channel": {"model": "tdl-c", "delay_spread_s": 3e-7, "coherence": "round"},
    "ofdm": {"num_subcarriers": 72},
    "packet_size_bytes": 60,
    "packets": {"policy": "drop"},
    "power": {"snr_max_db": 14},
}
NARROW: dict[str, Any] = {
    "access": "orthogonal",
    "channel": {"fading": "rayleigh", "coherence": "round"},
    "packet_size_bytes": 60,
    "packets": {"policy": "drop"},
    "power": {"snr_max_db": 14},
}
BITS = 1000


def context(number: int = 0, trials: int = 2) -> UplinkContext:
    return UplinkContext(seed=5, trials=tuple(range(trials)), round_index=number)


def send(uplink: Any, number: int = 0, trials: int = 2, **silent: Any) -> Reception:
    where = replace(context(number, trials), **silent)
    payload = random_bits(where.keys(Purpose.PROBE_BITS), num_devices=uplink.num_devices, num_bits=uplink.num_bits)
    return uplink.send(payload, context=where, caps={})


def built(link: dict[str, Any], mcs: object, num_devices: int = 4, num_bits: int = BITS, **more: Any) -> Any:
    config = LinkConfig.model_validate({**link, **more, "mcs": mcs})
    return compile_digital(config, num_devices=num_devices, num_bits=num_bits)


def same(one: Reception, other: Reception, devices: NDArray[Any] | slice = slice(None)) -> bool:
    counts = [(getattr(one.counts, f.name), getattr(other.counts, f.name)) for f in fields(LinkCounts)]
    pairs = [(one.payload, other.payload), (one.delivered, other.delivered), *counts]
    return all(np.array_equal(a[:, devices], b[:, devices]) for a, b in pairs)


@pytest.mark.parametrize("link", [OVER_CARRIERS, NARROW], ids=["carriers", "narrow"])
@pytest.mark.parametrize("coherence", ["round", "doppler"])
def test_a_list_of_one_mcs_gives_the_numbers_of_that_mcs(link: dict[str, Any], coherence: str) -> None:
    channel = {**link["channel"], "coherence": coherence, **({"speed_m_s": 20} if coherence == "doppler" else {})}
    alone, listed = (built(link, mcs, channel=channel) for mcs in (12, [12] * 4))
    assert isinstance(listed, AdaptedLink)
    for number in range(3):
        found, wanted = send(listed, number, silent=(2,)), send(alone, number, silent=(2,))
        assert same(found, wanted)
        assert np.array_equal(found.round_airtime_s, wanted.round_airtime_s)
        for f in ("in_a_row", "packet_errors"):
            assert np.array_equal(getattr(found.bursts, f), getattr(wanted.bursts, f))


@pytest.mark.parametrize("link", [OVER_CARRIERS, NARROW], ids=["carriers", "narrow"])
def test_each_device_of_a_list_has_the_numbers_of_a_link_of_its_mcs(link: dict[str, Any]) -> None:
    mcs = [20, 3, 12, 3]
    found = send(built(link, mcs))
    for index in set(mcs):
        wanted = send(built(link, index))
        assert same(found, wanted, np.flatnonzero(np.array(mcs) == index))
    assert found.mcs is not None
    assert found.mcs.tolist() == [mcs, mcs]
    assert found.round_airtime_s is not None
    assert found.round_airtime_s == pytest.approx(found.counts.airtime_s.sum(axis=1))
    assert found.counts.airtime_s[0, 1] > found.counts.airtime_s[0, 0]
    assert found.counts.energy_j[0, 1] > found.counts.energy_j[0, 0]


def test_devices_side_by_side_take_as_long_as_the_slowest() -> None:
    found = send(built(OVER_CARRIERS, [20, 3, 12, 3], multiplexing="ofdma"))
    assert np.array_equal(found.round_airtime_s, found.counts.airtime_s.max(axis=1))


def test_a_list_of_another_length_is_refused() -> None:
    with pytest.raises(LinkError, match="mcs has length 3, num_devices is 4"):
        built(NARROW, [3, 4, 5])


@pytest.mark.parametrize("modulation", ["qpsk", "16qam", "64qam"])
def test_mutual_information_is_that_of_a_demapper(modulation: str) -> None:
    """A slow oracle: symbols of TS 38.211 5.1 written out, random bits and noise, and LLRs over all points."""
    bits, snr_db, draw, count = BITS_PER_SYMBOL[modulation], 7.0, np.random.default_rng(1), 20_000
    labels = (np.arange(1 << bits)[:, None] >> np.arange(bits)[::-1]) & 1
    signs = 1.0 - 2.0 * labels

    def axis(first: int) -> NDArray[np.float64]:
        level = signs[:, bits - 2 + first]
        for place in range(bits - 4 + first, -1, -2):
            level = signs[:, place] * (2 ** ((bits - 2 - place + first) // 2) - level)
        return np.asarray(level)

    points = axis(0) + 1j * axis(1)
    points /= np.sqrt(np.mean(np.abs(points) ** 2))
    sent, noise = draw.integers(len(points), size=count), draw.standard_normal((count, 2)) @ [1.0, 1j]
    variance = 10.0 ** (-snr_db / 10.0)
    received = points[sent] + noise * np.sqrt(variance / 2.0)
    likely = np.exp(-(np.abs(received[:, None] - points) ** 2) / variance)
    each = np.zeros(count)
    for place in range(bits):
        same_bit = labels[:, place] == labels[sent, place][:, None]
        each += 1.0 + np.log2((likely * same_bit).sum(axis=1) / likely.sum(axis=1))
    error = each.std() / np.sqrt(count)
    assert bit_information(modulation, np.array([snr_db]))[0] == pytest.approx(each.mean(), abs=4.0 * error)


def test_the_effective_snr_of_equal_carriers_is_theirs_and_below_the_mean_of_others() -> None:
    equal = mean_information("16qam", np.full((1, 8), 10.0))
    assert snr_of_information("16qam", equal)[0] == pytest.approx(10.0, abs=0.01)
    mixed = snr_of_information("16qam", mean_information("16qam", np.array([[0.0, 12.8]])))[0]
    assert 0.0 < mixed < 10.0


def test_carriers_that_a_choice_reads_are_those_that_the_link_meets() -> None:
    """The mean of |h|^2 over carriers times P0 is the received energy of a packet over the transmitted one."""
    uplink = built(OVER_CARRIERS, {"adapt": "snr", "candidates": [3]})
    counts = send(uplink).counts
    read = uplink._link(0).carrier_powers(context(), lambda powers: powers.mean(axis=1, keepdims=True))[..., 0]
    grid = uplink._link(0).config.ofdm
    sent_per_symbol = uplink._link(0).config.max_power
    data_symbols = counts.raw_bits / 2
    assert read == pytest.approx(counts.signal_energy / (data_symbols * sent_per_symbol), rel=0.02)
    assert grid.num_subcarriers == 72


def test_predicted_and_measured_errors_over_selective_channels_agree() -> None:
    """240 channels of each MCS: the sum of errors has variance sum p (1 - p); the curve is off by at most 0.1 dB."""
    for index, snr_max_db in ((4, 5.0), (12, 12.0), (22, 21.0)):
        uplink = built(
            OVER_CARRIERS, {"adapt": "snr", "candidates": [index]}, 24, 480, power={"snr_max_db": snr_max_db}
        )
        wrong = send(uplink, trials=10).counts.packet_errors.sum()
        snr_db = uplink._chooser.effective_snr_db(context(trials=10))[..., 0]
        curve = uplink._chooser.curves[0]
        expected, low, high = (curve.bler(snr_db + shift).sum() for shift in (0.0, 0.1, -0.1))
        assert 24 < expected < 216
        spread = np.sqrt((curve.bler(snr_db) * (1.0 - curve.bler(snr_db))).sum())
        assert low - 4.0 * spread < wrong < high + 4.0 * spread


def test_the_fastest_candidate_within_the_target_is_chosen() -> None:
    uplink = built(NARROW, {"adapt": "snr", "candidates": [20, 3, 12], "target_bler": 0.1}, 40)
    found = send(uplink)
    chooser, entries = uplink._chooser, uplink._entries
    snr_db = chooser.effective_snr_db(context())
    bler = np.stack([curve.bler(snr_db[..., place]) for place, curve in enumerate(chooser.curves)], axis=-1)
    fastest = [max((place for place in range(3) if one[place] <= 0.1), default=0) for one in bler.reshape(-1, 3)]
    assert found.mcs is not None
    assert found.mcs.ravel().tolist() == [entries[place].number for place in fastest]
    assert set(fastest) == {0, 1, 2}


def test_of_candidates_that_fill_whole_slots_alike_the_most_robust_is_chosen() -> None:
    """60 bytes take one slot of 864 symbols with any MCS from 16-QAM on: a higher rate gains nothing."""
    uplink = built(OVER_CARRIERS, {"adapt": "snr", "candidates": [12, 16, 24]}, power={"snr_max_db": 60})
    found = send(uplink)
    assert found.mcs is not None
    assert set(found.mcs.ravel().tolist()) == {12}


def test_before_the_first_probe_arrives_the_most_robust_mcs_is_sent_and_then_that_of_an_earlier_round() -> None:
    mcs = {"adapt": "snr", "candidates": [3, 12, 20]}
    now, late = built(NARROW, mcs, 12), built(NARROW, {**mcs, "outdated_rounds": 2}, 12)
    chosen = [[send(one, number).mcs.tolist() for number in range(4)] for one in (now, late)]
    assert chosen[1] == [[[3] * 12] * 2, [[3] * 12] * 2, *chosen[0][:2]]


def test_an_outer_loop_meets_its_target_where_the_probe_is_of_another_channel() -> None:
    """Rounds fade independently, so that a probe of the last round says nothing.

    The target lies within the exact interval of the measured block error rate; without the loop it does not.
    """
    mcs = {"target_bler": 0.2, "outdated_rounds": 1, "candidates": [0, 3, 6, 9, 12, 16, 20]}
    for adapt, rounds, meets in (("outer-loop", 160, True), ("snr", 80, False)):
        uplink, totals = built(NARROW, {**mcs, "adapt": adapt}, 8, 480), np.zeros(2)
        for number in range(rounds):
            counts = send(uplink, number, trials=1).counts
            if number >= 40:
                totals += counts.packet_errors.sum(), counts.packets.sum()
        low, high = rate_interval(totals[0], totals[1], confidence=0.99)
        assert (low < 0.2 < high) == meets


def test_offsets_stay_where_a_share_of_the_target_is_lost_and_within_their_limits() -> None:
    def lost(errors: list[int]) -> LinkCounts:
        packets = np.array([[10, 10, 10, 0]])
        return replace(empty_counts(1, 4), packets=packets, packet_errors=np.array([errors]))

    moved = move_offset(np.zeros((1, 4)), lost([1, 10, 0, 0]), target=0.1, step_db=1.0)
    assert moved[0] == pytest.approx([0.0, -1.0, 1.0 / 9.0, 0.0], abs=1e-12)
    ends = move_offset(np.array([[0.0, -20.0, 20.0, 3.0]]), lost([1, 10, 0, 0]), target=0.1, step_db=1.0)
    assert ends[0] == pytest.approx([0.0, -20.0, 20.0, 3.0], abs=1e-12)


def test_an_outer_loop_goes_on_from_its_state_and_refuses_that_of_others() -> None:
    mcs = {"adapt": "outer-loop", "candidates": [3, 12, 20]}
    whole, first, second, other = (built(NARROW, mcs) for _ in range(4))
    wanted = [send(whole, number) for number in range(6)]
    for number in range(3):
        send(first, number)
    second.restore(first.state())
    assert all(same(send(second, number), wanted[number]) for number in range(3, 6))
    fresh = [send(other, number) for number in range(3, 6)]
    assert not all(np.array_equal(one.mcs, two.mcs) for one, two in zip(fresh, wanted[3:], strict=True))
    with pytest.raises(LinkError, match="offsets of round"):
        built(NARROW, mcs, 3).restore(first.state())


def test_a_genie_loses_no_packet_that_any_candidate_delivers() -> None:
    candidates = [3, 12, 20]
    found = send(built(NARROW, {"adapt": "genie", "candidates": candidates}, 30))
    each = [send(built(NARROW, [index] * 30, 30)).counts for index in candidates]
    fewest = np.min([one.packet_errors for one in each], axis=0)
    assert np.array_equal(found.counts.packet_errors, fewest)
    fastest = np.min([np.where(one.packet_errors == fewest, one.airtime_s, np.inf) for one in each], axis=0)
    heard = found.counts.packets > fewest
    assert np.array_equal(found.counts.airtime_s[heard], fastest[heard])
    assert len(np.unique(found.mcs)) == 3
