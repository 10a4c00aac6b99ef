"""`phy.engines.fused.flat.carry` on a GPU: a thread takes eight groups of whole bytes of a row, symbol by symbol."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from phy.engines.cuda.compiled import fold, gpu_kernel
from phy.engines.cuda.memory import from_gpu, on_gpu, row_chunks
from phy.engines.fused.fading.quantiles import tap_of_table
from phy.engines.fused.flat.carry import CarryRows
from phy.engines.fused.flat.taps import TapLaw, coefficient
from phy.engines.fused.symbols import Mapping, decide, decide_signs, modulate, modulate_signs
from phy.numerics.compiled import shifted_left, shifted_right
from phy.numerics.random_kernels import complex_normal
from phy.numerics.threefry import threefry

_THREADS = 128
_GROUPS = 8
"""Groups of a thread: whole pairs of scrambling words."""
_TABLE, _CONSTANT = 2, 0
_SENT, _FADED, _NOISE, _NUM_ENERGIES = range(4)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_NOTHING, _BYTE = np.uint32(0), np.uint32(0xFF)


def draw_tap(law: Any, keys: Any, device: Any, number: Any) -> Any:
    """Tap of unit mean power and error of unit power in what is known of it: real and imaginary parts of both."""
    real, imag, error_real, error_imag = _ONE, _ZERO, _ZERO, _ZERO
    if law.kind != _CONSTANT:
        word0, word1 = threefry(keys[0], keys[1], np.uint32(number), device)
        if law.kind == _TABLE:
            real, imag = tap_of_table(law.table, word0, word1)
        else:
            real, imag = complex_normal(word0, word1)
            real, imag = law.fixed_part + law.scattered_part * real, imag * law.scattered_part
    if not law.perfect_csi:
        word0, word1 = threefry(keys[2], keys[3], np.uint32(number), device)
        error_real, error_imag = complex_normal(word0, word1)
    return real, imag, error_real, error_imag


@gpu_kernel
def _carry(points: Any, law: Any, rows: Any, num_bits: Any, scrambled: Any, received: Any, energies: Any) -> None:
    """Block b takes span b % spans of row b // spans: `received` `[rows, num_bytes]`, `energies` `[rows, spans, 3]`."""
    sums = cuda.shared.array((_NUM_ENERGIES, _THREADS), np.float64)
    spans, thread = energies.shape[1], cuda.threadIdx.x
    row, span = cuda.blockIdx.x // spans, cuda.blockIdx.x % spans
    keys, device, gain, level = rows.keys[row], rows.device[row], rows.gain[row], rows.level[row]
    bits, per_group, group_bytes = points.bits_per_symbol, points.symbols_per_group, points.bytes_per_group
    num_bytes, num_symbols = (num_bits + 7) // 8, (num_bits + bits - 1) // bits
    tail = np.uint32(np.uint32(_BYTE << np.uint32(8 * num_bytes - num_bits)) & _BYTE)
    first_group = (span * _THREADS + thread) * _GROUPS
    symbol = first_group * per_group
    tap, low, high = symbol // law.block_symbols, _NOTHING, _NOTHING
    tap_ends = tap * law.block_symbols
    scale, turn_real, turn_imag, amplitude, tap_power = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
    sent_energy, faded_energy, noise_energy = _ZERO, _ZERO, _ZERO
    for group in range(_GROUPS):
        first_byte = (first_group + group) * group_bytes
        if first_byte >= num_bytes:
            break
        sent, mask = _NOTHING, _NOTHING
        for byte in range(first_byte, first_byte + group_bytes):
            place = byte % 8
            if scrambled and place == 0:
                low, high = threefry(keys[6], keys[7], np.uint32(byte // 8), device)
            own = np.uint32(shifted_right(low if place < 4 else high, np.uint32(8 * (place % 4))) & _BYTE)
            value = _NOTHING
            if byte < num_bytes:
                value = np.uint32(np.uint32(rows.payload[row, byte]) ^ own)
                if byte == num_bytes - 1:
                    value = np.uint32(value & tail)
            sent = np.uint32(np.uint32(sent << np.uint32(8)) | value)
            mask = np.uint32(np.uint32(mask << np.uint32(8)) | own)
        decided = _NOTHING
        for place in range(per_group):
            if symbol >= num_symbols:
                break
            if symbol >= tap_ends:
                taps = draw_tap(law, keys, device, tap)
                scale, turn_real, turn_imag, amplitude, tap_power = coefficient(law, gain, level, taps)
                tap += 1
                tap_ends += law.block_symbols
            word0, word1 = threefry(keys[4], keys[5], np.uint32(symbol), device)
            noise_real, noise_imag = complex_normal(word0, word1)
            shift = np.uint32((per_group - 1 - place) * bits)
            label = shifted_right(sent, shift)
            if bits > 2:
                x, y = modulate(np.uint32(label & points.label_mask), points)
            else:
                x, y = modulate_signs(label, points)
            real = turn_real * x - turn_imag * y + scale * noise_real
            imag = turn_real * y + turn_imag * x + scale * noise_imag
            label = decide(real, imag, points) if bits > 2 else decide_signs(real, imag, points)
            decided = np.uint32(decided | shifted_left(label, shift))
            energy = amplitude * amplitude * (x * x + y * y)
            sent_energy += energy
            faded_energy += energy * tap_power
            noise_energy += noise_real * noise_real + noise_imag * noise_imag
            symbol += 1
        decided = np.uint32(decided ^ mask)
        for k in range(group_bytes):
            byte = first_byte + k
            if byte < num_bytes:
                value = np.uint32(shifted_right(decided, np.uint32(8 * (group_bytes - 1 - k))) & _BYTE)
                received[row, byte] = np.uint8(value & tail if byte == num_bytes - 1 else value)
    sums[_SENT, thread], sums[_FADED, thread], sums[_NOISE, thread] = sent_energy, faded_energy, noise_energy
    fold(sums, _THREADS, _NUM_ENERGIES)
    if thread < _NUM_ENERGIES:
        energies[row, span, thread] = sums[thread, 0]


def carry(
    rows: CarryRows, *, num_bits: int, points: Mapping, law: TapLaw, scrambled: bool, threads: int
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """See `phy.engines.fused.flat.carry.carry`; `threads` of the CPU have no effect."""
    del threads
    count, num_bytes = rows.payload.shape
    spans = -(-num_bytes // (_THREADS * _GROUPS * points.bytes_per_group))
    received, energies = np.empty_like(rows.payload), np.empty((_NUM_ENERGIES, count))
    law = law._replace(table=on_gpu(law.table))
    for part in row_chunks(count, bytes_per_row=2 * num_bytes + 24 * spans + 48):
        here = CarryRows(*(on_gpu(array[part]) for array in rows))
        got = cuda.device_array((len(here.payload), num_bytes), np.uint8)
        sums = cuda.device_array((len(here.payload), spans, _NUM_ENERGIES), np.float64)
        _carry[len(here.payload) * spans, _THREADS](points, law, here, num_bits, scrambled, got, sums)
        from_gpu(got, received[part])
        energies[:, part] = sums.copy_to_host().sum(axis=1).T
    return received, energies
