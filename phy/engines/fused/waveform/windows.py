"""Samples of windows inside kernels: motion within them, and late paths; see `phy.frontends.windows`.

Complex numbers of bins and samples are flat, both parts side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.engines.fused.fading.fades import PATHS
from phy.frontends.windows import CLOCK_DRAW, CLOCK_PHASES
from phy.numerics.compiled import inlined, lean_kernel
from phy.numerics.threefry import threefry

_ZERO, _ONE, _HALF = np.float32(0.0), np.float32(1.0), np.float32(0.5)
_CLOCK, _PER_PHASE = np.uint32(CLOCK_DRAW), np.float32(1.0 / CLOCK_PHASES)
_PER_INSTANT = np.int64(2 * PATHS)


@lean_kernel
def tap_changes(steps: Any, antennas: Any, taps: Any, out: Any) -> None:
    """Path gains at the instants of a symbol less those in its middle, the middle left out.

    `taps` and `out` `[rows, slots, ..]` as `slot_taps` leaves them.
    """
    rows, slots, length = taps.shape
    instants, changes = length // (_PER_INSTANT * antennas), out.shape[2] // (_PER_INSTANT * antennas)
    middle = steps // 2
    for n in range(rows):
        for slot in range(slots):
            for antenna in range(antennas):
                for change in range(changes):
                    symbol, step = change // steps, change % steps
                    at = antenna * instants + symbol * steps
                    there = _PER_INSTANT * (at + step + (1 if step >= middle else 0))
                    here, target = _PER_INSTANT * (at + middle), _PER_INSTANT * (antenna * changes + change)
                    for i in range(_PER_INSTANT):
                        out[n, slot, target + i] = taps[n, slot, there + i] - taps[n, slot, here + i]


@inlined
def _add_weighted(weights: Any, step: Any, values: Any, at: Any, out: Any, to: Any, count: Any) -> None:
    source, target = np.uint64(2 * at), np.uint64(2 * to)
    for i in range(count):
        u = np.uint64(2 * i)
        out[target + u] += weights[step, i] * values[source + u]
        out[target + u + np.uint64(1)] += weights[step, i] * values[source + u + np.uint64(1)]


@lean_kernel
def add_up_steps(weights: Any, values: Any, windows: Any, num_windows: Any) -> None:
    """Add `values` `[steps, num_windows, size]` to `windows` `[num_windows, size]` by weights `[steps, size]`."""
    steps, size = weights.shape
    for window in range(num_windows):
        for step in range(steps):
            _add_weighted(weights, step, values, (step * num_windows + window) * size, windows, window * size, size)


@inlined
def swap_symbols(ahead: Any, bins: Any, before: Any, own: Any, begins: Any, out: Any, count: Any) -> None:
    """The symbol before at the end of its window, nothing where a packet `begins`, less the symbol itself."""
    earlier, mine = np.uint64(2 * before), np.uint64(2 * own)
    for i in range(count):
        u = np.uint64(2 * i)
        x, y = _ZERO, _ZERO
        if not begins:
            x, y = bins[earlier + u], bins[earlier + u + np.uint64(1)]
        out[0, i] = ahead[0, i] * x - ahead[1, i] * y - bins[mine + u]
        out[1, i] = ahead[0, i] * y + ahead[1, i] * x - bins[mine + u + np.uint64(1)]


@inlined
def _rotate(by: Any, out: Any, count: Any) -> None:
    for i in range(count):
        x, y = out[0, i], out[1, i]
        out[0, i] = by[0, i] * x - by[1, i] * y
        out[1, i] = by[0, i] * y + by[1, i] * x


@inlined
def _product(swapped: Any, paths: Any, path: Any, count: Any) -> Any:
    """Sum over bins of what is swapped times the turns of a path."""
    real, imag = _ZERO, _ZERO
    for i in range(count):
        a, b = swapped[0, i], swapped[1, i]
        c, d = paths[path, 0, i], paths[path, 1, i]
        real += a * c - b * d
        imag += a * d + b * c
    return real, imag


@inlined
def _stack(turns: Any, gains: Any, sums: Any, count: Any) -> None:
    """Channel of every path and all later ones on the bins, for gains that hold."""
    paths = len(turns)
    for back in range(paths):
        path = paths - 1 - back
        a, b = gains[0, 0, path], gains[0, 1, path]
        for i in range(count):
            real = a * turns[path, 0, i] - b * turns[path, 1, i]
            imag = a * turns[path, 1, i] + b * turns[path, 0, i]
            if back > 0:
                real += sums[path + 1, 0, i]
                imag += sums[path + 1, 1, i]
            sums[path, 0, i] = real
            sums[path, 1, i] = imag


@inlined
def window_of_late(swapped: Any, sums: Any, missed: Any, next_sample: Any, windows: Any, place: Any) -> None:
    """Add the samples of late paths with gains that hold to a window from `place` on, and turn `swapped` along it."""
    size, first = swapped.shape[1], 0
    scale = _ONE / np.sqrt(np.float32(size))
    for sample in range(missed[len(missed) - 1]):
        while missed[first] <= sample:
            first += 1
        real, imag = _product(swapped, sums, first, size)
        windows[place + 2 * sample] += scale * real
        windows[place + 2 * sample + 1] += scale * imag
        _rotate(next_sample, swapped, size)


@inlined
def _gains_of(late: Any, taps: Any, antenna: Any, instants: Any, row: Any, gains: Any) -> None:
    """Gains of the late paths at the instants of a symbol, `[steps + 1, 2, late paths]`."""
    for step in range(late.steps + 1):
        for k in range(len(late.paths)):
            path, place = late.paths[k], row * late.steps + step
            for part in range(2):
                at = part * PATHS + path
                if len(late.between) > 0:
                    value = _ZERO
                    for node in range(instants):
                        value += late.between[place, node] * taps[_PER_INSTANT * (antenna * instants + node) + at]
                else:
                    value = taps[_PER_INSTANT * (antenna * instants + place) + at]
                gains[step, part, k] = value


@lean_kernel
def late_paths(
    late: Any, plane: Any, antennas: Any, keys: Any, taps: Any, bins: Any, windows: Any, gains: Any, missed: Any,
    swapped: Any, sums: Any,
) -> None:  # fmt: skip
    """Add the samples of late paths to `windows` `[rows, antennas, OFDM symbols, size]`.

    `bins` `[rows, OFDM symbols, size]`, `taps` `[rows, slots, ..]` as `slot_taps` leaves them, `keys` `[rows, 8]` with
    those of impairments from place 6 on. From `gains` on there is what `late_scratch` has.
    """
    rows, slots, size = len(taps), taps.shape[1], swapped.shape[1]
    line_rows, count = plane.line_rows, len(late.paths)
    num_symbols, scale = plane.num_slots * line_rows, _ONE / np.sqrt(np.float32(size))
    for n in range(rows):
        word, _ = threefry(np.uint32(keys[n, 6]), np.uint32(keys[n, 7]), np.uint32(0), _CLOCK)
        phase = (np.float32(np.int32(np.uint32(word >> np.uint32(16)))) + _HALF) * _PER_PHASE
        for k in range(count):
            missed[k] = min(late.missed[k] + (1 if late.part[k] + phase >= _ONE else 0), size)
        for antenna in range(antennas):
            for line in range(num_symbols):
                slot, row = min(line // line_rows, slots - 1), line % line_rows
                if late.steps > 0 or line == 0:
                    _gains_of(late, taps[n, slot], antenna, plane.instants, row if late.steps > 0 else 0, gains)
                if late.steps == 0 and line == 0:
                    _stack(late.turns, gains, sums, size)
                own = (n * num_symbols + line) * size
                swap_symbols(late.ahead, bins, own - (size if line > 0 else 0), own, line == 0, swapped, size)
                place, first = 2 * ((n * antennas + antenna) * num_symbols + line) * size, 0
                if late.steps == 0:
                    window_of_late(swapped, sums, missed, late.next_sample, windows, place)
                    continue
                for sample in range(missed[count - 1]):
                    while missed[first] <= sample:
                        first += 1
                    real, imag = _ZERO, _ZERO
                    for k in range(first, count):
                        a, b = _ZERO, _ZERO
                        for step in range(late.steps + 1):
                            a += late.instants[step, sample] * gains[step, 0, k]
                            b += late.instants[step, sample] * gains[step, 1, k]
                        x, y = _product(swapped, late.turns, k, size)
                        real += a * x - b * y
                        imag += a * y + b * x
                    windows[place + 2 * sample] += scale * real
                    windows[place + 2 * sample + 1] += scale * imag
                    _rotate(late.next_sample, swapped, size)
