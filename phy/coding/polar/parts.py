"""Loops of the list decoder over the lanes of code words (`phy.coding.soft_lanes`).

LLRs ln P(0) / P(1) have 16 bits, in steps of 1/64 up to 128. With c(x) = ln(1 + e^-x), a check node is
(|a + b| - |a - b|) / 2 + c(|a + b|) - c(|a - b|), and a bit costs c(|L|), and |L| more against the sign of its LLR
(Balatsoukas-Stimming et al., IEEE TSP 63, 2015, their (10)).

A word has the bits of all paths at one position, path 0 lowest. `kept` is 0 where what lies at the place is not used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.coding.soft_lanes import LANES
from phy.numerics.compiled import inlined

STEPS = 64
MOST, MOST_COST = np.int16(8191), np.int16(16383)
"""Largest LLR inside the decoder, and cost of a node: sums of two have 16 bits."""
CANDIDATES = np.uint32(31)
"""Mask of the number of a candidate in its key; the cost is above it."""
_ZERO, _ONE, _TWO, _NEAR = np.int16(0), np.int16(1), np.int16(2), np.int16(374)
_BIT, _NO_BIT = np.uint16(1), np.uint16(0)
_ROW, _ROWS2, _ROWS3 = np.uint64(LANES), np.uint64(2 * LANES), np.uint64(3 * LANES)


@inlined
def correction(distance: Any) -> Any:
    """c(x) as ln 2 (1 - x / 5.84)^4, within 0.02; its slope is above -1/2, so that check nodes keep their sign."""
    near = np.uint16(np.uint16(np.uint16(max(np.int16(_NEAR - distance), _ZERO)) * np.uint16(5)) >> np.uint16(3))
    square = np.uint16(np.uint16(near * near) >> np.uint16(8))
    return np.int16(np.uint16(np.uint16(square * square) >> np.uint16(10)))


@inlined
def sum_of_copies(first: Any, second: Any, out: Any, to: Any) -> None:
    for i in range(LANES):
        out[to + np.uint64(i)] = max(min(np.int16(first[i] + second[i]), MOST), np.int16(-MOST))


@inlined
def check_nodes(llrs: Any, first: Any, second: Any, out: Any, count: Any) -> None:
    for i in range(count):
        u = np.uint64(i)
        a, b = llrs[first + u], llrs[second + u]
        total, difference = np.int16(a + b), np.int16(a - b)
        total, difference = max(total, np.int16(-total)), max(difference, np.int16(-difference))
        smaller = np.int16(np.int16(total - difference) >> _ONE)
        llrs[out + u] = np.int16(smaller + np.int16(correction(total) - correction(difference)))


@inlined
def variable_nodes(
    values: Any, first: Any, second: Any, words: Any, word: Any, path: Any, llrs: Any, out: Any, count: Any
) -> None:
    for i in range(count):
        u = np.uint64(i)
        bit = np.int16(np.uint16(np.uint16(words[word + u] >> np.uint16(path & 15)) & _BIT))
        total = np.int16(values[second + u] + np.int16(np.int16(values[first + u] ^ np.int16(-bit)) + bit))
        llrs[out + u] = max(min(total, MOST), np.int16(-MOST))


@inlined
def pick(values: Any, at: Any, origins: Any, origin: Any, picked: Any, out: Any) -> None:
    """Of four rows from `at` on, that of the origin."""
    for i in range(LANES):
        u = np.uint64(i)
        number = origins[origin + u]
        x0, x1 = values[at + u], values[at + _ROW + u]
        x2, x3 = values[at + _ROWS2 + u], values[at + _ROWS3 + u]
        odd = np.int16(number & _ONE) != _ZERO
        low, high = x1 if odd else x0, x3 if odd else x2
        picked[out + u] = high if np.int16(number & _TWO) != _ZERO else low


@inlined
def pick_beyond(values: Any, at: Any, origins: Any, origin: Any, block: Any, picked: Any, out: Any) -> None:
    """`pick` where the origin is in a block of four paths; other lanes stay as they are."""
    wanted = np.int16(block)
    for i in range(LANES):
        u = np.uint64(i)
        number, held = origins[origin + u], picked[out + u]
        x0, x1 = values[at + u], values[at + _ROW + u]
        x2, x3 = values[at + _ROWS2 + u], values[at + _ROWS3 + u]
        odd = np.int16(number & _ONE) != _ZERO
        low, high = x1 if odd else x0, x3 if odd else x2
        here = high if np.int16(number & _TWO) != _ZERO else low
        picked[out + u] = here if np.int16(number >> _TWO) == wanted else held


@inlined
def costs_of_both(llrs: Any, at: Any, costs: Any, zeros: Any, ones: Any, kept: Any) -> None:
    for i in range(LANES):
        u = np.uint64(i)
        value = llrs[at + u]
        against = np.int16(-value)
        near = correction(max(value, against))
        zero, one = np.int16(costs[zeros + u] & kept), np.int16(costs[ones + u] & kept)
        costs[zeros + u] = min(np.int16(zero + np.int16(max(against, _ZERO) + near)), MOST_COST)
        costs[ones + u] = min(np.int16(one + np.int16(max(value, _ZERO) + near)), MOST_COST)


@inlined
def add_costs(costs: Any, zeros: Any, ones: Any, checks: Any, check: Any, path: Any, metric: Any) -> None:
    """Costs of one path at its own value of a parity check."""
    for i in range(LANES):
        u = np.uint64(i)
        bit = np.uint16(np.uint16(checks[check + u] >> np.uint16(path & 15)) & _BIT)
        cost = costs[ones + u] if bit != _NO_BIT else costs[zeros + u]
        costs[metric + u] = min(np.int16(costs[metric + u] + cost), MOST_COST)


@inlined
def copy(source: Any, at: Any, target: Any, to: Any) -> None:
    for i in range(LANES):
        u = np.uint64(i)
        target[to + u] = source[at + u]


@inlined
def add_to_check(checks: Any, check: Any, words: Any, word: Any) -> None:
    for i in range(LANES):
        u = np.uint64(i)
        checks[check + u] = np.uint16(checks[check + u] ^ words[word + u])


@inlined
def costs_of_zeros(llrs: Any, at: Any, costs: Any, out: Any, count: Any) -> None:
    for i in range(count):
        u = np.uint64(i)
        value = llrs[at + u]
        against = np.int16(-value)
        cost = np.int16(max(against, _ZERO) + correction(max(value, against)))
        costs[out + u] = min(np.int16(costs[out + u] + cost), MOST_COST)


@inlined
def fill(values: Any, at: Any, value: Any, count: Any) -> None:
    for i in range(count):
        values[at + np.uint64(i)] = value


@inlined
def smallest(values: Any, at: Any, least: Any, kept: Any) -> None:
    """The smaller of two rows in the second; `kept` is 0 where the second has nothing yet, else -1."""
    for i in range(LANES):
        u = np.uint64(i)
        held = np.int16(values[least + u] & kept) | np.int16(MOST_COST & np.int16(~kept))
        values[least + u] = min(np.int16(held), values[at + u])


@inlined
def relative(values: Any, at: Any, least: Any) -> None:
    for i in range(LANES):
        u = np.uint64(i)
        values[at + u] = min(np.int16(values[at + u] - values[least + u]), MOST)


@inlined
def keys_of_path(costs: Any, zeros: Any, ones: Any, metric: Any, path: Any, paths: Any, keys: Any) -> None:
    """Keys of a path with either bit: what it costs, and the number of the candidate."""
    zero, one = np.uint64(LANES * path), np.uint64(LANES * (path + paths))
    for i in range(LANES):
        u = np.uint64(i)
        held = costs[metric + u]
        cost_zero, cost_one = np.int16(costs[zeros + u] + held), np.int16(costs[ones + u] + held)
        keys[zero + u] = np.uint32(np.uint32(np.uint32(cost_zero) << np.uint32(16)) | np.uint32(path))
        keys[one + u] = np.uint32(np.uint32(np.uint32(cost_one) << np.uint32(16)) | np.uint32(path + paths))


@inlined
def compare(keys: Any, first: Any, second: Any) -> None:
    for i in range(LANES):
        u = np.uint64(i)
        x, y = keys[first + u], keys[second + u]
        keys[first + u] = min(x, y)
        keys[second + u] = max(x, y)


@inlined
def survive(
    keys: Any, at: Any, last: Any, paths: Any, path: Any, costs: Any, metric: Any, origins: Any, origin: Any,
    words: Any, word: Any, kept: Any,
) -> None:  # fmt: skip
    """A path that was chosen: its metric beyond the smallest of all, its origin and its bit."""
    for i in range(LANES):
        u = np.uint64(i)
        key = keys[at + u]
        candidate = np.uint16(key & CANDIDATES)
        best = np.int16(min(keys[u], keys[last + u]) >> np.uint32(16))
        costs[metric + u] = min(np.int16(np.int16(key >> np.uint32(16)) - best), MOST)
        origins[origin + u] = np.int16(np.uint16(candidate & np.uint16(paths - 1)))
        bit = np.uint16(1 << (path & 15)) if candidate >= np.uint16(paths) else _NO_BIT
        words[word + u] = np.uint16(np.uint16(words[word + u] & kept) | bit)


@inlined
def selectors(origins: Any, at: Any, words: Any, count: Any) -> None:
    """The bit of its origin for every path, from place 0 on."""
    for i in range(count):
        u = np.uint64(i)
        words[u] = np.uint16(_BIT << np.uint16(origins[at + u] & np.int16(15)))


@inlined
def permute_bits(words: Any, word: Any, chosen: Any, path: Any, out: Any, kept: Any) -> None:
    """Bits of a word for four paths, each from its origin."""
    selector = np.uint64(LANES * path)
    for i in range(LANES):
        u = np.uint64(i)
        w = words[word + u]
        b0 = _BIT if np.uint16(w & chosen[selector + u]) != _NO_BIT else _NO_BIT
        b1 = np.uint16(2) if np.uint16(w & chosen[selector + _ROW + u]) != _NO_BIT else _NO_BIT
        b2 = np.uint16(4) if np.uint16(w & chosen[selector + _ROWS2 + u]) != _NO_BIT else _NO_BIT
        b3 = np.uint16(8) if np.uint16(w & chosen[selector + _ROWS3 + u]) != _NO_BIT else _NO_BIT
        bits = np.uint16(np.uint16(np.uint16(b0 | b1) | np.uint16(b2 | b3)) << np.uint16(path & 15))
        chosen[out + u] = np.uint16(np.uint16(chosen[out + u] & kept) | bits)


@inlined
def add_in_place(words: Any, at: Any, other: Any, count: Any) -> None:
    for i in range(count):
        u = np.uint64(i)
        words[at + u] = np.uint16(words[at + u] ^ words[other + u])


@inlined
def add_to(permuted: Any, first: Any, words: Any, second: Any, out: Any, count: Any) -> None:
    for i in range(count):
        u = np.uint64(i)
        words[out + u] = np.uint16(permuted[first + u] ^ words[second + u])


@inlined
def unite(words: Any, at: Any, other: Any) -> None:
    for i in range(LANES):
        u = np.uint64(i)
        words[at + u] = np.uint16(words[at + u] | words[other + u])


@inlined
def decide(llrs: Any, at: Any, words: Any, out: Any) -> None:
    for i in range(LANES):
        u = np.uint64(i)
        words[out + u] = _BIT if llrs[at + u] < _ZERO else _NO_BIT


@inlined
def accumulate(llrs: Any, at: Any, out: Any) -> None:
    for i in range(LANES):
        u = np.uint64(i)
        llrs[out + u] = max(min(np.int16(llrs[out + u] + llrs[at + u]), MOST), np.int16(-MOST))


@inlined
def prefer(wrong: Any, at: Any, path: Any, costs: Any, metric: Any, best: Any) -> None:
    """The smallest metric so far and, behind it, its path; a wrong check sum costs more than any metric."""
    for i in range(LANES):
        u = np.uint64(i)
        bit = np.int16(np.uint16(np.uint16(wrong[at + u] >> np.uint16(path & 15)) & _BIT))
        cost, held, number = np.int16(costs[metric + u] + bit * MOST_COST), costs[best + u], costs[best + _ROW + u]
        costs[best + u] = min(cost, held)
        costs[best + _ROW + u] = np.int16(path) if cost < held else number


@inlined
def bits_of_path(words: Any, word: Any, costs: Any, path: Any, bits: Any, at: Any) -> None:
    for i in range(LANES):
        u = np.uint64(i)
        number = np.uint16(costs[path + u] & np.int16(15))
        bits[at + u] = np.uint8(np.uint16(np.uint16(words[word + u] >> number) & _BIT))


@inlined
def to_row(lanes: Any, lane: Any, bits: Any, row: Any, count: Any) -> None:
    for t in range(count):
        bits[row, t] = lanes[np.uint64(LANES * t) + lane]
