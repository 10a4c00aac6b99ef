"""Codec of a packet: CRC, equal code blocks, code, interleaver, padding to whole symbols."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
import tensorflow as tf

from phy.coding.codes import block_code
from phy.coding.crc import PacketCrc
from phy.coding.plan import INTERLEAVER_SEED, Coding, PacketPlan, plan_packet
from phy.coding.transport.scrambling import sequence_of


@lru_cache(maxsize=64)
def build_codec(
    coding: Coding, *, payload_bits: int, bits_per_symbol: int, crc: str | None, fused: bool = False
) -> PacketCodec:
    """The `phy.stages.Codec` of a packet of `payload_bits`, built once per argument list.

    `crc` is a polynomial of `phy.config.CRC_BITS` or None; `fused` selects the kernels of `phy.coding.kernel_codes`
    for a code that has them. Raises ValueError with problem and remedy for unsupported rates and block lengths;
    `coding_problem` checks the same without TensorFlow.
    """
    plan = plan_packet(coding, payload_bits=payload_bits, bits_per_symbol=bits_per_symbol, crc=crc)
    # Sionna's tables are tensors: they must outlive whatever function is being traced just now.
    with tf.init_scope():
        return PacketCodec(coding, plan, bits_per_symbol=bits_per_symbol, crc=crc, fused=fused)


class PacketCodec:
    """Codec of a packet: CRC, zero filler, `plan.num_blocks` code blocks, interleaver and zero padding.

    TensorFlow on static shapes; `xla` says whether both directions compile under `jit_compile=True` within
    seconds. `decoder_floats_per_packet` is a rough count of float32 that decoding one packet holds.
    """

    def __init__(self, coding: Coding, plan: PacketPlan, *, bits_per_symbol: int, crc: str | None, fused: bool) -> None:
        self.plan = plan
        self.payload_bits = plan.payload_bits
        self.coded_bits = plan.coded_bits
        self._code = block_code(coding, plan, bits_per_symbol=bits_per_symbol, fused=fused)
        self.xla = self._code.xla
        self.decoder_floats_per_packet = plan.num_blocks * self._code.decoder_floats + plan.coded_bits
        self._crc = PacketCrc(crc, message_bits=plan.payload_bits + plan.stuffing_bits) if crc else None
        self._sequence = None if coding == "none" else sequence_of(coding.scrambling, plan.coded_bits)
        self._permutation = None
        if coding != "none" and coding.interleaver == "random":
            generator = np.random.Generator(np.random.Philox(key=INTERLEAVER_SEED))
            self._permutation = generator.permutation(plan.num_blocks * plan.coded_block_bits)
        # If the code runs on the host, the parts before and after it are compiled separately.
        compiled = partial(tf.function, jit_compile=None if self.xla else True, autograph=False)
        self._before_code, self._after_code = compiled(self._information), compiled(self._packet)
        self._before_decoder, self._after_decoder = compiled(self._blocks), compiled(self._payload)

    def encode(self, bits: Any) -> Any:
        """`[n, payload_bits]` int32 to `[n, coded_bits]` int32."""
        return self._after_code(self._code.encode(self._before_code(bits)))

    def decode(self, llrs: Any) -> tuple[Any, Any]:
        """LLRs `[n, coded_bits]` float32 to (bits `[n, payload_bits]` int32, accepted `[n]` bool)."""
        bits, accepted = self._after_decoder(self._code.decode(self._before_decoder(llrs)))
        return bits, accepted

    def _information(self, bits: Any) -> Any:
        """Payload bits to blocks, `[n * num_blocks, block_bits]` float32."""
        plan, rows = self.plan, bits.shape[0]
        information = tf.pad(tf.cast(bits, tf.float32), [[0, 0], [0, plan.stuffing_bits]])
        if self._crc is not None:
            information = self._crc.append(information)
        information = tf.pad(information, [[0, 0], [0, plan.filler_bits]])
        return tf.reshape(information, [rows * plan.num_blocks, plan.block_bits])

    def _packet(self, coded: Any) -> Any:
        """Coded blocks to packets on the air."""
        plan = self.plan
        coded = tf.reshape(coded, [coded.shape[0] // plan.num_blocks, plan.num_blocks * plan.coded_block_bits])
        if self._permutation is not None:
            coded = tf.gather(coded, self._permutation, axis=1)
        sent = tf.cast(tf.pad(coded, [[0, 0], [0, plan.padding_bits]]), tf.int32)
        return sent if self._sequence is None else tf.bitwise.bitwise_xor(sent, self._sequence.astype(np.int32))

    def _blocks(self, llrs: Any) -> Any:
        """LLRs of packets to those of coded blocks."""
        plan, rows = self.plan, llrs.shape[0]
        if self._sequence is not None:
            llrs = llrs * (1.0 - 2.0 * self._sequence).astype(np.float32)
        coded = llrs[:, : plan.num_blocks * plan.coded_block_bits]
        if self._permutation is not None:
            coded = tf.gather(coded, np.argsort(self._permutation), axis=1)
        return tf.reshape(coded, [rows * plan.num_blocks, plan.coded_block_bits])

    def _payload(self, decided: Any) -> tuple[Any, Any]:
        """Decided blocks to payload bits, and whether the check sum holds."""
        plan = self.plan
        rows = decided.shape[0] // plan.num_blocks
        information = tf.reshape(decided, [rows, plan.num_blocks * plan.block_bits])
        information = information[:, : plan.payload_bits + plan.stuffing_bits + plan.crc_bits]
        accepted = tf.ones([rows], tf.bool) if self._crc is None else self._crc.holds(information)
        return tf.cast(information[:, : plan.payload_bits], tf.int32), accepted
