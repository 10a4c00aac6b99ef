"""Packets through the air in one pass: mapped, placed, faded, noised, estimated, combined, decided, or made soft bits.

A row is one packet of one device. Its slots are taken one after the other, pilot lines first, so that nothing larger
than a line is ever stored beside the packet's labels. What a row gives depends on its own keys alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.fused.compiled import kernel, spliced
from phy.fused.packet_fades import PATHS, WAVES, draw_waves, tap_paths, waves_room
from phy.fused.packet_lines import (
    CHANNEL,
    KNOWN,
    NOISE,
    NUM_LANES,
    add_noise_power,
    clear_matched,
    decide_line,
    doubt,
    draw_line,
    hear,
    hear_pilots,
    interpolate,
    know,
    know_all,
    place,
    respond,
    shrink,
    silence_beyond,
    spread_tap,
    trust,
    wanted_modes,
    weigh,
)
from phy.fused.packet_plan import GIVEN_ERROR, LEAST_SQUARES, LINE, MMSE, PERFECT, ROOM, PacketPlan
from phy.fused.soft import llrs_of_line, normalise
from phy.fused.symbols import Mapping
from phy.fused.workers import run_tasks

SENT, FADED, NOISE_ENERGY, _NUM_ENERGIES = range(4)
_VECTOR = 16
# Numbers of numpy: a stage would be compiled once for every Python number that it is called with.
_NONE, _ONE_VALUE, _IMAGINARY, _PER_INSTANT, _ROOM = (np.int64(n) for n in (0, 1, PATHS, 2 * PATHS, ROOM))


class AirRows(NamedTuple):
    """What the kernel knows of each row.

    - `keys` `[rows, 6]` uint32: of the channel, of channel knowledge, of noise;
    - `amplitude`, `gain`, `start_s` `[rows]` float32.
    """

    keys: NDArray[np.uint32]
    amplitude: NDArray[np.float32]
    gain: NDArray[np.float32]
    start_s: NDArray[np.float32]


@spliced
def _slot_taps(plan: Any, key: Any, waves: Any, start_s: Any, slot: Any, taps: Any) -> None:
    """Path gains of all antennas at the lines of a slot; a channel that is still has one instant, drawn at first."""
    fades, plane = plan.fades, plan.plane
    if fades.still and slot > 0:
        return
    count = 1 if fades.still else plane.line_rows
    each = 2 * PATHS * plane.line_rows
    for antenna in range(fades.num_antennas):
        first = slot * plane.line_rows
        tap_paths(fades, key, waves, start_s, first, count, antenna, taps[antenna * each :], _IMAGINARY, _PER_INSTANT)


@spliced
def _channel_line(
    plan: Any, key: Any, waves: Any, start_s: Any, taps: Any, antenna: Any, slot: Any, row: Any, tile: Any, lanes: Any,
    count: Any,
) -> None:  # fmt: skip
    """h on a tile of a line."""
    fades, plane = plan.fades, plan.plane
    if plane.along_line:
        # Instants run along the line, so that this tile is `count` of them.
        first = slot * plane.width
        here = min(count, plane.num_symbols - first)
        tap_paths(fades, key, waves, start_s, first, here, antenna, lanes[CHANNEL:], _ROOM, _ONE_VALUE)
        return
    instant = 0 if fades.still else row
    at = 2 * PATHS * (antenna * plane.line_rows + instant)
    if plane.selective:
        respond(taps, at, at + PATHS, plane.response[tile], lanes, CHANNEL, count)
    else:
        spread_tap(taps[at], taps[at + PATHS], lanes, CHANNEL, count)


@spliced
def _know_line(
    plan: Any, csi_key: Any, arrival: Any, antenna: Any, slot: Any, row: Any, data_row: Any, tile: Any, known: Any,
    shrunk: Any, modes: Any, lanes: Any, count: Any,
) -> None:  # fmt: skip
    """a g h^ on a tile of a data line."""
    plane, knowledge = plan.plane, plan.knowledge
    if knowledge.kind == PERFECT:
        know_all(lanes, arrival, count)
    elif knowledge.kind == GIVEN_ERROR:
        line = slot * plane.line_rows + row
        first = (line if knowledge.error_per_line else 0) * (plane.width if knowledge.error_per_carrier else 1)
        if knowledge.error_per_carrier:
            draw_line(csi_key, antenna, first + tile * LINE, lanes, KNOWN, count)
        else:
            draw_line(csi_key, antenna, first, lanes, KNOWN, _ONE_VALUE)
            spread_tap(lanes[KNOWN], lanes[KNOWN + ROOM], lanes, KNOWN, count)
        know(lanes, arrival, knowledge.error_std, count)
    elif knowledge.kind == LEAST_SQUARES:
        start = 2 * plane.width * len(plane.pilot_rows) * antenna + tile * LINE
        low, high = knowledge.low[data_row], knowledge.high[data_row]
        interpolate(
            known, start + 2 * plane.width * low, start + 2 * plane.width * high, plane.width,
            knowledge.weight[data_row], lanes, count,
        )  # fmt: skip
    else:
        wanted_modes(knowledge.wanted, data_row, shrunk[antenna], modes)
        respond(modes, _NONE, len(modes) // 2, knowledge.basis[tile], lanes, KNOWN, count)


@spliced
def _hear_pilots(
    plan: Any, keys: Any, waves: Any, start_s: Any, taps: Any, arrival: Any, noise_power: Any, slot: Any, known: Any,
    shrunk: Any, lanes: Any,
) -> None:  # fmt: skip
    """Pilot lines of a slot, and the modes of the channel where these are wanted."""
    plane, knowledge = plan.plane, plan.knowledge
    noise_std, pilots = np.sqrt(noise_power), len(plane.pilot_rows)
    for pilot in range(pilots):
        row = plane.pilot_rows[pilot]
        for tile in range((plane.width + LINE - 1) // LINE):
            count = min(plane.width - tile * LINE, LINE)
            padded = (count + _VECTOR - 1) // _VECTOR * _VECTOR
            first = (slot * plane.line_rows + row) * plane.width + tile * LINE
            for antenna in range(plan.fades.num_antennas):
                _channel_line(plan, keys[0:2], waves, start_s, taps, antenna, slot, row, tile, lanes, padded)
                draw_line(keys[4:6], antenna, first, lanes, NOISE, padded)
                start = 2 * plane.width * (pilots * antenna + pilot) + tile * LINE
                hear_pilots(
                    plane.pilots, pilot * plane.width + tile * LINE, lanes, arrival, noise_std, known, start,
                    plane.width, count,
                )  # fmt: skip
    if knowledge.kind == MMSE:
        for antenna in range(plan.fades.num_antennas):
            start = 2 * plane.width * pilots * antenna
            shrink(
                known, start, plane.width, knowledge.carrier_modes, knowledge.pilot_modes, knowledge.level,
                arrival * arrival, noise_power, shrunk[antenna],
            )  # fmt: skip


@spliced
def _make_soft(
    plan: Any, points: Any, arrival: Any, noise_power: Any, data_row: Any, tile: Any, amounts: Any, lanes: Any,
    llrs: Any, count: Any,
) -> None:  # fmt: skip
    knowledge = plan.knowledge
    if knowledge.trusting or knowledge.kind == PERFECT:
        trust(lanes, np.float32(0.0), noise_power, count)
    elif knowledge.kind == GIVEN_ERROR:
        trust(lanes, arrival * arrival * knowledge.error_std * knowledge.error_std, noise_power, count)
    elif knowledge.kind == LEAST_SQUARES:
        trust(lanes, noise_power * knowledge.noise_gain[data_row], noise_power, count)
    else:
        first, strength = tile * LINE, arrival * arrival
        doubt(knowledge.level, knowledge.explained_time[data_row], strength, noise_power, amounts)
        weigh(amounts, knowledge.explained[tile], knowledge.unexplained[data_row, first:], strength, lanes, count)
        add_noise_power(lanes, noise_power, count)
    normalise(lanes, count)
    llrs_of_line(lanes, points, llrs, count)


@kernel
def _carry(
    plan: Any, points: Any, rows: Any, noise_power: Any, soft: Any, labels: Any, decided: Any, llrs: Any, energies: Any,
    first: Any, last: Any,
) -> None:  # fmt: skip
    """Rows `first` to `last`: `labels` to `decided`, both `[rows, num_symbols]` uint8; `llrs` only where `soft`."""
    plane, fades, knowledge = plan.plane, plan.fades, plan.knowledge
    noise_std = np.sqrt(noise_power)
    antennas, bits = fades.num_antennas, points.bits_per_symbol
    lanes, waves = np.zeros(NUM_LANES, np.float32), np.zeros(waves_room(antennas), np.float32)
    taps = np.zeros(2 * PATHS * plane.line_rows * antennas, np.float32)
    known = np.empty(2 * plane.width * len(plane.pilot_rows) * antennas, np.float32)
    over, along = knowledge.level.shape
    shrunk = np.empty((antennas, over, along), np.complex64)
    modes, amounts = np.zeros((along + 3) // 4 * 8, np.float32), np.empty((along + 3) // 4 * 4, np.float32)
    for n in range(first, last):
        keys, start_s = rows.keys[n], rows.start_s[n]
        arrival = rows.amplitude[n] * rows.gain[n]
        sent, faded, noise = 0.0, 0.0, 0.0
        if fades.kind == WAVES:
            draw_waves(fades, keys[0:2], waves)
        for slot in range(plane.num_slots):
            if not plane.along_line:
                _slot_taps(plan, keys[0:2], waves, start_s, slot, taps)
            if knowledge.kind == LEAST_SQUARES or knowledge.kind == MMSE:
                _hear_pilots(plan, keys, waves, start_s, taps, arrival, noise_power, slot, known, shrunk, lanes)
            for data_row in range(len(plane.data_rows)):
                row = plane.data_rows[data_row]
                for tile in range((plane.width + LINE - 1) // LINE):
                    at = (slot * len(plane.data_rows) + data_row) * plane.width + tile * LINE
                    count = min(min(plane.width - tile * LINE, LINE), plane.num_symbols - at)
                    if count <= 0:
                        break
                    padded = (count + _VECTOR - 1) // _VECTOR * _VECTOR
                    sent += place(labels[n, at:], points, lanes, count, padded)
                    clear_matched(lanes, padded)
                    position = (slot * plane.line_rows + row) * plane.width + tile * LINE
                    for antenna in range(antennas):
                        _channel_line(plan, keys[0:2], waves, start_s, taps, antenna, slot, row, tile, lanes, padded)
                        draw_line(keys[4:6], antenna, position, lanes, NOISE, padded)
                        silence_beyond(lanes, count, padded)
                        _know_line(
                            plan, keys[2:4], arrival, antenna, slot, row, data_row, tile, known, shrunk, modes, lanes,
                            padded,
                        )  # fmt: skip
                        found = hear(lanes, arrival, noise_std, padded)
                        faded += found[0]
                        noise += found[1]
                    decide_line(lanes, points, decided[n, at:], count)
                    if soft:
                        _make_soft(
                            plan, points, arrival, noise_power, data_row, tile, amounts, lanes, llrs[n, at * bits :],
                            count,
                        )  # fmt: skip
        amplitude = np.float64(rows.amplitude[n])
        energies[SENT, n] = amplitude * amplitude * plane.prefix_share * (sent + plane.known_energy)
        energies[FADED, n] = faded / antennas
        energies[NOISE_ENERGY, n] = noise_power * noise / antennas


def carry_packets(
    rows: AirRows,
    labels: NDArray[np.uint8],
    *,
    plan: PacketPlan,
    points: Mapping,
    noise_power: float,
    soft: bool,
    threads: int,
) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.float64]]:
    """Labels `[rows, num_symbols]` uint8 through the air.

    Returns the labels decided, the LLRs ln P(1) / P(0) `[rows, num_symbols * bits_per_symbol]` (empty unless `soft`),
    and energies `[3, rows]`: transmitted, pilots and prefixes included; received signal and noise at data symbols, mean
    over antennas.
    """
    decided = np.empty_like(labels)
    llrs = np.empty((len(labels), labels.shape[1] * points.bits_per_symbol if soft else 0), np.float32)
    energies = np.empty((_NUM_ENERGIES, len(labels)))
    power = np.float32(noise_power)
    run_tasks(
        lambda first, last: _carry(plan, points, rows, power, soft, labels, decided, llrs, energies, first, last),
        num_tasks=len(labels),
        threads=threads,
    )
    return decided, llrs, energies


@kernel
def _mean_powers(plan: Any, keys: Any, start_s: Any, power: Any, first: Any, last: Any) -> None:
    plane, fades = plan.plane, plan.fades
    antennas = fades.num_antennas
    lanes, waves = np.zeros(NUM_LANES, np.float32), np.zeros(waves_room(antennas), np.float32)
    taps = np.zeros(2 * PATHS * plane.line_rows * antennas, np.float32)
    for n in range(first, last):
        total, counted = 0.0, 0
        if fades.kind == WAVES:
            draw_waves(fades, keys[n], waves)
        for slot in range(1 if fades.still else plane.num_slots):
            if not plane.along_line:
                _slot_taps(plan, keys[n], waves, start_s[n], slot, taps)
            for row in range(1 if fades.still else plane.line_rows):
                for tile in range((plane.width + LINE - 1) // LINE):
                    count = min(plane.width - tile * LINE, LINE)
                    if plane.along_line:
                        count = min(count, plane.num_symbols - slot * plane.width)
                    for antenna in range(antennas):
                        _channel_line(plan, keys[n], waves, start_s[n], taps, antenna, slot, row, tile, lanes, count)
                        for i in range(count):
                            total += lanes[CHANNEL + i] ** 2 + lanes[CHANNEL + ROOM + i] ** 2
                        counted += count
        power[n] = total / counted


def mean_powers(
    keys: NDArray[np.uint32], start_s: NDArray[np.float32], *, plan: PacketPlan, threads: int
) -> NDArray[np.float64]:
    """Mean |h|^2 `[rows]` over the lines, carriers and antennas of a packet; `keys` `[rows, 2]`, `start_s` `[rows]`."""
    power = np.empty(len(keys))
    run_tasks(
        lambda first, last: _mean_powers(plan, keys, start_s, power, first, last), num_tasks=len(keys), threads=threads
    )
    return power
