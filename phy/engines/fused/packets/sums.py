"""Superposition over OFDM in fused kernels, for ideal transmitters; see `phy.links.superposition_ofdm.chain`.

    y[t, c] = sum_k A w_k H_k(t, c) x_k[t, c] + sigma z[t, c]

A task is some slots of one trial. It adds its devices up one after the other, so that the waves of a device are drawn
once per task; where the channel holds, so are its coefficients.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.config import LinkConfig
from phy.engines.fused.fading.fades import draw_waves
from phy.engines.fused.flat.air_taps import added
from phy.engines.fused.flat.taps import SMALLEST_POWER
from phy.engines.fused.packets.channel import NONE, ONE_VALUE, channel_line, fading_scratch, slot_taps
from phy.engines.fused.packets.lines import (
    CHANNEL,
    KNOWN,
    LINE,
    NOISE,
    ROOM,
    SYMBOL,
    draw_line,
    spread_tap,
    whole_vectors,
)
from phy.engines.fused.packets.plan import KernelPacketPlan, plan_grid, recorded_lines_of
from phy.frontends.resource_grid import Grid
from phy.links.superposition_ofdm.layout import Layout
from phy.links.superposition_ofdm.sums import Added, SumEngine, SumInputs, Who
from phy.numerics.compiled import inlined, lean_kernel, read_only, spliced
from phy.numerics.random import RECEIVER
from phy.numerics.workers import available_threads, run_tasks

_ADDED_REAL, _ADDED_IMAG, _SENT_POWER, _ACTIVE = (int(SYMBOL) + lane * ROOM for lane in range(4))
_SYMBOLS_OF_A_TASK = 1 << 15
"""Sums of 256 KiB: they stay in the second-level cache while devices are added."""
_WEIGHT, _REACHED, _COUNTED, _PEAK, _ARRIVAL, _NUM_SUMS = range(6)
_RECEIVER = np.int64(RECEIVER)
_ZERO, _ONE, _TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)


class Weighing(NamedTuple):
    """Weights and noise in numbers for a kernel, as in `phy.engines.fused.flat.taps.TapLaw`."""

    inverts: bool
    csi_std: np.float32
    cutoff: np.float32
    noise_std: np.float32


class SumSenders(NamedTuple):
    """A round: keys `[trials, devices, 2]` uint32, gain and own `[trials, devices]`, the rest `[trials]` float32.

    `given` `[trials, devices, n]` float32: lines of a recorded channel, n = 0 for other models.
    """

    channel_key: NDArray[np.uint32]
    csi_key: NDArray[np.uint32]
    gain: NDArray[np.float32]
    own: NDArray[np.float32]
    level: NDArray[np.float32]
    start_s: NDArray[np.float32]
    given: NDArray[np.float32]


@inlined
def _weigh(law: Any, gain: Any, level: Any, own: Any, lanes: Any, count: Any) -> None:
    for i in range(count):
        tap, error = (lanes[CHANNEL + i], lanes[CHANNEL + ROOM + i]), (lanes[KNOWN + i], lanes[KNOWN + ROOM + i])
        real, imag, power, sends = added(law, gain, level, own, tap, error)
        lanes[_ADDED_REAL + i] = real
        lanes[_ADDED_IMAG + i] = imag
        lanes[_SENT_POWER + i] = power
        lanes[_ACTIVE + i] = sends


@inlined
def _add_amplitudes(amplitudes: Any, base: Any, lanes: Any, received: Any, count: Any) -> Any:
    """Add symbols `base` to `base + count` of a device, all parts side by side; the energy it spent."""
    energy, first = _ZERO, np.uint64(2 * base)
    for i in range(count):
        u = first + np.uint64(2 * i)
        x, y = amplitudes[u], amplitudes[u + np.uint64(1)]
        real, imag = lanes[_ADDED_REAL + i], lanes[_ADDED_IMAG + i]
        received[u] += real * x - imag * y
        received[u + np.uint64(1)] += real * y + imag * x
        energy += lanes[_SENT_POWER + i] * (x * x + y * y)
    return energy


@inlined
def _read_signs(bits: Any, base: Any, lanes: Any, count: Any) -> None:
    """Signs of bits `base` to `base + count` into the lane of the noise; bit 0 is +1."""
    skipped = base & 7
    for j in range((skipped + count + 7) >> 3):
        byte = np.uint32(bits[(base >> 3) + j])
        at = NOISE + 8 * j
        for b in range(8):
            bit = np.uint32(byte >> np.uint32(7 - b)) & np.uint32(1)
            lanes[at + b] = _ONE - _TWO * np.float32(np.int32(bit))


@inlined
def _add_signs(base: Any, lanes: Any, received: Any, count: Any) -> Any:
    """`_add_amplitudes` of the signs that `_read_signs` left."""
    energy, first, signs = _ZERO, np.uint64(2 * base), np.uint64(NOISE + (base & 7))
    for i in range(count):
        u, sign = first + np.uint64(2 * i), lanes[signs + np.uint64(i)]
        received[u] += sign * lanes[_ADDED_REAL + i]
        received[u + np.uint64(1)] += sign * lanes[_ADDED_IMAG + i]
        energy += lanes[_SENT_POWER + i]
    return energy


@inlined
def _count_active(lanes: Any, active: Any, base: Any, count: Any) -> None:
    for i in range(count):
        active[base + i] += np.int64(lanes[_ACTIVE + i])


@inlined
def _finish(noise_std: Any, base: Any, lanes: Any, received: Any, count: Any) -> None:
    for i in range(count):
        received[2 * (base + i)] += noise_std * lanes[NOISE + i]
        received[2 * (base + i) + 1] += noise_std * lanes[NOISE + ROOM + i]


@inlined
def _gains_of(law: Any, gain: Any, lanes: Any, count: Any, sums: Any, times: Any) -> None:
    """Sums (and peaks) of `BlockGains` over `count` carriers, each for `times` symbols."""
    weight, reached, counted = _ZERO, _ZERO, _ZERO
    for i in range(count):
        real, imag = gain * lanes[CHANNEL + i], gain * lanes[CHANNEL + ROOM + i]
        known_real = real + gain * law.csi_std * lanes[KNOWN + i]
        known_imag = imag + gain * law.csi_std * lanes[KNOWN + ROOM + i]
        power = max(known_real * known_real + known_imag * known_imag, SMALLEST_POWER)
        sends = _ZERO if power < law.cutoff * gain * gain else _ONE
        size = sends * (_ONE / np.sqrt(power) if law.inverts else _ONE)
        lanes[_ADDED_REAL + i] = size * np.sqrt(power)
        lanes[_ADDED_IMAG + i] = size * np.sqrt(real * real + imag * imag)
        weight += size * size
        reached += lanes[_ADDED_REAL + i]
        counted += sends
    sums[_WEIGHT] += times * np.float64(weight)
    sums[_REACHED] += times * np.float64(reached)
    sums[_COUNTED] += times * np.float64(counted)
    for i in range(count):
        sums[_PEAK] = max(sums[_PEAK], np.float64(lanes[_ADDED_REAL + i]))
        sums[_ARRIVAL] = max(sums[_ARRIVAL], np.float64(lanes[_ADDED_IMAG + i]))


@spliced
def _known_line(plan: Any, csi_key: Any, tile: Any, words: Any, lanes: Any, count: Any) -> None:
    """Errors of unit power in what is known of a tile of a line, the same in every line; zero if nothing is wrong."""
    if plan.knowledge.error_std == _ZERO:
        spread_tap(_ZERO, _ZERO, lanes, KNOWN, count)
    elif plan.knowledge.error_per_carrier:
        draw_line(csi_key[0], csi_key[1], NONE, tile * LINE, words, lanes, KNOWN, count)
    else:
        draw_line(csi_key[0], csi_key[1], NONE, NONE, words, lanes, KNOWN, ONE_VALUE)
        spread_tap(lanes[KNOWN], lanes[KNOWN + ROOM], lanes, KNOWN, count)


@spliced
def _add_line(
    packed: Any, amplitudes: Any, bits: Any, counts: Any, base: Any, lanes: Any, received: Any, active: Any, count: Any
) -> Any:
    if counts:
        _count_active(lanes, active, base, count)
    if packed:
        _read_signs(bits, base, lanes, count)
        return _add_signs(base, lanes, received, count)
    return _add_amplitudes(amplitudes, base, lanes, received, count)


@lean_kernel
def _superpose(
    plan: Any, law: Any, senders: Any, noise_keys: Any, packed: Any, amplitudes: Any, bits: Any, counts: Any,
    slots: Any, received: Any, active: Any, energy: Any, first: Any, last: Any, words: Any, lanes: Any,
    waves: Any, taps: Any, nodes: Any,
) -> None:  # fmt: skip
    """Tasks `first` to `last`, `slots` slots of one trial each; `energy` `[trials, spans, devices]`.

    From `words` on there is what `fading_scratch` has.
    """
    plane, fades = plan.plane, plan.fades
    spans, rows, width, num_symbols = energy.shape[1], len(plane.data_rows), plane.width, plane.num_symbols
    for task in range(first, last):
        trial, span = task // spans, task % spans
        level, start_s = senders.level[trial], senders.start_s[trial]
        first_slot, last_slot = span * slots, min((span + 1) * slots, plane.num_slots)
        begin, end = first_slot * rows * width, min(last_slot * rows * width, num_symbols)
        out, on_air = received[trial], active[trial]
        out[2 * begin : 2 * end] = _ZERO
        for device in range(energy.shape[2]):
            key, csi_key = senders.channel_key[trial, device], senders.csi_key[trial, device]
            gain, own, spent = senders.gain[trial, device], senders.own[trial, device], 0.0
            mine, signs = amplitudes[trial, device], bits[trial, device]
            if waves is not None:
                draw_waves(fades, key, senders.given[trial, device], waves)
            for slot in range(first_slot, last_slot):
                if slot == first_slot or not fades.still:
                    slot_taps(plan, key, waves, start_s, NONE if fades.still else slot, taps, nodes)
                elif fades.still:
                    break
                for tile in range((width + LINE - 1) // LINE):
                    count = min(width - tile * LINE, LINE)
                    _known_line(plan, csi_key, tile, words, lanes, count)
                    # Where the channel holds, one pass over all lines of the task; else those of the slot.
                    stop = rows * (last_slot - first_slot if fades.still else 1)
                    for line in range(stop):
                        base = (slot * rows + line) * width + tile * LINE
                        here = min(count, num_symbols - base)
                        if here <= 0:
                            break
                        if line == 0 or not fades.still:
                            channel_line(
                                plan, taps, nodes, NONE, plane.data_rows[line], tile, lanes, NONE, whole_vectors(count)
                            )
                            _weigh(law, gain, level, own, lanes, count)
                        spent += _add_line(packed, mine, signs, counts, base, lanes, out, on_air, here)
            energy[trial, span, device] = spent
        for base in range(begin, end, LINE):
            here = min(end - base, LINE)
            draw_line(noise_keys[trial, 0], noise_keys[trial, 1], _RECEIVER, base, words, lanes, NOISE, here)
            _finish(law.noise_std, base, lanes, out, here)


@lean_kernel
def _measure(
    plan: Any, law: Any, senders: Any, slots: Any, sums: Any, first: Any, last: Any, words: Any, lanes: Any,
    waves: Any, taps: Any, nodes: Any,
) -> None:  # fmt: skip
    """Tasks `first` to `last`, `slots` slots of one device each, into `sums` `[trials, devices, spans, 5]`."""
    plane, fades = plan.plane, plan.fades
    devices, spans = sums.shape[1], sums.shape[2]
    rows, width, num_symbols = len(plane.data_rows), plane.width, plane.num_symbols
    for task in range(first, last):
        span, device, trial = task % spans, task // spans % devices, task // (spans * devices)
        key, csi_key = senders.channel_key[trial, device], senders.csi_key[trial, device]
        gain, start_s, mine = senders.gain[trial, device], senders.start_s[trial], sums[trial, device, span]
        mine[:] = 0.0
        if waves is not None:
            draw_waves(fades, key, senders.given[trial, device], waves)
        for slot in range(span * slots, min((span + 1) * slots, plane.num_slots)):
            slot_taps(plan, key, waves, start_s, slot, taps, nodes)
            for tile in range((width + LINE - 1) // LINE):
                count = min(width - tile * LINE, LINE)
                _known_line(plan, csi_key, tile, words, lanes, count)
                for line in range(rows):
                    here = min(count, num_symbols - (slot * rows + line) * width - tile * LINE)
                    if here <= 0:
                        break
                    channel_line(
                        plan, taps, nodes, NONE, plane.data_rows[line], tile, lanes, NONE, whole_vectors(count)
                    )
                    if fades.still:  # one line for all, of which the last may be shorter
                        full = num_symbols // width
                        rest = min(max(num_symbols - full * width - tile * LINE, 0), count)
                        _gains_of(law, gain, lanes, count if full > 0 else 0, mine, np.float64(full))
                        _gains_of(law, gain, lanes, rest, mine, 1.0)
                        break
                    _gains_of(law, gain, lanes, here, mine, 1.0)


class FusedSums(SumEngine):
    """`SumEngine` of a link that is `LinkConfig.fusible`, on `threads` threads, all cores if left out.

    `noiseless`: the receiver adds no noise.
    """

    def __init__(
        self, config: LinkConfig, layout: Layout, *, threads: int | None = None, noiseless: bool = False
    ) -> None:
        grid = Grid.of(layout.ofdm, num_users=1, num_symbols=layout.num_symbols)
        self._plan = plan_grid(config, grid)
        control = config.control
        self._cuts_off = control.silences
        self._law = Weighing(
            inverts=control.kernel == "inverse",
            csi_std=np.float32(config.csi_error_variance**0.5),
            cutoff=np.float32(10.0 ** (config.power.cutoff_db / 10.0) if control.silences else 0.0),
            noise_std=np.float32(0.0 if noiseless else (2.0 * config.channel.noise_power) ** 0.5),
        )
        self._threads = threads or available_threads()
        self._lines = recorded_lines_of(config, self._plan, threads=self._threads)

    def _senders(self, who: Who, *, level: NDArray[np.float32], own: NDArray[np.float32] | None) -> SumSenders:
        gain = np.asarray(who.gain, np.float32)
        given = np.empty((*gain.shape, 0), np.float32)
        if self._lines is not None:
            start_s = np.repeat(who.start_s, gain.shape[1])
            given = self._lines.given(who.channel_key.reshape(-1, 2), start_s).reshape(*gain.shape, -1)
        own = np.zeros_like(gain) if own is None else own
        each = (who.channel_key, who.csi_key, gain, own, level, who.start_s, given)
        return SumSenders(*(read_only(array) for array in each))

    def measure(self, who: Who) -> NDArray[np.float64]:
        plan, law = self._plan, self._law
        senders = self._senders(who, level=np.ones(len(who.gain), np.float32), own=None)
        # A channel that holds is measured on its first slot.
        slots, spans = (1, 1) if plan.fades.still else _cut(plan)
        out = np.empty((*who.gain.shape, spans, _NUM_SUMS))
        run_tasks(
            lambda first, last: _measure(plan, law, senders, slots, out, first, last, *fading_scratch(plan)),
            num_tasks=who.gain.size * spans,
            threads=self._threads,
        )
        found = np.concatenate([out[..., :_PEAK].sum(axis=2), out[..., _PEAK:].max(axis=2)], axis=-1)
        return np.moveaxis(found, -1, 0)

    def carry(self, payload: NDArray[Any], who: Who, sending: SumInputs) -> Added:
        plan, law, counts = self._plan, self._law, self._cuts_off
        trials, devices = payload.shape[:2]
        (slots, spans), num_symbols = _cut(plan), plan.plane.num_symbols
        packed, senders = payload.dtype == np.uint8, self._senders(who, level=sending.level, own=sending.own)
        nothing = np.empty((trials, devices, 0), np.float32 if packed else np.uint8)
        amplitudes, bits = (nothing, payload) if packed else (np.ascontiguousarray(payload).view(np.float32), nothing)
        read = (read_only(sending.noise_key), packed, read_only(amplitudes), read_only(bits))
        received = np.empty((trials, 2 * num_symbols), np.float32)
        active = np.zeros((trials, num_symbols if counts else 1), np.int64)
        energy = np.empty((trials, spans, devices))
        run_tasks(
            lambda first, last: _superpose(
                plan, law, senders, *read, counts, slots, received, active, energy, first, last, *fading_scratch(plan)
            ),
            num_tasks=trials * spans,
            threads=self._threads,
        )
        if not counts:
            active[:, 0] = (senders.own >= 0.0).sum(axis=1)
        return Added(received.view(np.complex64), active, energy.sum(axis=1), np.ones(trials))


def _cut(plan: KernelPacketPlan) -> tuple[int, int]:
    """(slots of a task, tasks of a trial)."""
    plane = plan.plane
    slots = max(_SYMBOLS_OF_A_TASK // (len(plane.data_rows) * plane.width), 1)
    return slots, -(-plane.num_slots // slots)
