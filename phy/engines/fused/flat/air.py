"""Superposition over flat channels in fused kernels, for ideal transmitters; see `phy.engines.sionna.air`.

    y[s] = sum_k A w_k h_k x_k[s] + sigma z[s]

Devices are added up in their order, a tile of symbols at a time. Where taps hold for many symbols, those of a task are
drawn first, and a run of symbols has one tap; else each symbol of a tile gets its own. Of several antennas the combined
taps are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config import LinkConfig
from phy.engines.fused.flat.air_taps import (
    ACTIVE,
    ADDED_IMAG,
    ADDED_REAL,
    SENT_POWER,
    added_by_devices,
    added_taps,
)
from phy.engines.fused.flat.antennas import combined_taps
from phy.engines.fused.flat.gains import measure_gains
from phy.engines.fused.flat.lanes import OF_SYMBOLS, OF_TAPS, TILE, tap_lanes
from phy.engines.fused.flat.taps import TapLaw, expand, parts_of, tap_law
from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.fading.gains import BlockGains
from phy.links.air_chain import AirChain, Arrivals, OnAir
from phy.links.antennas import CombinedTaps
from phy.links.power import AmplitudeDecision
from phy.numerics.cache import LastResult
from phy.numerics.compiled import aligned_zeros, inlined, lean_kernel, read_only
from phy.numerics.random import RECEIVER, Purpose
from phy.numerics.random_kernels import draw_normals
from phy.numerics.threefry import positions
from phy.numerics.workers import available_threads, of_thread, run_tasks

_TILES_OF_A_TASK = 8
_LONG_BLOCK = 64
"""Symbols under one tap from which a run of them is a loop of its own."""
_REAL, _COMPLEX, _BITS = range(3)
_WIDTH = TILE + 16
SYMBOL_REAL, SYMBOL_IMAG, SUM_REAL, SUM_IMAG, _NUM_SYMBOL_LANES = (i * _WIDTH for i in range(5))
_RECEIVER = np.uint32(RECEIVER)
_ZERO = np.float32(0.0)
_PLUS_ONE, _SIGN = np.uint32(0x3F800000), np.uint32(0x80000000)


@inlined
def _read_signs(bits: Any, lanes: Any, count: Any) -> None:
    """Symbols of `count` bits, 0 as +1: the sign of a float is its first bit. Up to seven more are written."""
    for byte in range((count + 7) >> 3):
        word, at = np.uint32(bits[byte]), np.uint64(SYMBOL_REAL + 8 * byte)
        for k in range(8):
            sign = np.uint32(np.uint32(word << np.uint32(24 + k)) & _SIGN)
            lanes[at + np.uint64(k)] = np.uint32(sign | _PLUS_ONE).view(np.float32)


@inlined
def _read_symbols(kind: Any, amplitudes: Any, bits: Any, base: Any, lanes: Any, count: Any) -> None:
    """Symbols `base` to `base + count` of one device; `base` is a whole byte."""
    if kind == _BITS:
        _read_signs(bits[base >> 3 :], lanes, count)
    elif kind == _REAL:
        for i in range(count):
            lanes[SYMBOL_REAL + i] = np.float32(amplitudes[base + i])
    else:
        for i in range(count):
            lanes[SYMBOL_REAL + i] = np.float32(amplitudes[2 * (base + i)])
            lanes[SYMBOL_IMAG + i] = np.float32(amplitudes[2 * (base + i) + 1])


@inlined
def _add(symbols: Any, taps: Any, count: Any) -> Any:
    """Add one device's symbols, each with a tap of its own; the energy it spent."""
    energy = _ZERO
    for i in range(count):
        x, y = symbols[SYMBOL_REAL + i], symbols[SYMBOL_IMAG + i]
        real, imag = taps[OF_SYMBOLS + ADDED_REAL + i], taps[OF_SYMBOLS + ADDED_IMAG + i]
        symbols[SUM_REAL + i] += real * x - imag * y
        symbols[SUM_IMAG + i] += real * y + imag * x
        energy += taps[OF_SYMBOLS + SENT_POWER + i] * (x * x + y * y)
    return energy


@inlined
def _add_with_one_tap(symbols: Any, real: Any, imag: Any, power: Any, count: Any) -> Any:
    """`_add` where all symbols have the same tap."""
    energy = _ZERO
    for i in range(count):
        x, y = symbols[SYMBOL_REAL + i], symbols[SYMBOL_IMAG + i]
        symbols[SUM_REAL + i] += real * x - imag * y
        symbols[SUM_IMAG + i] += real * y + imag * x
        energy += x * x + y * y
    return power * energy


@inlined
def _add_signs(symbols: Any, real: Any, imag: Any, power: Any, count: Any) -> Any:
    """`_add_with_one_tap` of symbols +1 and -1."""
    for i in range(count):
        sign = symbols[SYMBOL_REAL + i]
        symbols[SUM_REAL + i] += real * sign
        symbols[SUM_IMAG + i] += imag * sign
    return power * np.float32(count)


@inlined
def _finish(symbols: Any, noise: Any, noise_std: Any, base: Any, received: Any, count: Any) -> None:
    """Noise on the sums, and both parts of each side by side into `received`."""
    for i in range(count):
        received[2 * (base + i)] = symbols[SUM_REAL + i] + noise_std * noise[i]
        received[2 * (base + i) + 1] = symbols[SUM_IMAG + i] + noise_std * noise[_WIDTH + i]


@inlined
def _finish_combined(
    symbols: Any, noise: Any, noise_std: Any, amplitudes: Any, block: Any, base: Any, received: Any, count: Any
) -> None:
    """`_finish` where the noise has the amplitude of the combiner of each coherence block."""
    for i in range(count):
        scale = noise_std * amplitudes[(base + i) // block]
        received[2 * (base + i)] = symbols[SUM_REAL + i] + scale * noise[i]
        received[2 * (base + i) + 1] = symbols[SUM_IMAG + i] + scale * noise[_WIDTH + i]


@inlined
def _count_active(taps: Any, active: Any, base: Any, count: Any) -> None:
    for i in range(count):
        active[base + i] += np.int64(taps[OF_SYMBOLS + ACTIVE + i])


@inlined
def _count_runs(of_runs: Any, first_run: Any, block: Any, active: Any, base: Any, count: Any) -> None:
    """`_count_active` of all devices, run by run; one number for all symbols where nothing varies."""
    start, end = base, min(base + count, len(active))
    while start < end:
        run = start // block - first_run
        stop, sending = min((first_run + run + 1) * block, end), np.int64(0)
        for device in range(of_runs.shape[2]):
            sending += np.int64(of_runs[run, 3, device])
        for i in range(start, stop):
            active[i] = sending
        start = stop


@lean_kernel
def _superpose(
    law: Any,
    table: Any,
    errors: Any,
    kind: Any,
    amplitudes: Any,
    bits: Any,
    keys: Any,
    noise_keys: Any,
    gains: Any,
    levels: Any,
    own: Any,
    given: Any,
    noise_amplitudes: Any,
    num_symbols: Any,
    symbol_s: Any,
    received: Any,
    active: Any,
    energy_j: Any,
    first: Any,
    last: Any,
    scratch: Any,
) -> None:
    """Tasks `first` to `last`, each `_TILES_OF_A_TASK` tiles of one trial.

    `keys` `[trials, 4]` of taps and of channel knowledge, `noise_keys` `[trials, 2]`; `amplitudes` float64; `energy_j`
    `[trials, spans, devices]`: sums of |A w x|^2, times `symbol_s`. `given` `[trials, 4, devices, blocks]` as from
    `CombinedTaps.added`, without blocks where taps are drawn here; `noise_amplitudes` `[trials, blocks]`.
    """
    spans, num_devices = energy_j.shape[1], energy_j.shape[2]
    combined, block = given.shape[3] > 0, law.block_symbols
    one_tap = block >= num_symbols
    each_symbol, by_runs = block == 1, one_tap or block >= _LONG_BLOCK
    symbols, words, taps, of_runs = scratch
    for task in range(first, last):
        trial, span = task // spans, task % spans
        level = levels[trial]
        spent = energy_j[trial, span]
        spent[:] = 0.0
        begin = span * _TILES_OF_A_TASK * TILE
        first_run = begin // block
        if one_tap and not combined:
            for start in range(0, num_devices, TILE):
                some = min(num_devices - start, TILE)
                added_by_devices(
                    law, table, errors, keys[trial], gains[trial], level, own[trial], words, taps, of_runs[0], start,
                    some,
                )  # fmt: skip
        elif by_runs:
            end = min(begin + _TILES_OF_A_TASK * TILE, num_symbols)
            num_taps = (end - 1) // block - first_run + 1
            for device in range(num_devices):
                added_taps(
                    law, table, errors, keys[trial], device, gains[trial], level, own[trial], given[trial], first_run,
                    words, taps, OF_TAPS, num_taps,
                )  # fmt: skip
                for run in range(num_taps):
                    for i in range(4):
                        of_runs[run, i, device] = taps[OF_TAPS + i * _WIDTH + run]
        for tile in range(span * _TILES_OF_A_TASK, (span + 1) * _TILES_OF_A_TASK):
            base = tile * TILE
            count = min(num_symbols - base, TILE)
            if count <= 0:
                break
            for i in range(count):
                symbols[np.uint64(SUM_REAL + i)] = _ZERO
                symbols[np.uint64(SUM_IMAG + i)] = _ZERO
                symbols[np.uint64(SYMBOL_IMAG + i)] = _ZERO
            for device in range(num_devices):
                _read_symbols(kind, amplitudes[trial, device], bits[trial, device], base, symbols, count)
                if by_runs:
                    start = 0
                    while start < count:
                        # Divisions by `block` would take as long as the sums of a few symbols.
                        run = 0 if one_tap else (base + start) // block - first_run
                        stop = count if one_tap else min((first_run + run + 1) * block - base, count)
                        real, imag, power = of_runs[run, 0, device], of_runs[run, 1, device], of_runs[run, 2, device]
                        if kind == _BITS:
                            spent[device] += _add_signs(symbols[start:], real, imag, power, stop - start)
                        else:
                            spent[device] += _add_with_one_tap(symbols[start:], real, imag, power, stop - start)
                        start = stop
                else:
                    first_tap = base // block
                    num_taps = (base + count - 1) // block - first_tap + 1
                    at = OF_SYMBOLS if each_symbol else OF_TAPS
                    added_taps(
                        law, table, errors, keys[trial], device, gains[trial], level, own[trial], given[trial],
                        first_tap, words, taps, at, num_taps,
                    )  # fmt: skip
                    if not each_symbol:
                        expand(first_tap, block, base, 1, taps, count)
                    _count_active(taps, active[trial], base, count)
                    spent[device] += _add(symbols, taps, count)
            if by_runs:
                _count_runs(of_runs, first_run, block, active[trial], base, count)
            noise_key = noise_keys[trial, 0], noise_keys[trial, 1]
            draw_normals(noise_key, positions(_RECEIVER, base, 1), words, taps, 0, _WIDTH, count)
            if one_tap or not combined:
                _finish(symbols, taps, law.noise_std * noise_amplitudes[trial, 0], base, received[trial], count)
            else:
                _finish_combined(
                    symbols, taps, law.noise_std, noise_amplitudes[trial], block, base, received[trial], count
                )
        for device in range(num_devices):
            spent[device] *= symbol_s


@of_thread
def _scratch(runs: int, num_devices: int) -> tuple[Any, ...]:
    of_runs = aligned_zeros((runs, 4, num_devices), np.float32)
    return aligned_zeros(_NUM_SYMBOL_LANES, np.float32), *tap_lanes(), of_runs


@dataclass(frozen=True, kw_only=True)
class _OfRun:
    """Arrays that are the same in every round: gains, zeros `[num_trials, num_devices]`, keys of constant channels.

    Also empty payloads `[num_trials, num_devices, 0]` of the kind that is not sent, and what stands for the combiner of
    one antenna.
    """

    gains: NDArray[np.float32]
    nobody: NDArray[np.float32]
    nothing_given: NDArray[np.float32]
    one_antenna: NDArray[np.float32]
    no_bits: NDArray[np.uint8]
    no_amplitudes: NDArray[np.float64]
    keys: NDArray[np.uint32] | None


class FusedAir(AirChain):
    """`AirChain` of links of one configuration with ideal transmitters, on `threads` threads, all cores if left out."""

    def __init__(self, config: LinkConfig, *, threads: int | None = None) -> None:
        self._bits = config.modulation != "analog"
        self._config = config
        self._threads = threads or available_threads()
        self._run: tuple[tuple[FlatChannel, int, tuple[int, ...]], _OfRun] | None = None
        self._law = LastResult(_law_of)
        self._levels = LastResult(_levels_of)

    def measure_gains(self, channel: FlatChannel, context: UplinkContext) -> BlockGains:
        return measure_gains(channel, context, threads=self._threads)

    def combine(self, channel: FlatChannel, context: UplinkContext) -> CombinedTaps:
        return combined_taps(channel, context, link=self._config)

    def add_up(self, sent: OnAir, channel: FlatChannel, *, context: UplinkContext) -> Arrivals:
        num_trials, num_devices = sent.payload.shape[:2]
        run = self._of_run(channel, context)
        kind, amplitudes, bits = self._payload(sent.payload, run)
        spans = -(-channel.num_symbols // (TILE * _TILES_OF_A_TASK))
        received = np.empty((num_trials, 2 * channel.num_symbols), np.float32)
        active = np.zeros((num_trials, channel.num_symbols if channel.varies else 1), np.int64)
        energy_j = np.empty((num_trials, spans, num_devices))
        arrays = (
            _channel_keys(channel, context) if run.keys is None else run.keys,
            read_only(context.keys(Purpose.NOISE)),
            run.gains,
            self._levels(sent.decision),
            run.nobody if sent.own is None else read_only(sent.own),
            *self._combined(sent, run),
        )
        law, num_symbols = self._law(channel), channel.num_symbols
        # Most taps of a device in a task where runs of symbols share one.
        runs = _TILES_OF_A_TASK * TILE // law.block_symbols + 2 if law.block_symbols >= _LONG_BLOCK else 1
        run_tasks(
            lambda first, last: _superpose(
                law,
                *parts_of(law),
                kind,
                amplitudes,
                bits,
                *arrays,
                num_symbols,
                # Of many spans the sum alone is multiplied, as the other engine does: their products would add up to
                # other last digits.
                self._config.symbol_s if spans == 1 else 1.0,
                received,
                active,
                energy_j,
                first,
                last,
                _scratch(runs, num_devices),
            ),
            num_tasks=num_trials * spans,
            threads=self._threads,
            cost_us=8e-4 * num_trials * num_devices * num_symbols,
        )
        return Arrivals(
            received=received.view(np.complex64),
            num_active=active,
            energy_j=energy_j[:, 0] if spans == 1 else energy_j.sum(axis=1) * self._config.symbol_s,
        )

    def _combined(self, sent: OnAir, run: _OfRun) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What antennas make of the taps, and the amplitude of their noise."""
        if sent.combined is None:
            return run.nothing_given, run.one_antenna
        added = sent.combined.added(sent.decision.level, sent.own)
        return read_only(added), read_only(sent.combined.noise_amplitude)

    def _of_run(self, channel: FlatChannel, context: UplinkContext) -> _OfRun:
        whose = (channel, context.seed, context.trials)
        if self._run is None or self._run[0] != whose:
            gains = channel.gains(context)
            keys = _channel_keys(channel, context) if channel.same_every_round else None
            run = _OfRun(
                gains=read_only(gains),
                nobody=read_only(np.zeros_like(gains)),
                nothing_given=read_only(np.empty((len(gains), 4, channel.num_devices, 0), np.float32)),
                one_antenna=read_only(np.ones((len(gains), 1), np.float32)),
                no_bits=read_only(np.empty((*gains.shape, 0), np.uint8)),
                no_amplitudes=read_only(np.empty((*gains.shape, 0))),
                keys=keys,
            )
            self._run = (whose, run)
        return self._run[1]

    def _payload(self, payload: NDArray[Any], run: _OfRun) -> tuple[int, NDArray[np.float64], NDArray[np.uint8]]:
        """(kind, amplitudes, bits), of which the kernel reads one; the other is empty, but has trials and devices."""
        if self._bits:
            return _BITS, run.no_amplitudes, read_only(payload)
        if payload.dtype.kind == "c":
            return _COMPLEX, read_only(np.ascontiguousarray(payload, np.complex128).view(np.float64)), run.no_bits
        return _REAL, read_only(payload.astype(np.float64, copy=False)), run.no_bits


def _channel_keys(channel: FlatChannel, context: UplinkContext) -> NDArray[np.uint32]:
    purposes = (Purpose.CHANNEL, Purpose.CSI)
    keys = [context.keys(purpose, same_every_round=channel.same_every_round) for purpose in purposes]
    return read_only(np.concatenate(keys, axis=1))


def _law_of(channel: FlatChannel) -> TapLaw:
    law = tap_law(channel)
    # Where nothing fades, blocks are no shorter for what coherence says.
    return law if channel.varies else law._replace(block_symbols=channel.num_symbols)


def _levels_of(decision: AmplitudeDecision) -> NDArray[np.float32]:
    return read_only(decision.level.astype(np.float32))
