"""Chains of NOMA: two devices with QPSK on the same resources, 7 dB apart, over Rician fading per packet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rivals import Chain, Rival, digital

from phy.coding.modulation import pack_bits

DEVICES, PACKET_BYTES, ESNO_DB = 2, 512, 14.0
BITS = {"fused": 1 << 24, "sionna": 1 << 20, "plain": 1 << 20}
CODE = {"code": "ldpc5g", "rate": 0.5, "iterations": 10}


def noma(detector: str, *, coded: bool = False) -> Chain:
    """Es/N0 14 dB of the group's power; bits of both devices count."""
    link = {
        "access": "noma",
        "modulation": "qpsk",
        "noma": {"ladder_db": [0, -7], "detector": detector},
        "coding": CODE if coded else "none",
        "channel": {"fading": "rician", "rician_k_db": 10, "coherence": "packet"},
        "power": {"policy": "fixed", "snr_max_db": ESNO_DB + 3.0},
        "packet_size_bytes": PACKET_BYTES,
    }

    def ours(engine: str) -> Callable[[], Rival]:
        return lambda: digital(link, engine=engine, num_bits=BITS[engine], num_devices=DEVICES)

    rivals: dict[str, Callable[[], Rival]] = {"fused": ours("fused"), "sionna": ours("sionna")}
    if detector == "ml" and not coded:  # Sionna has no block that cancels
        rivals["plain"] = _plain_joint
    how = {"sic": "cancelled by symbols", "sic-codeword": "cancelled by packets", "ml": "detected jointly"}[detector]
    return Chain(
        name=f"NOMA, {DEVICES} devices, QPSK{', LDPC, rate 1/2' if coded else ''}, {how}",
        modulation="qpsk",
        channel="NOMA",
        snr_db=ESNO_DB,
        rivals=rivals,
    )


def _plain_joint() -> Rival:
    import tensorflow as tf
    from sionna.phy.channel import ApplyFlatFadingChannel, GenerateFlatFadingChannel
    from sionna.phy.mapping import BinarySource, Mapper
    from sionna.phy.mimo import MaximumLikelihoodDetector

    source, mapper = BinarySource(), Mapper("qam", 2)
    generate, apply_taps = GenerateFlatFadingChannel(DEVICES, 1), ApplyFlatFadingChannel()
    detect = MaximumLikelihoodDetector("bit", "maxlog", DEVICES, "qam", 2, hard_out=True)
    num_symbols, block = BITS["plain"] // (2 * DEVICES), 8 * PACKET_BYTES // 2

    @tf.function(jit_compile=True)
    def chain(no: Any) -> Any:
        symbols = mapper(source([num_symbols, 2 * DEVICES]))
        taps = tf.repeat(generate(num_symbols // block), block, axis=0)
        noise = tf.cast(no, tf.complex64) * tf.eye(1, batch_shape=[num_symbols], dtype=tf.complex64)
        found = detect(apply_taps(symbols, taps, no), taps, noise)
        return pack_bits(tf.reshape(tf.cast(found, tf.int32), [-1]))

    no = tf.constant(10.0 ** (-ESNO_DB / 10.0), tf.float32)
    return Rival(BITS["plain"], lambda: chain(no).numpy())
