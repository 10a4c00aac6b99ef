"""Packets to coded bits and back on the host: check sum, code blocks, code, interleaver; see `phy.coding.packet`.

Bits travel packed, first bit highest; padding is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from phy.coding.kernel_codes import KernelCode, kernel_code
from phy.coding.ldpc.transport import LdpcTransportBlock
from phy.coding.plan import INTERLEAVER_SEED, Coding, PacketPlan, plan_packet
from phy.coding.transport.packed_crc import PackedCrc
from phy.coding.transport.scrambling import sequence_of
from phy.config import CodingConfig
from phy.numerics.workers import run_tasks


@dataclass(frozen=True, kw_only=True)
class HostCodec:
    """A packet on packed bits: the payload itself, with its check sum behind it.

    `soft`: `decode` reads soft values, else hard decisions, packed like `encode`'s result. Soft values are what
    `soft_values` returns of LLRs ln P(1) / P(0) `[n, coded_bits]`; those of several attempts add up.
    """

    plan: PacketPlan
    check: PackedCrc | None
    soft: ClassVar[bool] = False

    def encode(self, payload: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """`[n, ceil(payload_bits / 8)]` to `[n, ceil(coded_bits / 8)]`; bits beyond the payload are ignored."""
        protected = self.protect(payload)
        missing = -(-self.plan.coded_bits // 8) - protected.shape[1]
        return np.pad(protected, ((0, 0), (0, missing))) if missing else protected

    @property
    def soft_bits(self) -> int:
        """Soft values of a packet."""
        return self.plan.coded_bits

    def soft_values(self, llrs: NDArray[np.float32]) -> NDArray[np.float32]:
        """LLRs of one attempt `[n, coded_bits]` to soft values `[n, soft_bits]`."""
        return llrs

    def decode(self, hard: NDArray[np.uint8], soft: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """(payload, True where the check sum holds `[n]`), all True without one."""
        del soft
        return self.payload_of(hard)

    def protect(self, payload: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The payload, with its check sum behind it."""
        kept, plan = _masked(payload, self.plan.payload_bits), self.plan
        transport_bits = plan.payload_bits + plan.stuffing_bits
        missing = -(-transport_bits // 8) - kept.shape[1]
        stuffed = np.pad(kept, ((0, 0), (0, missing))) if missing else kept
        return stuffed if self.check is None else self.check.append(stuffed, num_bits=transport_bits)

    def payload_of(self, packed: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """(payload, True where the check sum holds) of decided bits, those of `protect` first."""
        payload = _masked(packed, self.plan.payload_bits)
        if self.check is None:
            return payload, np.ones(len(payload), bool)
        protected = _masked(packed, self.plan.payload_bits + self.plan.stuffing_bits + self.plan.crc_bits)
        return payload, (self.protect(payload) == protected).all(axis=1)


@dataclass(frozen=True, kw_only=True)
class BlockCodec(HostCodec):
    """A packet in code blocks, interleaved by `order` and scrambled by `sequence` `[coded_bits]`, None without."""

    code: KernelCode
    order: NDArray[np.int64] | None
    sequence: NDArray[np.uint8] | None
    soft: ClassVar[bool] = True

    def encode(self, payload: NDArray[np.uint8]) -> NDArray[np.uint8]:
        coded = np.empty((len(payload), -(-self.plan.coded_bits // 8)), np.uint8)

        def run(first: int, last: int) -> None:
            coded[first:last] = self._encode(payload[first:last])

        run_tasks(run, num_tasks=len(payload))
        return coded

    def _encode(self, payload: NDArray[np.uint8]) -> NDArray[np.uint8]:
        plan, rows = self.plan, len(payload)
        bits = np.zeros((rows, plan.num_blocks * plan.block_bits), np.uint8)
        used = plan.payload_bits + plan.stuffing_bits + plan.crc_bits
        bits[:, :used] = np.unpackbits(self.protect(payload), axis=1, count=used)
        coded = self.code.encode(bits.reshape(-1, plan.block_bits)).reshape(rows, -1)
        if self.order is not None:
            coded = coded[:, self.order]
        if plan.padding_bits:
            coded = np.pad(coded, ((0, 0), (0, plan.padding_bits)))
        packed = np.packbits(coded, axis=1)
        return packed if self.sequence is None else packed ^ np.packbits(self.sequence)

    @property
    def soft_bits(self) -> int:
        return self.plan.coded_bits if self._buffered is None else self._buffered.soft_bits

    def soft_values(self, llrs: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.sequence is not None:
            llrs = llrs * (1.0 - 2.0 * self.sequence).astype(np.float32)
        return llrs if self._buffered is None else self._buffered.into_buffer(self._in_order(llrs))

    def decode(self, hard: NDArray[np.uint8], soft: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        del hard
        plan, rows = self.plan, len(soft)
        if self._buffered is None:
            coded = self._in_order(soft)
            decided = self.code.decode(coded.reshape(rows * plan.num_blocks, plan.coded_block_bits))
        else:
            decided = self._buffered.decode(soft)
        information = decided.reshape(rows, -1)[:, : plan.payload_bits + plan.stuffing_bits + plan.crc_bits]
        return self.payload_of(np.packbits(information, axis=1))

    @property
    def _buffered(self) -> LdpcTransportBlock | None:
        """The code where soft values are those of its circular buffers."""
        return self.code if isinstance(self.code, LdpcTransportBlock) and self.code.buffered else None

    def _in_order(self, llrs: NDArray[np.float32]) -> NDArray[np.float32]:
        coded = llrs[:, : self.plan.num_blocks * self.plan.coded_block_bits]
        return coded if self.order is None else coded[:, np.argsort(self.order)]


def packet_codec(
    coding: Coding, *, payload_bits: int, bits_per_symbol: int, crc: str | None, versions: tuple[int, ...] = ()
) -> HostCodec:
    """The codec of a packet, `coding` none or fusible; `versions` as of `phy.links.packets.chain.ChainSpec`."""
    plan = plan_packet(coding, payload_bits=payload_bits, bits_per_symbol=bits_per_symbol, crc=crc)
    check = PackedCrc.named(crc) if crc else None
    if not isinstance(coding, CodingConfig):
        return HostCodec(plan=plan, check=check)
    order = None
    if coding.interleaver == "random":
        generator = np.random.Generator(np.random.Philox(key=INTERLEAVER_SEED))
        order = generator.permutation(plan.num_blocks * plan.coded_block_bits)
    return BlockCodec(
        plan=plan,
        check=check,
        code=kernel_code(coding, plan, bits_per_symbol=bits_per_symbol, versions=versions),
        order=order,
        sequence=sequence_of(coding.scrambling, plan.coded_bits),
    )


def _masked(packed: NDArray[np.uint8], num_bits: int) -> NDArray[np.uint8]:
    """The first `num_bits` bits, padding zero, a copy."""
    kept = packed[:, : -(-num_bits // 8)].copy()
    if num_bits % 8:
        kept[:, -1] &= np.uint8(0xFF << (8 - num_bits % 8) & 0xFF)
    return kept
