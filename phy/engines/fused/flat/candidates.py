"""Symbols that noise may take to another decision, found before their noise has an angle: all others arrive as sent.

Noise z = r e^(j phi) has r^2 = -ln u with u from the first of its two random words. A symbol x reaches the decision as
t x + q z (`taps`). With points 2 d apart it is decided as sent where |t - 1| |x| + q r < d. So it can only be wrong if

    r >= a = (d - |t - 1| max|x|) / q,   that is   word <= 2^32 e^(-a^2),

a comparison of integers with a number of the tap. These candidates go through the receiver as symbols do that are alone
in their groups, in lanes of their own.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.engines.fused.flat.compaction import WIDTH, find_small
from phy.engines.fused.flat.lanes import (
    FADED_POWER,
    NOISE_IMAG,
    NOISE_REAL,
    NOISE_SCALE,
    OF_SYMBOLS,
    OF_TAPS,
    SENT_POWER,
    TAP_REAL,
    TILE,
    TURN_IMAG,
    TURN_REAL,
    tap_lanes,
)
from phy.engines.fused.symbols import modulate, modulate_signs
from phy.numerics.compiled import aligned_zeros, inlined, shifted_left, shifted_right, spliced
from phy.numerics.random_kernels import negative_log

SENT, FADED, NOISE, NUM_ENERGIES = range(4)
DECIDED = TILE + WIDTH
"""Start of decided labels, after the sent ones."""
FEW = 0.2
"""Share of candidates from which on all symbols are received: one by one they take longer."""
LONG = 64
"""Shortest coherence block whose symbols are compared with its limit."""
_LIMIT = TAP_REAL
"""Largest word of a candidate: taps are used no longer once their coefficients are known."""
SAFE = np.float32(0.9999)
"""Of d. On its way to the decision a symbol is rounded by less than 1e-5 d."""
_ALL, _NONE, _HIGHEST, _LOWEST = np.uint32(0xFFFFFFFF), np.uint32(0), np.float32(31.0), np.float32(9.0)
_WORD_BITS, _BIAS, _MANTISSA = np.float32(32.0), np.float32(127.0), np.float32(1 << 23)
_ZERO, _ONE, _HALF, _STEP = np.float32(0.0), np.float32(1.0), np.float32(0.5), np.float32(2.0**-32)
_ROOT_2, LOG2_E = np.float32(2.0**0.5), np.float32(math.log2(math.e))
_WHOLE = 64
"""Candidates are received in multiples of it: no loop of vectors ends in single steps."""


class Tile(NamedTuple):
    """Symbols `base` to `base + size` of a row, the first of them under tap `first_tap` of `block` symbols each."""

    base: int
    size: int
    block: int
    first_tap: int
    num_taps: int


class Candidates(NamedTuple):
    """Scratch arrays of a thread: labels and lanes as those of a tile, and where each candidate comes from."""

    labels: NDArray[np.uint32]
    lanes: NDArray[np.float32]
    symbol: NDArray[np.uint32]
    tap: NDArray[np.uint32]
    group: NDArray[np.uint32]
    shift: NDArray[np.uint32]


def candidates() -> Candidates:
    """Room for the candidates of a tile."""
    return Candidates(aligned_zeros(2 * DECIDED, np.uint32), tap_lanes()[1], *aligned_zeros((4, DECIDED), np.uint32))


@inlined
def limit_at(squared: Any) -> Any:
    """Largest word with r^2 of `squared`: 2^32 exp(-`squared`), or up to 7 % more; any word if that is above half."""
    power = _WORD_BITS - LOG2_E * squared
    some = power < _HIGHEST
    # The float32 of the bits (y + 127) 2^23 is between 2^y and 1.07 times that.
    bound = np.int32(((max(power, _LOWEST) if some else _LOWEST) + _BIAS) * _MANTISSA).view(np.float32)
    return np.uint32(bound) if some else _ALL


@inlined
def set_limits(points: Any, lanes: Any, count: Any) -> Any:
    """Limits of the first `count` taps by their coefficients."""
    for i in range(count):
        real, imag = lanes[OF_TAPS + TURN_REAL + i] - _ONE, lanes[OF_TAPS + TURN_IMAG + i]
        moved = math.sqrt(real * real + imag * imag) * (_ROOT_2 * points.top)
        distance = (SAFE * _HALF - moved) * points.spacing
        radius = (distance if distance > _ZERO else _ZERO) / lanes[OF_TAPS + NOISE_SCALE + i]
        lanes[_LIMIT + i] = np.uint32(limit_at(radius * radius)).view(np.float32)


@inlined
def _limit_of(lanes: Any, tap: Any) -> Any:
    return np.float32(lanes[_LIMIT + tap]).view(np.uint32)


@inlined
def _end_of(tap: Any, tile: Any) -> Any:
    """End of the symbols of a tile that are under a tap, counted from its start."""
    return min((tile.first_tap + tap + 1) * tile.block - tile.base, tile.size)


@inlined
def expected_share(lanes: Any, tile: Any) -> Any:
    """Expected share of candidates among the symbols of a tile."""
    expected, start = 0.0, 0
    for tap in range(tile.num_taps):
        stop = _end_of(tap, tile)
        expected += (stop - start) * np.float64(_limit_of(lanes, tap))
        start = stop
    return expected / (tile.size * 2.0**32)


@inlined
def uniform(lanes: Any, at: Any) -> Any:
    """Number in (0, 1] of a random word."""
    return (np.float32(np.float32(lanes[at]).view(np.uint32)) + _HALF) * _STEP


@inlined
def sum_of_radii(lanes: Any, count: Any) -> Any:
    """Sum of r^2 of `count` symbols: a logarithm of every four words."""
    total, run = _ZERO, count // 4
    for i in range(run):
        pair = uniform(lanes, NOISE_REAL + i) * uniform(lanes, NOISE_REAL + i + run)
        other = uniform(lanes, NOISE_REAL + i + 2 * run) * uniform(lanes, NOISE_REAL + i + 3 * run)
        total += negative_log(pair * other)
    for i in range(4 * run, count):
        total += negative_log(uniform(lanes, NOISE_REAL + i))
    return total


@inlined
def _sent_energy(words: Any, points: Any, start: Any, stop: Any) -> Any:
    """Sum of |x|^2 of symbols `start` to `stop`."""
    if points.bits_per_symbol <= 2:
        x, y = modulate_signs(_NONE, points)
        return (x * x + y * y) * np.float32(stop - start)
    total, per_group = _ZERO, points.symbols_per_group
    for place in range(per_group):
        shift = np.uint32((per_group - 1 - place) * points.bits_per_symbol)
        for i in range((start - place + per_group - 1) // per_group, (stop - place + per_group - 1) // per_group):
            x, y = modulate(np.uint32(shifted_right(words[i], shift) & points.label_mask), points)
            total += x * x + y * y
    return total


@inlined
def _add_energies(words: Any, lanes: Any, points: Any, tile: Any, energies: Any) -> None:
    energies[NOISE] += sum_of_radii(lanes, tile.size)
    start = 0
    for tap in range(tile.num_taps):
        stop = _end_of(tap, tile)
        energy = _sent_energy(words, points, start, stop)
        energies[SENT] += energy * lanes[OF_TAPS + SENT_POWER + tap]
        energies[FADED] += energy * lanes[OF_TAPS + FADED_POWER + tap]
        start = stop


@inlined
def _find(drawn: Any, lanes: Any, tile: Any, rare: Any) -> Any:
    """Symbols and taps of candidates. Returns their number."""
    found, start = 0, 0
    for tap in range(tile.num_taps):
        stop = _end_of(tap, tile)
        now = find_small(drawn, NOISE_REAL, start, stop, _limit_of(lanes, tap), rare.symbol, found)
        for k in range(found, now):
            rare.tap[k] = np.uint32(tap)
        found, start = now, stop
    return found


@inlined
def locate(points: Any, rare: Any, found: Any) -> None:
    """Groups of candidates, and the shifts of their labels in them."""
    per_group = np.int32(points.symbols_per_group)
    share = _ONE / np.float32(per_group)  # a power of two
    for k in range(found):
        symbol = np.int32(rare.symbol[k])
        group = np.int32(np.float32(symbol) * share)
        rare.group[k] = np.uint32(group)
        place = np.int32(symbol - np.int32(group * per_group))
        rare.shift[k] = np.uint32(
            np.int32(np.int32(per_group - np.int32(1)) - place) * np.int32(points.bits_per_symbol)
        )


@inlined
def collect(words: Any, lanes: Any, points: Any, rare: Any, found: Any) -> None:
    """Labels and noise words of candidates."""
    for k in range(found):
        i = rare.symbol[k]
        rare.labels[k] = np.uint32(shifted_right(words[rare.group[k]], rare.shift[k]) & points.label_mask)
        rare.labels[DECIDED + k] = _NONE
        rare.lanes[NOISE_REAL + k] = lanes[NOISE_REAL + i]
        rare.lanes[NOISE_IMAG + k] = lanes[NOISE_IMAG + i]


@inlined
def _collect_coefficients(lanes: Any, rare: Any, found: Any) -> None:
    for k in range(found):
        tap = rare.tap[k]
        rare.lanes[OF_SYMBOLS + NOISE_SCALE + k] = lanes[OF_TAPS + NOISE_SCALE + tap]
        rare.lanes[OF_SYMBOLS + TURN_REAL + k] = lanes[OF_TAPS + TURN_REAL + tap]
        rare.lanes[OF_SYMBOLS + TURN_IMAG + k] = lanes[OF_TAPS + TURN_IMAG + tap]


@inlined
def decide_as_sent(words: Any, points: Any, tile: Any) -> None:
    """Labels of all symbols of a tile."""
    for i in range((tile.size + points.symbols_per_group - 1) // points.symbols_per_group):
        words[DECIDED + i] = words[i]


@spliced
def screen(words: Any, drawn: Any, lanes: Any, points: Any, tile: Any, rare: Any, energies: Any) -> Any:
    """Decide the symbols of a tile as sent and add up energies. Returns the number of candidates, to be received.

    The words of the noise are drawn, in the order of symbols; `drawn` is `lanes` seen as uint32.
    """
    _add_energies(words, lanes, points, tile, energies)
    found = _find(drawn, lanes, tile, rare)
    locate(points, rare, found)
    collect(words, lanes, points, rare, found)
    _collect_coefficients(lanes, rare, found)
    decide_as_sent(words, points, tile)
    return found


@inlined
def correct(words: Any, rare: Any, found: Any) -> None:
    """Decided labels of candidates in place of the sent ones."""
    for k in range(found):
        words[DECIDED + rare.group[k]] ^= shifted_left(
            np.uint32(rare.labels[k] ^ rare.labels[DECIDED + k]), rare.shift[k]
        )


@inlined
def whole(found: Any) -> Any:
    """Count to which candidates are received."""
    return (found + _WHOLE - 1) // _WHOLE * _WHOLE
