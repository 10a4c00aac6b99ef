"""The channel of a packet, its estimate and noise, a line of carriers at a time, and its mean power."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.engines.fused.fading.fades import PATHS, RECORDED, draw_waves, tap_paths, waves_of
from phy.engines.fused.fading.nodes import MOST_NODES
from phy.engines.fused.packets.lines import (
    CHANNEL,
    KNOWN,
    LINE,
    NOISE,
    NUM_LANES,
    ROOM,
    apply_response,
    draw_line,
    drawn,
    interpolate,
    noisy_estimate,
    pass_between,
    perfect_estimate,
    spread_tap,
    wanted_modes,
    whole_vectors,
)
from phy.engines.fused.packets.plan import GIVEN_ERROR, LEAST_SQUARES, ChannelPlan, KernelPacketPlan
from phy.numerics.compiled import aligned_zeros, inlined, lean_kernel, spliced
from phy.numerics.workers import run_tasks

# Numbers of numpy: a stage would be compiled once for every Python number that it is called with.
NONE, ONE_VALUE, _IMAGINARY, _PER_INSTANT, _ROOM = (np.int64(n) for n in (0, 1, PATHS, 2 * PATHS, ROOM))


@spliced
def slot_taps(plan: Any, key: Any, waves: Any, start_s: Any, slot: Any, taps: Any, nodes: Any) -> None:
    """Path gains of all antennas at the instants of a slot, and carriers at nodes; once where the channel is still."""
    fades, plane = plan.fades, plan.plane
    if fades.still and slot > 0:
        return
    if fades.kind == RECORDED:
        _recorded_lines(plan, waves, slot, taps, nodes)
        return
    for antenna in range(fades.num_antennas):
        first, at = slot * plane.instants, 2 * PATHS * plane.instants * antenna
        tap_paths(fades, key, waves, start_s, first, plane.instants, antenna, taps[at:], _IMAGINARY, _PER_INSTANT)
    if nodes is not None:
        carriers_at_nodes(plan, taps, nodes)


@inlined
def _recorded_lines(plan: Any, waves: Any, slot: Any, taps: Any, nodes: Any) -> None:
    """Lines of a recorded channel at the nodes of a slot, from what `draw_waves` left; its one carrier into `taps`.

    Compiled with the types of its arguments, so that code behind what is None is left out.
    """
    if waves is not None:
        plane, antennas = plan.plane, plan.fades.num_antennas
        tiles = (plane.width + LINE - 1) // LINE
        for antenna in range(antennas):
            for node in range(plane.instants):
                start = 2 * ((slot * plane.instants + node) * antennas + antenna)
                if nodes is None:
                    taps[2 * PATHS * antenna] = waves[start]
                    taps[2 * PATHS * antenna + PATHS] = waves[start + 1]
                if nodes is not None:
                    for tile in range(tiles):
                        at = np.uint64(start * plane.width + tile * LINE)
                        out = np.uint64(2 * ROOM * ((antenna * tiles + tile) * MOST_NODES + node))
                        for i in range(min(plane.width - tile * LINE, LINE)):
                            u = np.uint64(i)
                            nodes[out + u] = waves[at + u]
                            nodes[out + np.uint64(ROOM) + u] = waves[at + np.uint64(plane.width) + u]


@spliced
def carriers_at_nodes(plan: Any, taps: Any, nodes: Any) -> None:
    """Carriers of all antennas at the nodes of a slot, from its path gains."""
    plane = plan.plane
    tiles = (plane.width + LINE - 1) // LINE
    if len(plane.between) > 0:
        for antenna in range(plan.fades.num_antennas):
            for tile in range(tiles):
                count = whole_vectors(min(plane.width - tile * LINE, LINE))
                for node in range(plane.instants):
                    here, lane = antenna * plane.instants + node, (antenna * tiles + tile) * MOST_NODES + node
                    at = 2 * PATHS * here
                    apply_response(taps, at, at + PATHS, plane.response[tile], nodes, 2 * ROOM * lane, count)


@spliced
def instants_line(
    plan: Any, key: Any, waves: Any, start_s: Any, antenna: Any, slot: Any, lanes: Any, count: Any
) -> None:
    """h where instants run along the line: one for each of `count` symbols."""
    first = slot * plan.plane.width
    here = min(count, plan.plane.num_symbols - first)
    tap_paths(plan.fades, key, waves, start_s, first, here, antenna, lanes[CHANNEL:], _ROOM, ONE_VALUE)


@spliced
def channel_line(
    plan: Any, taps: Any, nodes: Any, antenna: Any, row: Any, tile: Any, lanes: Any, column: Any, count: Any
) -> None:
    """h on a tile of a line of carriers, into its lane from `column` on, from what `slot_taps` left."""
    fades, plane = plan.fades, plan.plane
    at = 2 * PATHS * (antenna * plane.instants + (0 if fades.still else row))
    if nodes is None:
        spread_tap(taps[at], taps[at + PATHS], lanes, CHANNEL + column, count)
    elif len(plane.between) > 0:
        place = 2 * ROOM * MOST_NODES * (antenna * ((plane.width + LINE - 1) // LINE) + tile)
        pass_between(nodes, place, plane.between, row, lanes, CHANNEL + column, count)
    else:
        apply_response(taps, at, at + PATHS, plane.response[tile], lanes, CHANNEL + column, count)


@spliced
def draw_noise(
    plan: Any, keys: Any, antenna: Any, slot: Any, first_row: Any, last_row: Any, tile: Any, width: Any, words: Any,
    lanes: Any, count: Any,
) -> None:  # fmt: skip
    """Noise of `count` symbols of some data lines: of neighbours, whose draws are neighbours too, at once."""
    plane = plan.plane
    start = first_row
    while start < last_row and (start - first_row) * width < count:
        row, end = plane.data_rows[start], start + 1
        while end < last_row and plane.data_rows[end] == row + end - start:
            end += 1
        column = (start - first_row) * width
        here = min((end - start) * width, count - column)
        first = (slot * plane.line_rows + row) * plane.width + tile * LINE
        draw_line(keys[4], keys[5], antenna, first, words, lanes, NOISE + column, drawn(here))
        start = end


@spliced
def _estimate_line(
    plan: Any, keys: Any, arrival: Any, antenna: Any, slot: Any, row: Any, data_row: Any, tile: Any, given: Any,
    known: Any, shrunk: Any, modes: Any, words: Any, lanes: Any, column: Any, count: Any,
) -> None:  # fmt: skip
    """a g h^ on a tile of a data line, into its lane from `column` on."""
    plane, knowledge = plan.plane, plan.knowledge
    if given is not None and knowledge.kind == GIVEN_ERROR:
        line, at = slot * plane.line_rows + row, KNOWN + column
        first = (line if knowledge.error_per_line else 0) * (plane.width if knowledge.error_per_carrier else 1)
        values = count if knowledge.error_per_carrier else ONE_VALUE
        first += tile * LINE if knowledge.error_per_carrier else 0
        draw_line(keys[2], keys[3], antenna, first, words, lanes, at, values)
        if not knowledge.error_per_carrier:
            spread_tap(lanes[at], lanes[at + ROOM], lanes, at, count)
        noisy_estimate(lanes, arrival, knowledge.error_std, column, count)
    elif shrunk is not None:
        wanted_modes(knowledge.modes.wanted, data_row, shrunk[antenna], modes)
        apply_response(modes, NONE, len(modes) // 2, knowledge.modes.basis[tile], lanes, KNOWN + column, count)
    elif known is not None and knowledge.kind == LEAST_SQUARES:
        start = 2 * plane.width * len(plane.pilot_rows) * antenna + tile * LINE
        low, high = knowledge.low[data_row], knowledge.high[data_row]
        interpolate(
            known, start + 2 * plane.width * low, start + 2 * plane.width * high, plane.width,
            knowledge.weight[data_row], lanes, column, count,
        )  # fmt: skip
    else:
        perfect_estimate(lanes, arrival, column, count)


@spliced
def channel_and_estimate(
    plan: Any, keys: Any, arrival: Any, start_s: Any, antenna: Any, slot: Any, first_row: Any, last_row: Any, tile: Any,
    width: Any, waves: Any, taps: Any, nodes: Any, along: Any, given: Any, known: Any, shrunk: Any, modes: Any,
    words: Any, lanes: Any, count: Any,
) -> None:  # fmt: skip
    """h and a g h^ at one antenna on `count` symbols of some data lines side by side, into their lanes."""
    plane = plan.plane
    for data_row in range(first_row, last_row):
        row, column = plane.data_rows[data_row], (data_row - first_row) * width
        here = min(width, count - column)
        if here <= 0:
            break
        if along is not None and plane.along_line:
            instants_line(plan, keys[0:2], waves, start_s, antenna, slot, lanes, whole_vectors(here))
        elif taps is not None:
            channel_line(plan, taps, nodes, antenna, row, tile, lanes, column, whole_vectors(here))
        _estimate_line(
            plan, keys, arrival, antenna, slot, row, data_row, tile, given, known, shrunk, modes, words, lanes,
            column, whole_vectors(here),
        )  # fmt: skip


@inlined
def take_line(line: Any, tile: Any, lanes: Any, column: Any, count: Any) -> None:
    """A tile of a line `[2, whole vectors]` into the lane of the channel from `column` on."""
    first, out = np.uint64(tile * LINE), np.uint64(CHANNEL + column)
    for i in range(count):
        lanes[out + np.uint64(i)] = line[0, first + np.uint64(i)]
        lanes[out + np.uint64(ROOM + i)] = line[1, first + np.uint64(i)]


@spliced
def arrived_and_estimate(
    plan: Any, keys: Any, arrival: Any, arrived: Any, place: Any, antenna: Any, slot: Any, first_row: Any,
    last_row: Any, tile: Any, width: Any, given: Any, known: Any, shrunk: Any, modes: Any, words: Any, lanes: Any,
    count: Any,
) -> None:  # fmt: skip
    """`channel_and_estimate` of row `place` of `arrived`: h x in place of h, as if symbols were all one."""
    plane = plan.plane
    for data_row in range(first_row, last_row):
        row, column = plane.data_rows[data_row], (data_row - first_row) * width
        here, line = min(width, count - column), slot * plane.line_rows + row
        if here <= 0:
            break
        if len(arrived.channel) > 0:
            take_line(arrived.channel[place, antenna, line], tile, lanes, column, whole_vectors(here))
        _estimate_line(
            plan, keys, arrival, antenna, slot, row, data_row, tile, given, known, shrunk, modes, words, lanes,
            column, whole_vectors(here),
        )  # fmt: skip
        take_line(arrived.symbols[place, antenna, line], tile, lanes, column, whole_vectors(here))


def fading_scratch(plan: KernelPacketPlan) -> tuple[NDArray[Any] | None, ...]:
    """Scratch arrays of a thread for `slot_taps` and `channel_line`: lanes as random words and as numbers, waves,
    taps, and carriers at nodes.

    Waves are None where there are none, and nodes where carriers are equal: numba removes code behind `is None`.
    """
    antennas, lanes = plan.fades.num_antennas, aligned_zeros(NUM_LANES, np.float32)
    taps = aligned_zeros(2 * PATHS * plan.plane.instants * antennas, np.float32)
    return lanes.view(np.uint32), lanes, waves_of(plan.fades), taps, nodes_of(plan)


def nodes_of(plan: KernelPacketPlan | ChannelPlan) -> NDArray[np.float32] | None:
    """Scratch array of a thread for `carriers_at_nodes`, None for carriers that are equal."""
    if plan.plane.between is None:
        return None
    tiles = -(-plan.plane.width // LINE) if len(plan.plane.between) > 0 else 0
    return aligned_zeros(2 * ROOM * MOST_NODES * tiles * plan.fades.num_antennas, np.float32)


@lean_kernel
def _mean_powers(
    plan: Any,
    keys: Any,
    given: Any,
    start_s: Any,
    power: Any,
    first: Any,
    last: Any,
    _: Any,
    lanes: Any,
    waves: Any,
    taps: Any,
    nodes: Any,
) -> None:
    plane, fades = plan.plane, plan.fades
    for n in range(first, last):
        total, counted = 0.0, 0
        if waves is not None:
            draw_waves(fades, keys[n], given[n], waves)
        for slot in range(1 if fades.still else plane.num_slots):
            if not plane.along_line:
                slot_taps(plan, keys[n], waves, start_s[n], slot, taps, nodes)
            for row in range(1 if fades.still else plane.line_rows):
                for tile in range((plane.width + LINE - 1) // LINE):
                    count = min(plane.width - tile * LINE, LINE)
                    if plane.along_line:
                        count = min(count, plane.num_symbols - slot * plane.width)
                    for antenna in range(fades.num_antennas):
                        if plane.along_line:
                            instants_line(plan, keys[n], waves, start_s[n], antenna, slot, lanes, count)
                        else:
                            channel_line(plan, taps, nodes, antenna, row, tile, lanes, NONE, count)
                        for i in range(count):
                            total += lanes[CHANNEL + i] ** 2 + lanes[CHANNEL + ROOM + i] ** 2
                        counted += count
        power[n] = total / counted


def mean_powers(
    keys: NDArray[np.uint32],
    given: NDArray[np.float32],
    start_s: NDArray[np.float32],
    *,
    plan: KernelPacketPlan,
    threads: int,
) -> NDArray[np.float64]:
    """Mean |h|^2 `[rows]` over the lines, carriers and antennas of a packet.

    `keys` `[rows, 2]`, `given` `[rows, n]` as `draw_waves` takes it, `start_s` `[rows]`.
    """
    power, channel = np.empty(len(keys)), plan.channel
    run_tasks(
        lambda first, last: _mean_powers(channel, keys, given, start_s, power, first, last, *fading_scratch(plan)),
        num_tasks=len(keys),
        threads=threads,
    )
    return power


@lean_kernel
def _line_powers(
    plan: Any,
    keys: Any,
    given: Any,
    start_s: Any,
    power: Any,
    first: Any,
    last: Any,
    _: Any,
    lanes: Any,
    waves: Any,
    taps: Any,
    nodes: Any,
) -> None:
    plane, fades = plan.plane, plan.fades
    row = 0 if fades.still else plane.line_rows // 2
    for n in range(first, last):
        if waves is not None:
            draw_waves(fades, keys[n], given[n], waves)
        for slot in range(power.shape[1]):
            if not plane.along_line:
                slot_taps(plan, keys[n], waves, start_s[n], slot, taps, nodes)
            for tile in range((power.shape[2] + LINE - 1) // LINE):
                count = min(power.shape[2] - tile * LINE, LINE)
                for antenna in range(fades.num_antennas):
                    if plane.along_line:
                        instants_line(plan, keys[n], waves, start_s[n], antenna, slot, lanes, count)
                    else:
                        channel_line(plan, taps, nodes, antenna, row, tile, lanes, NONE, count)
                    for i in range(count):
                        square = lanes[CHANNEL + i] ** 2 + lanes[CHANNEL + ROOM + i] ** 2
                        power[n, slot, tile * LINE + i] += square


def line_powers(
    keys: NDArray[np.uint32],
    given: NDArray[np.float32],
    start_s: NDArray[np.float32],
    *,
    plan: KernelPacketPlan,
    threads: int,
) -> NDArray[np.float64]:
    """|h|^2 `[rows, samples]` summed over antennas, on the middle line of every slot; of a still channel on one line.

    Arguments as of `mean_powers`. Of a still channel with equal carriers it is one sample. Of slots that are stretches
    of a single carrier the last one may be shorter and is left out where there are others.
    """
    plane, slots = plan.plane, 1 if plan.fades.still else plan.plane.num_slots
    if plane.along_line and slots > 1:
        slots = plane.num_symbols // plane.width
    width = 1 if plan.fades.still and plane.between is None else plane.width
    power, channel = np.zeros((len(keys), slots, width)), plan.channel
    run_tasks(
        lambda first, last: _line_powers(channel, keys, given, start_s, power, first, last, *fading_scratch(plan)),
        num_tasks=len(keys),
        threads=threads,
    )
    return power.reshape(len(keys), -1)
