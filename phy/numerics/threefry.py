"""Threefry-2x32-20 inside kernels: the words of `phy.numerics.random.threefry`, alone or four at once.

Each of the 20 rounds waits for the one before it, and a vector of them holds more instructions than a processor looks
ahead. Four that share a key, written side by side, keep it busy: on AVX2 they take little more than half the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.compiled import inlined, kernel, read_only, shared, spliced

_PARITY = np.uint32(0x1BD11BDA)
# Numbers of NumPy: a function is compiled anew for every Python number that it is called with.
_EVEN = _BY_13, _BY_15, _BY_26, _BY_6 = tuple(np.uint32(bits) for bits in (13, 15, 26, 6))
_ODD = _BY_17, _BY_29, _BY_16, _BY_24 = tuple(np.uint32(bits) for bits in (17, 29, 16, 24))
_WIDTH = np.uint32(32)
_VECTOR = 16
"""Numbers in the widest vector: each of the four runs of a loop is a multiple, so that none ends in single steps."""
AT_ONCE = 4 * _VECTOR
"""Numbers that are drawn at a time, in four runs."""


@inlined
def _mix(x0: Any, x1: Any, bits: Any) -> Any:
    x0 = np.uint32(x0 + x1)
    x1 = np.uint32(np.uint32(x1 << bits) | np.uint32(x1 >> np.uint32(_WIDTH - bits)))
    return x0, np.uint32(x1 ^ x0)


@inlined
def _mix_even(x0: Any, x1: Any) -> Any:
    x0, x1 = _mix(x0, x1, _BY_13)
    x0, x1 = _mix(x0, x1, _BY_15)
    x0, x1 = _mix(x0, x1, _BY_26)
    return _mix(x0, x1, _BY_6)


@inlined
def _mix_odd(x0: Any, x1: Any) -> Any:
    x0, x1 = _mix(x0, x1, _BY_17)
    x0, x1 = _mix(x0, x1, _BY_29)
    x0, x1 = _mix(x0, x1, _BY_16)
    return _mix(x0, x1, _BY_24)


@inlined
def threefry(key0: Any, key1: Any, counter0: Any, counter1: Any) -> Any:
    """Threefry-2x32-20 of one key and one counter, all uint32: two words."""
    key2 = np.uint32(np.uint32(key0 ^ key1) ^ _PARITY)
    x0, x1 = _mix_even(np.uint32(counter0 + key0), np.uint32(counter1 + key1))
    x0, x1 = _mix_odd(np.uint32(x0 + key1), np.uint32(x1 + key2 + np.uint32(1)))
    x0, x1 = _mix_even(np.uint32(x0 + key2), np.uint32(x1 + key0 + np.uint32(2)))
    x0, x1 = _mix_odd(np.uint32(x0 + key0), np.uint32(x1 + key1 + np.uint32(3)))
    x0, x1 = _mix_even(np.uint32(x0 + key1), np.uint32(x1 + key2 + np.uint32(4)))
    return np.uint32(x0 + key2), np.uint32(x1 + key0 + np.uint32(5))


# LLVM leaves instructions much as they are written, so each step is written for all four before the next.


@inlined
def _add_to_all(x: Any, word: Any) -> Any:
    return np.uint32(x[0] + word), np.uint32(x[1] + word), np.uint32(x[2] + word), np.uint32(x[3] + word)


@inlined
def _mix_four(x: Any, y: Any, left: Any) -> Any:
    right = np.uint32(_WIDTH - left)
    p, q, r, s = np.uint32(x[0] + y[0]), np.uint32(x[1] + y[1]), np.uint32(x[2] + y[2]), np.uint32(x[3] + y[3])
    a, b, c, d = np.uint32(y[0] << left), np.uint32(y[1] << left), np.uint32(y[2] << left), np.uint32(y[3] << left)
    e, f, g, h = np.uint32(y[0] >> right), np.uint32(y[1] >> right), np.uint32(y[2] >> right), np.uint32(y[3] >> right)
    a, b, c, d = np.uint32(a | e), np.uint32(b | f), np.uint32(c | g), np.uint32(d | h)
    return (p, q, r, s), (np.uint32(a ^ p), np.uint32(b ^ q), np.uint32(c ^ r), np.uint32(d ^ s))


@inlined
def _mix_four_by(x0: Any, x1: Any, bits: Any) -> Any:
    x0, x1 = _mix_four(x0, x1, bits[0])
    x0, x1 = _mix_four(x0, x1, bits[1])
    x0, x1 = _mix_four(x0, x1, bits[2])
    return _mix_four(x0, x1, bits[3])


@inlined
def threefry_of_four(key0: Any, key1: Any, counters0: Any, counters1: Any) -> Any:
    """`threefry` of four counters, each word of theirs a tuple of four: two tuples of words."""
    key2 = np.uint32(np.uint32(key0 ^ key1) ^ _PARITY)
    x0, x1 = _mix_four_by(_add_to_all(counters0, key0), _add_to_all(counters1, key1), _EVEN)
    x0, x1 = _mix_four_by(_add_to_all(x0, key1), _add_to_all(x1, np.uint32(key2 + np.uint32(1))), _ODD)
    x0, x1 = _mix_four_by(_add_to_all(x0, key2), _add_to_all(x1, np.uint32(key0 + np.uint32(2))), _EVEN)
    x0, x1 = _mix_four_by(_add_to_all(x0, key0), _add_to_all(x1, np.uint32(key1 + np.uint32(3))), _ODD)
    x0, x1 = _mix_four_by(_add_to_all(x0, key1), _add_to_all(x1, np.uint32(key2 + np.uint32(4))), _EVEN)
    return _add_to_all(x0, key2), _add_to_all(x1, np.uint32(key0 + np.uint32(5)))


@spliced
def positions(device: Any, first: Any, stride: Any) -> Any:
    """Counters of one device at positions first, first + stride, ..., as `draw_lanes` takes them."""
    return np.uint32(first), np.uint32(stride), np.uint32(device), np.uint32(0)


@spliced
def devices(first: Any) -> Any:
    """Counters of the devices first, first + 1, ..., each at its position 0, as `draw_lanes` takes them."""
    return np.uint32(0), np.uint32(0), np.uint32(first), np.uint32(1)


@spliced
def _plus(start: Any, step: Any, times: Any) -> Any:
    return np.uint32(start + np.uint32(step * np.uint32(times)))


# Every run is an argument of its own: LLVM takes arguments as apart, and would keep a loop in single steps, as long as
# that of vectors, for runs of one array that might overlap.


@inlined
def _fill_four(
    key: Any, starts: Any, steps: Any, one_a: Any, one_b: Any, one_c: Any, one_d: Any, two_a: Any, two_b: Any,
    two_c: Any, two_d: Any, vectors: Any,
) -> None:  # fmt: skip
    for k in range(_VECTOR * vectors):
        i, place, row = np.uint64(k), np.uint32(steps[0] * np.uint32(k)), np.uint32(steps[1] * np.uint32(k))
        x, y = threefry_of_four(key[0], key[1], _add_to_all(starts[0], place), _add_to_all(starts[1], row))
        one_a[i], one_b[i], one_c[i], one_d[i] = x
        two_a[i], two_b[i], two_c[i], two_d[i] = y


@inlined
def _fill_singly(key: Any, starts: Any, steps: Any, one: Any, two: Any, first: Any, count: Any) -> None:
    for k in range(first, count):
        i = np.uint64(k)
        one[i], two[i] = threefry(key[0], key[1], _plus(starts[0], steps[0], k), _plus(starts[1], steps[1], k))


@shared
def draw_lanes(key: Any, counters: Any, words: Any, first_at: Any, second_at: Any, count: Any) -> None:
    """Words of `count` counters: `positions(..)` or `devices(..)`.

    `key` is a pair of uint32. First words stand in the flat uint32 `words` from `first_at` on, second ones from
    `second_at` on.
    """
    place, place_step, row, row_step = counters
    steps, vectors = (place_step, row_step), count // AT_ONCE
    run = _VECTOR * vectors
    place_b, row_b = _plus(place, place_step, run), _plus(row, row_step, run)
    place_c, row_c = _plus(place_b, place_step, run), _plus(row_b, row_step, run)
    place_d, row_d = _plus(place_c, place_step, run), _plus(row_c, row_step, run)
    one, two = words[first_at:], words[second_at:]
    _fill_four(
        key, ((place, place_b, place_c, place_d), (row, row_b, row_c, row_d)), steps, one, one[run:], one[2 * run :],
        one[3 * run :], two, two[run:], two[2 * run :], two[3 * run :], vectors,
    )  # fmt: skip
    _fill_singly(key, (place, row), steps, one, two, 4 * run, count)


@inlined
def _fill_listed(
    key: Any, places: Any, rows: Any, one_a: Any, one_b: Any, one_c: Any, one_d: Any, two_a: Any, two_b: Any,
    two_c: Any, two_d: Any, vectors: Any,
) -> None:  # fmt: skip
    apart = np.uint64(_VECTOR * vectors)
    for k in range(_VECTOR * vectors):
        i = np.uint64(k)
        b, c, d = i + apart, i + apart + apart, i + apart + apart + apart
        counters = (places[i], places[b], places[c], places[d]), (rows[i], rows[b], rows[c], rows[d])
        x, y = threefry_of_four(np.uint32(key[0]), np.uint32(key[1]), counters[0], counters[1])
        one_a[i], one_b[i], one_c[i], one_d[i] = x
        two_a[i], two_b[i], two_c[i], two_d[i] = y


@shared
def draw_listed(key: Any, places: Any, rows: Any, words: Any, first_at: Any, second_at: Any, count: Any) -> None:
    """`draw_lanes` of the counters (`places[i]`, `rows[i]`), `count` of them, given as uint32.

    Both lists, and the room for words, are as long as the next multiple of `AT_ONCE`: up to there words without use are
    drawn.
    """
    vectors = (count + AT_ONCE - 1) // AT_ONCE
    run, one, two = _VECTOR * vectors, words[first_at:], words[second_at:]
    _fill_listed(
        key, places, rows, one, one[run:], one[2 * run :], one[3 * run :], two, two[run:], two[2 * run :],
        two[3 * run :], vectors,
    )  # fmt: skip


@kernel
def _fill_round_keys(keys: Any, first: Any, out: Any) -> None:
    for place in range(len(out)):
        for row in range(len(keys)):
            words = threefry(keys[row, 0], keys[row, 1], np.uint32(first + place), np.uint32(0))
            out[place, row, 0], out[place, row, 1] = words


def keys_of_rounds(keys: NDArray[np.uint32], *, first: int, count: int) -> NDArray[np.uint32]:
    """Threefry of every trial's key `[num_trials, 2]` and the counters (round, 0), `[count, num_trials, 2]`."""
    out = np.empty((count, *keys.shape), np.uint32)
    _fill_round_keys(read_only(keys), first, out)
    return out
