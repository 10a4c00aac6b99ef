"""Packets as OFDM symbols inside kernels: labels to bins of a transform, and impairments of samples or bins."""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.engines.fused.impairments import clip, draw_offsets, turn_line
from phy.engines.fused.packets.lines import LINE, ROOM, SYMBOL, clear, map_symbols, whole_vectors
from phy.numerics.compiled import inlined, lean_kernel, spliced

_ZERO = np.float32(0.0)


@inlined
def read(values: Any, at: Any, lanes: Any, lane: Any, count: Any) -> None:
    """Complex numbers `at` and following, both parts side by side in the flat `values`, into a lane."""
    first, out = np.uint64(2 * at), np.uint64(lane)
    for i in range(count):
        u = first + np.uint64(2 * i)
        lanes[out + np.uint64(i)] = values[u]
        lanes[out + np.uint64(ROOM + i)] = values[u + np.uint64(1)]


@inlined
def write(lanes: Any, lane: Any, values: Any, at: Any, count: Any) -> None:
    """Inverse of `read`."""
    first, start = np.uint64(2 * at), np.uint64(lane)
    for i in range(count):
        u = first + np.uint64(2 * i)
        values[u] = lanes[start + np.uint64(i)]
        values[u + np.uint64(1)] = lanes[start + np.uint64(ROOM + i)]


@inlined
def _fill(lanes: Any, known: Any, at: Any, first: Any, count: Any) -> None:
    """Known symbols `at` and following, to places `first` to `count` of the lane of symbols."""
    for i in range(first, count):
        u = np.uint64(at + i - first)
        lanes[SYMBOL + i] = known[0, u]
        lanes[SYMBOL + ROOM + i] = known[1, u]


@lean_kernel
def place(carriers: Any, plane: Any, points: Any, labels: Any, bins: Any, energy: Any, lanes: Any) -> None:
    """Symbols of `labels` `[rows, num_symbols]`, pilots and filler to `bins`; `energy` `[rows]` of each packet.

    `bins` are `[rows, OFDM symbols, size]` complex numbers, flat, both parts side by side.
    """
    width, size, low = plane.width, carriers.size, carriers.low
    lines, data_rows = plane.num_slots * plane.line_rows, len(plane.data_rows)
    for n in range(len(labels)):
        total = plane.known_energy
        for line in range(lines):
            slot, number = line // plane.line_rows, carriers.order[line % plane.line_rows]
            at = (n * lines + line) * size
            clear(bins, 2 * at, 2 * size)
            for first in range(0, width, LINE):
                count = min(width - first, LINE)
                if number < 0:
                    _fill(lanes, plane.pilots, (-1 - number) * width + first, 0, count)
                else:
                    symbol = (slot * data_rows + number) * width + first
                    here = max(min(count, plane.num_symbols - symbol), 0)
                    if here > 0:
                        total += map_symbols(labels[n, symbol:], points, lanes, here, here)
                    _fill(lanes, carriers.filler, symbol + here - plane.num_symbols, here, count)
                below = max(min(low - first, count), 0)
                write(lanes, SYMBOL, bins, at + carriers.low_bin + first, below)
                write(lanes, SYMBOL + below, bins, at + carriers.high_bin + first + below - low, count - below)
        energy[n] = total


@spliced
def from_bins(carriers: Any, bins: Any, at: Any, first: Any, lanes: Any, count: Any) -> None:
    """Carriers `first` and following of the OFDM symbol with its bins `at`, into the lane of symbols."""
    below = max(min(carriers.low - first, count), 0)
    if below > 0:
        read(bins, at + carriers.low_bin + first, lanes, SYMBOL, whole_vectors(below))
    if count > below:
        start = at + carriers.high_bin + first + below - carriers.low
        read(bins, start, lanes, SYMBOL + below, whole_vectors(count - below))


@lean_kernel
def impair(law: Any, keys: Any, values: Any, energy: Any, words: Any, lanes: Any) -> None:
    """Clip and turn samples, or turn bins, `values` as those of `place`; clipping changes `energy`.

    `keys` `[rows, 8]` have those of impairments from place 6 on.
    """
    each = len(law.numbers)
    for n in range(len(keys)):
        key, clipped = keys[n, 6:8], 0.0
        offsets, limit = draw_offsets(law, key), law.clipping * np.float32(energy[n] / each)
        for tile in range((each + LINE - 1) // LINE):
            count, at = min(each - tile * LINE, LINE), n * each + tile * LINE
            read(values, at, lanes, SYMBOL, count)
            if limit > _ZERO:
                clipped += clip(limit, lanes, SYMBOL, count)
            turn_line(law, key, offsets, 0, tile, words, lanes, SYMBOL, count)
            write(lanes, SYMBOL, values, at, count)
        if limit > _ZERO:
            energy[n] = clipped
