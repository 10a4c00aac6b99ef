"""The codes of one block in fused kernels, each as `encode` and `decode` of a batch on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from phy.coding.convolutional import ConvolutionalCode
from phy.coding.ldpc.decoder import LdpcDecoder
from phy.coding.ldpc.encoder import LdpcEncoder
from phy.coding.ldpc.plan import LdpcPlan, plan_ldpc
from phy.coding.ldpc.transport import LdpcTransportBlock
from phy.coding.plan import PacketPlan, ldpc_mother_bits
from phy.coding.polar.code import PolarCode
from phy.coding.polar.transport import PolarTransport
from phy.coding.turbo.code import punctured_code
from phy.coding.turbo.transport import TurboTransport
from phy.config.coding import CodingConfig


class KernelCode(Protocol):
    """Code of one block length, on bits in {0, 1}, one byte each."""

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """`[n, block_bits]` to `[n, coded_block_bits]`."""
        ...

    def decode(self, llrs: NDArray[np.float32]) -> NDArray[np.uint8]:
        """LLRs ln P(1) / P(0) `[n, coded_block_bits]` to decided bits `[n, block_bits]`."""
        ...


@dataclass(frozen=True)
class LdpcKernels:
    """One block of 5G LDPC (TS 38.212 5.3.2) with the rate matching of Sionna, whose code words it has.

    `iterations` is the limit of layered iterations with 8-bit values; decoding stops at a code word. The error rate is
    no worse than with as many iterations of flooding belief propagation, and equal if both converge.
    """

    plan: LdpcPlan
    iterations: int

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return LdpcEncoder(self.plan).encode(bits)

    def decode(self, llrs: NDArray[np.float32]) -> NDArray[np.uint8]:
        return LdpcDecoder(plan=self.plan, iterations=self.iterations).decode(llrs)[0]


@dataclass(frozen=True)
class Uncoded:
    """Every bit by itself."""

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return bits

    def decode(self, llrs: NDArray[np.float32]) -> NDArray[np.uint8]:
        return (llrs > 0.0).astype(np.uint8)


@dataclass(frozen=True)
class Repeated:
    """Code words of `length` bits repeated cyclically to `coded_bits`; the LLRs of one bit add."""

    code: KernelCode
    length: int
    coded_bits: int

    @property
    def _times(self) -> int:
        return -(-self.coded_bits // self.length)

    def encode(self, bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return np.tile(self.code.encode(bits), (1, self._times))[:, : self.coded_bits]

    def decode(self, llrs: NDArray[np.float32]) -> NDArray[np.uint8]:
        missing = self._times * self.length - self.coded_bits
        copies = np.pad(llrs, ((0, 0), (0, missing))).reshape(len(llrs), self._times, self.length)
        return self.code.decode(copies.sum(axis=1))


def kernel_code(
    coding: CodingConfig, plan: PacketPlan, *, bits_per_symbol: int, versions: tuple[int, ...] = ()
) -> KernelCode:
    """Return the code of one block of `plan`, for a `coding` that is `fusible`.

    `versions` as of `LdpcTransportBlock` are those of incremental redundancy, none for equal attempts.
    """
    if plan.segments is not None:
        sent = versions or (coding.redundancy_version,)
        return LdpcTransportBlock(plan.segments, plan.block_bits, sent, coding.iterations, buffered=bool(versions))
    block_bits, coded_bits = plan.block_bits, plan.coded_block_bits
    if coding.code == "repetition":
        return Repeated(Uncoded(), block_bits, coded_bits)
    outputs = 2 if coding.rate > 0.4 else 3
    if coding.code == "convolutional":
        return ConvolutionalCode(block_bits, outputs, coding.constraint_length, coding.standard)
    if coding.code == "turbo" and coding.standard == "3gpp":
        return TurboTransport(block_bits, coded_bits, bits_per_symbol, coding.iterations, coding.redundancy_version)
    if coding.code == "turbo":
        return punctured_code(block_bits, outputs, coding.iterations)
    if coding.code == "polar5g" and coding.standard == "3gpp":
        return PolarTransport(block_bits, coded_bits, coding.list_size)
    if coding.code == "polar5g":
        return PolarCode(block_bits, coded_bits, coding.list_size, coding.standard)
    mother_bits = ldpc_mother_bits(block_bits, coded_bits, bits_per_symbol)
    code = LdpcKernels(plan_ldpc(block_bits, mother_bits, bits_per_symbol=bits_per_symbol), coding.iterations)
    return code if mother_bits == coded_bits else Repeated(code, mother_bits, coded_bits)
