"""Packets with 5G LDPC codes over a flat channel on a GPU: only payloads and counts cross the bus.

The equations are those of `phy.engines.fused.packets` for one path that stands still and is known.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from phy.coding.kernel_codes import LdpcKernels, Repeated
from phy.coding.ldpc.buffer import circular_buffer
from phy.coding.ldpc.plan import LdpcPlan
from phy.coding.ldpc.transport import LdpcTransportBlock, MatchedBlocks
from phy.config import CodingConfig
from phy.engines.cuda import ldpc
from phy.engines.cuda.compiled import fold, gpu_kernel
from phy.engines.cuda.memory import on_gpu, row_chunks
from phy.engines.fused.fading.fades import CONSTANT, fades_of
from phy.engines.fused.packets.codec import BlockCodec, packet_codec
from phy.engines.fused.packets.soft import APP, MAXLOG, log_of_one_more
from phy.engines.fused.symbols import decide, decide_signs, mapping, modulate, modulate_signs
from phy.links.packets.chain import Arrival, ChainSpec, Departure, PacketChain
from phy.numerics.random_kernels import complex_normal
from phy.numerics.threefry import threefry

_THREADS, _MOST_BITS, _MOST_LEVELS = 128, 8, 8
_SENT, _FADED, _NOISE, _NUM_ENERGIES = range(4)
_CODED_BITS_AT_ONCE = 1 << 27
_BYTES_OF_A_CODED_BIT = 6
_ZERO, _ONE, _TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)
_LOWEST, _FAINTEST = np.float32(-3.0e38), np.float32(1e-30)


class _Path(NamedTuple):
    """Law of the one path; see `phy.engines.fused.fading.fades.Fades`."""

    kind: int
    fixed_part: np.float32
    scattered_part: np.float32


def _axis_llrs(points: Any, soft: Any, matched: Any, energy: Any, axes: Any, axis: Any, llrs: Any) -> None:
    """LLRs of the bits of one axis, as `phy.engines.fused.packets.soft` has them, at `axis`, `axis` + `axes`, .."""
    per_axis = points.bits_per_symbol // axes
    if per_axis == 1:
        llrs[axis] = -_TWO * points.spacing * matched
        return
    best = cuda.local.array(_MOST_LEVELS, np.float32)
    for lane in range(2 * per_axis):
        best[lane] = _LOWEST
    levels = 1 << per_axis
    for k in range(levels):
        label = k ^ (k >> 1) ^ (levels // 2 - 1)
        level = (points.top - np.float32(k)) * points.spacing
        exponent = _TWO * level * matched - level * level * energy
        for bit in range(per_axis):
            lane = 2 * bit + ((label >> (per_axis - 1 - bit)) & 1)
            held = best[lane]
            if soft == APP:
                best[lane] = max(held, exponent) + log_of_one_more(abs(exponent - held))
            else:
                best[lane] = max(held, exponent)
    for bit in range(per_axis):
        llrs[axes * bit + axis] = best[2 * bit + 1] - best[2 * bit]


@gpu_kernel
def _air(
    points: Any, path: Any, keys: Any, amplitude: Any, gain: Any, noise_power: Any, soft: Any, places: Any, turned: Any,
    coded: Any, llrs: Any, errors: Any, energies: Any,
) -> None:  # fmt: skip
    """Row b of block b: bits `coded` at `places` to `llrs` there, `errors` by place in the label, `energies`.

    Bits are scrambled by the sequence `turned`.
    """
    sums = cuda.shared.array((_NUM_ENERGIES, _THREADS), np.float64)
    soft_bits = cuda.local.array(_MOST_BITS, np.float32)
    row, thread, bits = cuda.blockIdx.x, cuda.threadIdx.x, points.bits_per_symbol
    key, axes = keys[row], 1 if bits == 1 else 2
    arrival, noise_std = amplitude[row] * gain[row], math.sqrt(noise_power)
    inverse = _ONE / max(noise_power, _FAINTEST)
    real, imag = _ONE, _ZERO
    if path.kind != CONSTANT:
        word0, word1 = threefry(key[0], key[1], np.uint32(0), np.uint32(0))
        real, imag = complex_normal(word0, word1)
        real, imag = path.fixed_part + path.scattered_part * real, path.scattered_part * imag
    h, k = arrival * real, arrival * imag
    energy = h * h + k * k
    sent_energy, faded_energy, noise_energy = 0.0, 0.0, 0.0
    for symbol in range(thread, (places.shape[0] + bits - 1) // bits, _THREADS):
        label = np.uint32(0)
        for bit in range(bits):
            at = symbol * bits + bit
            one = np.uint32(coded[row, places[at]] ^ turned[at]) if at < places.shape[0] else np.uint32(0)
            label = np.uint32(np.uint32(label << np.uint32(1)) | one)
        if bits > 2:
            x, y = modulate(label, points)
        else:
            x, y = modulate_signs(label, points)
        word0, word1 = threefry(key[4], key[5], np.uint32(symbol), np.uint32(0))
        p, q = complex_normal(word0, word1)
        real, imag = h * x - k * y, h * y + k * x
        sent_energy += np.float64(x * x + y * y)
        faded_energy += np.float64(real * real + imag * imag)
        noise_energy += np.float64(p * p + q * q)
        real += noise_std * p
        imag += noise_std * q
        matched_real, matched_imag = h * real + k * imag, h * imag - k * real
        if bits > 2:
            scale = _ONE / max(energy, _FAINTEST)
            decided = decide(matched_real * scale, matched_imag * scale, points)
        else:
            decided = decide_signs(matched_real, matched_imag, points)
        _axis_llrs(points, soft, matched_real * inverse, energy * inverse, axes, 0, soft_bits)
        if axes == 2:
            _axis_llrs(points, soft, matched_imag * inverse, energy * inverse, axes, 1, soft_bits)
        for bit in range(bits):
            at, value = symbol * bits + bit, soft_bits[bit]
            one = np.uint32(np.uint32(label >> np.uint32(bits - 1 - bit)) & np.uint32(1))
            found = np.uint32(np.uint32(decided >> np.uint32(bits - 1 - bit)) & np.uint32(1))
            if soft == APP:
                found = np.uint32(value > _ZERO)
            if found != one:
                cuda.atomic.add(errors, (row, bit), 1)
            if at < places.shape[0]:
                llrs[row, places[at]] = -value if turned[at] else value
    sums[_SENT, thread], sums[_FADED, thread], sums[_NOISE, thread] = sent_energy, faded_energy, noise_energy
    fold(sums, _THREADS, _NUM_ENERGIES)
    if thread == 0:
        level = np.float64(amplitude[row])
        energies[row, _SENT] = level * level * sums[_SENT, 0]
        energies[row, _FADED] = sums[_FADED, 0]
        energies[row, _NOISE] = np.float64(noise_power) * sums[_NOISE, 0]


class _Words(NamedTuple):
    """Code words of a packet on the GPU: `num_blocks` of `coded_bits` each, `plan` that of one.

    `num_bits` bits of the packet are cut into blocks; `places` `[coded bits of the packet]`: place of every bit on the
    air, before any interleaver across blocks, in the code words of a row; `transport`: code blocks of TS 38.212.
    """

    plan: LdpcPlan
    num_blocks: int
    coded_bits: int
    num_bits: int
    places: NDArray[np.int64]
    transport: LdpcTransportBlock | None

    def blocks_of(self, packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Packed packets with their check sum to packed code blocks, one behind the other."""
        if self.transport is None:
            return packed
        bits = np.unpackbits(packed, axis=1, count=self.transport.information_bits)
        return np.packbits(self.transport.blocks_of(bits).reshape(len(bits), -1), axis=1)

    def information_of(self, packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Decided code blocks to packets, the inverse of `blocks_of`."""
        if self.transport is None:
            return packed
        bits = np.unpackbits(packed, axis=1, count=self.num_bits).reshape(len(packed), self.num_blocks, -1)
        return np.packbits(self.transport.information_of(bits), axis=1)


def _words_of(codec: BlockCodec) -> _Words:
    code, sizes = codec.code, codec.plan
    if isinstance(code, LdpcTransportBlock):
        segments = code.segments
        longest, width = max(segments.coded_bits), segments.bits_per_symbol
        buffer = circular_buffer(segments.block_bits, segments.base_graph, segments.buffer_limit)
        # Bits lie in the order of the buffer; the interleaver of 5.4.2.2 is a part of their places.
        plan = MatchedBlocks(buffer, code.versions[-1], longest, 1, code.iterations).plan
        of_blocks = [
            block * longest + np.arange(length).reshape(width, -1).T.ravel()
            for block, length in enumerate(segments.coded_bits)
        ]
        bits = segments.num_blocks * segments.block_bits
        return _Words(plan, segments.num_blocks, longest, bits, np.concatenate(of_blocks), code)
    block = code.code if isinstance(code, Repeated) else code
    assert isinstance(block, LdpcKernels)
    places = np.arange(sizes.num_blocks * sizes.coded_block_bits)
    bits = sizes.payload_bits + sizes.crc_bits
    return _Words(block.plan, sizes.num_blocks, sizes.coded_block_bits, bits, places, None)


class CudaPacketChain(PacketChain):
    """`PacketChain` of coded links that are `LinkConfig.on_gpu`; the fused engine's, `fused`, measures mean powers."""

    def __init__(self, spec: ChainSpec, fused: PacketChain) -> None:
        config, bits = spec.config, spec.config.bits_per_symbol
        codec = packet_codec(config.coding, payload_bits=spec.payload_bits, bits_per_symbol=bits, crc=spec.crc)
        assert isinstance(codec, BlockCodec)
        assert isinstance(config.coding, CodingConfig)
        self.bits_per_symbol, self.coded_bits = bits, codec.plan.coded_bits
        self.soft_bits = self.coded_bits
        self.channel_uses, self.airtime_s, self._fused = fused.channel_uses, fused.airtime_s, fused
        self.rows = max(_CODED_BITS_AT_ONCE // self.coded_bits, 1)
        self._codec, self._points = codec, mapping(config.modulation)
        self._soft = APP if config.coding.demapper == "app" and bits > 2 else MAXLOG
        fades = fades_of(config.channel, num_antennas=1, still=True, offsets_s=np.zeros(1))
        self._path = _Path(fades.kind, fades.fixed_part, fades.scattered_part)
        self._words = _words_of(codec)
        self._code, self._iterations = ldpc.Code.of(self._words.plan), config.coding.iterations
        places = self._words.places if codec.order is None else self._words.places[codec.order]
        self._places = on_gpu(places.astype(np.int32))
        sequence = np.zeros(self.coded_bits, np.uint8) if codec.sequence is None else codec.sequence
        self._turned = on_gpu(sequence)

    def send(
        self, payload: NDArray[np.uint8], departure: Departure, earlier_llrs: NDArray[np.float32] | None
    ) -> Arrival:
        assert earlier_llrs is None
        keys = [departure.channel_key[:, 0], departure.csi_key[:, 0], departure.noise_key]
        keys_of_rows = np.concatenate(keys, axis=1)
        protected = self._words.blocks_of(self._codec.protect(payload[:, 0]))
        information = np.empty_like(protected)
        errors = np.empty((len(payload), self.bits_per_symbol), np.int32)
        energies = np.empty((_NUM_ENERGIES, len(payload)))
        for part in row_chunks(len(payload), bytes_per_row=_BYTES_OF_A_CODED_BIT * self.coded_bits):
            information[part], errors[part], energies[:, part] = self._carry(
                protected[part],
                keys_of_rows[part],
                departure.amplitude[part, 0],
                departure.gain[part, 0],
                np.float32(departure.noise_power),
            )
        received, accepted = self._codec.payload_of(self._words.information_of(information))
        return Arrival(received[:, None], accepted[:, None], errors[:, None], energies[..., None], None)

    def mean_power(self, channel_key: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.floating]:
        return self._fused.mean_power(channel_key, start_s)

    def _carry(
        self,
        protected: NDArray[np.uint8],
        keys: NDArray[np.uint32],
        amplitude: NDArray[np.float32],
        gain: NDArray[np.float32],
        noise_power: np.float32,
    ) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.float64]]:
        """Decided packed blocks, label errors, and energies `[3, rows]` of some rows."""
        words, code, rows = self._words, self._code, len(protected)
        blocks, frames = words.num_blocks, rows * words.num_blocks
        coded = cuda.device_array((frames, words.coded_bits), np.uint8)
        ldpc.encode[frames, code.threads](code, on_gpu(protected), words.num_bits, blocks, coded)
        # Zero where a block of fewer coded bits than the longest has none.
        llrs = on_gpu(np.zeros((rows, blocks * words.coded_bits), np.float32))
        errors = on_gpu(np.zeros((rows, self.bits_per_symbol), np.int32))
        energies = cuda.device_array((rows, _NUM_ENERGIES), np.float64)
        _air[rows, _THREADS](
            self._points, self._path, on_gpu(keys), on_gpu(amplitude), on_gpu(gain), noise_power, self._soft,
            self._places, self._turned, coded.reshape(rows, -1), llrs, errors, energies,
        )  # fmt: skip
        decided = cuda.device_array((frames, words.plan.block_bits), np.uint8)
        ldpc.decode[frames, code.threads, 0, code.num_bits](code, llrs, blocks, self._iterations, decided)
        packed = cuda.device_array(protected.shape, np.uint8)
        ldpc.pack[-(-packed.size // _THREADS), _THREADS](decided.reshape(rows, -1), packed)
        return packed.copy_to_host(), errors.copy_to_host(), energies.copy_to_host().T
