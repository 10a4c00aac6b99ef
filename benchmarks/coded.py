"""Coded chains of the table: a packet is a code block, over AWGN."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rivals import Chain, Rival, digital

from phy.coding.modulation import pack_bits
from phy.config import BITS_PER_SYMBOL

LDPC_K, LDPC_N, LDPC_ITERATIONS = 4096, 8192, 20
TRELLIS_K, POLAR_K = 1024, 512


@dataclass(frozen=True, kw_only=True)
class Code:
    """A code of blocks of `block_bits`, and how many blocks a call carries by who computes it.

    `plain` builds Sionna's encoder and decoder and says whether XLA compiles them within a minute; None is not timed.
    """

    name: str
    coding: Mapping[str, Any]
    block_bits: int
    blocks: Mapping[str, int]
    plain: Callable[[], tuple[Any, Any, bool]] | None = None
    family: str
    modulation: str = "qpsk"
    demapper: str = "app"

    def chain(self, ebno_db: float) -> Chain:
        """The code over AWGN at an SNR per information bit."""
        esno_db = ebno_db + 10.0 * np.log10(self.coding["rate"] * BITS_PER_SYMBOL[self.modulation])
        name = f"{self.name}, AWGN, Eb/N0 {ebno_db:g} dB"
        link = {
            "modulation": self.modulation,
            # The conventions that all rivals share.
            "coding": {**self.coding, "demapper": self.demapper, "standard": "sionna"},
            "channel": {"model": "awgn"},
            "power": {"policy": "fixed", "snr_max_db": esno_db + 10.0 * np.log10(2.0)},  # that of a real dimension
            "packet_size_bytes": self.block_bits // 8,
        }

        def ours(engine: str) -> Callable[[], Rival]:
            return lambda: digital(link, engine=engine, num_bits=self.blocks[engine] * self.block_bits)

        rivals: dict[str, Callable[[], Rival]] = {"fused": ours("fused"), "sionna": ours("sionna")}
        if self.plain is not None:
            rivals["plain"] = partial(self._plain, self.plain, esno_db)
        return Chain(name=name, modulation=self.modulation, channel=self.family, snr_db=esno_db, rivals=rivals)

    def _plain(self, build: Callable[[], tuple[Any, Any, bool]], esno_db: float) -> Rival:
        """Sionna's own blocks in their usual order, received bits packed."""
        import tensorflow as tf
        from sionna.phy.channel import AWGN
        from sionna.phy.mapping import BinarySource, Demapper, Mapper

        encoder, decoder, xla = build()
        bits_per_symbol, blocks = BITS_PER_SYMBOL[self.modulation], self.blocks["plain"]
        source, awgn, mapper = BinarySource(), AWGN(), Mapper("qam", bits_per_symbol)
        demapper = Demapper(self.demapper, "qam", bits_per_symbol)

        @tf.function(jit_compile=xla)
        def chain(no: Any) -> Any:
            bits = source([blocks, self.block_bits])
            return pack_bits(tf.cast(decoder(demapper(awgn(mapper(encoder(bits)), no), no)), tf.int32))

        no = tf.constant(10.0 ** (-esno_db / 10.0), tf.float32)
        return Rival(blocks * self.block_bits, lambda: chain(no).numpy())


def ldpc(ebno_db: float, *, modulation: str = "qpsk", demapper: str = "app") -> Chain:
    """k = 4096, rate 1/2, at most 20 iterations."""
    bits_per_symbol = BITS_PER_SYMBOL[modulation]

    def plain() -> tuple[Any, Any, bool]:
        from sionna.phy.fec.ldpc import LDPC5GDecoder, LDPC5GEncoder

        encoder = LDPC5GEncoder(LDPC_K, LDPC_N, num_bits_per_symbol=bits_per_symbol)
        return encoder, LDPC5GDecoder(encoder, cn_update="boxplus-phi", num_iter=LDPC_ITERATIONS, hard_out=True), True

    how = "QPSK" if bits_per_symbol == 2 else f"{2**bits_per_symbol}-QAM, {demapper}"
    code = Code(
        name=f"5G LDPC, k {LDPC_K}, n {LDPC_N}, {how}",
        coding={"code": "ldpc5g", "rate": 0.5, "iterations": LDPC_ITERATIONS},
        block_bits=LDPC_K,
        blocks={"fused": 768, "sionna": 32, "plain": 32},
        plain=plain,
        family="LDPC",
        modulation=modulation,
        demapper=demapper,
    )
    return code.chain(ebno_db)


def trellis(constraint_length: int, ebno_db: float = 4.0) -> Chain:
    """Convolutional code of rate 1/2, Viterbi on soft values, QPSK."""

    def plain() -> tuple[Any, Any, bool]:
        from sionna.phy.fec.conv import ConvEncoder, ViterbiDecoder

        encoder = ConvEncoder(rate=1 / 2, constraint_length=constraint_length, terminate=True)
        return encoder, ViterbiDecoder(encoder=encoder, method="soft_llr", return_info_bits=True), False

    states = 2 ** (constraint_length - 1)
    code = Code(
        name=f"convolutional, {states} states, rate 1/2, QPSK",
        coding={"code": "convolutional", "rate": 0.5, "constraint_length": constraint_length},
        block_bits=TRELLIS_K,
        blocks={"fused": 4096, "sionna": 32, "plain": 32},
        plain=plain,
        family=f"trellis of {states} states",
    )
    return code.chain(ebno_db)


def turbo(iterations: int, ebno_db: float) -> Chain:
    """Turbo code of rate 1/3, QPSK; below 0 dB few words are decided before the last iteration."""

    def plain() -> tuple[Any, Any, bool]:
        from sionna.phy.fec.turbo import TurboDecoder, TurboEncoder

        encoder = TurboEncoder(rate=1 / 3, constraint_length=4, terminate=True)
        return encoder, TurboDecoder(encoder, num_iter=iterations, algorithm="map"), True

    code = Code(
        name=f"turbo, rate 1/3, at most {iterations} iterations, QPSK",
        coding={"code": "turbo", "rate": 1 / 3, "iterations": iterations},
        block_bits=TRELLIS_K,
        blocks={"fused": 2048, "sionna": 32, "plain": 32},
        plain=plain,
        family="turbo",
    )
    return code.chain(ebno_db)


def polar(list_size: int, ebno_db: float = 3.0) -> Chain:
    """5G polar code of rate 1/2 with its CRC, SC (a list of one) or CRC-aided SCL, QPSK."""

    def plain() -> tuple[Any, Any, bool]:
        from sionna.phy.fec.polar import Polar5GDecoder, Polar5GEncoder

        encoder = Polar5GEncoder(POLAR_K, 2 * POLAR_K)
        return encoder, Polar5GDecoder(encoder, "SC"), True

    code = Code(
        name=f"5G polar, k {POLAR_K}, n {2 * POLAR_K}, {'SC' if list_size == 1 else f'SCL {list_size}'}, QPSK",
        coding={"code": "polar5g", "rate": 0.5, "list_size": list_size},
        block_bits=POLAR_K,
        blocks={"fused": 4096, "sionna": 256, "plain": 256},
        # Sionna's own list decoder is traced for a minute, and 50 times as slow as the engine's.
        plain=plain if list_size == 1 else None,
        family="polar",
    )
    return code.chain(ebno_db)
