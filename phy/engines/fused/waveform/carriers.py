"""Packets as they reach every antenna at the carriers, without noise: kernels with the transforms between them.

    labels -> bins -> samples, clipped and turned -> bins, times the channel, plus those of
                                                          windows: motion within them, and late paths

A thread takes as many packets at once as stay in its cache, and at least one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from phy.config import LinkConfig
from phy.engines.fused.fading.fades import PATHS, draw_waves, waves_of
from phy.engines.fused.packets.channel import (
    NONE,
    carriers_at_nodes,
    channel_line,
    nodes_of,
    slot_taps,
)
from phy.engines.fused.packets.lines import CHANNEL, LINE, NUM_LANES, ROOM, SYMBOL, VECTOR, whole_vectors
from phy.engines.fused.packets.plan import GIVEN_ERROR, PERFECT, ChannelPlan, KernelPacketPlan
from phy.engines.fused.symbols import Mapping, mapping
from phy.engines.fused.waveform.plan import WaveformPlan, late_scratch, plan_samples
from phy.engines.fused.waveform.recorded import RecordedWaves, recorded_waves
from phy.engines.fused.waveform.sender import from_bins, impair, place, read, write
from phy.engines.fused.waveform.windows import add_up_steps, late_paths, tap_changes
from phy.frontends.resource_grid import Grid
from phy.numerics.compiled import inlined, lean_kernel

_SAMPLES_AT_ONCE = 1 << 17
"""Of all antennas, 1 MiB: calls of fewer take as long in Python as in kernels."""


class Arrived(NamedTuple):
    """Packets of unit amplitude and gain at the carriers, without noise.

    - `symbols` `[rows, antennas, OFDM symbols, 2, carriers in whole vectors]` float32, pilots without what is known;
    - `channel`: h in the same form, or of no rows where the receiver estimates it from pilots;
    - `energy` `[rows]`: transmitted, prefixes included.
    """

    symbols: NDArray[np.float32]
    channel: NDArray[np.float32]
    energy: NDArray[np.float64]


@lean_kernel
def _draw_taps(plan: Any, keys: Any, given: Any, start_s: Any, taps: Any, waves: Any) -> None:
    """Path gains `[rows, slots, ..]` as `slot_taps` leaves them."""
    for n in range(len(taps)):
        if waves is not None:
            draw_waves(plan.fades, keys[n, 0:2], given[n], waves)
        for slot in range(taps.shape[1]):
            slot_taps(plan, keys[n, 0:2], waves, start_s[n], slot, taps[n, slot], None)


@inlined
def _store(lanes: Any, out: Any, at: Any, room: Any, count: Any) -> None:
    one, two = np.uint64(at), np.uint64(at + room)
    for i in range(count):
        out[one + np.uint64(i)] = lanes[CHANNEL + i]
        out[two + np.uint64(i)] = lanes[CHANNEL + ROOM + i]


@inlined
def _multiply(lanes: Any, count: Any) -> None:
    for i in range(count):
        a, b = lanes[CHANNEL + i], lanes[CHANNEL + ROOM + i]
        x, y = lanes[SYMBOL + i], lanes[SYMBOL + ROOM + i]
        lanes[CHANNEL + i] = a * x - b * y
        lanes[CHANNEL + ROOM + i] = a * y + b * x


@inlined
def _add(lanes: Any, count: Any) -> None:
    for i in range(count):
        lanes[CHANNEL + i] += lanes[SYMBOL + i]
        lanes[CHANNEL + ROOM + i] += lanes[SYMBOL + ROOM + i]


@inlined
def _remove_pilots(pilots: Any, at: Any, lanes: Any, count: Any) -> None:
    first = np.uint64(at)
    for i in range(count):
        a, b = lanes[CHANNEL + i], lanes[CHANNEL + ROOM + i]
        x, y = pilots[0, first + np.uint64(i)], pilots[1, first + np.uint64(i)]
        lanes[CHANNEL + i] = a * x + b * y
        lanes[CHANNEL + ROOM + i] = b * x - a * y


@lean_kernel
def _reach_carriers(
    carriers: Any, plan: Any, rows: Any, taps: Any, bins: Any, windows: Any, symbols: Any, channel: Any, lanes: Any,
    nodes: Any,
) -> None:  # fmt: skip
    """`symbols` and `channel` of `Arrived`, flat, from flat `bins` `[rows, OFDM symbols, size]`.

    `windows` `[rows, antennas, OFDM symbols, size]`: bins of what windows add, None without. `channel` is None where
    the receiver estimates it.
    """
    plane, antennas = plan.plane, plan.fades.num_antennas
    width, room, line_rows = plane.width, whole_vectors(plane.width), plane.line_rows
    num_symbols = plane.num_slots * line_rows
    for n in range(rows):
        for line in range(num_symbols):
            slot, row = line // line_rows, line % line_rows
            number, instant = carriers.order[row], row * carriers.stride + carriers.offset
            gains = taps[n, min(slot, taps.shape[1] - 1)]
            if nodes is not None and row == 0 and slot < taps.shape[1]:
                carriers_at_nodes(plan, gains, nodes)
            for antenna in range(antennas):
                here = (n * antennas + antenna) * num_symbols + line
                target = 2 * room * here
                for tile in range((width + LINE - 1) // LINE):
                    first = tile * LINE
                    count = whole_vectors(min(width - first, LINE))
                    channel_line(plan, gains, nodes, antenna, instant, tile, lanes, NONE, count)
                    if channel is not None:
                        _store(lanes, channel, target + first, room, count)
                    source = (n * num_symbols + line) * carriers.size
                    from_bins(carriers, bins, source, first, lanes, min(width - first, LINE))
                    _multiply(lanes, count)
                    if windows is not None:
                        from_bins(carriers, windows, here * carriers.size, first, lanes, min(width - first, LINE))
                        _add(lanes, count)
                    if number < 0:
                        _remove_pilots(plane.pilots, (-1 - number) * width + first, lanes, min(width - first, LINE))
                    _store(lanes, symbols, target + first, room, count)


@lean_kernel
def _changed_bins(motion: Any, rows: Any, taps: Any, bins: Any, out: Any, lanes: Any, nodes: Any) -> None:
    """`bins` `[rows, OFDM symbols, size]` times the changes of the channel, `out` `[steps, rows, antennas, ...]`.

    `taps` are path gains at the nodes of a slot, or what `tap_changes` leaves.
    """
    plan, steps = motion.changes, motion.steps
    plane, antennas = plan.plane, plan.fades.num_antennas
    size, line_rows = plane.width, plane.line_rows
    num_symbols = plane.num_slots * line_rows
    for n in range(rows):
        for slot in range(plane.num_slots):
            gains = taps[n, slot]
            if nodes is not None:
                carriers_at_nodes(plan, gains, nodes)
            for row in range(line_rows):
                line = slot * line_rows + row
                for tile in range((size + LINE - 1) // LINE):
                    first = tile * LINE
                    count = min(size - first, LINE)
                    read(bins, (n * num_symbols + line) * size + first, lanes, SYMBOL, count)
                    for antenna in range(antennas):
                        for step in range(steps):
                            change = row * steps + step
                            channel_line(plan, gains, nodes, antenna, change, tile, lanes, NONE, whole_vectors(count))
                            _multiply(lanes, count)
                            place = ((step * rows + n) * antennas + antenna) * num_symbols + line
                            write(lanes, CHANNEL, out, place * size + first, count)


def _taps(
    plan: ChannelPlan, keys: NDArray[np.uint32], given: NDArray[np.float32], start_s: NDArray[np.float32]
) -> NDArray[np.float32]:
    fades, plane = plan.fades, plan.plane
    slots = 1 if fades.still else plane.num_slots
    taps = np.zeros((len(keys), slots, 2 * PATHS * plane.instants * fades.num_antennas), np.float32)
    _draw_taps(plan, keys, given, start_s, taps, waves_of(fades))
    return taps


@dataclass(frozen=True)
class Waveforms:
    """Packets of one plan, with symbols from `points`."""

    plan: WaveformPlan
    points: Mapping
    recorded: RecordedWaves | None

    @property
    def rows_at_once(self) -> int:
        """Packets that `arrive` takes best at once."""
        plane, antennas = self.plan.packet.plane, self.plan.packet.fades.num_antennas
        steps = 1 if self.plan.motion is None else self.plan.motion.steps
        steps = steps if self.recorded is None else max(self.recorded.steps, 1)
        each = antennas * steps * plane.num_slots * plane.line_rows * self.plan.carriers.size
        return max(_SAMPLES_AT_ONCE // each, 1)

    def arrive(
        self,
        labels: NDArray[np.uint8],
        keys: NDArray[np.uint32],
        given: NDArray[np.float32],
        start_s: NDArray[np.float32],
    ) -> Arrived:
        """Send `labels` `[rows, num_symbols]` in the caller's thread; the rest as in `packets.air.AirRows`."""
        plan, carriers, packet = self.plan, self.plan.carriers, self.plan.packet
        plane, antennas, rows = packet.plane, packet.fades.num_antennas, len(labels)
        lanes = np.zeros(NUM_LANES, np.float32)
        energy, values = np.empty(rows), _complex_numbers((rows, plane.num_slots * plane.line_rows, carriers.size))
        place(carriers, plane, self.points, labels, values.flat, energy, lanes)
        if plan.samples is not None:
            values.transform(fft.ifft)
            impair(plan.samples, keys, values.flat, energy, lanes.view(np.uint32), lanes)
            values.transform(fft.fft)
        if plan.bins is not None:
            impair(plan.bins, keys, values.flat, energy, lanes.view(np.uint32), lanes)
        energy *= plane.prefix_share
        if self.recorded is not None:
            return Arrived(*self._over(self.recorded, keys, given, values), energy)
        taps = _taps(plan.line, keys, given, start_s)
        windows = None if plan.motion is None and plan.late is None else self._windows(keys, taps, values, lanes)
        estimates = self._estimates
        shape = (antennas, values.shape[-2], 2, -(-plane.width // VECTOR) * VECTOR)
        symbols = np.empty((rows, *shape), np.float32)
        channel = np.empty((0 if estimates else rows, *shape), np.float32)
        _reach_carriers(
            carriers,
            plan.line,
            rows,
            taps,
            values.flat,
            windows,
            symbols.reshape(-1),
            None if estimates else channel.reshape(-1),
            lanes,
            nodes_of(plan.line),
        )
        return Arrived(symbols, channel, energy)

    @property
    def _estimates(self) -> bool:
        """True if the receiver learns the channel from pilots."""
        return self.plan.packet.knowledge.kind not in (PERFECT, GIVEN_ERROR)

    def _over(
        self, recorded: RecordedWaves, keys: NDArray[np.uint32], given: NDArray[np.float32], bins: _Numbers
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """`symbols` and `channel` of `Arrived` over a recorded channel."""
        plane, carriers = self.plan.packet.plane, self.plan.carriers
        received, channel = recorded.arrive(bins.values, keys, given)
        below = carriers.low_bin + np.arange(carriers.low)
        used = np.concatenate([below, carriers.high_bin + np.arange(plane.width - carriers.low)])
        known = np.ones((plane.line_rows, plane.width), np.complex64)
        known[plane.pilot_rows] = np.conj(plane.pilots[0] + 1j * plane.pilots[1]).reshape(-1, plane.width)
        symbols = received[..., used] * np.tile(known, (plane.num_slots, 1))
        heard = np.broadcast_to(channel[..., used], symbols.shape)
        return _in_lines(symbols), _in_lines(heard[: 0 if self._estimates else None])

    def _windows(
        self, keys: NDArray[np.uint32], taps: NDArray[np.float32], bins: _Numbers, lanes: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Flat bins `[rows, antennas, OFDM symbols, size]` of what windows add to the product with the channel."""
        plan, (rows, num_symbols, size) = self.plan, bins.shape
        antennas = plan.packet.fades.num_antennas
        windows = _complex_numbers((rows, antennas, num_symbols, size))
        windows.flat[:] = 0.0
        if plan.motion is not None:
            steps, plane = plan.motion.steps, plan.motion.changes.plane
            changes = taps
            if plane.between is None or not len(plane.between):
                changes = np.zeros((*taps.shape[:2], 2 * PATHS * plane.instants * antennas), np.float32)
                tap_changes(steps, antennas, taps, changes)
            waves = _complex_numbers((steps, *windows.shape))
            _changed_bins(plan.motion, rows, changes, bins.flat, waves.flat, lanes, nodes_of(plan.motion.changes))
            waves.transform(fft.ifft)
            add_up_steps(plan.motion.weights, waves.flat, windows.flat, rows * antennas * num_symbols)
        if plan.late is not None:
            scratch = late_scratch(plan.late)
            late_paths(plan.late, plan.line.plane, antennas, keys, taps, bins.flat, windows.flat, *scratch)
        windows.transform(fft.fft)
        return windows.flat


def waveforms_of(config: LinkConfig, packet: KernelPacketPlan, *, num_blocks: int, threads: int) -> Waveforms:
    """Packets of `packet` over a link that mixes carriers, `num_blocks` devices sharing them."""
    assert config.ofdm != "none"
    grid = Grid.of(config.ofdm, num_users=1, num_symbols=packet.plane.num_symbols, num_blocks=num_blocks)
    return Waveforms(
        plan_samples(config, packet, grid), mapping(config.modulation), recorded_waves(config, grid, threads=threads)
    )


def _in_lines(values: NDArray[np.complexfloating]) -> NDArray[np.float32]:
    """`[..., width]` complex to `[..., 2, width in whole vectors]`."""
    width = values.shape[-1]
    lines = np.zeros((*values.shape[:-1], 2, -(-width // VECTOR) * VECTOR), np.float32)
    lines[..., 0, :width], lines[..., 1, :width] = values.real, values.imag
    return lines


class _Numbers(NamedTuple):
    """Complex numbers of a shape, seen as `flat` float32 with a vector of zeros behind them."""

    shape: tuple[int, ...]
    flat: NDArray[np.float32]

    @property
    def values(self) -> NDArray[np.complex64]:
        """The numbers in their shape."""
        return self.flat[: 2 * math.prod(self.shape)].view(np.complex64).reshape(self.shape)

    def transform(self, transform: Callable[..., Any]) -> None:
        """Unitary transform along the last axis, in place."""
        values = self.values
        result = transform(values, norm="ortho", overwrite_x=True)
        if not np.may_share_memory(result, values):
            values[...] = result


def _complex_numbers(shape: tuple[int, ...]) -> _Numbers:
    flat = np.empty(2 * (math.prod(shape) + VECTOR), np.float32)
    flat[-2 * VECTOR :] = 0.0
    return _Numbers(shape, flat)
