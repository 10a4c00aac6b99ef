"""Packets of a group in one pass: mapping, fading, noise, and the correlations that every detector starts from.

With y = sum_k h_k x_k + n and the estimates h^, a receiver uses (`phy.receivers.combining`)

    z_k = h^_k^H y / v    and    G_kj = h^_k^H h^_j / v

per symbol: few numbers, however many antennas there are. No received signal is stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.engines.fused.fading.fades import draw_waves
from phy.engines.fused.noma.observed import Observed, pair_lane
from phy.engines.fused.packets.channel import (
    ONE_VALUE,
    channel_and_estimate,
    draw_noise,
    fading_scratch,
    slot_taps,
)
from phy.engines.fused.packets.lines import (
    CHANNEL,
    KNOWN,
    LINE,
    NOISE,
    ROOM,
    SYMBOL,
    clear_noise_beyond,
    map_symbols,
    whole_vectors,
)
from phy.engines.fused.packets.plan import GIVEN_ERROR, KernelPacketPlan
from phy.engines.fused.symbols import Mapping
from phy.numerics.compiled import aligned_zeros, inlined, lean_kernel

_SENT, _FADED, _NOISE = range(3)
_ZERO, _FAINTEST = np.float32(0.0), np.float32(1e-30)
_LEAST_NOISE = np.float32(1e-15)
"""Noise over signal that receivers reckon with at least: squares of the inverse, times gains, stay within float32."""
_LANE = np.int64(2 * ROOM)


class GroupRows(NamedTuple):
    """Inputs of the kernel per row, a packet of every user.

    - `keys` `[rows, users, 6]` uint32: of the channel, of channel knowledge, of noise, which users share;
    - `given` `[rows, users, n]` float32: waves as `fades.draw_waves` takes them;
    - `amplitude`, `gain` `[rows, users]`, `start_s` `[rows]` float32.
    """

    keys: NDArray[np.uint32]
    given: NDArray[np.float32]
    amplitude: NDArray[np.float32]
    gain: NDArray[np.float32]
    start_s: NDArray[np.float32]

    def part(self, rows: slice) -> GroupRows:
        """Some of the rows."""
        return GroupRows(self.keys[rows], self.given[rows], self.amplitude[rows], self.gain[rows], self.start_s[rows])


@inlined
def _noise_alone(lanes: Any, noise_std: Any, kept: Any, at: Any, count: Any) -> Any:
    """Start what is received with noise; its energy at unit power."""
    energy, out = _ZERO, np.uint64(at)
    for i in range(count):
        x, y = lanes[NOISE + i], lanes[NOISE + ROOM + i]
        energy += x * x + y * y
        kept[out + np.uint64(i)] = noise_std * x
        kept[out + np.uint64(ROOM + i)] = noise_std * y
    return energy


@inlined
def _add_user(lanes: Any, arrival: Any, kept: Any, known: Any, at: Any, count: Any) -> Any:
    """Add a g h x of one user to what is received, and keep its estimate; its energy."""
    energy, mine, out = _ZERO, np.uint64(known), np.uint64(at)
    for i in range(count):
        u, v = np.uint64(i), np.uint64(ROOM + i)
        h, k = arrival * lanes[CHANNEL + i], arrival * lanes[CHANNEL + ROOM + i]
        x, y = lanes[SYMBOL + i], lanes[SYMBOL + ROOM + i]
        real, imag = h * x - k * y, h * y + k * x
        energy += real * real + imag * imag
        kept[out + u] += real
        kept[out + v] += imag
        kept[mine + u] = lanes[KNOWN + i]
        kept[mine + v] = lanes[KNOWN + ROOM + i]
    return energy


@inlined
def _clear(values: Any, count: Any) -> None:
    for i in range(count):
        values[i] = _ZERO


@inlined
def _correlate(kept: Any, known: Any, value: Any, weight: Any, real: Any, imag: Any, count: Any) -> None:
    """Add w conj(h^) times a lane to `real` and `imag`."""
    a, b = np.uint64(known), np.uint64(value)
    for i in range(count):
        u, v = np.uint64(i), np.uint64(ROOM + i)
        h, k = weight * kept[a + u], weight * kept[a + v]
        x, y = kept[b + u], kept[b + v]
        real[i] += h * x + k * y
        imag[i] += h * y - k * x


@inlined
def _energy(kept: Any, known: Any, weight: Any, real: Any, count: Any) -> Any:
    """Add w |h^|^2 to `real`; their sum."""
    total, a = _ZERO, np.uint64(known)
    for i in range(count):
        x, y = kept[a + np.uint64(i)], kept[a + np.uint64(ROOM + i)]
        energy = weight * (x * x + y * y)
        total += energy
        real[i] += energy
    return total


@inlined
def _mine(waves: Any, user: Any) -> Any:
    """Waves of a user, None where there are none."""
    return None if waves is None else waves[user]


@lean_kernel
def _observe(
    plan: Any, points: Any, rows: Any, noise_power: Any, labels: Any, values: Any, power: Any, energies: Any,
    words: Any, lanes: Any, waves: Any, taps: Any, nodes: Any, along: Any, given: Any, kept: Any,
) -> None:  # fmt: skip
    """All rows of `labels` `[rows, users, num_symbols]`; from `words` on there is what `_scratch` has.

    `kept` has the estimates of every user at an antenna, then what it receives.
    """
    plane, fades, knowledge = plan.plane, plan.fades, plan.knowledge
    users, antennas, data_rows = labels.shape[1], fades.num_antennas, len(plane.data_rows)
    noise_std, received = np.sqrt(noise_power), _LANE * users
    at_once = max(LINE // plane.width, 1)
    for n in range(len(labels)):
        start_s, noise = rows.start_s[n], 0.0
        variance, strongest = max(noise_power, _FAINTEST), _ZERO
        for user in range(users):
            power[n, user] = 0.0
            energies[n, _SENT, user] = 0.0
            energies[n, _FADED, user] = 0.0
            arrival = rows.amplitude[n, user] * rows.gain[n, user]
            strongest = max(strongest, arrival * arrival)
            if not knowledge.trusting:
                variance += arrival * arrival * knowledge.error_std * knowledge.error_std
            if waves is not None:
                draw_waves(fades, rows.keys[n, user, 0:2], rows.given[n, user], waves[user])
        weight = np.float32(1.0) / max(variance, strongest * _LEAST_NOISE)
        for slot in range(plane.num_slots):
            if not plane.along_line:
                for user in range(users):
                    key = rows.keys[n, user, 0:2]
                    if nodes is None:
                        slot_taps(plan, key, _mine(waves, user), start_s, slot, taps[user], None)
                    else:
                        slot_taps(plan, key, _mine(waves, user), start_s, slot, taps[user], nodes[user])
            for first_row in range(0, data_rows, at_once):
                last_row = min(first_row + at_once, data_rows)
                for tile in range((plane.width + LINE - 1) // LINE):
                    width = min(plane.width - tile * LINE, LINE)
                    at = (slot * data_rows + first_row) * plane.width + tile * LINE
                    count = min((last_row - first_row) * width, plane.num_symbols - at)
                    if count <= 0:
                        break
                    padded = whole_vectors(count)
                    for lane in range(values.shape[1]):
                        _clear(values[n, lane, at:], count)
                    for antenna in range(antennas):
                        draw_noise(
                            plan, rows.keys[n, 0], antenna, slot, first_row, last_row, tile, width, words, lanes, count
                        )
                        clear_noise_beyond(lanes, count, padded)
                        noise += _noise_alone(lanes, noise_std, kept, received, padded)
                        for user in range(users):
                            keys, arrival = rows.keys[n, user], rows.amplitude[n, user] * rows.gain[n, user]
                            if nodes is None:
                                channel_and_estimate(
                                    plan, keys, arrival, start_s, antenna, slot, first_row, last_row, tile, width,
                                    _mine(waves, user), taps[user], None, along, given, None, None, None, words,
                                    lanes, count,
                                )  # fmt: skip
                            else:
                                channel_and_estimate(
                                    plan, keys, arrival, start_s, antenna, slot, first_row, last_row, tile, width,
                                    _mine(waves, user), taps[user], nodes[user], along, given, None, None, None,
                                    words, lanes, count,
                                )  # fmt: skip
                            sent = map_symbols(labels[n, user, at:], points, lanes, count, padded)
                            energies[n, _SENT, user] += sent
                            energies[n, _FADED, user] += _add_user(lanes, arrival, kept, _LANE * user, received, padded)
                        for k in range(users):
                            power[n, k] += _energy(kept, _LANE * k, weight, values[n, 2 * users + k, at:], count)
                            for j in range(k + 1, users + 1):  # the last one is what is received
                                lane = pair_lane(users, k, j) if j < users else 2 * k
                                _correlate(
                                    kept, _LANE * k, _LANE * j, weight, values[n, lane, at:], values[n, lane + 1, at:],
                                    count,
                                )  # fmt: skip
        for user in range(users):
            amplitude = np.float64(rows.amplitude[n, user])
            sent_energy = energies[n, _SENT, user] / antennas + plane.known_energy
            energies[n, _SENT, user] = amplitude * amplitude * plane.prefix_share * sent_energy
            energies[n, _FADED, user] /= antennas
            energies[n, _NOISE, user] = noise_power * noise / antennas


def _scratch(plan: KernelPacketPlan, users: int) -> tuple[Any, ...]:
    words, lanes, *fading = fading_scratch(plan)
    of_users = (None if array is None else np.stack([array] * users) for array in fading)
    along = ONE_VALUE if plan.plane.along_line else None
    given = ONE_VALUE if plan.knowledge.kind == GIVEN_ERROR else None
    return words, lanes, *of_users, along, given, aligned_zeros(2 * ROOM * (users + 1), np.float32)


def observe(
    rows: GroupRows,
    labels: NDArray[np.uint8],
    *,
    plan: KernelPacketPlan,
    points: Mapping,
    noise_power: np.float32,
    observed: Observed,
    energies: NDArray[np.float64],
) -> None:
    """Send `labels` `[rows, users, num_symbols]`, in the caller's thread, into `observed`.

    `energies` `[rows, 3, users]`: transmitted, received signal, and noise, as `packets.air.Carried` has them.
    """
    users = labels.shape[1]
    _observe(plan, points, rows, noise_power, labels, *observed, energies, *_scratch(plan, users))
