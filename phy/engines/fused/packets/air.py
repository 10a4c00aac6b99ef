"""Transmission of packets in one pass: mapping, fading, noise, channel estimation, combining, hard or soft decisions.

A row is one packet of one device. Its slots are taken one after the other, pilot lines first, so that nothing larger
than a line is ever stored beside the packet's labels. The result of a row depends on its own keys alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.engines.fused.fading.fades import draw_waves
from phy.engines.fused.impairments import Impairments, clip, draw_offsets, power_limit, turn_line
from phy.engines.fused.packets.bits import count_label_errors, fill_bytes, fill_decided, fill_labels
from phy.engines.fused.packets.channel import (
    NONE,
    ONE_VALUE,
    arrived_and_estimate,
    channel_and_estimate,
    channel_line,
    draw_noise,
    fading_scratch,
    slot_taps,
    take_line,
)
from phy.engines.fused.packets.lines import (
    CHANNEL,
    LINE,
    NOISE,
    SYMBOL,
    VECTOR,
    add_noise_power,
    clear_matched,
    clear_noise_beyond,
    combine_antenna,
    decide_line,
    draw_line,
    drawn,
    estimate_variance,
    fill_ones,
    fill_variance,
    map_symbols,
    noise_shares,
    receive_pilots,
    shrink,
    whole_vectors,
)
from phy.engines.fused.packets.plan import GIVEN_ERROR, PERFECT, KernelPacketPlan
from phy.engines.fused.packets.soft import APP, HARD, demap, kept_symbols, normalise, rows_at_once, soften
from phy.engines.fused.symbols import Mapping
from phy.numerics.compiled import aligned_zeros, lean_kernel, spliced
from phy.numerics.workers import run_tasks, spans

if TYPE_CHECKING:
    from phy.engines.fused.waveform.carriers import Arrived, Waveforms

SENT, FADED, NOISE_ENERGY, _NUM_ENERGIES = range(4)


class AirRows(NamedTuple):
    """Inputs of the kernel per row.

    - `keys` `[rows, 8]` uint32: of the channel, of channel knowledge, of noise, of impairments;
    - `given` `[rows, n]` float32: waves as `fades.draw_waves` takes them;
    - `amplitude`, `gain`, `start_s` `[rows]` float32.
    """

    keys: NDArray[np.uint32]
    given: NDArray[np.float32]
    amplitude: NDArray[np.float32]
    gain: NDArray[np.float32]
    start_s: NDArray[np.float32]


@spliced
def _hear_pilots(
    plan: Any, keys: Any, taps: Any, nodes: Any, impairments: Any, offsets: Any, arrived: Any, place: Any,
    arrival: Any, noise_power: Any, slot: Any, known: Any, shrunk: Any, words: Any, lanes: Any,
) -> None:  # fmt: skip
    """Pilot lines of a slot, and the modes of the channel where these are wanted."""
    plane, knowledge = plan.plane, plan.knowledge
    noise_std, pilots = np.sqrt(noise_power), len(plane.pilot_rows)
    for pilot in range(pilots):
        row = plane.pilot_rows[pilot]
        for tile in range((plane.width + LINE - 1) // LINE):
            count = min(plane.width - tile * LINE, LINE)
            first = (slot * plane.line_rows + row) * plane.width + tile * LINE
            for antenna in range(plan.fades.num_antennas):
                if taps is not None:
                    channel_line(plan, taps, nodes, antenna, row, tile, lanes, NONE, whole_vectors(count))
                if arrived is not None:
                    line = slot * plane.line_rows + row
                    take_line(arrived.symbols[place, antenna, line], tile, lanes, NONE, whole_vectors(count))
                if impairments is not None:  # the same whether pilots are turned or the channel
                    turn_line(impairments, keys[6:8], offsets, slot, tile, words, lanes, CHANNEL, count)
                draw_line(keys[4], keys[5], antenna, first, words, lanes, NOISE, drawn(count))
                start = 2 * plane.width * (pilots * antenna + pilot) + tile * LINE
                receive_pilots(
                    plane.pilots, pilot * plane.width + tile * LINE, lanes, arrival, noise_std, known, start,
                    plane.width, count,
                )  # fmt: skip
    if shrunk is not None:
        modes = knowledge.modes
        for antenna in range(plan.fades.num_antennas):
            start = 2 * plane.width * pilots * antenna
            shrink(
                known, start, plane.width, modes.of_carriers, modes.of_pilots, modes.level, arrival * arrival,
                noise_power, shrunk[antenna],
            )  # fmt: skip


@spliced
def _variance_line(
    plan: Any, arrival: Any, noise_power: Any, data_row: Any, tile: Any, given: Any, known: Any, shares: Any,
    lanes: Any, column: Any, count: Any,
) -> None:  # fmt: skip
    """Noise and the variance of the estimate on a tile of a data line, into its lane from `column` on."""
    knowledge = plan.knowledge
    if knowledge.trusting or knowledge.kind == PERFECT:
        fill_variance(lanes, np.float32(0.0), noise_power, column, count)
    elif given is not None:
        fill_variance(lanes, arrival * arrival * knowledge.error_std * knowledge.error_std, noise_power, column, count)
    elif shares is not None:
        modes, first, strength = knowledge.modes, tile * LINE, arrival * arrival
        noise_shares(modes.level, modes.explained_time[data_row], strength, noise_power, shares)
        estimate_variance(
            shares,
            modes.explained[min(data_row, len(modes.explained) - 1), tile],
            modes.unexplained[data_row, first:],
            strength,
            lanes,
            column,
            count,
        )
        add_noise_power(lanes, noise_power, column, count)
    elif known is not None:
        fill_variance(lanes, noise_power * knowledge.noise_gain[data_row], noise_power, column, count)


@lean_kernel
def _carry(
    plan: Any, impairments: Any, arrived: Any, points: Any, rows: Any, noise_power: Any, labels: Any, decided: Any,
    llrs: Any, kept: Any, energies: Any, first: Any, last: Any, words: Any, lanes: Any, waves: Any, taps: Any,
    nodes: Any, along: Any, given: Any, known: Any, shrunk: Any, modes: Any, shares: Any,
) -> None:  # fmt: skip
    """Rows `first` to `last`: `labels` to `decided`, both `[rows, num_symbols]` uint8.

    `llrs` `[rows, ..]`, and `kept` `[last - first, ..]`, are those of `soften`, or None for hard decisions.

    `arrived`: an `Arrived` of these rows, with `labels` None; or None for symbols that stay on their carriers. From
    `words` on there is what `_scratch` has. numba removes code behind what is None, not code in place of what is not.
    """
    plane, fades = plan.plane, plan.fades
    noise_std = np.sqrt(noise_power)
    antennas, bits, data_rows = fades.num_antennas, points.bits_per_symbol, len(plane.data_rows)
    at_once = max(LINE // plane.width, 1)
    for n in range(first, last):
        keys, start_s = rows.keys[n], rows.start_s[n]
        arrival = rows.amplitude[n] * rows.gain[n]
        sent, faded, noise = 0.0, 0.0, 0.0
        if waves is not None:
            draw_waves(fades, keys[0:2], rows.given[n], waves)
        offsets, limit = (np.uint32(0), np.float32(1.0), np.float32(0.0)), np.float32(0.0)
        if impairments is not None:
            offsets, limit = draw_offsets(impairments, keys[6:8]), power_limit(impairments, labels[n], points)
        for slot in range(plane.num_slots):
            if taps is not None:
                slot_taps(plan, keys[0:2], waves, start_s, slot, taps, nodes)
            if known is not None and plan.knowledge.kind != PERFECT:
                _hear_pilots(
                    plan, keys, taps, nodes, impairments, offsets, arrived, n - first, arrival, noise_power, slot,
                    known, shrunk, words, lanes,
                )  # fmt: skip
            for first_row in range(0, data_rows, at_once):
                last_row = min(first_row + at_once, data_rows)
                for tile in range((plane.width + LINE - 1) // LINE):
                    # Several short lines side by side, or a tile of a long one.
                    width = min(plane.width - tile * LINE, LINE)
                    at = (slot * data_rows + first_row) * plane.width + tile * LINE
                    count = min((last_row - first_row) * width, plane.num_symbols - at)
                    if count <= 0:
                        break
                    padded = whole_vectors(count)
                    if labels is not None:
                        energy = map_symbols(labels[n, at:], points, lanes, count, padded)
                        if impairments is not None:
                            if limit > np.float32(0.0):
                                energy = clip(limit, lanes, SYMBOL, count)
                            for column in range(0, count, width):
                                here, lane = min(width, count - column), SYMBOL + column
                                turn_line(impairments, keys[6:8], offsets, slot, tile, words, lanes, lane, here)
                        sent += energy
                    if arrived is not None:
                        fill_ones(lanes, count, padded)
                    clear_matched(lanes, padded)
                    for antenna in range(antennas):
                        if labels is not None:
                            channel_and_estimate(
                                plan, keys, arrival, start_s, antenna, slot, first_row, last_row, tile, width, waves,
                                taps, nodes, along, given, known, shrunk, modes, words, lanes, count,
                            )  # fmt: skip
                        if arrived is not None:
                            arrived_and_estimate(
                                plan, keys, arrival, arrived, n - first, antenna, slot, first_row, last_row, tile,
                                width, given, known, shrunk, modes, words, lanes, count,
                            )  # fmt: skip
                        draw_noise(plan, keys, antenna, slot, first_row, last_row, tile, width, words, lanes, count)
                        clear_noise_beyond(lanes, count, padded)
                        found = combine_antenna(lanes, arrival, noise_std, padded)
                        faded += found[0]
                        noise += found[1]
                    decide_line(lanes, points, decided[n, at:], count)
                    if llrs is not None:
                        for data_row in range(first_row, last_row):
                            column = (data_row - first_row) * width
                            _variance_line(
                                plan, arrival, noise_power, data_row, tile, given, known, shares, lanes, column, width
                            )
                        normalise(lanes, count)
                        soften(lanes, points, llrs[n, at * bits :], kept[n - first], at, count)
        amplitude = np.float64(rows.amplitude[n])
        energies[SENT, n] = amplitude * amplitude * plane.prefix_share * (sent + plane.known_energy)
        if arrived is not None:
            energies[SENT, n] = amplitude * amplitude * arrived.energy[n - first]
        energies[FADED, n] = faded / antennas
        energies[NOISE_ENERGY, n] = noise_power * noise / antennas


def _scratch(plan: KernelPacketPlan, *, has_arrived: bool) -> tuple[Any, ...]:
    """Scratch arrays of a thread; None for what the plan does not need, whose code numba leaves out of the kernel.

    Marks: `along`, instants may run along a line; `given`, the error of an estimate is drawn.
    """
    plane, knowledge, antennas = plan.plane, plan.knowledge, plan.fades.num_antennas
    words, lanes, waves, taps, nodes = fading_scratch(plan)
    along = given = known = shrunk = modes = shares = None
    if has_arrived:
        waves = taps = nodes = None
    elif plane.along_line:
        along, taps, nodes = ONE_VALUE, None, None
    if knowledge.kind == GIVEN_ERROR:
        given = ONE_VALUE
    elif not (plan.is_simple or plane.along_line):  # whole vectors are read of a line
        known = aligned_zeros(2 * plane.width * len(plane.pilot_rows) * antennas + VECTOR, np.float32)
    if knowledge.modes is not None:
        over, along = knowledge.modes.level.shape
        shrunk = np.empty((antennas, over, along), np.complex64)
        modes = np.zeros(2 * knowledge.modes.basis.shape[1], np.float32)
        shares = np.empty(knowledge.modes.explained.shape[2], np.float32)
    return words, lanes, waves, taps, nodes, along, given, known, shrunk, modes, shares


class Carried(NamedTuple):
    """Received packets of one call.

    - `hard` `[rows, ceil(num_bits / 8)]` uint8: bits decided symbol by symbol, or by the signs of exact LLRs, packed,
      padding zero;
    - `llrs` ln P(1) / P(0) `[rows, num_symbols * bits_per_symbol]` float32, empty unless asked for;
    - `errors` `[rows, bits_per_symbol]` int32: wrong bits by place in the label, the first bit first;
    - `energies` `[3, rows]`: transmitted, pilots and prefixes included; received signal and noise at data symbols, mean
      over antennas.
    """

    hard: NDArray[np.uint8]
    llrs: NDArray[np.float32]
    errors: NDArray[np.int32]
    energies: NDArray[np.float64]


def carry_packets(
    rows: AirRows,
    coded: NDArray[np.uint8],
    *,
    num_bits: int,
    plan: KernelPacketPlan,
    impairments: Impairments | None,
    waveforms: Waveforms | None,
    points: Mapping,
    noise_power: float,
    soft: np.int64,
    threads: int,
) -> Carried:
    """Send the first `num_bits` of packed bits `coded` `[rows, num_bytes]`; `soft` MAXLOG or APP adds LLRs."""
    count, bits = len(coded), points.bits_per_symbol
    labels = np.empty((count, num_bits // bits), np.uint8)
    decided, hard = np.empty_like(labels), np.empty((count, -(-num_bits // 8)), np.uint8)
    llrs = np.empty((count, labels.shape[1] * bits if soft != HARD else 0), np.float32)
    errors, energies = np.empty((count, bits), np.int32), np.empty((_NUM_ENERGIES, count))
    power, plan = np.float32(noise_power), plan if waveforms is None else plan.arrived

    step = rows_at_once(count, labels.shape[1], points=points, soft=soft)
    step = step if waveforms is None else min(step, waveforms.rows_at_once)

    def carry(first: int, last: int, arrived: Arrived | None) -> None:
        scratch, kept = _scratch(plan, has_arrived=arrived is not None), None
        mapped, soft_bits = None if arrived is not None else labels, None
        if soft != HARD:
            soft_bits, kept = llrs, kept_symbols(last - first, labels.shape[1], points=points)
        _carry(
            plan, impairments, arrived, points, rows, power, mapped, decided, soft_bits, kept, energies, first, last,
            *scratch,
        )  # fmt: skip
        if kept is not None:
            demap(kept, llrs, np.arange(first, last), points=points, soft=soft)

    def run(first: int, last: int) -> None:
        mine = slice(first, last)
        fill_labels(coded[mine], bits_per_symbol=bits, out=labels[mine])
        for part in spans(last - first, step=step):
            here, arrived = slice(first + part.start, first + part.stop), None
            if waveforms is not None:
                arrived = waveforms.arrive(labels[here], rows.keys[here], rows.given[here], rows.start_s[here])
            carry(here.start, here.stop, arrived)
        if soft == APP:  # the likelier value of a bit is not always that of the nearest point
            fill_decided(llrs[mine], bits, decided[mine])
        fill_bytes(decided[mine], bits, num_bits, hard[mine])
        count_label_errors(labels[mine], decided[mine], errors[mine])

    run_tasks(run, num_tasks=count, threads=threads)
    return Carried(hard, llrs, errors, energies)
