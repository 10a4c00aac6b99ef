"""List decoder of polar codes in a kernel: the steps of `phy.coding.polar.schedule`, with code words side by side.

LLRs are kept per path; the bits of all paths at one position are one word. After a choice of paths each path knows its
origin, the number that it had before. LLRs are read from their origin when they are read the next time, so nothing is
copied. Parity checks are kept up to date at every choice, a word for each residue of positions modulo five (5.3.1.2).
Metrics are relative to the best path. LLRs of the node of 2^l bits under way lie from row L (2^l - 1) on, row
by position and path; those of the whole code have one path.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.coding.polar.parts import (
    STEPS,
    accumulate,
    add_costs,
    add_in_place,
    add_to,
    add_to_check,
    bits_of_path,
    check_nodes,
    compare,
    copy,
    costs_of_both,
    costs_of_zeros,
    decide,
    fill,
    keys_of_path,
    permute_bits,
    pick,
    pick_beyond,
    prefer,
    relative,
    selectors,
    smallest,
    sum_of_copies,
    survive,
    to_row,
    unite,
    variable_nodes,
)
from phy.coding.polar.schedule import CHECK, COMBINE, FROZEN, HARD, PARITY, SUM, VARIABLE
from phy.coding.soft_lanes import LANES, quantise, to_lanes
from phy.config.coding import LARGEST_FUSED_LIST
from phy.numerics.compiled import lean_kernel, shared

_STEPS, _LARGEST = np.float32(-STEPS), np.float32(30 * STEPS)
"""Steps per unit of LLR, with the sign of ln P(0) / P(1), and the largest LLR from the channel: 30, as in Sionna."""
_ZERO, _WORST, _NO_BIT = np.int16(0), np.int16(32767), np.uint16(0)
_NEW, _KEPT = np.int16(0), np.int16(-1)
_NEW_WORD, _KEPT_WORD = np.uint16(0), np.uint16(0xFFFF)

# Rows of costs: of both values of a bit by path, metrics by path, the smallest metric, and the best path.
_METRICS = 2 * LARGEST_FUSED_LIST
_BEST = 3 * LARGEST_FUSED_LIST
NUM_COSTS = 3 * LARGEST_FUSED_LIST + 2
PERMUTED = LARGEST_FUSED_LIST
"""Rows of chosen words: selectors by path, then those of half a node."""
NUM_CHECKS = 5
"""Sums of information bits that parity-check bits repeat: of positions with the same residue modulo five."""


@shared
def _second_half(
    llrs: Any, node: Any, rows: Any, half: Any, step: Any, words: Any, origins: Any, out: Any, paths: Any, picked: Any
) -> None:
    """LLRs of the second half of a node whose LLRs lie from `node` on, `rows` per position."""
    start, before, middle, slot = step[2], step[3], step[4], step[6]
    # All positions at once where they lie side by side.
    at_once = half if paths == 1 else 1
    for j in range(0, half, at_once):
        here, there = node + LANES * rows * j, node + LANES * rows * (j + half)
        for path in range(middle):
            first, second, source = np.uint64(here), np.uint64(there), llrs
            to, word = np.uint64(out + LANES * (paths * j + path)), np.uint64(LANES * (start + j))
            if origins is not None:
                if slot >= 0 and before > 1:
                    origin = np.uint64(LANES * (paths * slot + path))
                    for operand in range(2):
                        at, room = here + operand * (there - here), np.uint64(LANES * operand)
                        pick(llrs, np.uint64(at), origins, origin, picked, room)
                        for block in range(1, before // 4):
                            pick_beyond(llrs, np.uint64(at + 4 * LANES * block), origins, origin, block, picked, room)
                    first, second, source = np.uint64(0), np.uint64(LANES), picked
                elif before > 1:
                    first, second = np.uint64(here + LANES * path), np.uint64(there + LANES * path)
            variable_nodes(source, first, second, words, word, path, llrs, to, LANES * at_once)


@shared
def _combine(half: Any, step: Any, words: Any, chosen: Any, origins: Any, paths: Any, picked: Any) -> None:
    """Word of a node, the sum of its halves and the second half, and the origins of its paths."""
    start, middle, after, left, right, out = step[2], step[4], step[5], step[6], step[7], step[8]
    first, second, permuted = np.uint64(LANES * start), np.uint64(LANES * (start + half)), np.uint64(LANES * PERMUTED)
    if right < 0:
        add_in_place(words, first, second, LANES * half)
    if origins is not None:
        if right >= 0:
            selectors(origins, np.uint64(LANES * paths * right), chosen, LANES * after)
            for j in range(half):
                at, kept = np.uint64(LANES * j), _NEW_WORD
                for path in range(0, after, 4):
                    permute_bits(words, first + at, chosen, path, permuted + at, kept)
                    kept = _KEPT_WORD
            add_to(chosen, permuted, words, second, first, LANES * half)
        if out >= 0 and (left >= 0 or right >= 0):
            _compose(origins, paths, middle, after, left, right, out, picked)


@shared
def _compose(origins: Any, paths: Any, middle: Any, after: Any, left: Any, right: Any, out: Any, picked: Any) -> None:
    """Origins on the way through both halves; the last rows are those of paths that stay."""
    stay = len(origins) // LANES - paths
    source = LANES * (paths * left if left >= 0 else stay)
    through = LANES * (paths * right if right >= 0 else stay)
    for path in range(after):
        origin, room = np.uint64(through + LANES * path), np.uint64(0)
        pick(origins, np.uint64(source), origins, origin, picked, room)
        for block in range(1, middle // 4):
            pick_beyond(origins, np.uint64(source + 4 * LANES * block), origins, origin, block, picked, room)
        to = np.uint64(LANES * (paths * out + path))
        for i in range(LANES):
            origins[to + np.uint64(i)] = picked[i]


@shared
def _add_frozen(llrs: Any, node: Any, size: Any, before: Any, costs: Any, paths: Any) -> None:
    metrics, best, kept = LANES * _METRICS, np.uint64(LANES * _BEST), _NEW
    for j in range(size):
        costs_of_zeros(llrs, np.uint64(node + LANES * paths * j), costs, np.uint64(metrics), LANES * before)
    for path in range(before):
        smallest(costs, np.uint64(metrics + LANES * path), best, kept)
        kept = _KEPT
    for path in range(before):
        relative(costs, np.uint64(metrics + LANES * path), best)


@shared
def _add_parity(llrs: Any, node: Any, size: Any, before: Any, costs: Any, checks: Any, check: Any, paths: Any) -> None:
    """Cost of a node that repeats a parity check, whose value every path knows."""
    metrics, best, zeros, ones = LANES * _METRICS, np.uint64(LANES * _BEST), np.uint64(0), np.uint64(LANES)
    for path in range(before):
        kept = _NEW
        for j in range(size):
            costs_of_both(llrs, np.uint64(node + LANES * (paths * j + path)), costs, zeros, ones, kept)
            kept = _KEPT
        add_costs(costs, zeros, ones, checks, np.uint64(check), path, np.uint64(metrics + LANES * path))
    kept = _NEW
    for path in range(before):
        smallest(costs, np.uint64(metrics + LANES * path), best, kept)
        kept = _KEPT
    for path in range(before):
        relative(costs, np.uint64(metrics + LANES * path), best)


@shared
def _follow(
    origins: Any, slot: Any, after: Any, checks: Any, last_checks: Any, start: Any, chosen: Any, paths: Any
) -> None:
    """Parity checks of the paths that were chosen, those that are of use beyond `start`."""
    permuted, selected = np.uint64(LANES * PERMUTED), False
    for number in range(NUM_CHECKS):
        if last_checks[number] > start:
            if not selected:
                selectors(origins, np.uint64(LANES * paths * slot), chosen, LANES * after)
                selected = True
            at, kept = np.uint64(LANES * number), _NEW_WORD
            for path in range(0, after, 4):
                permute_bits(checks, at, chosen, path, permuted, kept)
                kept = _KEPT_WORD
            copy(chosen, permuted, checks, at)


@shared
def _fork(
    llrs: Any, node: Any, size: Any, step: Any, pairs: Any, words: Any, origins: Any, costs: Any, keys: Any, paths: Any
) -> None:
    """Both values of a repeated bit for every path; of twice as many paths as are kept, the likeliest."""
    start, before, after, slot = step[2], step[3], step[5], step[8]
    for path in range(before):
        zeros, ones, kept = np.uint64(LANES * 2 * path), np.uint64(LANES * (2 * path + 1)), _NEW
        for j in range(size):
            costs_of_both(llrs, np.uint64(node + LANES * (paths * j + path)), costs, zeros, ones, kept)
            kept = _KEPT
        keys_of_path(costs, zeros, ones, np.uint64(LANES * (_METRICS + path)), path, before, keys)
    # The smallest key comes to the first or the last of the places that are kept.
    chooses = before == after
    for pair in range(len(pairs) if chooses else after - 1):
        first = pairs[pair, 0] if chooses else 0
        second = pairs[pair, 1] if chooses else pair + 1
        compare(keys, np.uint64(LANES * first), np.uint64(LANES * second))
    last, word, kept_word = np.uint64(LANES * (after - 1)), np.uint64(LANES * start), _NEW_WORD
    for path in range(after):
        metric, origin = np.uint64(LANES * (_METRICS + path)), np.uint64(LANES * (paths * slot + path))
        at = np.uint64(LANES * path)
        survive(keys, at, last, before, path, costs, metric, origins, origin, words, word, kept_word)
        kept_word = _KEPT_WORD
    for j in range(1, size):
        at = np.uint64(LANES * (start + j))
        for i in range(LANES):
            words[at + np.uint64(i)] = words[word + np.uint64(i)]


@shared
def _transform(words: Any, length: Any) -> None:
    """x = u F, F the Kronecker power of [[1, 0], [1, 1]], in place; its own inverse."""
    half = 1
    while half < length:
        for start in range(0, length, 2 * half):
            add_in_place(words, np.uint64(LANES * start), np.uint64(LANES * (start + half)), LANES * half)
        half *= 2


@shared
def _divide(words: Any, length: Any, places: Any, polynomial: Any) -> None:
    """OR of the remainder's bits in the row behind the words; the highest power is at the first of `places`."""
    degree, head, register = len(polynomial), 0, LANES * (length + 1)
    fill(words, np.uint64(LANES * length), _NO_BIT, LANES * (degree + 1))
    for number in range(len(places)):
        # A ring in place of a shift: the register of the highest power becomes the one of x^0.
        leaving = np.uint64(register + LANES * head)
        for power in range(degree):
            if polynomial[power]:
                tap = np.uint64(register + LANES * ((head + degree - power) % degree))
                add_in_place(words, tap, np.uint64(LANES * places[number]) if power == 0 else leaving, LANES)
        head = (head + 1) % degree
    for power in range(degree):
        unite(words, np.uint64(LANES * length), np.uint64(register + LANES * power))


@lean_kernel
def decode_blocks(
    soft: Any, places: Any, information: Any, polynomial: Any, steps: Any, pairs: Any, paths: Any, alone: Any,
    checks: Any, last_checks: Any, rows: Any, lanes: Any, llrs: Any, words: Any, chosen: Any, origins: Any, costs: Any,
    keys: Any, picked: Any, lane_bits: Any, bits: Any, begin: Any, end: Any,
) -> None:  # fmt: skip
    """Decide blocks `begin` to `end` - 1 of `soft` LLRs ln P(1) / P(0), `LANES` at once, with a list of `paths`.

    `places` `[2, N]`: rows of `lanes` that add at each position of the mother code; behind the LLRs of a block are
    those of an unknown and of a known bit. With one path the arrays that only lists need are None, with more `alone`
    is, and `checks` is without parity-check bits: numba removes the code behind them. `last_checks` `[5]` is the last
    of these bits by the residue of its position.
    """
    length, num_coded, num_bits, top = places.shape[1], soft.shape[1], bits.shape[1], 0
    while 1 << top < length:
        top += 1
    channel, best = LANES * paths * (length - 1), np.uint64(LANES * _BEST)
    for first in range(begin, end, LANES):
        for i in range(LANES):
            quantise(soft[min(first + i, end - 1)], _STEPS, _LARGEST, rows[i])
        for place in range(num_coded):
            to_lanes(rows, place, lanes[place])
        for position in range(length):
            one, other = lanes[places[0, position]], lanes[places[1, position]]
            sum_of_copies(one, other, llrs, np.uint64(channel + LANES * position))
        fill(words, np.uint64(0), _NO_BIT, LANES * length)
        fill(costs, np.uint64(LANES * _METRICS), _ZERO, LANES)
        if checks is not None:
            fill(checks, np.uint64(0), _NO_BIT, LANES * NUM_CHECKS)
        for number in range(len(steps)):
            step = steps[number]
            kind, level, start, before = step[0], step[1], step[2], step[3]
            size, node = 1 << level, LANES * paths * ((1 << level) - 1)
            per_place, half, below = 1 if level == top else paths, size >> 1, LANES * paths * ((size >> 1) - 1)
            if kind == CHECK:
                for j in range(half):
                    here, to = node + LANES * per_place * j, np.uint64(below + LANES * paths * j)
                    there = np.uint64(here + LANES * per_place * half)
                    check_nodes(llrs, np.uint64(here), there, to, LANES * before)
            elif kind == VARIABLE:
                _second_half(llrs, node, per_place, half, step, words, origins, below, paths, picked)
            elif kind == COMBINE:
                _combine(half, step, words, chosen, origins, paths, picked)
            elif kind == FROZEN:
                if origins is not None:
                    _add_frozen(llrs, node, size, before, costs, paths)
            elif kind == PARITY:
                if checks is not None:
                    check = LANES * ((start + size - 1) % NUM_CHECKS)
                    for j in range(size):
                        copy(checks, np.uint64(check), words, np.uint64(LANES * (start + j)))
                    if origins is not None:
                        _add_parity(llrs, node, size, before, costs, checks, check, paths)
            elif origins is not None:
                _fork(llrs, node, size, step, pairs, words, origins, costs, keys, paths)
                if checks is not None:
                    _follow(origins, step[8], step[5], checks, last_checks, start, chosen, paths)
            elif alone is not None:
                if kind == SUM:
                    for j in range(1, size):
                        accumulate(llrs, np.uint64(node + LANES * j), np.uint64(node))
                for j in range(size):
                    row = np.uint64(node + LANES * (j if kind == HARD else 0))
                    decide(llrs, row, words, np.uint64(LANES * (start + j)))
            if checks is not None and kind > FROZEN and kind != PARITY:
                add_to_check(
                    checks, np.uint64(LANES * ((start + size - 1) % NUM_CHECKS)), words, np.uint64(LANES * start)
                )
        _transform(words, length)
        fill(costs, best, _WORST if paths > 1 else _ZERO, 2 * LANES)
        if origins is not None:
            _divide(words, length, information, polynomial)
            for path in range(paths):
                prefer(words, np.uint64(LANES * length), path, costs, np.uint64(LANES * (_METRICS + path)), best)
        for t in range(num_bits):
            word, at = np.uint64(LANES * information[t]), np.uint64(LANES * t)
            bits_of_path(words, word, costs, best + np.uint64(LANES), lane_bits, at)
        for i in range(min(LANES, end - first)):
            to_row(lane_bits, np.uint64(i), bits, first + i, num_bits)
