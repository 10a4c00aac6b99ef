"""Codewords in kernels: drawn, asked for one entry, or compared to a bit, and forgotten. See `cpa.codebooks`.

A tile is 128 blocks of a device: the two words of one Threefry counter belong to blocks 64 apart. Stages work on a span
of up to four tiles. Spans, threads and rows change no value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from fl.base.arrays import U32
from fl.schemes.coders.sign_kernel import pack_eights
from phy.numerics.compiled import exact_kernel, inlined, kernel, shifted_left, shifted_right
from phy.numerics.threefry import draw_lanes, positions

MASK_BITS = 32
"""Entries of a codeword that one word of its mask holds."""

_TILE, _HALF_TILE, SPAN = 128, 64, 512
COINS, LISTED, IN_TURN = range(3)
"""How masks are drawn: word by word, picked from a list, entry by entry."""

_FEW = 8
"""Masks that are found sooner by comparing than by looking them up."""
_WORDS = np.uint64(1 << 32)
_SIXTEEN, _LOW = np.uint32(16), np.uint32(0xFFFF)
_ONE, _INFINITE = np.uint32(1), np.float32(np.inf)


class MaskLaw(NamedTuple):
    """How the masks of one stage are drawn.

    - `kind`: `COINS`, `LISTED` or `IN_TURN`; `num_points` n; `num_plus`: entries +1 of a balanced word;
    - `folded` `[draws, 2]` uint32: the round's key folded with (stage, draw);
    - `listed` uint32: all masks where they can be listed, else one word without meaning.
    """

    kind: int
    num_points: int
    num_plus: int
    folded: U32
    listed: U32


@numba.njit(nogil=True, error_model="numpy", boundscheck=False, forceinline=True)
def _scaled(word: Any, count: Any) -> Any:
    """floor(word count / 2^32) for counts up to 2^16, in 32 bits."""
    low = np.uint32(np.uint32(np.uint32(word & _LOW) * count) >> _SIXTEEN)
    return np.uint32(np.uint32(np.uint32(np.uint32(word >> _SIXTEEN) * count) + low) >> _SIXTEEN)


@inlined
def _draw_words(key0: Any, key1: Any, device: Any, pair: Any, tiles: Any, out: Any) -> None:
    """Words of 64 counters per tile from `pair` on, all first ones of a tile before all second ones."""
    for tile in range(tiles):
        at = _TILE * tile
        counters = positions(device, np.uint32(pair + np.uint32(_HALF_TILE * tile)), 1)
        draw_lanes((key0, key1), counters, out, at, at + _HALF_TILE, _HALF_TILE)


@inlined
def _draw_scaled(key0: Any, key1: Any, device: Any, pair: Any, count: Any, tiles: Any, out: Any) -> None:
    """The same scaled to 0 .. count - 1."""
    _draw_words(key0, key1, device, pair, tiles, out)
    for i in range(_TILE * tiles):
        out[i] = _scaled(out[i], count)


@inlined
def _take_turns(words: Any, left: Any, masks: Any, first: Any, place: Any, count: Any) -> None:
    """Entry `place` of the words from `masks[first]` on: +1 where the number drawn lies below how many +1 are left."""
    at = np.uint64(first)
    for i in range(count):
        plus = np.uint32(words[i] < left[i])
        left[i] -= plus
        masks[at + np.uint64(i)] |= shifted_left(plus, place)


@inlined
def _look_up(listed: Any, words: Any, masks: Any, count: Any) -> None:
    for i in range(count):
        masks[i] = listed[words[i]]


@inlined
def _choose(listed: Any, words: Any, masks: Any, count: Any) -> None:
    """`_look_up` of floor(word C / 2^32), by comparing to where it goes up: for a few C masks."""
    masks[:count] = listed[0]
    for number in range(1, len(listed)):
        start = np.uint32((np.uint64(number) * _WORDS + np.uint64(len(listed) - 1)) // np.uint64(len(listed)))
        mask = listed[number]
        for i in range(count):
            masks[i] = mask if words[i] >= start else masks[i]


@inlined
def _draw_masks(law: Any, device: Any, pair: Any, tiles: Any, words: Any, left: Any, masks: Any) -> None:
    """Masks of a span into the flat `masks`, word w of all blocks from 512 w on."""
    count = _TILE * tiles
    if law.kind == LISTED:
        key0, key1 = law.folded[0, 0], law.folded[0, 1]
        if len(law.listed) <= _FEW:
            _draw_words(key0, key1, device, np.uint32(pair), tiles, words)
            _choose(law.listed, words, masks, count)
        else:
            _draw_scaled(key0, key1, device, np.uint32(pair), np.uint32(len(law.listed)), tiles, words)
            _look_up(law.listed, words, masks, count)
    elif law.kind == COINS:
        for word in range(len(law.folded)):
            key0, key1 = law.folded[word, 0], law.folded[word, 1]
            _draw_words(key0, key1, device, np.uint32(pair), tiles, masks[SPAN * word : SPAN * (word + 1)])
    else:
        masks[:] = np.uint32(0)
        left[:] = np.uint32(law.num_plus)
        for entry in range(law.num_points):
            key0, key1, word = law.folded[entry, 0], law.folded[entry, 1], entry // MASK_BITS
            _draw_scaled(key0, key1, device, np.uint32(pair), np.uint32(law.num_points - entry), tiles, words)
            _take_turns(words, left, masks, SPAN * word, np.uint32(entry % MASK_BITS), count)


@inlined
def _pick(masks: Any, levels: Any, bits: Any, count: Any) -> None:
    """Entry `levels[i]` of mask i, 0 or 1."""
    for i in range(count):
        level = np.uint32(levels[i])
        mask = masks[np.uint32(level >> np.uint32(5)) * np.uint32(SPAN) + np.uint32(i)]
        bits[i] = np.uint8(np.uint32(mask >> np.uint32(level & np.uint32(31))) & _ONE)


@inlined
def _pick_narrow(masks: Any, levels: Any, bits: Any, count: Any) -> None:
    """The same where one word holds a mask, so that nothing is gathered."""
    for i in range(count):
        bits[i] = np.uint8(shifted_right(masks[i], np.uint32(levels[i])) & _ONE)


@inlined
def _turn(masks: Any, first: Any, bits: Any, turned: Any, count: Any) -> None:
    """An entry that equals its bit becomes a 1, one of a bit that was not heard a 0."""
    at = np.uint64(first)
    for i in range(count):
        bit = np.uint32(bits[i])
        unheard = np.uint32(np.uint32(0) - np.uint32(bit >> _ONE))
        turned[i] = np.uint32(np.uint32(masks[at + np.uint64(i)] ^ np.uint32(bit - _ONE)) & np.uint32(~unheard))


@inlined
def _count(turned: Any, places: Any, counts: Any, first: Any, count: Any) -> None:
    """Add entries 0 to `places` of the words to as many rows of the flat `counts`, the first of them at `first`."""
    for place in range(places):
        at, shift = np.uint64(first + SPAN * place), np.uint32(place)
        for i in range(count):
            counts[at + np.uint64(i)] += np.uint32(shifted_right(turned[i], shift) & _ONE)


@inlined
def _weigh(turned: Any, places: Any, worth: Any, sums: Any, first: Any, count: Any) -> None:
    for place in range(places):
        at, shift = np.uint64(first + SPAN * place), np.uint32(place)
        for i in range(count):
            sums[at + np.uint64(i)] += np.float32(np.int32(shifted_right(turned[i], shift) & _ONE)) * worth


@inlined
def _copy(source: Any, target: Any) -> None:
    for i in range(len(source)):
        target[i] = source[i]


# A level must not depend on whether it was found in a kernel. What is called takes after its caller, so both are exact.
@exact_kernel
def _quantise(updates: Any, radius: Any, spacing: Any, half: Any, most: Any, round_to_nearest: Any, levels: Any) -> Any:
    """`fl.schemes.coders.quantizers.ScalarQuantizer.indices` of updates over radii, to the last bit.

    Returns how many are NaN or infinite.
    """
    beyond = np.int64(0)
    for i in range(len(updates)):
        beyond += not abs(updates[i]) < _INFINITE
    if round_to_nearest:
        for i in range(len(updates)):
            scaled = np.rint(np.float32(np.float32(updates[i] / radius[i]) / spacing)) + half
            levels[i] = np.uint8(min(max(scaled, np.float32(0.0)), most))
    else:
        for i in range(len(updates)):
            scaled = np.floor(np.float32(np.float32(updates[i] / radius[i]) / spacing)) + half
            levels[i] = np.uint8(min(max(scaled, np.float32(0.0)), most))
    return beyond


@kernel
def fill_masks(law: Any, devices: Any, out: Any, first: Any, last: Any) -> None:
    """Rows `first` to `last` of `out` `[num_words, rows, blocks]`."""
    num_words, blocks = out.shape[0], out.shape[2]
    words, left = np.empty(SPAN, np.uint32), np.empty(SPAN, np.uint32)
    masks = np.empty(SPAN * num_words, np.uint32)
    for row in range(first, last):
        for start in range(0, blocks, SPAN):
            here = min(SPAN, blocks - start)
            _draw_masks(law, devices[row], start // 2, (here + _TILE - 1) // _TILE, words, left, masks)
            for word in range(num_words):
                _copy(masks[SPAN * word : SPAN * word + here], out[word, row, start : start + here])


@kernel
def fill_bits(law: Any, levels: Any, devices: Any, out: Any, first: Any, last: Any) -> None:
    """Rows `first` to `last` of `out` `[rows, blocks]` from `levels` of that shape."""
    blocks = levels.shape[1]
    words, left = np.empty(SPAN, np.uint32), np.empty(SPAN, np.uint32)
    masks = np.empty(SPAN * ((law.num_points + MASK_BITS - 1) // MASK_BITS), np.uint32)
    wanted, bits = np.zeros(SPAN, np.uint16), np.empty(SPAN, np.uint8)
    for row in range(first, last):
        for start in range(0, blocks, SPAN):
            here = min(SPAN, blocks - start)
            _copy(levels[row, start : start + here], wanted)
            _draw_masks(law, devices[row], start // 2, (here + _TILE - 1) // _TILE, words, left, masks)
            _pick(masks, wanted, bits, here)
            _copy(bits[:here], out[row, start : start + here])


@exact_kernel
def fill_payload(
    law: Any, grid: Any, updates: Any, radius: Any, devices: Any, out: Any, beyond: Any, first: Any, last: Any
) -> Any:
    """Rows `first` to `last` of packed bits `out` from `updates` `[rows, blocks]`, L = 1 and one stage."""
    spacing, half, most, nearest = grid
    blocks = updates.shape[1]
    words, left = np.empty(SPAN, np.uint32), np.empty(SPAN, np.uint32)
    masks = np.empty(SPAN * ((law.num_points + MASK_BITS - 1) // MASK_BITS), np.uint32)
    levels, eights = np.zeros(SPAN, np.uint8), np.empty(SPAN // 8, np.uint64)
    bits = eights.view(np.uint8)
    for row in range(first, last):
        beyond[row] = 0
        for start in range(0, blocks, SPAN):
            here = min(SPAN, blocks - start)
            stop = start + here
            beyond[row] += _quantise(updates[row, start:stop], radius[start:stop], spacing, half, most, nearest, levels)
            _draw_masks(law, devices[row], start // 2, (here + _TILE - 1) // _TILE, words, left, masks)
            if len(masks) == SPAN:
                _pick_narrow(masks, levels, bits, here)
            else:
                _pick(masks, levels, bits, here)
            bits[here:] = np.uint8(0)
            pack_eights(eights, out[row, start // 8 : (stop + 7) // 8])


@exact_kernel
def agree(law: Any, received: Any, rows: Any, devices: Any, out: Any, first: Any, last: Any) -> Any:
    """Spans `first` to `last` of `out` `[n, blocks]`: rows one after the other, so that sums are rounded in one way."""
    worth, counted, less = rows
    blocks = out.shape[1]
    words, left = np.empty(SPAN, np.uint32), np.empty(SPAN, np.uint32)
    masks = np.empty(SPAN * ((law.num_points + MASK_BITS - 1) // MASK_BITS), np.uint32)
    turned, bits = np.empty(SPAN, np.uint32), np.zeros(SPAN, np.uint8)
    counts, sums = np.zeros(law.num_points * SPAN, np.uint32), np.zeros(law.num_points * SPAN, np.float32)
    equal = np.float64(worth[0])
    for span in range(first, last):
        start = span * SPAN
        here = min(SPAN, blocks - start)
        if counted:
            counts[:] = np.uint32(0)
        else:
            sums[:] = np.float32(0.0)
        for row in range(len(worth)):
            _copy(received[row, start : start + here], bits)
            _draw_masks(law, devices[row], start // 2, (here + _TILE - 1) // _TILE, words, left, masks)
            for lowest in range(0, law.num_points, MASK_BITS):
                places = min(MASK_BITS, law.num_points - lowest)
                _turn(masks, lowest // MASK_BITS * SPAN, bits, turned, here)
                if counted:
                    _count(turned, places, counts, lowest * SPAN, here)
                else:
                    _weigh(turned, places, worth[row], sums, lowest * SPAN, here)
        for point in range(law.num_points):
            at = point * SPAN
            for i in range(here):
                total = np.float64(counts[at + i]) * equal if counted else np.float64(sums[at + i])
                # b v is +1 where the two are equal: sum a b v = 2 sum over equal ones a - sum over heard ones a.
                out[point, start + i] += 2.0 * total - less
