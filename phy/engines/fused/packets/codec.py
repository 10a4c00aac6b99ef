"""Packets to coded bits and back on the host: check sum, code blocks, 5G LDPC, interleaver; see `phy.coding.packet`.

Bits travel packed, first bit highest; padding is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from phy.coding.ldpc.decoder import LdpcDecoder
from phy.coding.ldpc.encoder import LdpcEncoder
from phy.coding.ldpc.plan import plan_ldpc
from phy.coding.plan import Coding, PacketPlan, ldpc_mother_bits, plan_packet
from phy.config import CodingConfig
from phy.engines.fused.packets.crc import PackedCrc


class HostCodec(Protocol):
    """A packet's code on packed bits.

    `soft`: `decode` reads LLRs ln P(1) / P(0) `[n, coded_bits]`, else hard decisions, packed like `encode`'s result.
    """

    soft: bool

    @property
    def coded_bits(self) -> int:
        """Bits on the air."""
        ...

    def encode(self, payload: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """`[n, ceil(payload_bits / 8)]` to `[n, ceil(coded_bits / 8)]`; bits beyond the payload are ignored."""
        ...

    def decode(self, hard: NDArray[np.uint8], llrs: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """(payload, whether the check sum holds `[n]`), all true without one."""
        ...


def packet_codec(coding: Coding, *, payload_bits: int, bits_per_symbol: int, crc: str | None) -> HostCodec:
    """The codec of a packet, `coding` none or fusible."""
    plan = plan_packet(coding, payload_bits=payload_bits, bits_per_symbol=bits_per_symbol, crc=crc)
    check = PackedCrc.named(crc) if crc else None
    if not isinstance(coding, CodingConfig):
        return Uncoded(plan, check)
    from phy.coding.packet import INTERLEAVER_SEED

    order = None
    if coding.interleaver == "random":
        generator = np.random.Generator(np.random.Philox(key=INTERLEAVER_SEED))
        order = generator.permutation(plan.num_blocks * plan.coded_block_bits)
    mother_bits = ldpc_mother_bits(plan.block_bits, plan.coded_block_bits, bits_per_symbol)
    code = plan_ldpc(plan.block_bits, mother_bits, bits_per_symbol=bits_per_symbol)
    return Ldpc(
        plan=plan,
        check=check,
        mother_bits=mother_bits,
        order=order,
        encoder=LdpcEncoder(code),
        decoder=LdpcDecoder(plan=code, iterations=coding.iterations),
    )


@dataclass(frozen=True)
class Uncoded:
    """The payload itself, with its check sum behind it."""

    plan: PacketPlan
    check: PackedCrc | None
    soft = False

    @property
    def coded_bits(self) -> int:
        """Bits on the air."""
        return self.plan.coded_bits

    def encode(self, payload: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """See `HostCodec.encode`."""
        protected = _protect(payload, self.plan, self.check)
        missing = -(-self.coded_bits // 8) - protected.shape[1]
        return np.pad(protected, ((0, 0), (0, missing))) if missing else protected

    def decode(self, hard: NDArray[np.uint8], llrs: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """See `HostCodec.decode`."""
        del llrs
        return _payload_of(hard, self.plan, self.check)


@dataclass(frozen=True, kw_only=True)
class Ldpc:
    """5G LDPC; below rate 1/5 the code word is repeated, and LLRs of one bit add."""

    plan: PacketPlan
    check: PackedCrc | None
    mother_bits: int
    order: NDArray[np.int64] | None
    encoder: LdpcEncoder
    decoder: LdpcDecoder
    soft = True

    @property
    def coded_bits(self) -> int:
        """Bits on the air."""
        return self.plan.coded_bits

    def encode(self, payload: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """See `HostCodec.encode`."""
        plan, rows = self.plan, len(payload)
        bits = np.unpackbits(_protect(payload, plan, self.check), axis=1, count=plan.payload_bits + plan.crc_bits)
        blocks = np.pad(bits, ((0, 0), (0, plan.filler_bits))).reshape(rows * plan.num_blocks, plan.block_bits)
        words = self.encoder.encode(blocks)
        copies = -(-plan.coded_block_bits // self.mother_bits)
        coded = np.tile(words, (1, copies))[:, : plan.coded_block_bits] if copies > 1 else words
        coded = coded.reshape(rows, -1)
        if self.order is not None:
            coded = coded[:, self.order]
        return np.packbits(np.pad(coded, ((0, 0), (0, plan.padding_bits))), axis=1)

    def decode(self, hard: NDArray[np.uint8], llrs: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """See `HostCodec.decode`."""
        del hard
        plan, rows = self.plan, len(llrs)
        coded = llrs[:, : plan.num_blocks * plan.coded_block_bits]
        if self.order is not None:
            coded = coded[:, np.argsort(self.order)]
        blocks = coded.reshape(rows * plan.num_blocks, plan.coded_block_bits)
        copies = -(-plan.coded_block_bits // self.mother_bits)
        if copies > 1:
            missing = copies * self.mother_bits - plan.coded_block_bits
            blocks = np.pad(blocks, ((0, 0), (0, missing))).reshape(len(blocks), copies, -1).sum(axis=1)
        decided, _ = self.decoder.decode(blocks)
        information = decided.reshape(rows, -1)[:, : plan.payload_bits + plan.crc_bits]
        return _payload_of(np.packbits(information, axis=1), plan, self.check)


def _masked(packed: NDArray[np.uint8], num_bits: int) -> NDArray[np.uint8]:
    """The first `num_bits` bits, padding zero, a copy."""
    kept = packed[:, : -(-num_bits // 8)].copy()
    if num_bits % 8:
        kept[:, -1] &= np.uint8(0xFF << (8 - num_bits % 8) & 0xFF)
    return kept


def _protect(payload: NDArray[np.uint8], plan: PacketPlan, check: PackedCrc | None) -> NDArray[np.uint8]:
    kept = _masked(payload, plan.payload_bits)
    return kept if check is None else check.append(kept, num_bits=plan.payload_bits)


def _payload_of(
    packed: NDArray[np.uint8], plan: PacketPlan, check: PackedCrc | None
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    payload = _masked(packed, plan.payload_bits)
    if check is None:
        return payload, np.ones(len(payload), bool)
    protected = _masked(packed, plan.payload_bits + plan.crc_bits)
    return payload, (check.append(payload, num_bits=plan.payload_bits) == protected).all(axis=1)
