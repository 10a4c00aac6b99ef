"""Devices that come part by part meet the channel, noise and power control that all meet at once."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links import orthogonal
from phy.links.link import DigitalUplink, LinkError, Reception, join_receptions

DEVICES, NUM_BITS = 11, 805
CONTEXT = UplinkContext(seed=3, trials=(0, 4), round_index=2)
PAYLOAD = np.random.default_rng(1).integers(0, 256, (2, DEVICES, -(-NUM_BITS // 8)), dtype=np.uint8)
PARTS = ((0, 1), (1, 6), (6, 11))


def uplink(**settings: Any) -> DigitalUplink:
    told = {"access": "orthogonal", "modulation": "qpsk", "packet_size_bytes": 16, **settings}
    found = compile_digital(LinkConfig.model_validate(told), num_devices=DEVICES, num_bits=NUM_BITS)
    assert found.parted
    return found


LINKS = {
    "own gains": {
        "channel": {"fading": "rayleigh", "gain": [0.5 + 0.1 * k for k in range(DEVICES)]},
        "power": {"policy": "inversion", "snr_max_db": 20.0},
    },
    "inversion": {"channel": {"fading": "rician", "rician_k_db": 3.0}, "power": {"policy": "inversion"}},
    "silent devices": {
        "channel": {"fading": "rayleigh", "coherence": "packet"},
        "csi": {"error_variance": 0.1},
        "power": {"policy": "truncated-inversion", "cutoff_db": 0.0},
    },
}


def assert_same(found: Reception, whole: Reception) -> None:
    for one in fields(type(whole.counts)):
        np.testing.assert_array_equal(getattr(found.counts, one.name), getattr(whole.counts, one.name), one.name)
    np.testing.assert_array_equal(found.decision.active, whole.decision.active)
    np.testing.assert_array_equal(found.decision.level, whole.decision.level)
    if whole.bursts is not None:
        assert found.bursts is not None
        for one in fields(type(whole.bursts)):
            np.testing.assert_array_equal(getattr(found.bursts, one.name), getattr(whole.bursts, one.name), one.name)
    if whole.round_airtime_s is not None:
        np.testing.assert_array_equal(found.round_airtime_s, whole.round_airtime_s)


@pytest.mark.parametrize("engine", ["fused", "sionna"])
@pytest.mark.parametrize("name", LINKS)
def test_parts_are_what_one_call_sends(name: str, engine: str) -> None:
    link = uplink(engine=engine, **LINKS[name])
    whole = link.send(PAYLOAD, context=CONTEXT, caps={})
    parts = [link.send(PAYLOAD[:, first:last], first_device=first, context=CONTEXT, caps={}) for first, last in PARTS]
    np.testing.assert_array_equal(np.concatenate([part.payload for part in parts], axis=1), whole.payload)
    assert_same(join_receptions(parts, one_after_another=True), whole)
    if name == "silent devices":
        assert not whole.decision.active.all() or whole.counts.bit_errors.any()
    assert whole.counts.bit_errors.any()


def test_parts_without_a_radio_are_what_was_sent() -> None:
    link = uplink(error_model="error_free")
    whole = link.send(PAYLOAD, context=CONTEXT, caps={})
    parts = [link.send(PAYLOAD[:, first:last], first_device=first, context=CONTEXT, caps={}) for first, last in PARTS]
    np.testing.assert_array_equal(np.concatenate([part.payload for part in parts], axis=1), whole.payload)
    assert_same(join_receptions(parts, one_after_another=True), whole)


@pytest.mark.parametrize("engine", ["fused", "sionna"])
def test_a_probe_is_the_same_however_many_bits_are_held_at_once(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    whole = uplink(engine=engine, **LINKS["own gains"]).probe(1000, context=CONTEXT, caps={}, again=True)
    monkeypatch.setattr(orthogonal, "_PROBE_BYTES", 1000)
    parts = uplink(engine=engine, **LINKS["own gains"]).probe(1000, context=CONTEXT, caps={}, again=True)
    for one in fields(type(whole)):
        np.testing.assert_array_equal(getattr(parts, one.name), getattr(whole, one.name), one.name)
    assert len(set(whole.bit_errors.ravel())) > DEVICES


def test_devices_that_depend_on_each_other_come_at_once() -> None:
    link = LinkConfig.model_validate({"access": "orthogonal", "modulation": "qpsk", "packets": {"crc": "crc16"}})
    packets = compile_digital(link, num_devices=DEVICES, num_bits=NUM_BITS)
    assert not packets.parted
    with pytest.raises(LinkError, match="send all of them at once"):
        packets.send(PAYLOAD[:, :5], first_device=0, context=CONTEXT, caps={})


def test_devices_beyond_the_link_are_named() -> None:
    link = uplink()
    with pytest.raises(LinkError, match="5 devices from number 8 on are more than the 11 of the link"):
        link.send(PAYLOAD[:, :5], first_device=8, context=CONTEXT, caps={})
    with pytest.raises(LinkError, match="compile a link for this shape"):
        link.send(PAYLOAD[:, :5, :7], first_device=0, context=CONTEXT, caps={})
