"""Joint maximum-likelihood detection inside kernels; see `phy.receivers.joint`.

The metric of a vector of points is taken user by user: with the points of users before k subtracted from z,

    -||y - sum_k h_k x_k||^2 / v = sum_k (2 Re(conj(x_k) z_k) - |x_k|^2 G_kk) + const.

Vectors are counted through, the last user fastest, so that most of them cost one such term.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.engines.fused.noma.observed import Observed, pair_lane
from phy.engines.fused.packets.soft import APP, log_of_one_more
from phy.engines.fused.symbols import Mapping, modulate
from phy.numerics.compiled import aligned_zeros, inlined, lean_kernel, spliced

_TILE = np.int64(256)
"""Symbols at once: all lanes of two users of QPSK stay in the nearest cache."""
_TWO, _LOWEST = np.float32(2.0), np.float32(-3.0e38)


@inlined
def _fill(room: Any, lane: Any, value: Any) -> None:
    at = np.uint64(_TILE * lane)
    for i in range(_TILE):
        room[at + np.uint64(i)] = value


@inlined
def _copy(values: Any, room: Any, lane: Any, count: Any) -> None:
    at = np.uint64(_TILE * lane)
    for i in range(count):
        room[at + np.uint64(i)] = values[i]


@inlined
def _add_point(room: Any, before: Any, field: Any, x: Any, y: Any, energy: Any, out: Any, count: Any) -> None:
    """Metric with one more user's point x + iy, from that of the users before it."""
    a, z, b = np.uint64(_TILE * before), np.uint64(_TILE * field), np.uint64(_TILE * out)
    square = x * x + y * y
    for i in range(count):
        u = np.uint64(i)
        found = _TWO * (x * room[z + u] + y * room[z + np.uint64(_TILE) + u]) - square * energy[i]
        room[b + u] = room[a + u] + found


@inlined
def _subtract(room: Any, field: Any, out: Any, x: Any, y: Any, real: Any, imag: Any, count: Any) -> None:
    """z of a later user without the point x + iy of user k, with G_kj = real + i imag."""
    a, b, width = np.uint64(_TILE * field), np.uint64(_TILE * out), np.uint64(_TILE)
    for i in range(count):
        u = np.uint64(i)
        room[b + u] = room[a + u] - (real[i] * x + imag[i] * y)
        room[b + width + u] = room[a + width + u] - (real[i] * y - imag[i] * x)


@inlined
def _larger(room: Any, lane: Any, value: Any, count: Any) -> None:
    a, b = np.uint64(_TILE * lane), np.uint64(_TILE * value)
    for i in range(count):
        u = np.uint64(i)
        room[a + u] = max(room[a + u], room[b + u])


@inlined
def _log_sum(room: Any, lane: Any, value: Any, count: Any) -> None:
    a, b = np.uint64(_TILE * lane), np.uint64(_TILE * value)
    for i in range(count):
        u = np.uint64(i)
        x, y = room[a + u], room[b + u]
        room[a + u] = max(x, y) + log_of_one_more(abs(x - y))


@spliced
def _merge(soft: Any, room: Any, lane: Any, value: Any, count: Any) -> None:
    if soft == APP:
        _log_sum(room, lane, value, count)
    else:
        _larger(room, lane, value, count)


@inlined
def _difference(room: Any, best: Any, llrs: Any, stride: Any, count: Any) -> None:
    zeros, ones = np.uint64(_TILE * best), np.uint64(_TILE * (best + 1))
    for i in range(count):
        llrs[i * stride] = room[ones + np.uint64(i)] - room[zeros + np.uint64(i)]


@lean_kernel
def _joint(values: Any, power: Any, points: Any, soft: Any, llrs: Any, room: Any) -> None:
    users, num_symbols, bits = power.shape[1], values.shape[2], points.bits_per_symbol
    num_points = 1 << bits
    # Lanes: z of user j without the points of users before k; metrics; their sums over points; sums by bit; zeros.
    metric = 2 * users * users
    most, best = metric + users, metric + 2 * users
    zeros = best + 2 * users * bits
    for n in range(len(values)):
        for at in range(0, num_symbols, _TILE):
            count = min(_TILE, num_symbols - at)
            for lane in range(2 * users):
                _copy(values[n, lane, at:], room, lane, count)
            for lane in range(best, zeros):
                _fill(room, lane, _LOWEST)
            for vector in range(num_points**users):
                fresh, rest = users - 1, vector
                while fresh > 0 and rest % num_points == 0:
                    rest //= num_points
                    fresh -= 1
                for k in range(fresh, users):
                    label = (vector >> (bits * (users - 1 - k))) & (num_points - 1)
                    x, y = modulate(np.uint32(label), points)
                    before = metric + k - 1 if k > 0 else zeros
                    _add_point(
                        room, before, 2 * (k * users + k), x, y, values[n, 2 * users + k, at:], metric + k, count
                    )
                    for j in range(k + 1, users):
                        here, lane = 2 * (k * users + j), pair_lane(users, k, j)
                        _subtract(
                            room, here, here + 2 * users, x, y, values[n, lane, at:], values[n, lane + 1, at:], count
                        )
                    if label == 0:
                        _fill(room, most + k, _LOWEST)
                value, k = metric + users - 1, users - 1
                while k >= 0:
                    label = (vector >> (bits * (users - 1 - k))) & (num_points - 1)
                    for bit in range(bits):
                        sign = (label >> (bits - 1 - bit)) & 1
                        _merge(soft, room, best + 2 * (k * bits + bit) + sign, value, count)
                    _merge(soft, room, most + k, value, count)
                    if label < num_points - 1:
                        break
                    value = most + k
                    k -= 1
            for k in range(users):
                for bit in range(bits):
                    _difference(room, best + 2 * (k * bits + bit), llrs[n, k, at * bits + bit :], bits, count)
        for k in range(users):
            if power[n, k] == 0.0:  # sums of equal terms may round differently
                for i in range(num_symbols * bits):
                    llrs[n, k, i] = 0.0


def detect_jointly(observed: Observed, *, points: Mapping, soft: np.int64, llrs: NDArray[np.float32]) -> None:
    """LLRs `[rows, users, num_symbols * bits]`, summed over all vectors where `soft` is APP, else of the likeliest."""
    users, bits = observed.power.shape[1], points.bits_per_symbol
    room = aligned_zeros((2 * users * users + 2 * users + 2 * users * bits + 1) * _TILE, np.float32)
    _joint(observed.values, observed.power, points, soft, llrs, room)
