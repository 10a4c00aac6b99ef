"""Samples through a tapped delay line inside a kernel; see `phy.frontends.ofdm_time`."""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.engines.fused.fading.fades import PATHS
from phy.engines.fused.packets.lines import LINE, clear, whole_vectors
from phy.numerics.compiled import inlined, lean_kernel

_ZERO = np.float32(0.0)
_IMAGINARY = np.int64(PATHS)


@inlined
def _lags_of(pulse: Any, taps: Any, at: Any, real_out: Any, imag_out: Any) -> None:
    """Sum of the pulses of all paths times their gains."""
    lags, paths = pulse.shape
    for lag in range(lags):
        real, imag = _ZERO, _ZERO
        for path in range(paths):
            real += pulse[lag, path] * taps[at + path]
            imag += pulse[lag, path] * taps[at + _IMAGINARY + path]
        real_out[lag] = real
        imag_out[lag] = imag


@inlined
def _pass_between(weights: Any, line: Any, nodes: Any, lines: Any, place: Any, count: Any) -> None:
    a, b, c = weights[line, 0], weights[line, 1], weights[line, 2]
    d, e, f = weights[line, 3], weights[line, 4], weights[line, 5]
    for i in range(count):
        u = np.uint64(i)
        n = np.uint64(count)
        lines[np.uint64(place) + u] = (
            (a * nodes[u] + b * nodes[u + n])
            + (c * nodes[u + np.uint64(2) * n] + d * nodes[u + np.uint64(3) * n])
            + (e * nodes[u + np.uint64(4) * n] + f * nodes[u + np.uint64(5) * n])
        )


@inlined
def _add_echoes(
    lines: Any, start: Any, end: Any, lags: Any, weight: Any, first: Any, stream: Any, half: Any, at: Any, out: Any,
    begin: Any, count: Any,
) -> None:  # fmt: skip
    """Add four echoes, of lags `start` of one line of the delay line that passes into those of the next at `end`."""
    a, b, c, d = lines[start], lines[start + 1], lines[start + 2], lines[start + 3]
    e, f, g, h = lines[start + lags], lines[start + lags + 1], lines[start + lags + 2], lines[start + lags + 3]
    da, db, dc, dd = lines[end] - a, lines[end + 1] - b, lines[end + 2] - c, lines[end + 3] - d
    de, df = lines[end + lags] - e, lines[end + lags + 1] - f
    dg, dh = lines[end + lags + 2] - g, lines[end + lags + 3] - h
    x, y, w = np.uint64(at), np.uint64(at + half), np.uint64(first)
    real_out, imag_out = np.uint64(begin), np.uint64(begin + len(out) // 2)
    for i in range(count):
        u, t = np.uint64(i), weight[w + np.uint64(i)]
        p, q = a + t * da, e + t * de
        s, z = stream[x + u], stream[y + u]
        real, imag = p * s - q * z, p * z + q * s
        p, q = b + t * db, f + t * df
        s, z = stream[x + u - np.uint64(1)], stream[y + u - np.uint64(1)]
        real += p * s - q * z
        imag += p * z + q * s
        p, q = c + t * dc, g + t * dg
        s, z = stream[x + u - np.uint64(2)], stream[y + u - np.uint64(2)]
        real += p * s - q * z
        imag += p * z + q * s
        p, q = d + t * dd, h + t * dh
        s, z = stream[x + u - np.uint64(3)], stream[y + u - np.uint64(3)]
        real += p * s - q * z
        imag += p * z + q * s
        out[real_out + u] += real
        out[imag_out + u] += imag


@inlined
def _stretch(samples: Any, source: Any, stream: Any, target: Any, half: Any, count: Any) -> None:
    """Samples `source` and following, both parts side by side, into the stream."""
    first, one, two = np.uint64(2 * source), np.uint64(target), np.uint64(target + half)
    for i in range(count):
        stream[one + np.uint64(i)] = samples[first + np.uint64(2 * i)]
        stream[two + np.uint64(i)] = samples[first + np.uint64(2 * i + 1)]


@inlined
def _energy(stream: Any, at: Any, half: Any, count: Any) -> Any:
    energy, one, two = _ZERO, np.uint64(at), np.uint64(at + half)
    for i in range(count):
        x, y = stream[one + np.uint64(i)], stream[two + np.uint64(i)]
        energy += x * x + y * y
    return energy


@inlined
def _write(out: Any, values: Any, at: Any, count: Any) -> None:
    first, half = np.uint64(2 * at), np.uint64(len(out) // 2)
    for i in range(count):
        values[first + np.uint64(2 * i)] = out[np.uint64(i)]
        values[first + np.uint64(2 * i + 1)] = out[half + np.uint64(i)]


@lean_kernel
def pass_through(
    waveform: Any, plane: Any, antennas: Any, taps: Any, samples: Any, windows: Any, energy: Any, stream: Any,
    out: Any, nodes: Any, lines: Any,
) -> None:  # fmt: skip
    """Samples behind their prefixes to the receiver's windows; `energy` `[rows]` of all samples, prefixes included.

    `samples` `[rows, OFDM symbols, size]` and `windows` `[rows, antennas, OFDM symbols, size]` complex numbers, flat,
    both parts side by side; `taps` `[rows, slots, ..]` as `slot_taps` leaves them, of one slot where the channel is
    still. From `stream` on there is what `line_scratch` has.
    """
    size, prefix, pulse = waveform.size, waveform.prefix, waveform.pulse
    rows, slots, lags = len(taps), taps.shape[1], len(pulse)
    each, half, room = size + prefix, len(stream) // 2, 2 * lags
    before, line_rows, instants = max(waveform.first + lags - 1, 0), plane.line_rows, plane.instants
    num_symbols = plane.num_slots * line_rows
    knots, later = waveform.knots, 1 if waveform.moves else 0
    for n in range(rows):
        total = 0.0
        for t in range(num_symbols):
            source, target = (n * num_symbols + t) * size, before + t * each
            _stretch(samples, source + size - prefix, stream, target, half, whole_vectors(prefix))
            _stretch(samples, source, stream, target + prefix, half, whole_vectors(size))
        end = before + num_symbols * each
        for part in (0, half):
            clear(stream, part + end, half - end)
        for at in range(before, end, LINE):
            total += _energy(stream, at, half, min(end - at, LINE))
        energy[n] = total
        for antenna in range(antennas):
            for slot in range(slots):
                at = 2 * PATHS * instants * antenna
                if len(waveform.between) > 0:
                    for node in range(instants):
                        place = room * node
                        _lags_of(pulse, taps[n, slot], at + 2 * PATHS * node, nodes[place:], nodes[place + lags :])
                    for line in range(len(waveform.between)):
                        _pass_between(waveform.between, line, nodes, lines, room * line, room)
                else:
                    for instant in range(instants):
                        place = room * instant
                        _lags_of(pulse, taps[n, slot], at + 2 * PATHS * instant, lines[place:], lines[place + lags :])
                first = slot * line_rows
                for t in range(first, num_symbols if slots == 1 else first + line_rows):
                    clear(out, 0, len(out))
                    for knot in range(len(waveform.starts) - 1):
                        begin = max(waveform.starts[knot], prefix)
                        count = waveform.starts[knot + 1] - begin
                        if knot == len(waveform.starts) - 2:  # nothing is behind the last one
                            count = whole_vectors(count)
                        line = (t - first) * knots + knot
                        for lag in range(0, lags, 4):
                            _add_echoes(
                                lines, room * line + lag, room * (line + later) + lag, lags, waveform.weight, begin,
                                stream, half, before + t * each + begin - waveform.first - lag, out, begin - prefix,
                                count,
                            )  # fmt: skip
                    _write(out, windows, ((n * antennas + antenna) * num_symbols + t) * size, whole_vectors(size))
