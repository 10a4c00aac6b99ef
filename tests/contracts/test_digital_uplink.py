"""Contract of every DigitalUplink, for each error model."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phy.compile import compile_digital
from phy.config import ChannelConfig, LinkConfig, PowerConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import DigitalUplink, LinkError, Reception
from phy.measure.counts import LinkCounts

NUM_TRIALS, NUM_DEVICES, NUM_BITS, NUM_BYTES, PACKET_BYTES = 5, 3, 203, 26, 8
SHAPE = (NUM_TRIALS, NUM_DEVICES)


def build(kind: str, *, num_bits: int = NUM_BITS, policy: str = "fixed") -> DigitalUplink:
    """`kind` is an error model, of the engine named behind it where one computes the symbols."""
    error_model, _, engine = kind.partition(":")
    config = LinkConfig(
        access="orthogonal",
        modulation="qpsk",
        channel=ChannelConfig(fading="rayleigh"),
        power=PowerConfig(policy=policy, snr_max_db=5.0, cutoff_db=-3.0),
        error_model=error_model,
        engine=engine or "auto",
        packet_size_bytes=PACKET_BYTES,
        probe_bits=1024,
    )
    return compile_digital(config, num_devices=NUM_DEVICES, num_bits=num_bits)


@pytest.fixture(
    params=["measured:sionna", "measured:fused", "iid:sionna", "iid:fused", "iid-mean:fused", "analytic", "error_free"],
    scope="module",
)
def error_model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def uplink(error_model: str) -> DigitalUplink:
    return build(error_model)


def on_air(*trials: int, seed: int = 1, round_index: int = 2) -> UplinkContext:
    return UplinkContext(seed=seed, trials=trials or tuple(range(NUM_TRIALS)), round_index=round_index)


def payload_of(num_bytes: int = NUM_BYTES) -> NDArray[np.uint8]:
    return np.random.default_rng(3).integers(0, 256, (*SHAPE, num_bytes), dtype=np.uint8)


def same(first: Reception, second: Reception, rows: Any = slice(None)) -> bool:
    return (
        np.array_equal(first.payload, second.payload[rows])
        and all(
            np.array_equal(getattr(first.counts, f.name), getattr(second.counts, f.name)[rows])
            for f in fields(LinkCounts)
        )
        and np.array_equal(first.decision.amplitude, second.decision.amplitude[rows])
        and np.array_equal(first.decision.active, second.decision.active[rows])
    )


def test_it_says_what_it_was_compiled_for(uplink: DigitalUplink) -> None:
    assert (uplink.num_devices, uplink.num_bits) == (NUM_DEVICES, NUM_BITS)


def test_results_have_the_documented_shapes_and_types(uplink: DigitalUplink) -> None:
    reception = uplink.send(payload_of(), context=on_air(), caps={})
    assert reception.payload.shape == (*SHAPE, NUM_BYTES)
    assert reception.payload.dtype == np.uint8
    for f in fields(LinkCounts):
        value = getattr(reception.counts, f.name)
        assert value.shape == SHAPE
        assert value.dtype == (np.float64 if f.name.endswith(("energy", "_s", "_j")) else np.int64)
    decision = reception.decision
    assert decision.level.shape == decision.amplitude.shape == decision.limit.shape == (NUM_TRIALS,)
    assert decision.active.shape == SHAPE
    assert decision.active.dtype == np.bool_


def test_the_input_payload_is_not_modified(uplink: DigitalUplink) -> None:
    payload = payload_of()
    uplink.send(payload, context=on_air(), caps={})
    assert np.array_equal(payload, payload_of())


def test_padding_comes_back_zero(uplink: DigitalUplink) -> None:
    reception = uplink.send(np.full((*SHAPE, NUM_BYTES), 0xFF, np.uint8), context=on_air(), caps={})
    assert not np.unpackbits(reception.payload, axis=-1)[..., NUM_BITS:].any()


@pytest.mark.parametrize("policy", ["fixed", "truncated-inversion"])
def test_counts_are_those_of_the_bits_that_came_back(error_model: str, policy: str) -> None:
    reception = build(error_model, policy=policy).send(payload_of(), context=on_air(), caps={})
    counts, active = reception.counts, reception.decision.active
    wrong = np.unpackbits(payload_of() ^ reception.payload, axis=-1)[..., :NUM_BITS]
    packets = [wrong[..., i : i + 8 * PACKET_BYTES].any(axis=-1) for i in range(0, NUM_BITS, 8 * PACKET_BYTES)]
    assert np.array_equal(counts.bits, NUM_BITS * active)
    assert np.array_equal(counts.bit_errors, wrong.sum(axis=-1) * active)
    assert np.array_equal(counts.packets, len(packets) * active)
    assert np.array_equal(counts.packet_errors, np.sum(packets, axis=0) * active)
    assert not reception.payload[~active].any()


def test_the_same_context_gives_the_same_numbers(error_model: str, uplink: DigitalUplink) -> None:
    first = uplink.send(payload_of(), context=on_air(), caps={})
    uplink.send(payload_of(), context=on_air(round_index=7), caps={})
    assert same(uplink.send(payload_of(), context=on_air(), caps={}), first)
    assert same(build(error_model).send(payload_of(), context=on_air(), caps={}), first)


@pytest.mark.parametrize("rows", [[0], [4], [3, 1], [4, 0, 2]], ids=str)
def test_a_trial_has_the_same_numbers_in_any_batch(uplink: DigitalUplink, rows: list[int]) -> None:
    together = uplink.send(payload_of(), context=on_air(), caps={})
    assert same(uplink.send(payload_of()[rows], context=on_air(*rows), caps={}), together, rows)


def test_a_probe_counts_the_bits_asked_for(uplink: DigitalUplink) -> None:
    counts = uplink.probe(1000, context=on_air(), caps={})
    assert counts.bits.shape == SHAPE
    assert (counts.bits == 1000).all()
    assert (counts.bit_errors <= counts.bits).all()
    assert (counts.packets == -(-1000 // (8 * PACKET_BYTES))).all()


def test_a_probe_is_the_same_in_any_batch_and_at_any_time(uplink: DigitalUplink) -> None:
    together = uplink.probe(1000, context=on_air(), caps={})
    uplink.send(payload_of(), context=on_air(round_index=5), caps={})
    part = uplink.probe(1000, context=on_air(3, 1), caps={})
    for f in fields(LinkCounts):
        assert np.array_equal(getattr(part, f.name), getattr(together, f.name)[[3, 1]])


def test_a_probe_does_not_change_what_is_received(uplink: DigitalUplink) -> None:
    before = uplink.send(payload_of(), context=on_air(), caps={})
    uplink.probe(512, context=on_air(), caps={})
    assert same(uplink.send(payload_of(), context=on_air(), caps={}), before)


@pytest.mark.parametrize("cap", [0.5, np.inf, [0.1, 0.2, np.inf, 3.0, 0.0]], ids=str)
def test_caps_are_accepted_one_for_all_or_one_for_each(error_model: str, uplink: DigitalUplink, cap: Any) -> None:
    amplitude = uplink.send(payload_of(), context=on_air(), caps={"privacy": cap}).decision.amplitude
    uplink.probe(64, context=on_air(), caps={"privacy": cap})
    if error_model != "error_free":  # without a radio there is no amplitude to cap
        assert (amplitude <= np.broadcast_to(cap, amplitude.shape) * (1.0 + 1e-12)).all()  # doubles


@pytest.mark.parametrize(
    "payload",
    [
        np.zeros((NUM_TRIALS, NUM_DEVICES, NUM_BYTES + 1), np.uint8),
        np.zeros((NUM_TRIALS, NUM_DEVICES + 1, NUM_BYTES), np.uint8),
        np.zeros((NUM_TRIALS + 1, NUM_DEVICES, NUM_BYTES), np.uint8),
        np.zeros((NUM_DEVICES, NUM_BYTES), np.uint8),
        np.zeros((NUM_TRIALS, NUM_DEVICES, NUM_BYTES), np.int64),
        np.zeros((NUM_TRIALS, NUM_DEVICES, NUM_BYTES), np.float32),
    ],
    ids=lambda payload: f"{payload.dtype}{payload.shape}",
)
def test_a_payload_of_another_shape_or_type_is_refused(uplink: DigitalUplink, payload: NDArray[Any]) -> None:
    with pytest.raises(LinkError, match="the link was compiled for packed bits, uint8"):
        uplink.send(payload, context=on_air(), caps={})


@pytest.mark.parametrize("num_bits", [1, 8, 9])
def test_payloads_of_a_few_bits_travel(error_model: str, num_bits: int) -> None:
    payload = payload_of(-(-num_bits // 8))
    reception = build(error_model, num_bits=num_bits).send(payload, context=on_air(), caps={})
    assert (reception.counts.bits == num_bits).all()
    assert (reception.counts.packets == 1).all()
