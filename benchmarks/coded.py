"""Coded chains of the table: a packet is a code block, QPSK over AWGN at rate 1/2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from rivals import Chain, Rival, digital

from phy.coding.modulation import pack_bits

LDPC_K, LDPC_N, LDPC_ITERATIONS = 4096, 8192, 20
LDPC_BLOCKS = {"fused": 768, "sionna": 32, "plain": 32}
TRELLIS_K, TRELLIS_BLOCKS = 1024, {"fused": 4096, "sionna": 32, "plain": 32}
POLAR_K, POLAR_BLOCKS = 512, {"fused": 4096, "sionna": 256, "plain": 256}


def ldpc(ebno_db: float) -> Chain:
    """k = 4096, rate 1/2, QPSK over AWGN, at most 20 iterations; a packet is a code block."""
    link = _coded_link({"code": "ldpc5g", "rate": 0.5, "iterations": LDPC_ITERATIONS}, LDPC_K, ebno_db)

    def ours(engine: str) -> Callable[[], Rival]:
        return lambda: digital(link, engine=engine, num_bits=LDPC_BLOCKS[engine] * LDPC_K)

    def plain() -> Rival:
        from sionna.phy.fec.ldpc import LDPC5GDecoder, LDPC5GEncoder

        encoder = LDPC5GEncoder(LDPC_K, LDPC_N, num_bits_per_symbol=2)
        decoder = LDPC5GDecoder(encoder, cn_update="boxplus-phi", num_iter=LDPC_ITERATIONS, hard_out=True)
        return _plain_coded(encoder, decoder, blocks=LDPC_BLOCKS["plain"], block_bits=LDPC_K, ebno_db=ebno_db)

    return Chain(
        name=f"5G LDPC, k 4096, n 8192, QPSK, AWGN, Eb/N0 {ebno_db:g} dB",
        modulation="qpsk",
        channel="LDPC",
        snr_db=ebno_db,
        rivals={"fused": ours("fused"), "sionna": ours("sionna"), "plain": plain},
    )


def trellis(ebno_db: float = 4.0) -> Chain:
    """Convolutional code of constraint length 5 and rate 1/2, Viterbi on soft values, QPSK over AWGN."""
    link = _coded_link({"code": "convolutional", "rate": 0.5, "constraint_length": 5}, TRELLIS_K, ebno_db)

    def plain() -> Rival:
        from sionna.phy.fec.conv import ConvEncoder, ViterbiDecoder

        encoder = ConvEncoder(rate=1 / 2, constraint_length=5, terminate=True)
        decoder = ViterbiDecoder(encoder=encoder, method="soft_llr", return_info_bits=True)
        return _plain_coded(
            encoder, decoder, blocks=TRELLIS_BLOCKS["plain"], block_bits=TRELLIS_K, ebno_db=ebno_db, xla=False
        )

    return Chain(
        name=f"convolutional, 16 states, rate 1/2, QPSK, AWGN, Eb/N0 {ebno_db:g} dB",
        modulation="qpsk",
        channel="trellis",
        snr_db=ebno_db,
        rivals={
            "fused": lambda: digital(link, engine="fused", num_bits=TRELLIS_BLOCKS["fused"] * TRELLIS_K),
            "sionna": lambda: digital(link, engine="sionna", num_bits=TRELLIS_BLOCKS["sionna"] * TRELLIS_K),
            "plain": plain,
        },
    )


def polar(list_size: int, ebno_db: float = 3.0) -> Chain:
    """5G polar code of rate 1/2 with its CRC, SC (a list of one) or CRC-aided SCL, QPSK over AWGN."""
    link = _coded_link({"code": "polar5g", "rate": 0.5, "list_size": list_size}, POLAR_K, ebno_db)

    def plain() -> Rival:
        from sionna.phy.fec.polar import Polar5GDecoder, Polar5GEncoder

        encoder = Polar5GEncoder(POLAR_K, 2 * POLAR_K)
        decoder = Polar5GDecoder(encoder, "SC")
        return _plain_coded(encoder, decoder, blocks=POLAR_BLOCKS["plain"], block_bits=POLAR_K, ebno_db=ebno_db)

    rivals: dict[str, Callable[[], Rival]] = {
        "fused": lambda: digital(link, engine="fused", num_bits=POLAR_BLOCKS["fused"] * POLAR_K),
        "sionna": lambda: digital(link, engine="sionna", num_bits=POLAR_BLOCKS["sionna"] * POLAR_K),
    }
    # Sionna's own list decoder is traced for a minute, and 50 times as slow as the engine's.
    if list_size == 1:
        rivals["plain"] = plain
    how = "SC" if list_size == 1 else f"SCL {list_size}"
    return Chain(
        name=f"5G polar, k {POLAR_K}, n {2 * POLAR_K}, {how}, QPSK, AWGN, Eb/N0 {ebno_db:g} dB",
        modulation="qpsk",
        channel="polar",
        snr_db=ebno_db,
        rivals=rivals,
    )


def _coded_link(coding: Mapping[str, Any], block_bits: int, ebno_db: float) -> dict[str, Any]:
    return {
        "modulation": "qpsk",
        "coding": coding,
        "channel": {"model": "awgn"},
        # Es / N0 = Eb / N0 for QPSK at rate 1/2, and Es / 2 N0 is what power says.
        "power": {"policy": "fixed", "snr_max_db": ebno_db + 10.0 * np.log10(2.0)},
        "packet_size_bytes": block_bits // 8,
    }


def _plain_coded(
    encoder: Any, decoder: Any, *, blocks: int, block_bits: int, ebno_db: float, xla: bool = True
) -> Rival:
    """Sionna's own blocks in their usual order around a code of rate 1/2, received bits packed."""
    import tensorflow as tf
    from sionna.phy.channel import AWGN
    from sionna.phy.mapping import BinarySource, Demapper, Mapper

    source, awgn, mapper, demapper = BinarySource(), AWGN(), Mapper("qam", 2), Demapper("app", "qam", 2)

    @tf.function(jit_compile=xla)
    def chain(no: Any) -> Any:
        bits = source([blocks, block_bits])
        return pack_bits(tf.cast(decoder(demapper(awgn(mapper(encoder(bits)), no), no)), tf.int32))

    no = tf.constant(10.0 ** (-ebno_db / 10.0), tf.float32)
    return Rival(blocks * block_bits, lambda: chain(no).numpy())
