"""The random numbers of `random` inside kernels: the same words, Gaussians equal to within float32 rounding.

Word pair number c of a device is Threefry of (key, (c, device)), as `phy.numerics.random.threefry` has it, so both
engines meet the same fades and the same noise, and neither depends on threads, chunks or order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.compiled import contracted, contracted_kernel, inlined, lean_kernel, shared, spliced
from phy.numerics.threefry import draw_lanes, positions, threefry
from phy.numerics.workers import run_tasks

_STEP = np.float32(2.0**-32)
_SQRT_HALF = np.int32(0x3F3504F3)
"""Bits of sqrt(1/2) as float32."""
_MANTISSA_BITS = np.int32(23)
_LN_2 = np.float32(np.log(2.0))
# ln(1 + x) = x - x^2 / 2 + x^3 P(x) from sqrt(1/2) to sqrt(2): Cephes `logf` (Moshier), highest power first.
_P8, _P7, _P6, _P5 = (np.float32(p) for p in (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1))
_P4, _P3, _P2, _P1 = (np.float32(p) for p in (1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1))
_P0 = np.float32(3.3333331174e-1)
_TURN = np.float32(2.0 * np.pi)
_S3, _S5, _S7 = np.float32(-1.0 / 6.0), np.float32(1.0 / 120.0), np.float32(-1.0 / 5040.0)
_S9, _S11 = np.float32(1.0 / 362880.0), np.float32(-1.0 / 39916800.0)
_ROOT_HALF = np.float32(np.sqrt(0.5))
_LN_2_HIGH, _LN_2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_FACTORS = tuple(np.float32(-1.0 / n) for n in (110, 72, 42, 20, 6))
_HALF, _QUARTER, _ONE, _ZERO = np.float32(0.5), np.float32(0.25), np.float32(1.0), np.float32(0.0)

_PAIRS_OF_A_TASK = 1 << 14


@inlined
def negative_log(uniform: Any) -> Any:
    """-ln u, float32, for normal float32 u in (0, 1]; relative error below 2e-7."""
    bits = np.float32(uniform).view(np.int32)
    exponent = np.int32(np.int32(bits - _SQRT_HALF) >> _MANTISSA_BITS)
    x = np.int32(bits - np.int32(exponent << _MANTISSA_BITS)).view(np.float32) - _ONE
    series = (((_P8 * x + _P7) * x + _P6) * x + _P5) * x + _P4
    series = (((series * x + _P3) * x + _P2) * x + _P1) * x + _P0
    square = x * x
    return -(np.float32(exponent) * _LN_2 + (x + square * (series * x - _HALF)))


@inlined
def _sine_of_quarter_turns(turns: Any) -> Any:
    angle = turns * _TURN
    square = angle * angle
    return angle * (_ONE + square * (_S3 + square * (_S5 + square * (_S7 + square * (_S9 + square * _S11)))))


@inlined
def phasor(turns: Any) -> Any:
    """(cos 2 pi t, sin 2 pi t) for float32 t in [-1/2, 1/2], float32, error below 2e-7."""
    distance = abs(turns)
    sine = _sine_of_quarter_turns(_QUARTER - abs(distance - _QUARTER))
    return _sine_of_quarter_turns(_QUARTER - distance), -sine if turns < _ZERO else sine


@inlined
def cosine_and_sine(word: Any) -> Any:
    """`phasor` of t = word / 2^32 as a signed fraction in [-1/2, 1/2)."""
    return phasor(np.float32(np.int32(word)) * _STEP)


@inlined
def complex_normal(word0: Any, word1: Any) -> Any:
    """(real, imaginary) part of CN(0, 1), float32, by Box-Muller: 6.7 standard deviations, as `random` has it."""
    radius = math.sqrt(max(negative_log((np.float32(word0) + _HALF) * _STEP), _ZERO))
    cosine, sine = cosine_and_sine(word1)
    return radius * cosine, radius * sine


@inlined
def normals_of_words(out: Any, real_at: Any, imag_at: Any, count: Any) -> None:
    """CN(0, 1) in the place of their words. A loop of its own: Threefry alone fills the registers."""
    one, two = np.uint64(real_at), np.uint64(imag_at)
    for k in range(count):
        i = np.uint64(k)
        # Of a second array LLVM would ask whether it overlaps this one, and give up on vectors: it does.
        word0, word1 = np.float32(out[one + i]).view(np.uint32), np.float32(out[two + i]).view(np.uint32)
        real, imag = complex_normal(word0, word1)
        out[one + i] = real
        out[two + i] = imag


@spliced
def draw_normals(key: Any, counters: Any, words: Any, out: Any, real_at: Any, imag_at: Any, count: Any) -> None:
    """CN(0, 1) of `count` counters, as `phy.numerics.threefry.draw_lanes` takes them, into the flat float32 `out`.

    Real parts from `real_at` on, imaginary ones from `imag_at` on. `words` is `out` seen as uint32.
    """
    draw_lanes(key, counters, words, real_at, imag_at, count)
    normals_of_words(out, real_at, imag_at, count)


@shared
def draw_words(key: Any, device: Any, first: Any, words: Any, num_pairs: Any) -> None:
    """Word pairs from number `first` on into `words` `[2 num_pairs]` uint32, in the order of `uniform_words`."""
    key0, key1 = key
    for i in range(num_pairs):
        words[2 * i], words[2 * i + 1] = threefry(key0, key1, np.uint32(np.uint32(first) + np.uint32(i)), device)


@lean_kernel
def _fill_words(
    keys: Any, devices: Any, first_pair: Any, words: Any, pairs_of_task: Any, first: Any, last: Any
) -> None:
    """Tasks `first` to `last` of filling `words` `[rows, 2 pairs]` uint32; row r has `keys[r]` and `devices[r]`."""
    pairs = words.shape[1] // 2
    per_row = (pairs + pairs_of_task - 1) // pairs_of_task
    for task in range(first, last):
        row, start = task // per_row, (task % per_row) * pairs_of_task
        count = min(pairs_of_task, pairs - start)
        draw_words((keys[row, 0], keys[row, 1]), devices[row], first_pair + start, words[row, 2 * start :], count)


def fill_words(
    keys: NDArray[np.uint32], devices: NDArray[np.uint32], *, first_pair: int, words: NDArray[np.uint32]
) -> None:
    """Fill `words` `[rows, 2 pairs]` by `keys` `[rows, 2]` and `devices` `[rows]`, from pair `first_pair` on."""
    run_tasks(
        lambda first, last: _fill_words(keys, devices, first_pair, words, _PAIRS_OF_A_TASK, first, last),
        num_tasks=len(words) * -(-(words.shape[1] // 2) // _PAIRS_OF_A_TASK),
        cost_us=1e-3 * words.size,
    )


@lean_kernel
def _fill_groups(key: Any, devices: Any, first_group: Any, words: Any, first: Any, last: Any) -> None:
    """Tasks `first` to `last`, a group of words of one device each; see `fill_groups`."""
    groups, half, flat = words.shape[1], words.shape[2] // 2, words.reshape(-1)
    for task in range(first, last):
        counters = positions(devices[task // groups], (first_group + task % groups) * half, 1)
        draw_lanes((key[0], key[1]), counters, flat, 2 * half * task, 2 * half * task + half, half)


def fill_groups(
    key: NDArray[np.uint32], devices: NDArray[np.uint32], *, first_group: int, words: NDArray[np.uint32]
) -> None:
    """Fill `words` `[rows, groups, n]` under one `key` `[2]` for `devices` `[rows]`, from group `first_group` on.

    Group g holds pairs g n / 2 to (g + 1) n / 2 - 1: all their first words, then all their second ones.
    """
    run_tasks(
        lambda first, last: _fill_groups(key, devices, first_group, words, first, last),
        num_tasks=len(words) * words.shape[1],
        cost_us=1e-3 * words.size,
    )


@contracted
def real_normal(word0: Any, word1: Any) -> Any:
    """Real part of CN(0, 1), float32, bit for bit that of `random.complex_normal` under XLA.

    The logarithm is XLA's: Cephes `logf` in Estrin's order.
    """
    bits = np.float32((np.float32(word0) + _HALF) * _STEP).view(np.int32)
    x = np.int32((bits & np.int32(0x007FFFFF)) | np.int32(0x3F000000)).view(np.float32)
    exponent = np.float32(np.int32(bits >> _MANTISSA_BITS) - np.int32(126))
    if x < _ROOT_HALF:
        exponent -= _ONE
        x = (x - _ONE) + x
    else:
        x = x - _ONE
    square = x * x
    cube = square * x
    high, middle, low = (_P8 * x + _P7) * x + _P6, (_P5 * x + _P4) * x + _P3, (_P2 * x + _P1) * x + _P0
    series = ((high * cube + middle) * cube + low) * cube + _LN_2_LOW * exponent
    log = (x - _HALF * square + series) + _LN_2_HIGH * exponent
    radius = np.sqrt(-log) if log <= _ZERO else _ZERO
    angle = (_QUARTER - abs(np.float32(np.int32(word1)) * _STEP)) * _TURN
    square = angle * angle
    cosine = _ONE
    for factor in _FACTORS:
        cosine = square * cosine * factor + _ONE
    return radius * (angle * cosine)


@contracted_kernel
def fill_real_normals(keys: Any, device: Any, out: Any) -> None:
    """`real_normal` into `out` `[rows, n]` float32; row r has `keys[r]`, column i the counter (i, `device`)."""
    for row in range(len(out)):
        for i in range(out.shape[1]):
            word0, word1 = threefry(keys[row, 0], keys[row, 1], np.uint32(i), np.uint32(device))
            out[row, i] = real_normal(word0, word1)
