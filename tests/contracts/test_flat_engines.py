"""Both engines of flat uncoded links: the same law, and from the same words even the same errors."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phy.compile import compile_digital
from phy.config import BITS_PER_SYMBOL, ChannelConfig, LinkConfig, PowerConfig
from phy.config.fading import fading_laws
from phy.engines.fused.flat.bursts import count_bursts
from phy.engines.fused.flat.carry import _carry
from phy.engines.fused.flat.link import FusedChain
from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.links.flat_chain import Load
from phy.links.link import Reception
from phy.measure.burstiness import Burstiness, measure_bursts
from phy.measure.counts import LinkCounts, count_errors

DEVICES, TRIALS, PACKET_BYTES = 3, (4, 2), 37
NUM_BITS = 5003
"""No whole byte, no whole symbol, no whole packet."""

CHANNELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "awgn": ({"model": "awgn"}, {}),
    **{f"{word} per symbol": ({"fading": word, "coherence": "symbol"}, {}) for word in fading_laws.words()},
    "rayleigh per packet": ({"fading": "rayleigh", "coherence": "packet"}, {}),
    "rayleigh per symbol": ({"fading": "rayleigh", "coherence": "symbol"}, {"csi": {"error_variance": 0.05}}),
    "rician per round": ({"fading": "rician"}, {"csi": {"error_variance": 0.05}, "power": {"policy": "inversion"}}),
    "rayleigh, some silent": (
        {"fading": "rayleigh"},
        {"power": {"policy": "truncated-inversion", "cutoff_db": -3.0, "snr_max_db": 3.0}},
    ),
}
CASES = [
    *(("qpsk", channel) for channel in CHANNELS),
    *((modulation, "rayleigh per packet") for modulation in BITS_PER_SYMBOL if modulation != "qpsk"),
]


def link(modulation: str, channel: str, engine: str) -> LinkConfig:
    """12 dB, where every constellation errs; devices of three gains."""
    propagation, rest = CHANNELS[channel]
    power = {"policy": "fixed", "snr_max_db": 12.0, **rest.get("power", {})}
    return LinkConfig.model_validate(
        {
            "access": "orthogonal",
            "modulation": modulation,
            "channel": {"gain": [0.7, 1.3, 1.0], **propagation},
            "packet_size_bytes": PACKET_BYTES,
            "engine": engine,
            **rest,
            "power": power,
        }
    )


def payload_of(num_bits: int = NUM_BITS) -> NDArray[np.uint8]:
    shape = (len(TRIALS), DEVICES, -(-num_bits // 8))
    return np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)


ON_AIR = UplinkContext(seed=1, trials=TRIALS, round_index=3)


def received(modulation: str, channel: str, engine: str) -> tuple[Reception, LinkCounts]:
    uplink = compile_digital(link(modulation, channel, engine), num_devices=DEVICES, num_bits=NUM_BITS)
    return uplink.send(payload_of(), context=ON_AIR, caps={}), uplink.probe(1000, context=ON_AIR, caps={})


def close(one: Any, other: Any, kind: type) -> list[str]:
    """Fields in which they differ: integers exactly, energies beyond float32 sums."""
    return [
        f.name
        for f in fields(kind)
        if not np.allclose(getattr(one, f.name), getattr(other, f.name), rtol=1e-4, atol=0.0)
    ]


@pytest.mark.parametrize(("modulation", "channel"), CASES)
def test_both_engines_err_in_the_same_bits(modulation: str, channel: str) -> None:
    """Same fades, same noise: only a symbol within rounding of a boundary could differ, none at this seed."""
    (sionna, probed), (fused, probed_fused) = (received(modulation, channel, engine) for engine in ("sionna", "fused"))
    assert sionna.counts.bit_errors.sum() > 50
    assert np.array_equal(fused.payload, sionna.payload)
    assert np.array_equal(fused.decision.active, sionna.decision.active)
    np.testing.assert_allclose(fused.decision.amplitude, sionna.decision.amplitude, rtol=1e-5)  # float32 sums
    np.testing.assert_allclose(fused.decision.peak_amplitude, sionna.decision.peak_amplitude, rtol=1e-5)
    assert close(fused.counts, sionna.counts, LinkCounts) == []
    assert close(probed_fused, probed, LinkCounts) == []
    assert close(fused.bursts, sionna.bursts, Burstiness) == []


def test_the_silent_case_has_a_silent_device() -> None:
    active = received("qpsk", "rayleigh, some silent", "fused")[0].decision.active
    assert active.any()
    assert not active.all()


@pytest.mark.parametrize("num_bits", [1, 64, 8 * PACKET_BYTES, 8 * PACKET_BYTES + 3, 70_001])
@pytest.mark.parametrize("bits_per_symbol", [1, 6])
def test_errors_are_counted_as_the_plain_counters_do(num_bits: int, bits_per_symbol: int) -> None:
    rng = np.random.default_rng(5)
    rows, num_bytes = 4, -(-num_bits // 8)
    sent = rng.integers(0, 256, (rows, num_bytes), dtype=np.uint8)
    dense, sparse = np.packbits(rng.random((rows, 8 * num_bytes)) < 0.7, axis=1), rng.random((rows, num_bytes)) < 0.02
    flips = np.where(np.arange(rows)[:, None] < 2, dense, sparse.astype(np.uint8))
    active = np.array([True, False, True, True])
    bit_errors, packet_errors, bursts = count_bursts(
        sent,
        sent ^ flips,
        num_bits=num_bits,
        packet_bytes=PACKET_BYTES,
        bits_per_symbol=bits_per_symbol,
        active=active,
        threads=2,
    )
    expected = count_errors(sent, sent ^ flips, num_bits=num_bits, packet_bytes=PACKET_BYTES)
    assert np.array_equal(bit_errors, expected[0])
    assert np.array_equal(packet_errors, expected[1])
    plain = measure_bursts(
        sent,
        sent ^ flips,
        num_bits=num_bits,
        packet_bits=8 * PACKET_BYTES,
        bits_per_symbol=bits_per_symbol,
        present=active,
    )
    for f in fields(Burstiness):
        assert np.array_equal(getattr(bursts, f.name), getattr(plain, f.name)), f.name


@pytest.mark.parametrize("channel", ["awgn", "rayleigh per packet", "rayleigh per symbol"])
def test_one_thread_and_several_give_identical_bits(channel: str) -> None:
    config, num_bits = link("16qam", channel, "fused"), 700_001  # three tasks a row
    uplink = compile_digital(config, num_devices=DEVICES, num_bits=num_bits)
    decision = uplink.decide(ON_AIR, {})
    flat = FlatChannel(config, num_devices=DEVICES, num_symbols=-(-num_bits // 4), packet_symbols=74)
    load = Load(channel=flat, num_bits=num_bits)
    carried = [
        FusedChain(config, threads=threads).carry(payload_of(num_bits), load, context=ON_AIR, decision=decision)
        for threads in (1, 2, 7)
    ]
    for other in carried[1:]:
        assert np.array_equal(other.payload, carried[0].payload)
        assert close(other.counts, carried[0].counts, LinkCounts) == []
        for name in ("transmit_energy", "signal_energy", "noise_energy"):
            assert np.array_equal(getattr(other.counts, name), getattr(carried[0].counts, name)), name
    # Energies of power control, by thread count.
    gains = [FusedChain(config, threads=threads).measure_gains(flat, ON_AIR) for threads in (1, 2)]
    assert np.array_equal(gains[0].weight_power, gains[1].weight_power)
    assert np.array_equal(gains[0].gain_sum, gains[1].gain_sum)


def test_payloads_of_any_kind_run_the_same_machine_code() -> None:
    """Another type of array would be compiled anew, for seconds, and rounded otherwise."""
    uplink = compile_digital(link("qpsk", "awgn", "fused"), num_devices=DEVICES, num_bits=NUM_BITS)
    plain = payload_of()
    frozen, strided = plain.copy(), np.repeat(plain, 2, axis=-1)[..., ::2]
    frozen.setflags(write=False)
    first = uplink.send(plain, context=ON_AIR, caps={})
    compiled = len(_carry.signatures)
    for payload in (frozen, strided):
        again = uplink.send(payload, context=ON_AIR, caps={})
        assert np.array_equal(again.payload, first.payload)
        assert np.array_equal(again.counts.transmit_energy, first.counts.transmit_energy)
    assert len(_carry.signatures) == compiled


def test_noise_that_devices_share_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: with one device's stream for all, errors of two devices coincide far more than by chance."""

    def coincidences() -> float:
        """Standard errors above chance of bits in which devices 0 and 2 of equal gain both err."""
        config = link("bpsk", "awgn", "fused").model_copy(update={"channel": ChannelConfig()})
        config = config.model_copy(update={"power": PowerConfig(policy="fixed", snr_max_db=3.0)})
        payload = payload_of(60_000)
        got = compile_digital(config, num_devices=DEVICES, num_bits=60_000).send(payload, context=ON_AIR, caps={})
        wrong = np.unpackbits(payload ^ got.payload, axis=-1)
        chance = wrong[:, 0].mean() * wrong[:, 2].mean() * wrong[:, 0].size
        return float(((wrong[:, 0] & wrong[:, 2]).sum() - chance) / np.sqrt(chance))

    assert abs(coincidences()) < 4.0
    rows = FlatChannel.rows

    def shared(self: FlatChannel, context: UplinkContext, **some: int) -> Any:
        channel_key, csi_key, device, gain = rows(self, context, **some)
        return channel_key, csi_key, device * np.uint32(0), gain

    monkeypatch.setattr(FlatChannel, "rows", shared)
    assert coincidences() > 4.0
