"""Packets to coded bits and back on the host: check sum, code blocks, code, interleaver; see `phy.coding.packet`.

Bits travel packed, first bit highest; padding is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from phy.coding.kernel_codes import KernelCode, kernel_code
from phy.coding.plan import INTERLEAVER_SEED, Coding, PacketPlan, plan_packet
from phy.config import CodingConfig
from phy.engines.fused.packets.crc import PackedCrc
from phy.numerics.workers import run_tasks


@dataclass(frozen=True, kw_only=True)
class HostCodec:
    """A packet on packed bits: the payload itself, with its check sum behind it.

    `soft`: `decode` reads LLRs ln P(1) / P(0) `[n, coded_bits]`, else hard decisions, packed like `encode`'s result.
    """

    plan: PacketPlan
    check: PackedCrc | None
    soft: ClassVar[bool] = False

    def encode(self, payload: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """`[n, ceil(payload_bits / 8)]` to `[n, ceil(coded_bits / 8)]`; bits beyond the payload are ignored."""
        protected = self.protect(payload)
        missing = -(-self.plan.coded_bits // 8) - protected.shape[1]
        return np.pad(protected, ((0, 0), (0, missing))) if missing else protected

    def decode(self, hard: NDArray[np.uint8], llrs: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """(payload, True where the check sum holds `[n]`), all True without one."""
        del llrs
        return self.payload_of(hard)

    def protect(self, payload: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The payload, with its check sum behind it."""
        kept = _masked(payload, self.plan.payload_bits)
        return kept if self.check is None else self.check.append(kept, num_bits=self.plan.payload_bits)

    def payload_of(self, packed: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """(payload, True where the check sum holds) of decided bits, those of `protect` first."""
        payload = _masked(packed, self.plan.payload_bits)
        if self.check is None:
            return payload, np.ones(len(payload), bool)
        protected = _masked(packed, self.plan.payload_bits + self.plan.crc_bits)
        return payload, (self.protect(payload) == protected).all(axis=1)


@dataclass(frozen=True, kw_only=True)
class BlockCodec(HostCodec):
    """A packet in code blocks, interleaved by `order` where that is not None."""

    code: KernelCode
    order: NDArray[np.int64] | None
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
        used = plan.payload_bits + plan.crc_bits
        bits[:, :used] = np.unpackbits(self.protect(payload), axis=1, count=used)
        coded = self.code.encode(bits.reshape(-1, plan.block_bits)).reshape(rows, -1)
        if self.order is not None:
            coded = coded[:, self.order]
        if plan.padding_bits:
            coded = np.pad(coded, ((0, 0), (0, plan.padding_bits)))
        return np.packbits(coded, axis=1)

    def decode(self, hard: NDArray[np.uint8], llrs: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        del hard
        plan, rows = self.plan, len(llrs)
        coded = llrs[:, : plan.num_blocks * plan.coded_block_bits]
        if self.order is not None:
            coded = coded[:, np.argsort(self.order)]
        decided = self.code.decode(coded.reshape(rows * plan.num_blocks, plan.coded_block_bits))
        information = decided.reshape(rows, -1)[:, : plan.payload_bits + plan.crc_bits]
        return self.payload_of(np.packbits(information, axis=1))


def packet_codec(coding: Coding, *, payload_bits: int, bits_per_symbol: int, crc: str | None) -> HostCodec:
    """The codec of a packet, `coding` none or fusible."""
    plan = plan_packet(coding, payload_bits=payload_bits, bits_per_symbol=bits_per_symbol, crc=crc)
    check = PackedCrc.named(crc) if crc else None
    if not isinstance(coding, CodingConfig):
        return HostCodec(plan=plan, check=check)
    order = None
    if coding.interleaver == "random":
        generator = np.random.Generator(np.random.Philox(key=INTERLEAVER_SEED))
        order = generator.permutation(plan.num_blocks * plan.coded_block_bits)
    code = kernel_code(coding, plan, bits_per_symbol=bits_per_symbol)
    return BlockCodec(plan=plan, check=check, code=code, order=order)


def _masked(packed: NDArray[np.uint8], num_bits: int) -> NDArray[np.uint8]:
    """The first `num_bits` bits, padding zero, a copy."""
    kept = packed[:, : -(-num_bits // 8)].copy()
    if num_bits % 8:
        kept[:, -1] &= np.uint8(0xFF << (8 - num_bits % 8) & 0xFF)
    return kept
