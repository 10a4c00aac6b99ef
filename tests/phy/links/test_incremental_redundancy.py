"""Retransmissions that send other bits of the circular buffer, beside Chase combining over the same channel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from radio import context, random_payload
from scipy import optimize

from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.engines.fused.packets.codec import packet_codec
from phy.links.conflicts import link_conflicts
from phy.links.link import Reception

PACKET_BYTES, PACKETS = 125, 60


def link_of(combining: str, **changes: Any) -> LinkConfig:
    coding = {"code": "ldpc5g", "rate": 0.75, **changes.pop("coding", {})}
    return LinkConfig.model_validate(
        {
            "access": "orthogonal",
            "modulation": "16qam",
            "coding": coding,
            "packets": {"policy": "retransmit-combine", "combining": combining, "max_retransmissions": 5},
            "channel": {"model": "awgn"},
            "power": {"policy": "fixed", "snr_max_db": 8.0},
            "packet_size_bytes": PACKET_BYTES,
            **changes,
        }
    )


def sent_by(config: LinkConfig) -> Reception:
    num_bits = 8 * PACKET_BYTES * PACKETS
    link = compile_digital(config, num_devices=1, num_bits=num_bits)
    return link.send(random_payload(1, 1, num_bits), context=context(1), caps={})


@pytest.mark.parametrize("blocks", [1, 3], ids=["one code block", "three code blocks of two lengths"])
def test_other_bits_need_fewer_attempts_than_the_same_bits(blocks: int) -> None:
    """Es/N0 is 5 dB: two attempts of rate 3/4 are rate 3/8 of another 16QAM code, but only 8 dB for the same one."""
    size = {"packet_size_bytes": PACKET_BYTES} if blocks == 1 else {"packet_size_bytes": PACKET_BYTES * 20}
    chase, other = (sent_by(link_of(name, **size)) for name in ("chase", "incremental-redundancy"))
    packets = int(other.counts.packets.sum())
    assert other.counts.dropped.sum() == 0
    assert other.counts.bit_errors.sum() == 0
    assert other.counts.retransmissions.sum() <= packets * 1.1
    assert chase.counts.retransmissions.sum() > 1.5 * other.counts.retransmissions.sum()


def test_every_version_is_sent_again_in_turn() -> None:
    """At 0 dB even all bits of the buffer, sent once, are too few: versions repeat, and their soft values add up."""
    weak: dict[str, Any] = {"power": {"policy": "fixed", "snr_max_db": 0.0}}
    weak["packets"] = {"policy": "retransmit-combine", "combining": "incremental-redundancy", "max_retransmissions": 11}
    reception = sent_by(link_of("incremental-redundancy", **weak))
    assert reception.counts.dropped.sum() == 0
    assert reception.counts.retransmissions.sum() >= 4 * reception.counts.packets.sum()


def test_scrambled_bits_are_combined_too() -> None:
    scrambled = {"coding": {"scrambling": {"n_rnti": 3, "n_id": 9}}}
    plain, turned = (sent_by(link_of("incremental-redundancy", **more)) for more in ({}, scrambled))
    assert turned.counts.dropped.sum() == 0
    assert abs(int(turned.counts.retransmissions.sum()) - int(plain.counts.retransmissions.sum())) <= PACKETS // 5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"coding": {"standard": "sionna"}}, "only code ldpc5g of standard 3gpp"),
        ({"coding": {"code": "turbo", "rate": 0.5}}, "only code ldpc5g of standard 3gpp"),
        ({"access": "noma"}, "not built for noma"),
    ],
    ids=["another standard", "another code", "noma"],
)
def test_links_without_other_bits_are_refused(changes: dict[str, Any], said: str) -> None:
    found = [
        one.problem
        for one in link_conflicts(link_of("incremental-redundancy", **changes), num_devices=2, payload_bits=800)
    ]
    assert [problem for problem in found if said in problem]


def test_combining_without_a_policy_that_combines_is_refused() -> None:
    with pytest.raises(ValueError, match="is of policy retransmit-combine, the policy is drop"):
        link_of("chase", packets={"policy": "drop", "combining": "incremental-redundancy"})


def test_soft_values_are_those_of_the_buffer() -> None:
    codec = packet_codec(link_of("chase").coding, payload_bits=1000, bits_per_symbol=4, crc="crc16", versions=(0,))
    # Base graph 1 by A = 1000 > 292 and R > 0.67: 66 columns of 48 less 40 filler bits.
    assert codec.soft_bits == 66 * 48 - (22 * 48 - 1016)
    llrs = np.ones((2, codec.plan.coded_bits), np.float32)
    assert codec.soft_values(llrs).sum() == llrs.sum()


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(101)


def information(snr: float) -> float:
    """Mutual information of one bit of QPSK at Es/N0 `snr`, whose LLR is N(2 snr, 4 snr) given a bit."""
    llrs = 2.0 * snr + 2.0 * np.sqrt(snr) * NODES
    return float(1.0 - (np.logaddexp(0.0, -llrs) * WEIGHTS).sum() / WEIGHTS.sum() / np.log(2.0))


def least_snr_db(needed: float, once: int, twice: int) -> float:
    """Es/N0 [dB] from which on bits received once and bits received twice carry `needed` bits of information."""

    def missing(snr_db: float) -> float:
        snr = 10.0 ** (snr_db / 10.0)
        return once * information(snr) + twice * information(2.0 * snr) - needed

    return float(optimize.brentq(missing, -20.0, 20.0))


def half_lost_db(config: LinkConfig, around_db: float) -> float:
    """Es/N0 [dB] at which half of the packets are lost."""
    levels = around_db + np.arange(0.3, 1.35, 0.15)
    lost = []
    for level in levels:
        power = config.power.model_copy(update={"snr_max_db": float(level) + 10.0 * np.log10(2.0)})
        reception = sent_by(config.model_copy(update={"power": power}))
        lost.append(reception.counts.dropped.sum() / PACKETS)
    assert lost[0] > 0.5 > lost[-1]
    return float(np.interp(-0.5, -np.array(lost), levels))


@pytest.mark.parametrize(
    ("rate", "limit", "gain_db"),
    [(8 / 9, None, 3.08), (1 / 2, None, 0.98), (1 / 5, None, 0.0), (8 / 9, 790, 0.0)],
    ids=["rate 8/9", "rate 1/2", "a rate that sends the whole buffer", "a buffer of one attempt"],
)
def test_redundancy_gains_what_the_mutual_information_says(rate: float, limit: int | None, gain_db: float) -> None:
    """Two attempts over AWGN: bits of the circular buffer that are sent once, and those that are sent twice.

    Half of the packets of 1016 bits are lost 0.4 to 1 dB above the least SNR, and 0.35 dB farther from it as the rate
    of both attempts halves: 0.4 dB of tolerance. Where the bits are the same, 60 packets tell the point to 0.1 dB.
    """
    coding: dict[str, Any] = {"rate": rate} | ({} if limit is None else {"tbs_lbrm_bits": limit})
    twice = {"policy": "retransmit-combine", "max_retransmissions": 1}
    found, least = [], []
    for combining in ("chase", "incremental-redundancy"):
        packets = {**twice, "combining": combining}
        config = link_of(combining, modulation="qpsk", coding=coding, packets=packets)
        codec = packet_codec(config.coding, payload_bits=1000, bits_per_symbol=2, crc="crc16", versions=(0, 2))
        sent = codec.plan.coded_bits
        distinct = min(sent if combining == "chase" else 2 * sent, codec.soft_bits)
        least.append(least_snr_db(1016, once=2 * (distinct - sent), twice=2 * sent - distinct))
        found.append(half_lost_db(config, least[-1]))
    assert least[0] - least[1] == pytest.approx(gain_db, abs=0.02)
    assert found[0] - found[1] == pytest.approx(gain_db, abs=0.4 if gain_db else 0.1)
