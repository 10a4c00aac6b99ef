"""One line of a packet inside kernels: channel, received signal, channel estimate, combining and decisions.

A line is up to `LINE` channel uses side by side. All its lanes lie in one flat float32 array at constant distances, and
loops run over whole vectors of 16: values beyond the line are zero or unused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.engines.fused.symbols import decide, decide_signs, modulate, modulate_signs
from phy.numerics.compiled import inlined, spliced
from phy.numerics.random_kernels import complex_normal
from phy.numerics.threefry import draw_lanes, positions

LINE = 1024
"""Channel uses in a tile, the part of a line that is processed at once."""
ROOM = LINE + 16
"""Distance of two lanes: lanes a power of two apart share the same few cache lines."""

VECTOR = 16

# NumPy numbers: a kernel is compiled again for every Python number that it is called with.
CHANNEL, NOISE, KNOWN, SYMBOL, MATCHED = (np.int64(2 * lane * ROOM) for lane in range(5))
"""Real parts; imaginary ones are `ROOM` further."""
ENERGY, VARIANCE = 10 * ROOM, 11 * ROOM
BEST = 12 * ROOM
"""Four lanes for each of the two signs of a bit."""
_WORDS = BEST
"""Random words use the lanes of the decisions."""
NUM_LANES = 20 * ROOM

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_FAINTEST = np.float32(1e-30)


@inlined
def whole_vectors(count: Any) -> Any:
    """Whole vectors, two at a time."""
    return (count + VECTOR - 1) // VECTOR * VECTOR


@inlined
def drawn(count: Any) -> Any:
    """Round `count` up to a multiple of 8, for expensive loops."""
    return (count + VECTOR // 2 - 1) // (VECTOR // 2) * (VECTOR // 2)


@inlined
def _normals(lanes: Any, lane: Any, count: Any) -> None:
    out = np.uint64(lane)
    for i in range(count):
        word0 = np.float32(lanes[_WORDS + i]).view(np.uint32)
        word1 = np.float32(lanes[_WORDS + ROOM + i]).view(np.uint32)
        real, imag = complex_normal(word0, word1)
        lanes[out + np.uint64(i)] = real
        lanes[out + np.uint64(ROOM) + np.uint64(i)] = imag


@spliced
def draw_line(key0: Any, key1: Any, antenna: Any, first: Any, words: Any, lanes: Any, lane: Any, count: Any) -> None:
    """CN(0, 1) at positions from `first` on into a lane. In two loops: Threefry alone fills the registers.

    `words` is `lanes` seen as uint32.
    """
    draw_lanes((key0, key1), positions(antenna, first, 1), words, _WORDS, _WORDS + ROOM, count)
    _normals(lanes, lane, count)


@inlined
def apply_response(taps: Any, real_at: Any, imag_at: Any, shapes: Any, lanes: Any, lane: Any, count: Any) -> None:
    """Sum of `shapes` `[n, 2, ROOM]`, n a multiple of 4, times the complex numbers of `taps`, into a lane."""
    out = np.uint64(lane)
    for i in range(count):
        lanes[out + np.uint64(i)] = _ZERO
        lanes[out + np.uint64(ROOM + i)] = _ZERO
    flat = shapes.reshape(-1)
    for path in range(0, len(shapes), 4):
        at = np.uint64(2 * ROOM * path)
        a, b = taps[real_at + path], taps[imag_at + path]
        c, d = taps[real_at + path + 1], taps[imag_at + path + 1]
        e, f = taps[real_at + path + 2], taps[imag_at + path + 2]
        g, h = taps[real_at + path + 3], taps[imag_at + path + 3]
        for i in range(count):
            u = at + np.uint64(i)
            real = a * flat[u] - b * flat[u + np.uint64(ROOM)]
            imag = b * flat[u] + a * flat[u + np.uint64(ROOM)]
            real += c * flat[u + np.uint64(2 * ROOM)] - d * flat[u + np.uint64(3 * ROOM)]
            imag += d * flat[u + np.uint64(2 * ROOM)] + c * flat[u + np.uint64(3 * ROOM)]
            real += e * flat[u + np.uint64(4 * ROOM)] - f * flat[u + np.uint64(5 * ROOM)]
            imag += f * flat[u + np.uint64(4 * ROOM)] + e * flat[u + np.uint64(5 * ROOM)]
            real += g * flat[u + np.uint64(6 * ROOM)] - h * flat[u + np.uint64(7 * ROOM)]
            imag += h * flat[u + np.uint64(6 * ROOM)] + g * flat[u + np.uint64(7 * ROOM)]
            lanes[out + np.uint64(i)] += real
            lanes[out + np.uint64(ROOM + i)] += imag


@inlined
def pass_between(nodes: Any, at: Any, weights: Any, row: Any, lanes: Any, lane: Any, count: Any) -> None:
    """A line from those at six nodes, `nodes[at + 2 * ROOM * node]`, with `weights[row, node]`; into a lane."""
    a, b, c = weights[row, 0], weights[row, 1], weights[row, 2]
    d, e, f = weights[row, 3], weights[row, 4], weights[row, 5]
    for part in range(0, 2 * ROOM, ROOM):
        start, out = np.uint64(at + part), np.uint64(lane + part)
        for i in range(count):
            u = start + np.uint64(i)
            lanes[out + np.uint64(i)] = (
                (a * nodes[u] + b * nodes[u + np.uint64(2 * ROOM)])
                + (c * nodes[u + np.uint64(4 * ROOM)] + d * nodes[u + np.uint64(6 * ROOM)])
                + (e * nodes[u + np.uint64(8 * ROOM)] + f * nodes[u + np.uint64(10 * ROOM)])
            )


@inlined
def spread_tap(real: Any, imag: Any, lanes: Any, lane: Any, count: Any) -> None:
    """Fill a line with one number."""
    lanes[lane : lane + count] = real
    lanes[lane + ROOM : lane + ROOM + count] = imag


@inlined
def estimate_variance(
    shares: Any, shapes: Any, offset: Any, strength: Any, lanes: Any, column: Any, count: Any
) -> None:
    """strength (offset + sum of real `shapes` `[n, ROOM]`, n a multiple of 4, times `shares`), into the variance."""
    out = np.uint64(VARIANCE + column)
    for i in range(count):
        lanes[out + np.uint64(i)] = offset[i]
    flat = shapes.reshape(-1)
    for mode in range(0, len(shapes), 4):
        at = np.uint64(ROOM * mode)
        a, b, c, d = shares[mode], shares[mode + 1], shares[mode + 2], shares[mode + 3]
        for i in range(count):
            u = at + np.uint64(i)
            lanes[out + np.uint64(i)] += (
                a * flat[u]
                + b * flat[u + np.uint64(ROOM)]
                + c * flat[u + np.uint64(2 * ROOM)]
                + d * flat[u + np.uint64(3 * ROOM)]
            )
    for i in range(count):
        lanes[out + np.uint64(i)] *= strength


@inlined
def map_symbols(labels: Any, points: Any, lanes: Any, count: Any, padded: Any) -> Any:
    """Symbols of `count` labels, zero beyond; their energy."""
    energy = _ZERO
    if points.bits_per_symbol > 2:
        for i in range(count):
            x, y = modulate(np.uint32(labels[i]), points)
            energy += x * x + y * y
            lanes[SYMBOL + i] = x
            lanes[SYMBOL + ROOM + i] = y
    else:
        for i in range(count):
            x, y = modulate_signs(np.uint32(labels[i]), points)
            lanes[SYMBOL + i] = x
            lanes[SYMBOL + ROOM + i] = y
        energy = np.float32(count) * (x * x + y * y)
    for i in range(count, padded):
        lanes[SYMBOL + i] = _ZERO
        lanes[SYMBOL + ROOM + i] = _ZERO
    return energy


@inlined
def fill_ones(lanes: Any, count: Any, padded: Any) -> None:
    """`count` symbols of one, zero beyond."""
    for i in range(padded):
        lanes[SYMBOL + i] = _ONE if i < count else _ZERO
        lanes[SYMBOL + ROOM + i] = _ZERO


@inlined
def clear(values: Any, at: Any, count: Any) -> None:
    """Zeros in `values[at : at + count]`."""
    first = np.uint64(at)
    for i in range(count):
        values[first + np.uint64(i)] = _ZERO


@inlined
def clear_noise_beyond(lanes: Any, count: Any, padded: Any) -> None:
    """Set the noise to zero where there is no symbol."""
    for i in range(count, padded):
        lanes[NOISE + i] = _ZERO
        lanes[NOISE + ROOM + i] = _ZERO


@inlined
def receive_pilots(
    pilots: Any, at: Any, lanes: Any, arrival: Any, noise_std: Any, known: Any, start: Any, width: Any, count: Any
) -> None:
    """Write a received pilot line without the known sequence to `known[start]`, imaginary parts `width` further.

    `pilots` `[2, ...]`, from column `at` on.
    """
    u, k = np.uint64(at), np.uint64(start)
    for i in range(count):
        real, imag = pilots[0, u + np.uint64(i)], pilots[1, u + np.uint64(i)]
        x, y = lanes[NOISE + i], lanes[NOISE + ROOM + i]
        known[k + np.uint64(i)] = arrival * lanes[CHANNEL + i] + noise_std * (x * real + y * imag)
        known[k + np.uint64(width + i)] = arrival * lanes[CHANNEL + ROOM + i] + noise_std * (y * real - x * imag)


@inlined
def interpolate(known: Any, low: Any, high: Any, width: Any, weight: Any, lanes: Any, column: Any, count: Any) -> None:
    """Between two pilot lines, `known[low]` and `known[high]`."""
    a, b, out = np.uint64(low), np.uint64(high), np.uint64(KNOWN + column)
    for i in range(count):
        u = np.uint64(i)
        real, imag = known[a + u], known[a + np.uint64(width) + u]
        lanes[out + u] = real + (known[b + u] - real) * weight
        lanes[out + np.uint64(ROOM) + u] = imag + (known[b + np.uint64(width) + u] - imag) * weight


@inlined
def noisy_estimate(lanes: Any, arrival: Any, error_std: Any, column: Any, count: Any) -> None:
    """Estimate a g (h + error), with the error already in the lane of the estimate."""
    h, out = np.uint64(CHANNEL + column), np.uint64(KNOWN + column)
    for i in range(count):
        u = np.uint64(i)
        v = u + np.uint64(ROOM)
        lanes[out + u] = arrival * (lanes[h + u] + error_std * lanes[out + u])
        lanes[out + v] = arrival * (lanes[h + v] + error_std * lanes[out + v])


@inlined
def perfect_estimate(lanes: Any, arrival: Any, column: Any, count: Any) -> None:
    """Perfect estimate a g h."""
    h, out = np.uint64(CHANNEL + column), np.uint64(KNOWN + column)
    for i in range(count):
        u = np.uint64(i)
        v = u + np.uint64(ROOM)
        lanes[out + u] = arrival * lanes[h + u]
        lanes[out + v] = arrival * lanes[h + v]


@inlined
def clear_matched(lanes: Any, count: Any) -> None:
    """Set the combined values to zero."""
    for i in range(count):
        lanes[MATCHED + i] = _ZERO
        lanes[MATCHED + ROOM + i] = _ZERO
        lanes[ENERGY + i] = _ZERO


@inlined
def combine_antenna(lanes: Any, arrival: Any, noise_std: Any, count: Any) -> Any:
    """Add one antenna: conj(G) y and |G|^2. Returns energies (faded, noise of unit power) of the line."""
    faded, noise = _ZERO, _ZERO
    for i in range(count):
        h, k = arrival * lanes[CHANNEL + i], arrival * lanes[CHANNEL + ROOM + i]
        x, y = lanes[SYMBOL + i], lanes[SYMBOL + ROOM + i]
        real, imag = h * x - k * y, h * y + k * x
        faded += real * real + imag * imag
        p, q = lanes[NOISE + i], lanes[NOISE + ROOM + i]
        noise += p * p + q * q
        real += noise_std * p
        imag += noise_std * q
        a, b = lanes[KNOWN + i], lanes[KNOWN + ROOM + i]
        lanes[MATCHED + i] += a * real + b * imag
        lanes[MATCHED + ROOM + i] += a * imag - b * real
        lanes[ENERGY + i] += a * a + b * b
    return faded, noise


@inlined
def decide_line(lanes: Any, points: Any, labels: Any, count: Any) -> None:
    """Labels of the nearest points."""
    if points.bits_per_symbol > 2:
        for i in range(count):
            inverse = _ONE / max(lanes[ENERGY + i], _FAINTEST)
            labels[i] = np.uint8(decide(lanes[MATCHED + i] * inverse, lanes[MATCHED + ROOM + i] * inverse, points))
    else:
        for i in range(count):
            labels[i] = np.uint8(decide_signs(lanes[MATCHED + i], lanes[MATCHED + ROOM + i], points))


@inlined
def dot(known: Any, start: Any, width: Any, modes: Any, mode: Any) -> Any:
    """Sum of known times conj(mode) over carriers, both complex in halves."""
    k, m = np.uint64(start), np.uint64(mode * width)
    real, imag = _ZERO, _ZERO
    for i in range(width):
        u = np.uint64(i)
        a, b = known[k + u], known[k + np.uint64(width) + u]
        c, d = modes[0, m + u], modes[1, m + u]
        real += a * c + b * d
        imag += b * c - a * d
    return real, imag


@inlined
def shrink(
    known: Any, start: Any, width: Any, carrier_modes: Any, pilot_modes: Any, level: Any, strength: Any,
    noise_power: Any, out: Any,
) -> None:  # fmt: skip
    """Modes of the channel from one antenna's pilots of a slot, `out` `[I, J]` complex64; see `LinearMmse`.

    Or `[1, M]`; see `JointMmse`.
    """
    if pilot_modes.ndim == 3:
        pilots, along, over = pilot_modes.shape
        for i in range(over):
            out[0, i] = 0.0
        for pilot in range(pilots):
            for j in range(along):
                real, imag = dot(known, start + 2 * width * pilot, width, carrier_modes, j)
                heard = np.complex64(complex(real, imag))
                for i in range(over):
                    out[0, i] += np.conj(pilot_modes[pilot, j, i]) * heard
        for i in range(over):
            out[0, i] *= strength / max(strength * level[0, i] + noise_power, _FAINTEST)
        return
    pilots, over = pilot_modes.shape
    for j in range(level.shape[1]):
        for i in range(over):
            out[i, j] = 0.0
        for pilot in range(pilots):
            real, imag = dot(known, start + 2 * width * pilot, width, carrier_modes, j)
            heard = np.complex64(complex(real, imag))
            for i in range(over):
                out[i, j] += np.conj(pilot_modes[pilot, i]) * heard
        for i in range(over):
            out[i, j] *= strength / max(strength * level[i, j] + noise_power, _FAINTEST)


@inlined
def wanted_modes(wanted: Any, row: Any, shrunk: Any, taps: Any) -> None:
    """Modes in frequency at one data row, real parts from 0 on, imaginary ones behind the padding to fours."""
    if wanted.ndim == 3:
        half = len(taps) // 2
        for j in range(wanted.shape[1]):
            real, imag = _ZERO, _ZERO
            for i in range(wanted.shape[2]):
                a, b = wanted[row, j, i], shrunk[0, i]
                real += a.real * b.real - a.imag * b.imag
                imag += a.real * b.imag + a.imag * b.real
            taps[j] = real
            taps[half + j] = imag
        return
    over, along = shrunk.shape
    padded = (along + 3) // 4 * 4
    for j in range(padded):
        taps[j] = _ZERO
        taps[padded + j] = _ZERO
    for j in range(along):
        for i in range(over):
            a, b = wanted[row, i], shrunk[i, j]
            taps[j] += a.real * b.real - a.imag * b.imag
            taps[padded + j] += a.real * b.imag + a.imag * b.real


@inlined
def noise_shares(level: Any, explained: Any, strength: Any, noise_power: Any, shares: Any) -> None:
    """Share of every frequency mode of a data row that is lost in noise."""
    over, along = level.shape
    shares[:] = _ZERO
    for j in range(along):
        for i in range(over):
            total = max(strength * level[i, j] + noise_power, _FAINTEST)
            shares[j] += explained[i] * (noise_power / total)


@inlined
def fill_variance(lanes: Any, variance: Any, noise_power: Any, column: Any, count: Any) -> None:
    """Fill the variance of a line with noise power plus the variance of the estimate."""
    lanes[VARIANCE + column : VARIANCE + column + count] = max(noise_power, _FAINTEST) + variance


@inlined
def add_noise_power(lanes: Any, noise_power: Any, column: Any, count: Any) -> None:
    """Noise on top of the variance of the estimate."""
    out = np.uint64(VARIANCE + column)
    for i in range(count):
        lanes[out + np.uint64(i)] += max(noise_power, _FAINTEST)
