"""Engine cuda receives the bits of engine fused, on a GPU or in CUDA's simulator, which is slow: payloads are small."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from gpu import gpu_or_simulator
from numpy.typing import NDArray

from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import LinkError, Reception
from phy.measure.burstiness import Burstiness
from phy.measure.counts import LinkCounts

# The simulator computes with numbers of NumPy, which warn where words of Threefry wrap.
pytestmark = pytest.mark.filterwarnings("ignore:overflow")

DEVICES = 2
NUM_BITS = 93
"""No whole byte, no whole symbol of 64-QAM or 256-QAM."""
FIXED = {"policy": "fixed", "snr_max_db": 9.0}
PER_SYMBOL = {"fading": "rayleigh", "coherence": "symbol"}
LINKS: dict[str, dict[str, Any]] = {
    "qpsk, awgn": {"modulation": "qpsk", "channel": {"model": "awgn"}},
    "bpsk, nakagami per symbol": {"modulation": "bpsk", "channel": {**PER_SYMBOL, "fading": "nakagami"}},
    "16qam, rician per symbol, noisy csi": {
        "modulation": "16qam",
        "channel": {**PER_SYMBOL, "fading": "rician"},
        "csi": {"error_variance": 0.05},
    },
    "64qam, rayleigh per packet": {"modulation": "64qam", "channel": {**PER_SYMBOL, "coherence": "packet"}},
    "256qam, silent devices": {
        "modulation": "256qam",
        "channel": {"fading": "rayleigh"},
        "power": {"policy": "truncated-inversion", "cutoff_db": -3.0, "snr_max_db": 9.0},
    },
}
ON_AIR = UplinkContext(seed=1, trials=(4, 2), round_index=3)


def link(engine: str, **parts: Any) -> LinkConfig:
    return LinkConfig.model_validate(
        {"access": "orthogonal", "packet_size_bytes": 5, "power": FIXED, "engine": engine, **parts}
    )


def received(config: LinkConfig, num_bits: int = NUM_BITS) -> tuple[Reception, NDArray[np.uint8]]:
    shape = (len(ON_AIR.trials), DEVICES, -(-num_bits // 8))
    payload = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    uplink = compile_digital(config, num_devices=DEVICES, num_bits=num_bits)
    return uplink.send(payload, context=ON_AIR, caps={}), payload


def differences(one: Any, other: Any, kind: type) -> list[str]:
    """Fields in which they differ: integers exactly, energies beyond float32 sums."""
    pairs = {f.name: (getattr(one, f.name), getattr(other, f.name)) for f in fields(kind)}
    return [name for name, (a, b) in pairs.items() if not np.allclose(a, b, rtol=1e-5, atol=0.0)]


@pytest.mark.parametrize("name", LINKS)
def test_uncoded_bits_are_those_of_the_fused_engine(name: str) -> None:
    gpu_or_simulator()
    (fused, _), (gpu, _) = (received(link(engine, **LINKS[name])) for engine in ("fused", "cuda"))
    assert fused.counts.bit_errors.sum() > 5
    assert np.array_equal(gpu.payload, fused.payload)
    assert differences(gpu.counts, fused.counts, LinkCounts) == []
    assert differences(gpu.bursts, fused.bursts, Burstiness) == []
    assert np.array_equal(gpu.decision.active, fused.decision.active)
    np.testing.assert_allclose(gpu.decision.peak_amplitude, fused.decision.peak_amplitude, rtol=1e-5)


@pytest.mark.parametrize(
    ("modulation", "snr_db", "coding"),
    [
        ("qpsk", 5.0, {"rate": 0.5}),
        ("qpsk", 5.0, {"rate": 0.5, "standard": "sionna"}),
        ("qpsk", -3.0, {"rate": 0.09, "scrambling": {"n_rnti": 5, "n_id": 7}}),
        ("16qam", 10.0, {"rate": 0.75, "interleaver": "random", "demapper": "maxlog"}),
    ],
)
def test_packets_with_ldpc_codes_are_those_of_the_fused_engine(
    modulation: str, snr_db: float, coding: dict[str, Any]
) -> None:
    """After two iterations, which do not decode every word."""
    gpu_or_simulator()
    parts = {
        "modulation": modulation,
        "channel": {"fading": "rayleigh", "coherence": "packet"},
        "coding": {"code": "ldpc5g", "iterations": 2, **coding},
        "power": {**FIXED, "snr_max_db": snr_db},
    }
    (fused, _), (gpu, _) = (received(link(engine, **parts), num_bits=40) for engine in ("fused", "cuda"))
    assert fused.counts.raw_bit_errors.sum() > 5
    assert np.array_equal(gpu.payload, fused.payload)
    assert differences(gpu.counts, fused.counts, LinkCounts) == []


def test_large_arrays_are_copied_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu_or_simulator()
    from phy.engines.cuda import memory

    monkeypatch.setattr(memory, "_STAGED", 1000)
    monkeypatch.setattr(memory, "_COPIED", 64)
    sent = np.random.default_rng(0).integers(0, 2**32, (37, 53), dtype=np.uint32)
    got = np.zeros_like(sent)
    memory.from_gpu(memory.on_gpu(sent), got)
    assert np.array_equal(got, sent)


@pytest.mark.parametrize(
    "parts",
    [
        {"channel": {"model": "tdl-a", "speed_m_s": 0.0}, "ofdm": {}},
        {"coding": {"code": "turbo", "rate": 0.5}},
        {"coding": {"code": "ldpc5g"}, "receiver": {"num_antennas": 2}},
        {"coding": {"code": "ldpc5g"}, "packets": {"policy": "retransmit-combine"}},
    ],
)
def test_links_without_kernels_for_a_gpu_are_errors(parts: dict[str, Any]) -> None:
    with pytest.raises(LinkError, match=r"engine cuda has .* it has no kernels for this link; write engine: auto"):
        compile_digital(link("cuda", modulation="qpsk", **parts), num_devices=1, num_bits=80)


@pytest.mark.parametrize(("installed", "words"), [(False, r"pip install 'phyloop\[cuda\]'"), (True, "finds no NVIDIA")])
def test_a_missing_gpu_is_an_error_with_a_remedy(installed: bool, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu_or_simulator()
    from phy.engines.cuda import device

    monkeypatch.setattr(device.cuda, "is_available", lambda: False)
    monkeypatch.setattr(device, "find_spec", lambda _: object() if installed else None)
    with pytest.raises(LinkError, match=words):
        compile_digital(link("cuda", **LINKS["qpsk, awgn"]), num_devices=1, num_bits=80)


def test_code_blocks_of_different_length_lie_where_the_kernels_look_for_them() -> None:
    """Words of the longest block, read at the places of a row, are what the codec sends; no GPU is needed."""
    from phy.coding.ldpc.encoder import LdpcEncoder
    from phy.config import CodingConfig
    from phy.engines.cuda.packets import _words_of
    from phy.engines.fused.packets.codec import BlockCodec, packet_codec

    codec = packet_codec(CodingConfig(code="ldpc5g", rate=0.74), payload_bits=17000, bits_per_symbol=6, crc="crc24a")
    assert isinstance(codec, BlockCodec)
    words = _words_of(codec)
    assert words.transport is not None
    assert len(set(words.transport.segments.coded_bits)) == 2
    payload = np.random.default_rng(3).integers(0, 256, (2, 2125), dtype=np.uint8)
    protected = codec.protect(payload)
    packed = words.blocks_of(protected)
    blocks = np.unpackbits(packed, axis=1, count=words.num_bits).reshape(2 * words.num_blocks, -1)
    coded = LdpcEncoder(words.plan).encode(blocks).reshape(2, -1)[:, words.places]
    assert np.array_equal(np.packbits(coded, axis=1), codec.encode(payload))
    assert np.array_equal(words.information_of(packed), protected)
