"""Packed bits in, received packed bits out, in one pass: scrambled, mapped, faded, noised, equalised, decided.

A row (one device of one trial) is cut into tiles that stay in the first-level cache. Symbols of a tile are taken place
by place of their group of whole bytes (`fused.symbols`): all first symbols of the groups, all second ones, ... so
that every loop runs over neighbours in memory. Random numbers follow from positions, so this order changes none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.engines.fused.flat.candidates import (
    DECIDED,
    FADED,
    FEW,
    LONG,
    NOISE,
    NUM_ENERGIES,
    SENT,
    Tile,
    candidates,
    correct,
    expected_share,
    screen,
    set_limits,
    whole,
)
from phy.engines.fused.flat.lanes import (
    FADED_POWER,
    NOISE_IMAG,
    NOISE_REAL,
    NOISE_SCALE,
    OF_SYMBOLS,
    OF_TAPS,
    SENT_POWER,
    TILE,
    TURN_IMAG,
    TURN_REAL,
    tap_lanes,
)
from phy.engines.fused.flat.rayleigh import rate_of, screen_fading
from phy.engines.fused.flat.taps import (
    TapLaw,
    coefficients,
    draw_errors,
    draw_known,
    draw_taps,
    expand,
    has_radius,
    parts_of,
    taps_of_words,
)
from phy.engines.fused.symbols import Mapping, decide, decide_signs, modulate, modulate_signs
from phy.numerics.compiled import aligned_zeros, inlined, lean_kernel, shifted_left, shifted_right
from phy.numerics.random_kernels import draw_words, normals_of_words
from phy.numerics.threefry import draw_lanes, positions
from phy.numerics.workers import of_thread, run_tasks

_TILES_OF_A_TASK = 64
_ZERO = np.float32(0.0)


class CarryRows(NamedTuple):
    """Inputs of the kernel per row.

    - `payload` `[rows, num_bytes]` uint8, bits from `num_bits` on ignored;
    - `keys` `[rows, 8]` uint32: of taps, of channel knowledge, of noise and of scrambling;
    - `device` `[rows]` uint32, `gain`, `level` `[rows]` float32.
    """

    payload: NDArray[np.uint8]
    keys: NDArray[np.uint32]
    device: NDArray[np.uint32]
    gain: NDArray[np.float32]
    level: NDArray[np.float32]


Carry = Callable[..., tuple[NDArray[np.uint8], NDArray[np.float64]]]
"""`carry` on one kind of processor."""


@inlined
def _group(sent: Any, words: Any, points: Any, num_groups: Any) -> None:
    """Bytes to groups, first bit highest."""
    if points.bytes_per_group == 1:
        for i in range(num_groups):
            words[i] = np.uint32(sent[i])
    else:
        for i in range(num_groups):
            high, low = np.uint32(sent[3 * i]) << np.uint32(16), np.uint32(sent[3 * i + 1]) << np.uint32(8)
            words[i] = np.uint32(high | low | np.uint32(sent[3 * i + 2]))


@inlined
def _ungroup(words: Any, received: Any, points: Any, num_groups: Any) -> None:
    """Inverse of `_group`."""
    if points.bytes_per_group == 1:
        for i in range(num_groups):
            received[i] = np.uint8(words[i])
    else:
        for i in range(num_groups):
            received[3 * i] = np.uint8(words[i] >> np.uint32(16))
            received[3 * i + 1] = np.uint8(words[i] >> np.uint32(8))
            received[3 * i + 2] = np.uint8(words[i])


@inlined
def _mask(source: Any, mask: Any, target: Any, count: Any) -> None:
    for i in range(count):
        target[i] = np.uint8(source[i] ^ mask[i])


@inlined
def _receive(x: Any, y: Any, lanes: Any, i: Any) -> Any:
    """Equalised symbol i."""
    turn_real, turn_imag = lanes[OF_SYMBOLS + TURN_REAL + i], lanes[OF_SYMBOLS + TURN_IMAG + i]
    scale = lanes[OF_SYMBOLS + NOISE_SCALE + i]
    real = turn_real * x - turn_imag * y + scale * lanes[NOISE_REAL + i]
    return real, turn_real * y + turn_imag * x + scale * lanes[NOISE_IMAG + i]


@inlined
def _pass_through(words: Any, lanes: Any, shift: Any, points: Any, energies: Any, count: Any) -> None:
    """Symbols at one place of their groups: mapped, received, decided, and their energies added up."""
    sent, faded, noise = _ZERO, _ZERO, _ZERO
    if points.bits_per_symbol > 2:
        for i in range(count):
            x, y = modulate(np.uint32(shifted_right(words[i], shift) & points.label_mask), points)
            energy = x * x + y * y
            sent += energy * lanes[OF_SYMBOLS + SENT_POWER + i]
            faded += energy * lanes[OF_SYMBOLS + FADED_POWER + i]
            real, imag = _receive(x, y, lanes, i)
            words[DECIDED + i] |= shifted_left(decide(real, imag, points), shift)
    else:
        for i in range(count):
            x, y = modulate_signs(shifted_right(words[i], shift), points)
            energy = x * x + y * y
            sent += energy * lanes[OF_SYMBOLS + SENT_POWER + i]
            faded += energy * lanes[OF_SYMBOLS + FADED_POWER + i]
            real, imag = _receive(x, y, lanes, i)
            words[DECIDED + i] |= shifted_left(decide_signs(real, imag, points), shift)
    for i in range(count):
        noise += lanes[NOISE_REAL + i] * lanes[NOISE_REAL + i] + lanes[NOISE_IMAG + i] * lanes[NOISE_IMAG + i]
    energies[SENT] += sent
    energies[FADED] += faded
    energies[NOISE] += noise


@of_thread
def _scratch(_: bool) -> tuple[Any, ...]:
    """Scratch arrays of links that scramble, or of those that do not, whose mask stays zero."""
    pairs = aligned_zeros(TILE // 4, np.uint32)
    sent, got = aligned_zeros((2, TILE), np.uint8)
    words = aligned_zeros(2 * DECIDED, np.uint32)
    return pairs, pairs.view(np.uint8), sent, got, words, *tap_lanes(), candidates(), np.empty(NUM_ENERGIES)


@lean_kernel
def _carry(
    points: Any, law: Any, table: Any, errors: Any, each_symbol: Any, rows: Any, num_bits: Any, scrambled: Any,
    few: Any, received: Any, energies: Any, first: Any, last: Any, scratch: Any,
) -> None:  # fmt: skip
    """Tasks `first` to `last`: `received` `[rows, num_bytes]`, and sums of each task in `energies` `[row, span, 3]`.

    `each_symbol` is None where several symbols share a tap.
    """
    per_group, spans = points.symbols_per_group, energies.shape[1]
    num_bytes = (num_bits + 7) // 8
    num_symbols = (num_bits + points.bits_per_symbol - 1) // points.bits_per_symbol
    tail = np.uint8(0xFF << (8 * num_bytes - num_bits))
    block = law.block_symbols
    bytes_of_tile = TILE // per_group * points.bytes_per_group
    pairs, mask, sent, got, words, drawn, lanes, rare, unused = scratch
    for task in range(first, last):
        row, span = task // spans, task % spans
        keys, device, gain, level = rows.keys[row], rows.device[row], rows.gain[row], rows.level[row]
        sums = energies[row, span]
        sums[:] = 0.0
        share = np.float32(1.0) / (np.float32(1.0) + rate_of(law, gain, level, points))
        for tile in range(span * _TILES_OF_A_TASK, (span + 1) * _TILES_OF_A_TASK):
            first_byte = tile * bytes_of_tile
            bytes_here = min(num_bytes - first_byte, bytes_of_tile)
            if bytes_here <= 0:
                break
            groups_here = (bytes_here + points.bytes_per_group - 1) // points.bytes_per_group
            if scrambled:
                draw_words((keys[6], keys[7]), device, first_byte // 8, pairs, (bytes_here + 7) // 8)
            _mask(rows.payload[row, first_byte:], mask, sent, bytes_here)
            for i in range(bytes_here, groups_here * points.bytes_per_group):
                sent[i] = np.uint8(0)
            ends_here = first_byte + bytes_here == num_bytes
            if ends_here:
                sent[bytes_here - 1] &= tail
            _group(sent, words, points, groups_here)
            base = tile * TILE
            symbols_here = min(num_symbols - base, groups_here * per_group)
            first_tap = base // block
            num_taps = (base + symbols_here - 1) // block - first_tap + 1
            here = Tile(base, symbols_here, block, first_tap, num_taps)
            sparse, found = False, 0
            if each_symbol is not None:
                sparse = points.bits_per_symbol <= 2 and has_radius(law) and share < few
            else:
                draw_known(law, table, errors, keys, positions(device, first_tap, 1), drawn, lanes, num_taps)
                coefficients(law, gain, level, lanes, OF_TAPS, num_taps)
                if block >= LONG:
                    set_limits(points, lanes, num_taps)
                    sparse = expected_share(lanes, here) < few
            if not sparse:
                words[DECIDED : DECIDED + groups_here] = np.uint32(0)
            # All symbols at once, or those of one place of the groups: one call draws for both, as copies compile long.
            stride = 1 if sparse else per_group
            for place in range(stride):
                count = (symbols_here - place + stride - 1) // stride
                counters = positions(device, base + place, stride)
                draw_lanes((keys[4], keys[5]), counters, drawn, NOISE_REAL, NOISE_IMAG, count)
                if each_symbol is not None:
                    draw_taps(law, keys, counters, drawn, count)
                if sparse:
                    if each_symbol is not None:
                        found = screen_fading(words, drawn, lanes, points, law, gain, level, here, rare, sums)
                    else:
                        found = screen(words, drawn, lanes, points, here, rare, sums)
                    labels, symbols, to, count, shift = rare.labels, rare.lanes, unused, whole(found), np.uint32(0)
                else:
                    labels, symbols, to = words, lanes, sums
                    shift = np.uint32((per_group - 1 - place) * points.bits_per_symbol)
                    if each_symbol is None and (place == 0 or num_taps > 1):
                        expand(first_tap, block, base + place, per_group, lanes, count)
                if each_symbol is not None:
                    taps_of_words(law, table, symbols, count)
                    draw_errors(errors, keys, counters, drawn, symbols, count)
                    coefficients(law, gain, level, symbols, OF_SYMBOLS, count)
                normals_of_words(symbols, NOISE_REAL, NOISE_IMAG, count)
                _pass_through(labels, symbols, shift, points, to, count)
            correct(words, rare, found)
            _ungroup(words[DECIDED:], got, points, groups_here)
            _mask(got, mask, received[row, first_byte:], bytes_here)
            if ends_here:
                received[row, num_bytes - 1] &= tail


def carry(
    rows: CarryRows, *, num_bits: int, points: Mapping, law: TapLaw, scrambled: bool, threads: int, few: float = FEW
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Received bits `[rows, num_bytes]`, padding zero, and energies `[3, rows]`: sent, faded, noise of unit power.

    Energies are sums over symbols. With `scrambled` off the payload goes on the air as it is. Where less than `few` of
    the symbols can be wrong, only they are received: the same bits.
    """
    spans = -(-num_bits // (points.bits_per_symbol * TILE * _TILES_OF_A_TASK))
    received = np.empty_like(rows.payload)
    energies = np.empty((len(rows.payload), spans, NUM_ENERGIES))
    parts = (*parts_of(law), True if law.block_symbols == 1 else None)
    run_tasks(
        lambda first, last: _carry(
            points, law, *parts, rows, num_bits, scrambled, few, received, energies, first, last, _scratch(scrambled)
        ),
        num_tasks=len(rows.payload) * spans,
        threads=threads,
        cost_us=1e-3 * len(rows.payload) * num_bits,
    )
    return received, np.ascontiguousarray(energies.sum(axis=1).T)
