"""Codewords in kernels: drawn, asked for one entry, or compared to a bit, and forgotten. See `fl.one_bit.codebooks`.

A tile is one device's next 128 blocks: the two words of one Threefry counter belong to blocks 64 apart. What is drawn
depends on (folded key, pair of blocks, device) alone, so tiles, threads and rows change no value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from fl.one_bit.codebooks import MASK_BITS
from phy.fused.compiled import kernel, read_only, stage
from phy.fused.random import threefry
from phy.fused.workers import available_threads, run_tasks

TILE, _HALF_TILE = 128, 64
COINS, LISTED, IN_TURN = range(3)
"""How masks are drawn: word by word, picked from a list, entry by entry."""

_SIXTEEN, _LOW = np.uint32(16), np.uint32(0xFFFF)
_ONE = np.uint32(1)
_GATHER = np.uint64(0x8040201008040201)
"""Times eight bytes of 0 or 1, it has them side by side in its highest byte (on a little-endian machine)."""
_COPIES, _OWN_BIT = np.uint64(0x0101010101010101), np.uint64(0x0102040810204080)
"""A byte times the first has itself in all eight; the second leaves each a bit of its own, the highest first."""
_CARRY = np.uint64(0x7F7F7F7F7F7F7F7F)

# Divisions stay divisions here: a level must not depend on whether it was found in a kernel. What is called takes after
# its caller, so both are exact.
_exact_kernel = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False)


class Law(NamedTuple):
    """How the masks of one stage are drawn.

    - `kind`: `COINS`, `LISTED` or `IN_TURN`; `num_points` n; `num_plus`: entries +1 of a balanced word;
    - `folded` `[draws, 2]` uint32: the round's key folded with (stage, draw);
    - `listed` uint32: all masks where they can be listed, else one word without meaning.
    """

    kind: int
    num_points: int
    num_plus: int
    folded: NDArray[np.uint32]
    listed: NDArray[np.uint32]


@numba.njit(nogil=True, error_model="numpy", boundscheck=False, forceinline=True)
def _scaled(word: Any, count: Any) -> Any:
    """floor(word count / 2^32) for counts up to 2^16, in 32 bits."""
    low = np.uint32(np.uint32(np.uint32(word & _LOW) * count) >> _SIXTEEN)
    return np.uint32(np.uint32(np.uint32(np.uint32(word >> _SIXTEEN) * count) + low) >> _SIXTEEN)


@stage
def _draw_words(key0: Any, key1: Any, device: Any, pair: Any, first: Any, second: Any) -> None:
    """Both words of 64 counters from `pair` on."""
    for i in range(_HALF_TILE):
        first[i], second[i] = threefry(key0, key1, np.uint32(pair + np.uint32(i)), device)


@stage
def _draw_scaled(key0: Any, key1: Any, device: Any, pair: Any, count: Any, first: Any, second: Any) -> None:
    """The same scaled to 0 .. count - 1."""
    for i in range(_HALF_TILE):
        one, other = threefry(key0, key1, np.uint32(pair + np.uint32(i)), device)
        first[i], second[i] = _scaled(one, count), _scaled(other, count)


@stage
def _take_turns(words: Any, left: Any, masks: Any, place: Any) -> None:
    """Entry `place` of 128 words: +1 where the drawn number lies below how many +1 are left."""
    for i in range(TILE):
        plus = np.uint32(words[i] < left[i])
        left[i] -= plus
        masks[i] |= np.uint32(plus << place)


@stage
def _look_up(listed: Any, words: Any, masks: Any) -> None:
    for i in range(TILE):
        masks[i] = listed[words[i]]


@stage
def _draw_masks(law: Any, device: Any, pair: Any, words: Any, left: Any, masks: Any) -> None:
    """Masks of one tile into the flat `masks`, word w of all 128 from 128 w on."""
    halves = words[:_HALF_TILE], words[_HALF_TILE:]
    if law.kind == LISTED:
        key0, key1 = law.folded[0, 0], law.folded[0, 1]
        _draw_scaled(key0, key1, device, np.uint32(pair), np.uint32(len(law.listed)), halves[0], halves[1])
        _look_up(law.listed, words, masks)
    elif law.kind == COINS:
        for word in range(len(law.folded)):
            key0, key1, own = law.folded[word, 0], law.folded[word, 1], masks[TILE * word : TILE * (word + 1)]
            _draw_words(key0, key1, device, np.uint32(pair), own[:_HALF_TILE], own[_HALF_TILE:])
    else:
        masks[:] = np.uint32(0)
        left[:] = np.uint32(law.num_plus)
        for entry in range(law.num_points):
            key0, key1, word = law.folded[entry, 0], law.folded[entry, 1], entry // MASK_BITS
            rest = np.uint32(law.num_points - entry)
            _draw_scaled(key0, key1, device, np.uint32(pair), rest, halves[0], halves[1])
            own = masks[TILE * word : TILE * (word + 1)]
            _take_turns(words, left, own, np.uint32(entry % MASK_BITS))


@stage
def _pick(masks: Any, levels: Any, bits: Any) -> None:
    """Entry `levels[i]` of mask i, 0 or 1."""
    for i in range(TILE):
        level = np.uint32(levels[i])
        mask = masks[np.uint32(level >> np.uint32(5)) * np.uint32(TILE) + np.uint32(i)]
        bits[i] = np.uint8(np.uint32(mask >> np.uint32(level & np.uint32(31))) & _ONE)


@stage
def _pick_narrow(masks: Any, levels: Any, bits: Any) -> None:
    """The same where one word holds a mask, so that nothing is gathered."""
    for i in range(TILE):
        bits[i] = np.uint8(np.uint32(masks[i] >> np.uint32(levels[i])) & _ONE)


@stage
def _turn(masks: Any, bits: Any, turned: Any) -> None:
    """An entry that equals its bit becomes a 1, one of a bit that was not heard a 0."""
    for i in range(TILE):
        bit = np.uint32(bits[i])
        unheard = np.uint32(np.uint32(0) - np.uint32(bit >> _ONE))
        turned[i] = np.uint32(np.uint32(masks[i] ^ np.uint32(bit - _ONE)) & np.uint32(~unheard))


@stage
def _count(turned: Any, place: Any, counts: Any) -> None:
    for i in range(TILE):
        counts[i] += np.uint32(np.uint32(turned[i] >> place) & _ONE)


@stage
def _weigh(turned: Any, place: Any, worth: Any, sums: Any) -> None:
    for i in range(TILE):
        sums[i] += np.float32(np.int32(np.uint32(turned[i] >> place) & _ONE)) * worth


@stage
def _copy(source: Any, target: Any) -> None:
    for i in range(len(source)):
        target[i] = source[i]


@_exact_kernel
def _quantise(updates: Any, radius: Any, spacing: Any, half: Any, most: Any, round_to_nearest: Any, levels: Any) -> Any:
    """`fl.one_bit.quantizers.ScalarQuantizer.indices` of updates over radii, to the last bit."""
    if round_to_nearest:
        for i in range(len(updates)):
            scaled = np.rint(np.float32(np.float32(updates[i] / radius[i]) / spacing)) + half
            levels[i] = np.uint8(min(max(scaled, np.float32(0.0)), most))
    else:
        for i in range(len(updates)):
            scaled = np.floor(np.float32(np.float32(updates[i] / radius[i]) / spacing)) + half
            levels[i] = np.uint8(min(max(scaled, np.float32(0.0)), most))


@stage
def _pack(eights: Any, payload: Any) -> None:
    """Zeros and ones, eight in a word, into bytes, the first bit of memory highest."""
    for i in range(len(payload)):
        payload[i] = np.uint8(np.uint64(eights[i] * _GATHER) >> np.uint64(56))


@stage
def _unpack(payload: Any, eights: Any) -> None:
    """Inverse of `_pack`."""
    for i in range(len(payload)):
        own = np.uint64(np.uint64(np.uint64(payload[i]) * _COPIES) & _OWN_BIT)
        eights[i] = np.uint64(np.uint64(np.uint64(own + _CARRY) >> np.uint64(7)) & _COPIES)


@kernel
def _fill_masks(law: Any, devices: Any, out: Any, first: Any, last: Any) -> None:
    """Rows `first` to `last` of `out` `[num_words, rows, blocks]`."""
    num_words, blocks = out.shape[0], out.shape[2]
    words, left = np.empty(TILE, np.uint32), np.empty(TILE, np.uint32)
    masks = np.empty(TILE * num_words, np.uint32)
    for row in range(first, last):
        for start in range(0, blocks, TILE):
            _draw_masks(law, devices[row], start // 2, words, left, masks)
            here = min(TILE, blocks - start)
            for word in range(num_words):
                _copy(masks[TILE * word : TILE * word + here], out[word, row, start : start + here])


@kernel
def _fill_bits(law: Any, levels: Any, devices: Any, out: Any, first: Any, last: Any) -> None:
    """Rows `first` to `last` of `out` `[rows, blocks]` from `levels` of that shape."""
    blocks = levels.shape[1]
    words, left = np.empty(TILE, np.uint32), np.empty(TILE, np.uint32)
    masks = np.empty(TILE * ((law.num_points + MASK_BITS - 1) // MASK_BITS), np.uint32)
    wanted, bits = np.zeros(TILE, np.uint16), np.empty(TILE, np.uint8)
    for row in range(first, last):
        for start in range(0, blocks, TILE):
            here = min(TILE, blocks - start)
            _copy(levels[row, start : start + here], wanted)
            _draw_masks(law, devices[row], start // 2, words, left, masks)
            _pick(masks, wanted, bits)
            _copy(bits[:here], out[row, start : start + here])


@_exact_kernel
def _fill_payload(law: Any, grid: Any, updates: Any, radius: Any, devices: Any, out: Any, first: Any, last: Any) -> Any:
    """Rows `first` to `last` of packed bits `out` from `updates` `[rows, blocks]`, L = 1 and one stage."""
    spacing, half, most, nearest = grid
    blocks = updates.shape[1]
    words, left = np.empty(TILE, np.uint32), np.empty(TILE, np.uint32)
    masks = np.empty(TILE * ((law.num_points + MASK_BITS - 1) // MASK_BITS), np.uint32)
    levels, eights = np.zeros(TILE, np.uint8), np.empty(TILE // 8, np.uint64)
    bits = eights.view(np.uint8)
    for row in range(first, last):
        for start in range(0, blocks, TILE):
            here = min(TILE, blocks - start)
            stop = start + here
            _quantise(updates[row, start:stop], radius[start:stop], spacing, half, most, nearest, levels)
            _draw_masks(law, devices[row], start // 2, words, left, masks)
            if len(masks) == TILE:
                _pick_narrow(masks, levels, bits)
            else:
                _pick(masks, levels, bits)
            bits[here:] = np.uint8(0)
            _pack(eights, out[row, start // 8 : (stop + 7) // 8])


@_exact_kernel
def _agree(law: Any, heard: Any, groups: Any, devices: Any, out: Any, first: Any, last: Any) -> Any:
    """Tiles `first` to `last` of `out` `[n, blocks]`: rows one after the other, so that sums are rounded in one way."""
    (received, packed), (worth, counted, less, step), blocks = heard, groups, out.shape[1]
    words, left = np.empty(TILE, np.uint32), np.empty(TILE, np.uint32)
    masks = np.empty(TILE * ((law.num_points + MASK_BITS - 1) // MASK_BITS), np.uint32)
    turned, eights = np.empty(TILE, np.uint32), np.zeros(TILE // 8, np.uint64)
    bits = eights.view(np.uint8)
    counts = np.zeros((law.num_points, TILE), np.uint32)
    sums = np.zeros((law.num_points, TILE), np.float32)
    for tile in range(first, last):
        start = tile * TILE
        here = min(TILE, blocks - start)
        for group in range(len(counted)):
            begin, end = group * step, min((group + 1) * step, len(worth))
            counts[:], sums[:] = np.uint32(0), np.float32(0.0)
            for row in range(begin, end):
                if packed:
                    _unpack(received[row, start // 8 : (start + here + 7) // 8], eights)
                else:
                    _copy(received[row, start : start + here], bits)
                _draw_masks(law, devices[row], start // 2, words, left, masks)
                for word in range(len(masks) // TILE):
                    _turn(masks[TILE * word : TILE * (word + 1)], bits, turned)
                    lowest = word * MASK_BITS
                    for point in range(lowest, min(lowest + MASK_BITS, law.num_points)):
                        if counted[group]:
                            _count(turned, np.uint32(point - lowest), counts[point])
                        else:
                            _weigh(turned, np.uint32(point - lowest), worth[row], sums[point])
            equal = np.float64(worth[begin])
            for point in range(law.num_points):
                for i in range(here):
                    total = np.float64(counts[point, i]) * equal if counted[group] else np.float64(sums[point, i])
                    # b v is +1 where the two are equal: sum a b v = 2 sum over equal ones a - sum over heard ones a.
                    out[point, start + i] += 2.0 * total - less[group]


def draw_masks(law: Law, *, devices: NDArray[np.int64], num_blocks: int) -> NDArray[np.uint32]:
    """Masks `[num_words, K, num_blocks]`, entry l the bit l mod 32 of word l / 32."""
    numbers = _numbers(devices)
    out = np.empty((-(-law.num_points // MASK_BITS), len(numbers), num_blocks), np.uint32)
    _spread(lambda first, last: _fill_masks(law, numbers, out, first, last), len(numbers))
    return out


def bits_at(law: Law, levels: NDArray[Any], *, devices: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Entries `levels` `[K, num_blocks]` of the codewords, 0 or 1."""
    wanted, numbers = read_only(levels.astype(np.uint16, copy=False)), _numbers(devices)
    out = np.empty(levels.shape, np.uint8)
    _spread(lambda first, last: _fill_bits(law, wanted, numbers, out, first, last), len(numbers))
    return out


def payload_of(
    law: Law,
    updates: NDArray[np.float32],
    *,
    radius: NDArray[np.float32],
    spacing: float,
    nearest: bool,
    devices: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """Packed bits `[K, ceil(M / 8)]` of updates `[K, M]` quantised in units of `radius` `[M]`: `bits_at` in one pass.

    Levels are those of `ScalarQuantizer.indices`: `nearest` for the coded form, else the printed one.
    """
    values, radii, numbers = read_only(updates), read_only(radius), _numbers(devices)
    grid = (np.float32(spacing), np.float32(law.num_points // 2), np.float32(law.num_points - 1), nearest)
    out = np.empty((len(numbers), -(-updates.shape[1] // 8)), np.uint8)
    _spread(lambda first, last: _fill_payload(law, grid, values, radii, numbers, out, first, last), len(numbers))
    return out


def add_agreement(
    law: Law,
    received: NDArray[np.uint8],
    *,
    packed: bool,
    worth: NDArray[np.float32],
    step: int,
    less: NDArray[np.float64],
    devices: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """Add 2 sum_k a_k, over the devices whose bit arrived and equals entry l, to `out` `[n, num_blocks]`.

    `received` is `[K, num_blocks]` of 1, 0 or `UNHEARD`, or `packed` bits `[K, ceil(num_blocks / 8)]`, all of which
    arrived. `step` devices at a time make one sum, which is added with `less` of it taken off: equal worths a are
    counted in whole numbers, others added in single precision, row after row.
    """
    heard = (read_only(received), packed)
    starts = np.arange(0, len(worth), step)
    counted = np.minimum.reduceat(worth, starts) == np.maximum.reduceat(worth, starts)
    groups = (read_only(worth), read_only(counted), read_only(less), step)
    numbers = _numbers(devices)
    _spread(lambda first, last: _agree(law, heard, groups, numbers, out, first, last), -(-out.shape[1] // TILE))


def _numbers(devices: NDArray[np.int64]) -> NDArray[np.uint32]:
    return read_only(devices.astype(np.uint32))


def _spread(run: Any, num_tasks: int) -> None:
    run_tasks(run, num_tasks=num_tasks, threads=available_threads())
