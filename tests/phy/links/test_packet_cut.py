"""How packets fill the slots of OFDM, before anything is sent: against sizes written out, and the airtime measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.airtime import cut_packet, fullest_packet_bytes, upload_airtime_s

GRID = {"num_subcarriers": 72, "num_symbols": 14, "pilot_symbols": [2, 11]}


def link(**changes: Any) -> LinkConfig:
    given = {"access": "orthogonal", "modulation": "qpsk", "ofdm": GRID, "channel": {"model": "tdl-a"}, **changes}
    return LinkConfig.model_validate(given)


def test_an_uncoded_packet_fills_slots_of_12_symbols_of_72_carriers() -> None:
    cut = cut_packet(link(), packet_bits=8 * 110)
    assert (cut.symbols, cut.slots, cut.slot_symbols) == (440, 1, 864)
    assert cut.used == 440 / 864
    assert cut_packet(link(), packet_bits=8 * 217).slots == 2
    assert fullest_packet_bytes(link(), slots=1) == 216
    assert cut_packet(link(ofdm="none", channel={"model": "flat"}), packet_bits=880).used == 1.0


@pytest.mark.parametrize("coding", ["none", {"code": "ldpc5g", "rate": 0.5}, {"code": "convolutional", "rate": 1 / 3}])
@pytest.mark.parametrize("modulation", ["bpsk", "64qam"])
def test_the_fullest_packet_fits_and_one_byte_more_does_not(coding: Any, modulation: str) -> None:
    config = link(coding=coding, modulation=modulation)
    for slots in (1, 2, 5):
        size = fullest_packet_bytes(config, slots=slots)
        assert cut_packet(config, packet_bits=8 * size).slots == slots
        assert cut_packet(config, packet_bits=8 * (size + 1)).slots == slots + 1


@pytest.mark.parametrize(("size", "slots"), [(96, 20), (480, 12)])
def test_the_same_bytes_take_slots_as_they_are_cut(size: int, slots: int) -> None:
    # 1,920 bytes: 20 packets of 384 symbols, each alone in a slot; 4 packets of 1,920 symbols in 3 slots.
    config = link(packet_size_bytes=size)
    slot_s = 14 * config.symbol_s
    assert upload_airtime_s(config, payload_bits=8 * 1920) == pytest.approx(slots * slot_s)
    uplink = compile_digital(config, num_devices=1, num_bits=8 * 1920)
    payload = np.zeros((1, 1, 1920), np.uint8)
    sent = uplink.send(payload, context=UplinkContext(seed=1, trials=(0,)), caps={})
    assert sent.counts.airtime_s[0, 0] == pytest.approx(slots * slot_s)
